"""A named listener: accepts connections within the limits and gives each to the pipeline."""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.seams import Listening, Stream, Transport
from barnabas.server.connection import Connection, ConnectionSettings, Environment
from barnabas.server.connection_limits import ConnectionLimits
from barnabas.server.endpoint import Endpoint
from barnabas.server.peers import LineLimit
from barnabas.server.pipeline import Pipeline

logger = logging.getLogger(__name__)


class Listener:
    """Starts listening when made; `bound` has the port that was picked for port 0."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        transport: Transport,
        environment: Environment,
        pipeline: Pipeline,
        settings: ConnectionSettings,
        limits: ConnectionLimits,
        backlog: int = 50,
        send_buffer_bytes: int = 100 * 1024,
        receive_buffer_bytes: int = 100 * 1024,
        when_closed: Callable[[], object] | None = None,
    ) -> None:
        self.name = endpoint.name
        self.accepted_total = 0
        self.connections: set[Connection] = set()
        self._environment = environment
        self._pipeline = pipeline
        self._settings = settings
        self._limits = limits
        self._refusals = LineLimit(environment.clock)
        self._ready = True
        self._full = False
        self._resting = False
        self._closing = False
        self._when_closed = when_closed or self.make_room
        self._listening: Listening = transport.listen(
            endpoint.host,
            endpoint.port,
            self._on_stream,
            backlog=backlog,
            send_buffer_bytes=send_buffer_bytes,
            receive_buffer_bytes=receive_buffer_bytes,
        )
        self.bound = Endpoint(endpoint.name, endpoint.host, self._listening.addresses[0][1])

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return list(self._listening.addresses)

    def pause(self) -> None:
        """Let new peers wait in the backlog until `resume`."""
        self._ready = False
        self._update()

    def resume(self) -> None:
        self._ready = True
        self._update()

    def _update(self) -> None:
        if self._ready and not self._full and not self._resting and not self._closing:
            self._listening.resume()
        else:
            self._listening.pause()

    def stop_accepting(self) -> None:
        """Close the listening sockets; open connections go on."""
        self._closing = True
        self._listening.close()

    def close(self, reason: str = "shutting down") -> None:
        """Stop accepting and close every connection."""
        self.stop_accepting()
        for connection in tuple(self.connections):
            connection.close(reason)

    def make_room(self) -> None:
        """A connection of this node has gone: accept again if the limits allow it."""
        if self._full and self._limits.has_room(self.name):
            self._full = False
            self._update()

    def _on_stream(self, stream: Stream) -> None:
        rest_ms = self._limits.rest_ms(self.name, self._environment.clock.monotonic_ns())
        if rest_ms:
            self._rest(rest_ms)
        host, port = stream.peer_address
        if not self._limits.open(self.name, host):
            stream.close()
            if self._refusals.allows():
                logger.warning(
                    "Refused a connection of %s:%d on %s: it has %d already "
                    "(max.connections.per.ip)",
                    host,
                    port,
                    self.name,
                    self._limits.host_limit(host),
                )
            return
        self.accepted_total += 1
        connection = Connection(stream, self._environment, self._settings)
        self.connections.add(connection)
        connection.when_closed = self._on_closed
        self._pipeline.open(connection, self.name, self._settings)
        if not self._limits.has_room(self.name):
            self._full = True
            self._update()

    def _rest(self, rest_ms: int) -> None:
        self._resting = True
        self._environment.wheel.add(rest_ms, self._end_rest)
        self._update()

    def _end_rest(self) -> None:
        self._resting = False
        self._update()

    def _on_closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._limits.close(self.name, connection.peer_address[0])
        self._when_closed()
