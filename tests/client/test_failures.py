"""What a client says when things go wrong: one class for one cause, with address and next step."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client.errors import (
    ClientError,
    ConnectionLost,
    ConnectionRefused,
    NameLookupError,
    NoBrokerReachable,
    NotFoundError,
    OptionError,
    ProtocolMismatch,
    RequestTimeout,
    VersionError,
    broker_error,
)
from barnabas.client.settings import ClientSettings, ConsumerSettings, ProducerSettings, load
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
)
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from tests.client.admins import KINDS, make_admin
from tests.client.fake_broker import FakeBroker, offer

AdminFor = Callable[..., Any]


@pytest.fixture(params=KINDS)
def admin_for(request: pytest.FixtureRequest) -> AdminFor:
    def make(address: str, **options: Any) -> Any:
        return make_admin(request.param, bootstrap_servers=address, retry_backoff_ms=1, **options)

    return make


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def only_failure(error: NoBrokerReachable, cause: type[ClientError]) -> ClientError:
    (failure,) = error.failures
    assert isinstance(failure, cause)
    return failure


def test_nothing_listens(admin_for: AdminFor) -> None:
    port = free_port()
    with admin_for(f"127.0.0.1:{port}") as admin, pytest.raises(NoBrokerReachable) as caught:
        admin.list_topics()
    only_failure(caught.value, ConnectionRefused)
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert "--bootstrap-server" in str(caught.value)


def test_all_addresses_are_named(admin_for: AdminFor) -> None:
    ports = [free_port(), free_port()]
    addresses = ",".join(f"127.0.0.1:{p}" for p in ports)
    with admin_for(addresses) as admin, pytest.raises(NoBrokerReachable) as caught:
        admin.list_topics()
    assert all(f"127.0.0.1:{p}" in str(caught.value) for p in ports)


def test_a_name_that_does_not_resolve(admin_for: AdminFor) -> None:
    with (
        admin_for("no-such-host.invalid:9092") as admin,
        pytest.raises(NoBrokerReachable) as caught,
    ):
        admin.list_topics()
    failure = only_failure(caught.value, NameLookupError)
    assert "no-such-host.invalid" in str(failure)


@pytest.mark.parametrize(
    ("greeting", "word"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "TLS"),
        (b"SSH-2.0-OpenSSH_9.0\r\n", "SSH"),
        (b"\xff\xff\xff\xff", "long"),
    ],
)
def test_something_else_answers(admin_for: AdminFor, greeting: bytes, word: str) -> None:
    with (
        FakeBroker(greeting=greeting) as broker,
        admin_for(broker.address) as admin,
        pytest.raises(NoBrokerReachable) as caught,
    ):
        admin.list_topics()
    assert word in str(only_failure(caught.value, ProtocolMismatch))


def test_the_peer_hangs_up(admin_for: AdminFor) -> None:
    with (
        FakeBroker(lambda *_: None) as broker,
        admin_for(broker.address) as admin,
        pytest.raises(NoBrokerReachable) as caught,
    ):
        admin.list_topics()
    assert broker.address in str(only_failure(caught.value, ConnectionLost))


def test_no_answer_in_time(admin_for: AdminFor) -> None:
    with (
        FakeBroker() as broker,
        admin_for(broker.address, request_timeout_ms=50, default_api_timeout_ms=100) as admin,
        pytest.raises(RequestTimeout) as caught,
    ):
        admin.list_topics()
    assert "API versions" in str(caught.value)


def test_an_answer_to_another_request(admin_for: AdminFor) -> None:
    wrong = b"\x00\x00\x00\x06\x00\x00\x30\x39\x00\x00"
    with (
        FakeBroker(lambda *_: wrong) as broker,
        admin_for(broker.address) as admin,
        pytest.raises(NoBrokerReachable) as caught,
    ):
        admin.list_topics()
    assert "12345" in str(only_failure(caught.value, ProtocolMismatch))


def test_a_malformed_answer(admin_for: AdminFor) -> None:
    cut = b"\x00\x00\x00\x07\x00\x00\x00\x01\x00\x00\x7f"
    with (
        FakeBroker(lambda *_: cut) as broker,
        admin_for(broker.address) as admin,
        pytest.raises(NoBrokerReachable) as caught,
    ):
        admin.list_topics()
    assert "malformed" in str(only_failure(caught.value, ProtocolMismatch))


def test_a_broker_without_the_api(admin_for: AdminFor) -> None:
    with (
        FakeBroker(lambda *_: offer()) as broker,
        admin_for(broker.address) as admin,
        pytest.raises(VersionError) as caught,
    ):
        admin.list_topics()
    assert "METADATA" in str(caught.value)
    assert broker.address in str(caught.value)


def test_an_older_broker_is_asked_again_in_its_version(admin_for: AdminFor) -> None:
    def handle(key: ApiKey, version: int, request: Any) -> Any:
        if key == ApiKey.API_VERSIONS and version > 0:
            body = b"\x00\x00\x00\x01\x00\x23\x00\x00\x00\x01\x00\x12\x00\x00\x00\x00"
            return len(body).to_bytes(4, "big") + body
        if key == ApiKey.API_VERSIONS:
            return ApiVersionsResponse(
                api_keys=[
                    ApiVersion(api_key=18, min_version=0, max_version=0),
                    ApiVersion(api_key=3, min_version=0, max_version=1),
                ]
            )
        return metadata_of(broker)

    with FakeBroker(handle) as broker, admin_for(broker.address) as admin:
        assert admin.list_topics() == []
    highest = offer().api_keys[0].max_version
    assert broker.seen == [
        (ApiKey.API_VERSIONS, highest),
        (ApiKey.API_VERSIONS, 0),
        (ApiKey.METADATA, 1),
    ]


def metadata_of(broker: FakeBroker, *topics: MetadataResponseTopic) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=broker.port)],
        controller_id=1,
        topics=list(topics),
    )


def test_a_connection_that_breaks_is_made_again(admin_for: AdminFor) -> None:
    broken = False

    def handle(key: ApiKey, version: int, request: Any) -> Any:
        nonlocal broken
        if key == ApiKey.API_VERSIONS:
            return offer(ApiKey.METADATA)
        if not broken:
            broken = True
            return None
        return metadata_of(broker)

    with FakeBroker(handle) as broker, admin_for(broker.address) as admin:
        assert admin.list_topics() == []
        assert broker.connections == 2


def test_unknown_topics_fail_at_once_and_leaderless_ones_are_waited_for(
    admin_for: AdminFor,
) -> None:
    answers = [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE]

    def handle(key: ApiKey, version: int, request: Any) -> Any:
        if key == ApiKey.API_VERSIONS:
            return offer(ApiKey.METADATA)
        name = request.topics[0].name
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name == "no" else answers.pop(0)
        return metadata_of(broker, MetadataResponseTopic(name=name, error_code=int(code)))

    with FakeBroker(handle) as broker, admin_for(broker.address) as admin:
        with pytest.raises(NotFoundError, match="There is no such topic"):
            admin.find_topics(["no"])
        assert "yes" in admin.find_topics(["yes"])
        assert answers == []


def test_the_advertised_address_is_blamed(admin_for: AdminFor) -> None:
    port = free_port()

    def handle(key: ApiKey, version: int, request: Any) -> Any:
        if key == ApiKey.API_VERSIONS:
            return offer(ApiKey.METADATA, ApiKey.DESCRIBE_LOG_DIRS)
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port)], topics=[]
        )

    with (
        FakeBroker(handle) as broker,
        admin_for(broker.address, default_api_timeout_ms=50) as admin,
        pytest.raises(ClientError) as caught,
    ):
        admin.describe_log_dirs()
    assert "advertised.listeners" in str(caught.value)


@pytest.mark.parametrize(
    ("cls", "options", "text"),
    [
        (ClientSettings, {"bootstrap.servers": "host:port"}, "HOST:PORT"),
        (ClientSettings, {"bootstrap.servers": ""}, "empty"),
        (ClientSettings, {"request.timeout.ms": "soon"}, "whole number"),
        (ClientSettings, {"request.timeout.ms": 0}, "too small"),
        (ClientSettings, {"bootstrap.server": "a:1"}, "Did you mean bootstrap.servers"),
        (ClientSettings, {"security.protocol": "TLS"}, "one of PLAINTEXT"),
        (ProducerSettings, {"acks": "2"}, "one of all"),
        (ProducerSettings, {"max.in.flight.requests.per.connection": 6}, "at most 5"),
        (ProducerSettings, {"enable.idempotence": "maybe"}, "neither true nor false"),
        (ConsumerSettings, {"heartbeat.interval.ms": 50_000}, "below"),
    ],
)
def test_wrong_options(cls: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        load(cls, options)


def test_options_of_a_java_client_are_passed_over() -> None:
    settings = load(
        ProducerSettings,
        {
            "key.serializer": "x.Y",
            "ssl.truststore.location": "z",
            "acks": "1",
            "fetch_min_bytes": 1,
        },
    )
    assert settings.acks == "1"
    assert not settings.enable_idempotence


def test_codes_of_newer_brokers() -> None:
    assert "12345" in str(broker_error(12345))


def test_a_controller_that_cannot_be_reached_is_asked_for_again(admin_for: AdminFor) -> None:
    asked = 0

    def handle(key: ApiKey, version: int, request: Any) -> Any:
        nonlocal asked
        if key == ApiKey.API_VERSIONS:
            return offer(ApiKey.METADATA, ApiKey.LIST_PARTITION_REASSIGNMENTS)
        if key == ApiKey.METADATA:
            asked += 1
            found = metadata_of(broker)
            gone = MetadataResponseBroker(node_id=2, host="127.0.0.1", port=nobody)
            found.brokers.append(gone)
            found.controller_id = 2 if asked == 1 else 1
            return found
        return ListPartitionReassignmentsResponse()

    nobody = free_port()
    with FakeBroker(handle) as broker, admin_for(broker.address) as admin:
        assert list(admin.list_partition_reassignments()) == []
        assert asked == 2


def test_one_broker_is_waited_for_no_longer_than_asked(admin_for: AdminFor) -> None:
    def handle(key: ApiKey, version: int, request: Any) -> Any:
        if key == ApiKey.API_VERSIONS:
            return offer(ApiKey.METADATA, ApiKey.DESCRIBE_LOG_DIRS)
        found = metadata_of(broker)
        found.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=nobody))
        return found

    nobody = free_port()
    with FakeBroker(handle) as broker, admin_for(broker.address) as admin:
        with pytest.raises(RequestTimeout) as caught:
            admin.describe_log_dirs([2], timeout_ms=50)
        assert "50 ms" in str(caught.value)
        assert str(nobody) in str(caught.value)
