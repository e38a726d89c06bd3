"""How many connections are allowed: in all, for each listener, and from one address.

At the node's or a listener's limit no further connection is accepted until one has gone; peers wait
in the backlog. Above the limit of its own address a connection is closed at once, so that one host
cannot take the places of the others.
"""

from __future__ import annotations

from collections.abc import Mapping

UNLIMITED = 2**31 - 1


class ConnectionLimits:
    """Counts of open connections against `max.connections` and `max.connections.per.ip`."""

    __slots__ = (
        "_by_host",
        "_by_listener",
        "count",
        "max_connections",
        "max_per_host",
        "max_per_listener",
        "overrides",
        "refused_total",
    )

    def __init__(
        self,
        *,
        max_connections: int = UNLIMITED,
        max_per_host: int = UNLIMITED,
        overrides: Mapping[str, int] | None = None,
        max_per_listener: Mapping[str, int] | None = None,
    ) -> None:
        self.max_connections = max_connections
        self.max_per_host = max_per_host
        self.overrides = dict(overrides or {})
        self.max_per_listener = dict(max_per_listener or {})
        self.count = 0
        self.refused_total = 0
        self._by_host: dict[str, int] = {}
        self._by_listener: dict[str, int] = {}

    def has_room(self, listener_name: str) -> bool:
        """True if the listener may accept another connection."""
        return self.count < self.max_connections and self._by_listener.get(
            listener_name, 0
        ) < self.max_per_listener.get(listener_name, UNLIMITED)

    def host_limit(self, host: str) -> int:
        return self.overrides.get(host, self.max_per_host)

    def open(self, listener_name: str, host: str) -> bool:
        """Count a new connection; False, and not counted, if its address has too many."""
        by_host = self._by_host.get(host, 0)
        if by_host >= self.host_limit(host):
            self.refused_total += 1
            return False
        self._by_host[host] = by_host + 1
        self._by_listener[listener_name] = self._by_listener.get(listener_name, 0) + 1
        self.count += 1
        return True

    def close(self, listener_name: str, host: str) -> None:
        left = self._by_host[host] - 1
        if left:
            self._by_host[host] = left
        else:
            del self._by_host[host]
        self._by_listener[listener_name] -= 1
        self.count -= 1

    def of_listener(self, listener_name: str) -> int:
        return self._by_listener.get(listener_name, 0)
