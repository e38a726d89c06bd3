"""Listeners, their protocols and what is advertised."""

from __future__ import annotations

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.config.definition import ConfigError
from barnabas.config.listeners import Endpoint, parse_endpoints, parse_protocol_map

PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL", "INSIDE": "PLAINTEXT", "A_B-C": "SASL_SSL"}


@pytest.mark.parametrize(
    ("text", "host", "port", "shown"),
    [
        ("PLAINTEXT://localhost:9092", "localhost", 9092, "PLAINTEXT://localhost:9092"),
        ("plaintext://localhost:9092", "localhost", 9092, "PLAINTEXT://localhost:9092"),
        ("INSIDE://:0", "", 0, "INSIDE://:0"),
        ("PLAINTEXT://0.0.0.0:1", "0.0.0.0", 1, "PLAINTEXT://0.0.0.0:1"),
        ("PLAINTEXT://[::]:65535", "::", 65535, "PLAINTEXT://[::]:65535"),
        (
            "PLAINTEXT://[fe80::1%eth0]:9092",
            "fe80::1%eth0",
            9092,
            "PLAINTEXT://[fe80::1%eth0]:9092",
        ),
        ("A_B-C://my-host.example.org:9", "my-host.example.org", 9, None),
    ],
)
def test_endpoints(text: str, host: str, port: int, shown: str | None) -> None:
    (endpoint,) = parse_endpoints("listeners", [text], PROTOCOLS)
    assert (endpoint.host, endpoint.port) == (host, port)
    assert endpoint.protocol == PROTOCOLS[endpoint.name]
    assert str(endpoint) == (shown or text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("localhost:9092", "Unable to parse localhost:9092 to a broker endpoint"),
        ("PLAINTEXT://localhost", "Unable to parse"),
        ("PLAINTEXT://local host:1", "Unable to parse"),
        ("://localhost:9092", "Unable to parse a listener name"),
        ("PLAINTEXT://localhost:65536", "port 65536 is not between 0 and 65535"),
        ("PLAINTEXT://localhost:-1", "port -1"),
        ("OTHER://localhost:9092", "No security protocol defined for listener OTHER"),
        ("PLAINTEXT://a:1,PLAINTEXT://b:2", "Each listener must have a different name"),
        ("PLAINTEXT://a:1,SSL://b:1", "Each listener must have a different port"),
        ("PLAINTEXT://0.0.0.0:1,SSL://[::]:1,INSIDE://:1", "Each listener must have a different"),
    ],
)
def test_endpoints_that_are_wrong(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_endpoints("listeners", text.split(","), PROTOCOLS)
    assert said in str(refused.value)
    assert str(refused.value).startswith(f"Invalid value {text} for configuration listeners: ")


def test_one_port_for_both_families_and_any_number_left_to_choose() -> None:
    both = ["PLAINTEXT://127.0.0.1:9092", "SSL://[::1]:9092"]
    assert len(parse_endpoints("listeners", both, PROTOCOLS)) == 2
    free = ["PLAINTEXT://:0", "SSL://:0", "INSIDE://:0"]
    assert len(parse_endpoints("listeners", free, PROTOCOLS)) == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A:PLAINTEXT,B:ssl", {"A": "PLAINTEXT", "B": "SSL"}),
        (" in : SASL_SSL , ", {"IN": "SASL_SSL"}),
        ("", {}),
    ],
)
def test_protocol_maps(text: str, expected: dict[str, str]) -> None:
    assert parse_protocol_map("listener.security.protocol.map", text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A", "A is not of the form NAME:PROTOCOL"),
        (":SSL", "not of the form"),
        ("A:TLS", "Invalid security protocol `TLS`; one of: PLAINTEXT, SSL, SASL_PLAINTEXT"),
        ("A:SSL,a:PLAINTEXT", "listener A is mapped twice"),
    ],
)
def test_protocol_maps_that_are_wrong(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_protocol_map("listener.security.protocol.map", text)
    assert said in str(refused.value)


def test_what_is_advertised_comes_from_the_listeners() -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://:9092,SSL://example.org:9093"})
    assert config.advertised_listeners == (
        Endpoint("PLAINTEXT", "", 9092, "PLAINTEXT"),
        Endpoint("SSL", "example.org", 9093, "SSL"),
    )


def test_the_controllers_listeners_are_not_advertised() -> None:
    config = BrokerConfig(
        {
            "listeners": "OUTSIDE://:9092,INSIDE://:9094,CONTROLLER://:9093",
            "advertised.listeners": "OUTSIDE://kafka.example.org:19092,INSIDE://10.0.0.7:9094",
            "listener.security.protocol.map": "OUTSIDE:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "INSIDE",
        }
    )
    assert [str(each) for each in config.advertised_listeners] == [
        "OUTSIDE://kafka.example.org:19092",
        "INSIDE://10.0.0.7:9094",
    ]
    assert [each.name for each in config.broker_listeners] == ["OUTSIDE", "INSIDE"]
    assert config.inter_broker_listener == "INSIDE"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "nonroutable meta-address 0.0.0.0"),
        ({"advertised.listeners": "SSL://h:1"}, "must be equal to or a subset of the ones"),
        ({"advertised.listeners": "OTHER://h:1"}, "No security protocol defined"),
        ({"inter.broker.listener.name": "OTHER"}, "must be a listener name defined in"),
        (
            {"listeners": "C://:1", "controller.listener.names": "C"},
            "There must be at least one broker advertised listener",
        ),
    ],
)
def test_listeners_that_do_not_fit_together(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig(settings)
    assert said in str(refused.value)
