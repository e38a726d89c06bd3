"""Addresses as `listeners` and `advertised.listeners` write them: `NAME://HOST:PORT`.

An IPv6 host stands in brackets. An empty host means all interfaces. A client that asks for metadata
is told, unless `advertised.listeners` says otherwise, the very address it reached this node on:
that address works for it, whatever networks and containers lie between.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from barnabas.seams import Address

_ENDPOINT = re.compile(
    r"(?P<name>[A-Za-z0-9_.\-]+)://(?:\[(?P<ipv6>[0-9a-fA-F:.%]+)\]|(?P<host>[^:\[\]/]*))"
    r":(?P<port>-?\d{1,6})"
)
_ANY_HOSTS = frozenset({"", "0.0.0.0", "::"})
_HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One named address."""

    name: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """Raises ValueError with a text for the person who wrote it."""
        match = _ENDPOINT.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text.strip()!r} is not of the form NAME://HOST:PORT")
        port = int(match["port"])
        if not 0 <= port <= _HIGHEST_PORT:
            raise ValueError(f"{text.strip()!r} has a port that is not between 0 and 65535")
        return cls(match["name"].upper(), match["ipv6"] or match["host"] or "", port)

    @property
    def is_any_host(self) -> bool:
        return self.host in _ANY_HOSTS

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_endpoints(text: str) -> list[Endpoint]:
    """A comma-separated list; every name and every fixed port at most once."""
    endpoints = [Endpoint.parse(part) for part in text.split(",") if part.strip()]
    names = [endpoint.name for endpoint in endpoints]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the listener {name} is named more than once")
    return endpoints


class Advertised:
    """What clients are told about how to reach this node."""

    def __init__(self, fixed: Sequence[Endpoint] = ()) -> None:
        self._fixed: Mapping[str, Endpoint] = {endpoint.name: endpoint for endpoint in fixed}

    def to_client(self, listener_name: str, local_address: Address) -> Endpoint:
        """For a client that reached the node at `local_address` of this listener."""
        fixed = self._fixed.get(listener_name)
        if fixed is not None:
            return fixed
        return Endpoint(listener_name, local_address[0], local_address[1])

    def to_cluster(self, bound: Endpoint, host_name: str) -> Endpoint:
        """For other nodes, which have no connection to judge by."""
        fixed = self._fixed.get(bound.name)
        if fixed is not None:
            return fixed
        if bound.is_any_host:
            return Endpoint(bound.name, host_name, bound.port)
        return bound
