"""How many connections are allowed: in all, for each listener, from one address, and in a second.

At the node's or a listener's limit no further connection is accepted until one has gone; peers wait
in the backlog. Above the limit of its own address a connection is closed at once, so that one host
cannot take the places of the others. Above the rate at which connections may come, accepting rests
until the next one may.
"""

from __future__ import annotations

from collections.abc import Mapping

UNLIMITED = 2**31 - 1
SECOND_NS = 1_000_000_000


class CreationRate:
    """Connections in a second, a second's worth of them at once."""

    __slots__ = ("_used_until_ns", "per_second")

    def __init__(self, per_second: int = UNLIMITED) -> None:
        self.per_second = per_second
        self._used_until_ns = 0

    def take(self, now_ns: int) -> int:
        """Count one connection; gives how many nanoseconds to wait before the next."""
        if self.per_second >= UNLIMITED:
            return 0
        if self.per_second <= 0:
            return SECOND_NS
        self._used_until_ns = max(self._used_until_ns, now_ns) + SECOND_NS // self.per_second
        return max(0, self._used_until_ns - now_ns - SECOND_NS)


class ConnectionLimits:
    """Counts of open connections against `max.connections` and `max.connections.per.ip`."""

    __slots__ = (
        "_by_host",
        "_by_listener",
        "_rate",
        "_rates",
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
        max_creation_rate: int = UNLIMITED,
        max_creation_rate_per_listener: Mapping[str, int] | None = None,
    ) -> None:
        self.count = 0
        self.refused_total = 0
        self._by_host: dict[str, int] = {}
        self._by_listener: dict[str, int] = {}
        self._rate = CreationRate()
        self._rates: dict[str, CreationRate] = {}
        self.set(
            max_connections=max_connections,
            max_per_host=max_per_host,
            overrides=overrides or {},
            max_per_listener=max_per_listener or {},
            max_creation_rate=max_creation_rate,
            max_creation_rate_per_listener=max_creation_rate_per_listener or {},
        )

    def set(
        self,
        *,
        max_connections: int,
        max_per_host: int,
        overrides: Mapping[str, int],
        max_per_listener: Mapping[str, int],
        max_creation_rate: int,
        max_creation_rate_per_listener: Mapping[str, int],
    ) -> None:
        """Other limits from now on; what is open stays open."""
        self.max_connections = max_connections
        self.max_per_host = max_per_host
        self.overrides = dict(overrides)
        self.max_per_listener = dict(max_per_listener)
        self._rate.per_second = max_creation_rate
        self._rates = {
            name: CreationRate(rate) for name, rate in max_creation_rate_per_listener.items()
        }

    def has_room(self, listener_name: str) -> bool:
        """True if the listener may accept another connection."""
        return self.count < self.max_connections and self._by_listener.get(
            listener_name, 0
        ) < self.max_per_listener.get(listener_name, UNLIMITED)

    def rest_ms(self, listener_name: str, now_ns: int) -> int:
        """Count a connection against the rates; gives how long to accept no other."""
        rest_ns = self._rate.take(now_ns)
        if listener_name in self._rates:
            rest_ns = max(rest_ns, self._rates[listener_name].take(now_ns))
        return -(-rest_ns // 1_000_000)

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
