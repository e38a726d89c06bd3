"""Listeners: what a node listens on and what it tells clients to connect to.

A listener is written `NAME://host:port`. The name is looked up in `listener.security.protocol.map`
to find its protocol. An empty host in `listeners` means every interface; an empty host in what is
advertised means the address by which the client itself came, so that a node without
`advertised.listeners` is reachable from wherever it was reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from barnabas.config.definition import ConfigError

SECURITY_PROTOCOLS: Final[Mapping[str, int]] = {
    "PLAINTEXT": 0,
    "SSL": 1,
    "SASL_PLAINTEXT": 2,
    "SASL_SSL": 3,
}

_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_ANY_ADDRESS = ("", "0.0.0.0", "::", "0:0:0:0:0:0:0:0")


class Endpoint(NamedTuple):
    """One listener, or one address that is told to clients."""

    name: str
    host: str
    port: int
    protocol: str

    @property
    def protocol_id(self) -> int:
        """The protocol as metadata records number it."""
        return SECURITY_PROTOCOLS[self.protocol]

    @property
    def is_any_address(self) -> bool:
        return self.host in _ANY_ADDRESS

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_protocol_map(name: str, text: str) -> dict[str, str]:
    """`NAME:PROTOCOL,…` as a mapping."""
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        listener, separator, protocol = pair.rpartition(":")
        listener, protocol = listener.strip().upper(), protocol.strip().upper()
        if not separator or not listener:
            raise ConfigError.invalid(name, text, f"{pair} is not of the form NAME:PROTOCOL")
        if protocol not in SECURITY_PROTOCOLS:
            allowed = ", ".join(SECURITY_PROTOCOLS)
            raise ConfigError.invalid(
                name, text, f"Invalid security protocol `{protocol}`; one of: {allowed}"
            )
        if listener in protocols:
            raise ConfigError.invalid(name, text, f"listener {listener} is mapped twice")
        protocols[listener] = protocol
    return protocols


def parse_endpoints(
    name: str,
    listeners: Iterable[str],
    protocols: Mapping[str, str],
    *,
    distinct_ports: bool = True,
) -> tuple[Endpoint, ...]:
    """The endpoints of a list of listeners; a `ConfigError` says which one is wrong and why."""
    listeners = tuple(listeners)
    shown = ",".join(listeners)
    endpoints: list[Endpoint] = []
    for text in listeners:
        match = _ENDPOINT.fullmatch(text)
        if match is None:
            raise ConfigError.invalid(
                name, shown, f"Unable to parse {text} to a broker endpoint; NAME://host:port"
            )
        listener, host, port = match[1].upper(), match[2], int(match[3])
        if not listener:
            raise ConfigError.invalid(name, shown, f"Unable to parse a listener name from {text}")
        if not 0 <= port <= 65_535:
            raise ConfigError.invalid(name, shown, f"port {port} is not between 0 and 65535")
        if listener not in protocols:
            raise ConfigError.invalid(
                name,
                shown,
                f"No security protocol defined for listener {listener}; "
                "name one in listener.security.protocol.map",
            )
        endpoints.append(Endpoint(listener, host, port, protocols[listener]))
    if len({endpoint.name for endpoint in endpoints}) != len(endpoints):
        raise ConfigError.invalid(name, shown, "Each listener must have a different name")
    if distinct_ports:
        _check_ports(name, shown, endpoints)
    return tuple(endpoints)


def _check_ports(name: str, shown: str, endpoints: list[Endpoint]) -> None:
    by_port: dict[int, list[Endpoint]] = {}
    for endpoint in endpoints:
        if endpoint.port:
            by_port.setdefault(endpoint.port, []).append(endpoint)
    for port, sharing in by_port.items():
        families = {":" in endpoint.host for endpoint in sharing if endpoint.host}
        if len(sharing) > 1 and not (len(sharing) == 2 and len(families) == 2):
            raise ConfigError.invalid(
                name,
                shown,
                "Each listener must have a different port unless exactly one listener has an IPv4 "
                f"address and the other IPv6 address, port: {port}",
            )
