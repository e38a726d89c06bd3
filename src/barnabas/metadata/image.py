"""The cluster as the metadata log describes it at one offset.

An image never changes. `MetadataDelta` makes the next one from it, and whatever did not change is
shared between the two, so whoever holds an image can go on reading it while the log moves on.

`to_records` turns an image back into the records of a snapshot: replaying them onto `EMPTY` gives
an equal image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.metadata.features import METADATA_VERSION

if TYPE_CHECKING:
    from barnabas.wire.message import Message

NO_LEADER: Final = -1

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class ResourceType:
    """What a setting belongs to, as records and requests number it."""

    UNKNOWN: Final = 0
    TOPIC: Final = 2
    BROKER: Final = 4
    BROKER_LOGGER: Final = 8
    CLIENT_METRICS: Final = 16
    GROUP: Final = 32


ConfigResource = tuple[int, str]
ClientQuotaEntity = tuple[tuple[str, str | None], ...]


class Listener(NamedTuple):
    """Where a node can be reached."""

    name: str
    host: str
    port: int
    security_protocol: int


class PartitionRegistration(NamedTuple):
    """One partition: who has it, who is in sync, who leads."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = 0

    def directory(self, broker_id: int) -> bytes | None:
        """The log directory that a replica is assigned to; None where nothing is known of it."""
        if broker_id not in self.replicas or not self.directories:
            return None
        return self.directories[self.replicas.index(broker_id)]


@dataclass(frozen=True, slots=True)
class TopicImage:
    name: str
    topic_id: bytes
    partitions: Mapping[int, PartitionRegistration]


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker that has registered. A fenced one leads nothing and is told to nobody."""

    broker_id: int
    epoch: int
    incarnation_id: bytes
    listeners: tuple[Listener, ...]
    features: Mapping[str, tuple[int, int]]
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    directories: tuple[bytes, ...] = ()
    cordoned_directories: tuple[bytes, ...] | None = None
    is_migrating_zk_broker: bool = False

    def listener(self, name: str) -> Listener | None:
        return next((listener for listener in self.listeners if listener.name == name), None)

    @property
    def active(self) -> bool:
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    controller_id: int
    incarnation_id: bytes
    listeners: tuple[Listener, ...]
    features: Mapping[str, tuple[int, int]]
    zk_migration_ready: bool = False


@dataclass(frozen=True, slots=True)
class FeaturesImage:
    finalized_levels: Mapping[str, int] = field(default_factory=dict)
    zk_migration_state: int = 0

    @property
    def metadata_version(self) -> int:
        """The level; 0 before the first record of a log."""
        return self.finalized_levels.get(METADATA_VERSION, 0)


@dataclass(frozen=True, slots=True)
class ProducerIdsImage:
    """`next_producer_id` is the first id that was not given to any broker yet."""

    next_producer_id: int = 0
    broker_id: int = -1
    broker_epoch: int = -1


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class Acl(NamedTuple):
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class DelegationToken(NamedTuple):
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """Everything, as of `offset` (of the last record that counts) and its epoch."""

    offset: int = -1
    epoch: int = 0
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_id: Mapping[bytes, TopicImage] = field(default_factory=dict)
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    controllers: Mapping[int, ControllerRegistration] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    features: FeaturesImage = field(default_factory=FeaturesImage)
    producer_ids: ProducerIdsImage = field(default_factory=ProducerIdsImage)
    client_quotas: Mapping[ClientQuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    acls: Mapping[bytes, Acl] = field(default_factory=dict)
    scram: Mapping[tuple[str, int], ScramCredential] = field(default_factory=dict)
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"MetadataImage(offset={self.offset}, epoch={self.epoch}, "
            f"{len(self.topics)} topics, {len(self.brokers)} brokers)"
        )

    def partition(self, topic: str, index: int) -> PartitionRegistration | None:
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(index)

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """What was set for a resource; empty if nothing was."""
        return self.configs.get((resource_type, name), NOTHING)

    def same_content(self, other: MetadataImage) -> bool:
        """Equal but for the place in the log."""
        from dataclasses import replace

        return replace(self, offset=0, epoch=0) == replace(other, offset=0, epoch=0)

    def to_records(self) -> Iterator[Message]:
        """The records of a snapshot, in the order in which they can be replayed."""
        from barnabas.metadata.snapshot import image_records

        return image_records(self)


EMPTY: Final = MetadataImage()
