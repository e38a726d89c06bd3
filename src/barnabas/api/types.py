"""What a handler may ask of its node and of its request. Types only."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig
    from barnabas.controller.face import Controller
    from barnabas.controller.kraft.controller import KraftController
    from barnabas.coordinator.group.coordinator import GroupCoordinator
    from barnabas.log.manager import LogManager
    from barnabas.metadata.image import MetadataImage, PartitionRegistration
    from barnabas.replica.fetch_session import FetchSessionCache
    from barnabas.replica.manager import ReplicaManager
    from barnabas.seams import Address, Clock
    from barnabas.wire.api_keys import ApiKey
    from barnabas.wire.errors import ErrorCode
    from barnabas.wire.message import Message
    from barnabas.wire.messages.describe_quorum import (
        DescribeQuorumRequest,
        DescribeQuorumResponse,
    )


class Context(Protocol):
    """One request."""

    api_version: int
    client_id: str | None

    @property
    def listener_name(self) -> str: ...

    @property
    def client_address(self) -> Address: ...

    @property
    def local_address(self) -> Address: ...

    def respond(self, response: object) -> None:
        """Answer a request that was DEFERRED, exactly once."""


class NodeAddress(Protocol):
    @property
    def node_id(self) -> int: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def rack(self) -> str | None: ...

    @property
    def is_fenced(self) -> bool: ...


class Metadata(Protocol):
    """The cluster as this node knows it."""

    image: MetadataImage

    def alive_brokers(self) -> frozenset[int]: ...

    def controller_id(self) -> int: ...

    def endpoint(self, node_id: int, context: Context) -> NodeAddress | None: ...

    def endpoints(self, context: Context, *, fenced: bool = False) -> list[NodeAddress]: ...

    def offline_replicas(
        self, topic: str, index: int, partition: PartitionRegistration
    ) -> list[int]: ...


class ProducerIds(Protocol):
    def next_id(self) -> int | None: ...

    def next_id_after_allocation(self) -> Awaitable[int]: ...


class Node(Protocol):
    """The node a handler works for."""

    node_id: int
    cluster_id: str
    endpoint_type: int
    config: BrokerConfig
    static_config: BrokerConfig
    clock: Clock
    logs: LogManager
    replicas: ReplicaManager
    groups: GroupCoordinator
    fetch_sessions: FetchSessionCache

    @property
    def metadata(self) -> Metadata: ...

    @property
    def producer_ids(self) -> ProducerIds: ...

    @property
    def controller(self) -> Controller: ...

    def advertised_versions(self) -> Mapping[ApiKey, tuple[int, int]]: ...

    def supported_features(self) -> Mapping[str, tuple[int, int]]: ...

    def finalized_levels(self) -> Mapping[str, int]: ...

    def auto_create_topics(self, names: list[str]) -> Awaitable[dict[str, ErrorCode]]: ...

    def create_offsets_topic(self) -> Awaitable[ErrorCode]: ...

    def handle_quorum_request(self, key: ApiKey, context: Context, request: Message) -> object: ...

    def describe_quorum(
        self, request: DescribeQuorumRequest
    ) -> Awaitable[DescribeQuorumResponse]: ...


class QuorumNode(Protocol):
    """What is asked of the quorum: a controller answers, a broker passes it on to the leader."""

    def handle_quorum_request(self, key: ApiKey, context: Context, request: Message) -> object:
        """A response, DEFERRED, or a coroutine."""


class ControllerNode(QuorumNode, Protocol):
    """The node behind a controller listener."""

    @property
    def controller(self) -> KraftController: ...

    def forwarded(
        self, key: int, version: int, client_id: str | None, context: Context, request: Message
    ) -> Awaitable[Message]:
        """Handle what a broker forwards as if it had come here; NOT_CONTROLLER is raised."""

    def forwardable_versions(self, key: int) -> tuple[int, int] | None: ...
