"""The way to one broker: a connection that is made when it is needed and made again when it ended.

Requests that come while there is none wait for it, in order. After a failure everything that waited is
told at once, and the next attempt is not made before a backoff that doubles with each failure in a row;
who sends before that waits for it. At most `MAX_WAITING` requests wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from barnabas.client.connection import Connection, Done
from barnabas.client.core.backoff import Backoff
from barnabas.client.core.versions import BrokerVersions
from barnabas.client.errors import (
    BrokerUnavailableError,
    ClientError,
    ClosedError,
    ConnectionFailure,
    QueueFull,
)
from barnabas.client.reactor import Reactor, Timer
from barnabas.client.security import Security
from barnabas.client.settings import ClientSettings

MAX_WAITING: Final = 1_000

_Waiting = tuple[Any, Done, int | None, int | None, float | None, bool, str | None]


class Places(Protocol):
    """What a route needs of the cluster."""

    settings: ClientSettings
    reactor: Reactor
    security: Security

    def address_of(self, node_id: int) -> tuple[str, int] | None: ...


class Route:
    __slots__ = (
        "_backoff",
        "_backoff_timer",
        "_cluster",
        "_waiters",
        "_waiting",
        "closed",
        "connection",
        "last_used_at",
        "node_id",
        "purpose",
    )

    def __init__(self, cluster: Places, node_id: int, purpose: str) -> None:
        settings = cluster.settings
        self.node_id = node_id
        self.purpose = purpose
        self.connection: Connection | None = None
        self.closed = False
        self.last_used_at = cluster.reactor.now()
        self._cluster = cluster
        self._waiting: deque[_Waiting] = deque()
        self._waiters: list[Callable[[ClientError | None], object]] = []
        self._backoff = Backoff(
            settings.reconnect_backoff_ms,
            settings.reconnect_backoff_max_ms,
            cluster.reactor.random,
        )
        self._backoff_timer: Timer | None = None

    @property
    def ready(self) -> bool:
        return self.connection is not None and self.connection.ready

    @property
    def versions(self) -> BrokerVersions | None:
        connection = self.connection
        return connection.versions if connection is not None and connection.ready else None

    @property
    def in_flight(self) -> int:
        """Requests that were accepted and not answered."""
        sent = self.connection.in_flight if self.connection is not None else 0
        return len(self._waiting) + sent

    @property
    def place(self) -> tuple[str, int] | None:
        """Where the connection goes that there is now."""
        return None if self.connection is None else (self.connection.host, self.connection.port)

    def when_ready(self, done: Callable[[ClientError | None], object]) -> None:
        """`done(None)` once there is a connection, or the reason why there is none."""
        if self.ready:
            self._soon(lambda: done(None))
            return
        self._waiters.append(done)
        self._connect()

    def send(
        self,
        request: Any,
        done: Done,
        version: int | None,
        highest: int | None,
        timeout_ms: float | None,
        answered: bool,
        what: str | None,
    ) -> None:
        connection = self.connection
        self.last_used_at = self._cluster.reactor.now()
        if connection is not None and connection.ready and not self._waiting:
            self._write(request, done, version, highest, timeout_ms, answered, what)
            return
        if self.closed:
            self._refuse(done, ClosedError("The client is closed."))
        elif len(self._waiting) >= MAX_WAITING:
            self._refuse(done, QueueFull(f"{MAX_WAITING} requests wait for {self._name()}."))
        else:
            self._waiting.append((request, done, version, highest, timeout_ms, answered, what))
            self._connect()

    def _write(
        self,
        request: Any,
        done: Done,
        version: int | None,
        highest: int | None,
        timeout_ms: float | None,
        answered: bool,
        what: str | None,
    ) -> None:
        connection = self.connection
        assert connection is not None
        if version is None:
            try:
                version = connection.versions.choose_for(request, highest)
            except ClientError as error:
                self._refuse(done, error)
                return
        connection.send(request, version, done, timeout_ms=timeout_ms, answered=answered, what=what)

    def _refuse(self, done: Done, error: ClientError) -> None:
        self._soon(lambda: done(None, error))

    def _soon(self, callback: Callable[[], object]) -> None:
        self._cluster.reactor.call_soon(callback)

    def _name(self) -> str:
        place = self._cluster.address_of(self.node_id)
        return f"broker {self.node_id}" if place is None else f"{place[0]}:{place[1]}"

    # -- the connection

    def _connect(self) -> None:
        if self.connection is not None or self._backoff_timer is not None or self.closed:
            return
        place = self._cluster.address_of(self.node_id)
        if place is None:
            error = BrokerUnavailableError(f"Broker {self.node_id} is not in the cluster now.")
            self._soon(lambda: self._tell(error))
            return
        self.connection = Connection(
            *place,
            self._cluster.settings,
            self._cluster.reactor,
            opened=self._opened,
            closed=self._ended,
            attempt=self._backoff.attempts + 1,
            security=self._cluster.security,
        )
        self.connection.open()

    def _opened(self, error: ClientError | None) -> None:
        if error is not None:
            self.connection = None
            self._begin_backoff()
            self._tell(self._explained(error))
            return
        self._backoff.reset()
        self._tell(None)
        while self._waiting and self.ready:
            self._write(*self._waiting.popleft())

    def _explained(self, error: ClientError) -> ClientError:
        """An address that a broker advertised may be wrong for this machine."""
        if self.node_id < 0 or type(error).retriable is False:
            return error
        if not isinstance(error, ConnectionFailure) or error.waiting_for is not None:
            return error
        return ConnectionFailure(
            f"{error.message} The cluster says broker {self.node_id} is there.",
            address=error.address,
            next_step="If that address is wrong for this machine, correct the broker's "
            "advertised.listeners.",
        )

    def _ended(self, _error: ClientError) -> None:
        self.connection = None
        if self._waiting:
            self._connect()

    def _begin_backoff(self) -> None:
        reactor = self._cluster.reactor
        when = reactor.now() + self._backoff.next_ms() / 1000
        self._backoff_timer = reactor.call_at(when, self._backoff_ended)

    def _backoff_ended(self) -> None:
        self._backoff_timer = None
        if self._waiting or self._waiters:
            self._connect()

    def _tell(self, error: ClientError | None) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter(error)
        if error is not None:
            waiting, self._waiting = self._waiting, deque()
            for each in waiting:
                each[1](None, error)

    # -- the end

    def drop(self) -> None:
        """End the connection, if there is one; the next request makes another."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """No more requests. Those that are open are told so."""
        if self.closed:
            return
        self.closed = True
        if self._backoff_timer is not None:
            self._backoff_timer.cancel()
            self._backoff_timer = None
        self.drop()
        self._tell(ClosedError("The client is closed."))
