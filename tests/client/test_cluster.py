"""Routes, metadata, coordinators and retries of a client, against brokers in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client import route as route_module
from barnabas.client.cluster import Cluster
from barnabas.client.errors import (
    BrokerError,
    BrokerUnavailableError,
    ClientError,
    ClosedError,
    ConnectionFailure,
    NoBrokerReachable,
    QueueFull,
    RequestTimeout,
    broker_error,
)
from barnabas.client.settings import ClientSettings
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.client.fake_broker import offer, read_request, respond
from tests.client.virtual import VirtualReactor, VirtualStream

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Answering(VirtualStream):
    """A stream whose other end is a broker that answers whole requests at once."""

    def __init__(self, world: World, node_id: int) -> None:
        super().__init__(world.reactor)
        self._world = world
        self._node_id = node_id

    def send(self, data: Any, /) -> int:
        count = super().send(data)
        while len(self.sent) >= 4:
            size = int.from_bytes(self.sent[:4], "big")
            if len(self.sent) < 4 + size:
                break
            frame = bytes(self.sent[4 : 4 + size])
            del self.sent[: 4 + size]
            key, version, correlation_id, request = read_request(frame)
            self._world.asked.append((self._node_id, key))
            answer = self._world.answer(self._node_id, key, request)
            if answer is not None:
                data = respond(answer, version, correlation_id)
                self._world.reactor.call_soon(lambda data=data: self.receive(data))
            elif self._node_id in self._world.hanging_up:
                self._world.reactor.call_soon(self.end)
        return count


class World:
    """Brokers 1 to 3 at ports 9091 to 9093 of host `there`; the bootstrap servers are the first two."""

    def __init__(self, **options: Any) -> None:
        self.reactor = VirtualReactor(self.connect)
        self.asked: list[tuple[int, ApiKey]] = []
        self.connections: list[int] = []
        self.down: set[int] = set()
        self.silent: set[int] = set()
        self.hanging_up: set[int] = set()
        self.sending_back: set[int] = set()
        self.leaders = {0: 1, 1: 2}
        self.epoch = 5
        self.coordinator = 2
        self.codes: list[ErrorCode] = []
        self.ports = {1: 9091, 2: 9092, 3: 9093}
        self.cluster = Cluster(
            ClientSettings(
                **{
                    "bootstrap_servers": "there:9091,there:9092",
                    "retry_backoff_ms": 100,
                    "default_api_timeout_ms": 5_000,
                    "request_timeout_ms": 2_000,
                    **options,
                }
            ),
            self.reactor,
        )

    def connect(self, host: str, port: int) -> VirtualStream | OSError:
        node_id = next((n for n, p in self.ports.items() if p == port), 0)
        if not node_id or node_id in self.down:
            return ConnectionRefusedError()
        self.connections.append(node_id)
        return Answering(self, node_id)

    def answer(self, node_id: int, key: ApiKey, request: Any) -> Any:
        if node_id in self.silent or node_id in self.hanging_up:
            return None
        if key == ApiKey.API_VERSIONS:
            return offer(ApiKey.METADATA, ApiKey.HEARTBEAT, ApiKey.FIND_COORDINATOR)
        if key == ApiKey.METADATA and node_id in self.sending_back:
            return MetadataResponse(error_code=int(ErrorCode.REBOOTSTRAP_REQUIRED))
        if key == ApiKey.METADATA:
            return self.metadata(request)
        if key == ApiKey.FIND_COORDINATOR:
            found = Coordinator(
                key=request.coordinator_keys[0],
                node_id=self.coordinator,
                host="there",
                port=self.ports[self.coordinator],
            )
            return FindCoordinatorResponse(coordinators=[found])
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        return HeartbeatResponse(error_code=int(code))

    def metadata(self, request: Any) -> MetadataResponse:
        topics = [
            MetadataResponseTopic(
                name=topic.name,
                partitions=[
                    MetadataResponsePartition(
                        partition_index=index, leader_id=leader, leader_epoch=self.epoch
                    )
                    for index, leader in self.leaders.items()
                ],
            )
            for topic in request.topics or []
        ]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=n, host="there", port=p)
                for n, p in self.ports.items()
            ],
            controller_id=3,
            topics=topics,
        )

    def run(self, coroutine: Any) -> Any:
        return self.reactor.run(coroutine)


def test_the_bootstrap_connection_becomes_the_brokers() -> None:
    world = World()
    world.run(world.cluster.refresh(["t"]))
    for _ in range(5):
        world.run(world.cluster.request(world.connections[0], HEARTBEAT))
    assert len(world.connections) == 1
    assert world.cluster.metadata.leader("t", 1) == 2


def test_purposes_have_connections_of_their_own() -> None:
    world = World()
    world.run(world.cluster.refresh())
    world.run(world.cluster.request(2, HEARTBEAT))
    world.run(world.cluster.request(2, HEARTBEAT, purpose="fetch"))
    world.run(world.cluster.request(2, HEARTBEAT, purpose="fetch"))
    assert world.connections.count(2) == 2


def test_the_next_bootstrap_server_is_tried() -> None:
    world = World()
    world.down = {1}
    world.run(world.cluster.refresh())
    assert world.connections == [2]


def test_nobody_can_be_reached() -> None:
    world = World()
    world.down = {1, 2}
    with pytest.raises(NoBrokerReachable) as caught:
        world.run(world.cluster.refresh())
    assert len(caught.value.failures) == 2


def test_patience_waits_for_the_first_broker() -> None:
    world = World()
    world.cluster.patience_ms = 10_000
    world.down = {1, 2}
    world.reactor.call_at(world.reactor.now() + 3, world.down.clear)
    world.run(world.cluster.refresh())
    assert world.reactor.now() < 106


def test_all_brokers_gone_and_back_elsewhere_are_found_by_the_bootstrap_servers() -> None:
    world = World()
    world.run(world.cluster.refresh())
    world.down = {1, 2, 3}
    for route in list(world.cluster._routes.values()):
        route.drop()
    world.ports = {11: 9091, 12: 9092, 13: 9099}
    world.down = set()
    world.run(world.cluster.refresh())
    assert sorted(world.cluster.metadata.brokers) == [11, 12, 13]


def test_an_answer_that_names_no_broker_changes_nothing() -> None:
    """So answers a broker that is starting or stopping."""
    world = World()
    world.run(world.cluster.refresh(["t"]))
    ports, world.ports = world.ports, {}
    with pytest.raises(BrokerUnavailableError):
        world.run(world.cluster.refresh(["t"]))
    assert sorted(world.cluster.metadata.brokers) == [1, 2, 3]
    assert world.cluster.metadata.leader("t", 1) == 2
    world.ports = ports
    world.run(world.cluster.refresh(["t"]))


def test_after_a_contact_nobody_to_reach_is_likely_to_pass() -> None:
    world = World()
    world.run(world.cluster.refresh())
    world.cluster._rebootstrap("of this test")
    for route in list(world.cluster._routes.values()):
        route.drop()
    world.down = {1, 2, 3}
    world.reactor.call_at(world.reactor.now() + 5, world.down.clear)
    found = world.run(world.cluster.request_any(HEARTBEAT, what="a heartbeat"))
    assert found.error_code == ErrorCode.NONE


def test_without_recovery_only_known_brokers_are_asked() -> None:
    world = World(metadata_recovery_strategy="none")
    world.run(world.cluster.refresh())
    for route in list(world.cluster._routes.values()):
        route.drop()
    world.ports = {11: 9091, 12: 9092, 13: 9099}
    world.down = {11, 12}
    world.connections.clear()
    with pytest.raises(NoBrokerReachable) as caught:
        world.run(world.cluster.refresh())
    assert len(caught.value.failures) == 3


def test_brokers_that_are_silent_for_long_are_forgotten() -> None:
    """They accept connections and never answer; the bootstrap servers became others."""
    world = World(metadata_recovery_rebootstrap_trigger_ms=10_000, bootstrap_servers="there:9099")
    world.ports[4] = 9099
    world.run(world.cluster.refresh(["t"]))
    world.cluster.watch(["t"])
    assert world.connections == [4]
    world.run(world.cluster.request(1, HEARTBEAT))
    world.silent = {1, 2, 3, 4}
    world.ports[5] = world.ports.pop(4)
    world.cluster.request_update()
    world.reactor.advance(8)
    assert 4 in world.cluster.metadata.brokers
    world.reactor.advance(20)
    assert 5 in world.cluster.metadata.brokers
    assert 4 not in world.cluster.metadata.brokers


def test_a_broker_may_send_its_clients_back_to_the_bootstrap_servers() -> None:
    world = World()
    world.run(world.cluster.refresh())
    world.sending_back = {1, 2, 3}
    world.ports = {11: 9091, 12: 9092, 13: 9093}
    world.run(world.cluster.refresh())
    assert sorted(world.cluster.metadata.brokers) == [11, 12, 13]
    stubborn = World(metadata_recovery_strategy="none")
    stubborn.run(stubborn.cluster.refresh())
    stubborn.sending_back = {1, 2, 3}
    with pytest.raises(BrokerError, match="REBOOTSTRAP_REQUIRED"):
        stubborn.run(stubborn.cluster.refresh())


def test_retries_may_be_limited() -> None:
    world = World()
    world.cluster.most_retries = 2
    world.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 10
    world.run(world.cluster.refresh())

    async def attempt() -> Any:
        response = await world.cluster.request(1, HEARTBEAT)
        if response.error_code:
            raise broker_error(response.error_code)

    with pytest.raises(BrokerError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        world.run(world.cluster.retry("it", attempt))
    assert len(world.codes) == 7


def test_a_wait_for_a_connection_is_bounded_and_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_module, "MAX_WAITING", 3)
    world = World()
    world.run(world.cluster.refresh())
    answers: list[tuple[int, ClientError | None]] = []
    for number in range(5):
        world.cluster.send(3, HEARTBEAT, lambda _r, error, n=number: answers.append((n, error)))
    world.reactor.settle()
    assert [n for n, error in answers if error is None] == [0, 1, 2]
    assert [type(error) for _, error in answers if error is not None] == [QueueFull, QueueFull]


def test_a_failed_connection_backs_off_and_tells_everyone_who_waited() -> None:
    world = World(reconnect_backoff_ms=1_000, reconnect_backoff_max_ms=1_000)
    world.run(world.cluster.refresh())
    world.down = {3}
    for _ in range(3):
        with pytest.raises(ConnectionFailure, match="The cluster says broker 3 is there"):
            world.run(world.cluster.request(3, HEARTBEAT))
    assert world.reactor.now() >= 101.6
    world.down = set()
    world.run(world.cluster.request(3, HEARTBEAT))


def test_an_unknown_node_is_looked_up_and_then_refused() -> None:
    world = World()
    with pytest.raises(BrokerError, match="Broker 9 is not in the cluster"):
        world.run(world.cluster.request(9, HEARTBEAT))


def test_retriable_errors_are_repeated_until_the_time_is_up() -> None:
    world = World()
    world.run(world.cluster.refresh())

    async def attempt() -> Any:
        response = await world.cluster.request(1, HEARTBEAT)
        if response.error_code:
            raise BrokerError(response.error_code)
        return response

    world.codes = [ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT]
    world.run(world.cluster.retry("it", attempt))
    world.codes = [ErrorCode.NOT_COORDINATOR] * 1_000
    started = world.reactor.now()
    with pytest.raises(RequestTimeout, match="waiting for it") as caught:
        world.run(world.cluster.retry("it", attempt))
    assert 4 < world.reactor.now() - started <= 5
    assert "NOT_COORDINATOR" in str(caught.value)
    world.codes = [ErrorCode.INVALID_REQUEST]
    with pytest.raises(BrokerError, match="INVALID_REQUEST"):
        world.run(world.cluster.retry("it", attempt))


def test_a_coordinator_is_followed() -> None:
    world = World()
    world.codes = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    world.reactor.call_at(world.reactor.now() + 0.01, lambda: setattr(world, "coordinator", 3))

    async def ask() -> Any:
        return await world.cluster.request_coordinator(
            "g", HEARTBEAT, what="it", code_of=lambda r: int(r.error_code)
        )

    assert world.run(ask()).error_code == 0
    assert [n for n, key in world.asked if key == ApiKey.HEARTBEAT] == [2, 3, 3]


def test_watched_topics_are_refreshed_when_old_and_when_asked_for() -> None:
    world = World(metadata_max_age_ms=60_000)
    world.run(world.cluster.refresh(["t"]))
    updates: list[float] = []
    world.cluster.updated.append(lambda: updates.append(world.reactor.now()))
    world.cluster.watch(["t"])
    world.reactor.advance(59)
    assert updates == []
    world.reactor.advance(10)
    assert len(updates) == 1
    world.leaders = {0: 3, 1: 3}
    world.epoch = 6
    for _ in range(100):
        world.cluster.request_update()
    world.reactor.advance(1)
    assert len(updates) == 2
    assert world.cluster.metadata.leader("t", 0) == 3
    world.cluster.unwatch(["t"])


def test_an_update_goes_on_until_somebody_answers() -> None:
    world = World()
    world.run(world.cluster.refresh(["t"]))
    world.cluster.watch(["t"])
    world.down = {1, 2, 3}
    for route in list(world.cluster._routes.values()):
        route.drop()
    world.cluster.request_update()
    world.reactor.advance(20)
    world.down = {1}
    world.leaders = {0: 2, 1: 2}
    world.epoch = 7
    world.reactor.advance(5)
    assert world.cluster.metadata.leader("t", 0) == 2


def test_older_news_of_a_leader_is_not_believed() -> None:
    world = World()
    world.run(world.cluster.refresh(["t"]))
    world.leaders, world.epoch = {0: 3, 1: 3}, 4
    world.run(world.cluster.refresh(["t"]))
    assert world.cluster.metadata.leader("t", 0) == 1


def test_idle_connections_end() -> None:
    world = World(connections_max_idle_ms=10_000)
    world.run(world.cluster.refresh())
    node_id = world.connections[0]
    assert world.cluster.versions(node_id) is not None
    world.reactor.advance(30)
    assert world.cluster.versions(node_id) is None
    world.run(world.cluster.request(node_id, HEARTBEAT))
    assert world.connections == [node_id, node_id]


def test_closing_tells_everyone() -> None:
    world = World()
    world.run(world.cluster.refresh())
    world.silent = {1, 2, 3}
    answers: list[ClientError | None] = []
    for node_id in (1, 2, 3):
        world.cluster.send(node_id, HEARTBEAT, lambda _r, error: answers.append(error))
    world.cluster.close()
    world.cluster.close()
    world.reactor.settle()
    assert len(answers) == 3
    assert all(isinstance(error, ClosedError) for error in answers)
    with pytest.raises(ClosedError):
        world.run(world.cluster.refresh())
    world.reactor.advance(1_000)


def test_a_silent_broker_is_given_up_and_others_are_asked() -> None:
    world = World()
    world.run(world.cluster.refresh())
    first = world.connections[0]
    world.silent = {first}

    async def ask() -> Any:
        return await world.cluster.request_any(HEARTBEAT, what="it")

    assert world.run(ask()).error_code == 0
    assert world.reactor.now() < 105
