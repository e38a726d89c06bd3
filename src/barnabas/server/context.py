"""What a handler knows of the request it handles, and how it answers later.

The context is also the request's place in the order of answers, and carries the moments from which
the request's times are told:

    received    started     local_done       responded         queued       sent
       | queue     | local      | remote         | response queue | send      |

A request that is answered by its handler at once has no remote and no response-queue time;
`responded_ns` stays 0 then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.seams import Address

if TYPE_CHECKING:
    from barnabas.server.channel import Channel
    from barnabas.server.route import Route


class RequestContext:
    __slots__ = (
        "answered",
        "api_version",
        "channel",
        "chunks",
        "client_id",
        "correlation_id",
        "local_done_ns",
        "queued_ns",
        "received_ns",
        "request_bytes",
        "responded_ns",
        "response_bytes",
        "route",
        "started_ns",
        "throttle_ms",
    )

    def __init__(
        self,
        channel: Channel,
        route: Route,
        correlation_id: int,
        client_id: str | None,
        request_bytes: int,
        received_ns: int,
    ) -> None:
        self.channel = channel
        self.route = route
        self.api_version = route.version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request_bytes = request_bytes
        self.received_ns = received_ns
        self.responded_ns = 0
        self.response_bytes = 0
        self.throttle_ms = 0
        self.answered = False
        self.chunks: list[Any] | None = None
        self.started_ns = 0
        self.local_done_ns = 0
        self.queued_ns = 0

    @property
    def api_key(self) -> int:
        return self.route.key

    @property
    def listener_name(self) -> str:
        return self.channel.listener_name

    @property
    def client_address(self) -> Address:
        return self.channel.client_address

    @property
    def local_address(self) -> Address:
        """The address of this node that the client used."""
        return self.channel.local_address

    @property
    def disconnected(self) -> bool:
        """True when nobody is left to read an answer."""
        return self.channel.closed

    def respond(self, response: object) -> None:
        """Answer a request that was DEFERRED. Exactly once; fine if the client has gone."""
        self.channel.respond(self, response)

    def disconnect(self, reason: str) -> None:
        """Close the client's connection instead of answering."""
        self.channel.disconnect(self, reason)

    def __repr__(self) -> str:
        host, port = self.client_address
        return (
            f"{self.route.name} v{self.api_version} correlation_id={self.correlation_id} "
            f"client_id={self.client_id!r} from {host}:{port}"
        )
