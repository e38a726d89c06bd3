"""From one image to the next.

A delta takes records one after the other and remembers what they change; `apply` gives the image
after them. A part of the image is copied when the first record touches it, one level deep, and the
rest is shared: one partition's new leader costs a copy of that topic's partitions and of the table
of topics, nothing else.

What changed can be read from the delta as well, so that a broker need not compare images:
`created_topics`, `changed_topics` (created ones included), `deleted_topics` (as they were),
`changed_configs`, `changed_brokers`, `features_changed`, and in `moved_replicas` each partition that
got other replicas, with those before and after.

A record that contradicts the image (a change to a partition that is not there) is a
`MetadataError`: the log is corrupt, and going on would hide it. After `apply` a delta takes no
more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

from barnabas.metadata import image as images
from barnabas.metadata.image import (
    BrokerRegistration,
    ClientQuotaEntity,
    ConfigResource,
    ControllerRegistration,
    Listener,
    MetadataImage,
    PartitionRegistration,
    ResourceType,
    TopicImage,
)
from barnabas.wire import uuids
from barnabas.wire.message import Message
from barnabas.wire.records import metadata as records

K = TypeVar("K")
V = TypeVar("V")

LEADER_UNCHANGED = -2
RECOVERY_UNCHANGED = -1


class MetadataError(Exception):
    """A record cannot be true of the image it is replayed onto."""


class _Table(Generic[K, V]):
    """A mapping that is copied when it is first written to."""

    __slots__ = ("_base", "_own")

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base = base
        self._own: dict[K, V] | None = None

    def get(self, key: K) -> V | None:
        return (self._base if self._own is None else self._own).get(key)

    def writable(self) -> dict[K, V]:
        own = self._own
        if own is None:
            base = self._base
            own = self._own = base.copy() if hasattr(base, "copy") else dict(base)
        return own

    def finish(self) -> Mapping[K, V]:
        return self._base if self._own is None else MappingProxyType(self._own)


class MetadataDelta:
    """The changes since `image`."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.deleted_topics: dict[str, TopicImage] = {}
        self.changed_configs: set[ConfigResource] = set()
        self.changed_brokers: set[int] = set()
        self.features_changed = False
        self.moved_replicas: list[tuple[bytes, int, tuple[int, ...], tuple[int, ...]]] = []
        self._applied = False
        self._names: _Table[str, TopicImage] = _Table(image.topics)
        self._ids: _Table[bytes, TopicImage] = _Table(image.topics_by_id)
        self._partitions: dict[bytes, dict[int, PartitionRegistration]] = {}
        self._created: set[bytes] = set()
        self._brokers: _Table[int, BrokerRegistration] = _Table(image.brokers)
        self._controllers: _Table[int, ControllerRegistration] = _Table(image.controllers)
        self._configs: _Table[ConfigResource, Mapping[str, str]] = _Table(image.configs)
        self._features = image.features
        self._producer_ids = image.producer_ids
        self._quotas: _Table[ClientQuotaEntity, Mapping[str, float]] = _Table(image.client_quotas)
        self._acls = _Table(image.acls)
        self._scram = _Table(image.scram)
        self._tokens = _Table(image.delegation_tokens)

    # ---- what changed

    @property
    def changed_topics(self) -> dict[str, TopicImage]:
        """Topics that are new or have new or other partitions, as they are after the delta."""
        self._settle()
        topics = (self._known(topic_id, "a change") for topic_id in self._partitions)
        return {topic.name: topic for topic in topics}

    @property
    def created_topics(self) -> dict[str, TopicImage]:
        return {
            n: topic for n, topic in self.changed_topics.items() if topic.topic_id in self._created
        }

    # ---- replaying

    def replay_all(self, batch: Iterable[Message]) -> None:
        for record in batch:
            self.replay(record)

    def replay(self, record: Message) -> None:
        """Take one record in. Its offset is told to `apply`."""
        assert not self._applied, "a delta that was applied belongs to its image"
        try:
            handler = _HANDLERS[record.RECORD_TYPE]
        except KeyError:
            raise MetadataError(f"no way to replay a {type(record).__name__}") from None
        handler(self, record)

    def apply(self, offset: int, epoch: int) -> MetadataImage:
        """The image after all records; `offset` is the last record's, `epoch` its leader's."""
        self._settle()
        self._applied = True
        return MetadataImage(
            offset=offset,
            epoch=epoch,
            topics=self._names.finish(),
            topics_by_id=self._ids.finish(),
            brokers=self._brokers.finish(),
            controllers=self._controllers.finish(),
            configs=self._configs.finish(),
            features=self._features,
            producer_ids=self._producer_ids,
            client_quotas=self._quotas.finish(),
            acls=self._acls.finish(),
            scram=self._scram.finish(),
            delegation_tokens=self._tokens.finish(),
        )

    # ---- topics

    def _settle(self) -> None:
        """Put the partitions that were changed into their topics."""
        for topic_id in self._partitions:
            self._topic(topic_id)

    def _topic(self, topic_id: bytes) -> TopicImage:
        """A topic with those of its partitions that were changed."""
        topic = self._known(topic_id, "a change")
        partitions = self._partitions.get(topic_id)
        if partitions is not None and topic.partitions is not partitions:
            topic = TopicImage(topic.name, topic_id, partitions)
            self._ids.writable()[topic_id] = topic
            self._names.writable()[topic.name] = topic
        return topic

    def _known(self, topic_id: bytes, what: str) -> TopicImage:
        topic = self._ids.get(topic_id)
        if topic is None:
            raise MetadataError(f"{what} of the unknown topic {uuids.to_text(topic_id)}")
        return topic

    def _partitions_of(self, topic_id: bytes, what: str) -> dict[int, PartitionRegistration]:
        own = self._partitions.get(topic_id)
        if own is None:
            own = self._partitions[topic_id] = dict(self._known(topic_id, what).partitions)
        return own

    def _topic_record(self, record: records.TopicRecord) -> None:
        if self._names.get(record.name) is not None:
            raise MetadataError(f"topic {record.name} is created a second time")
        if self._ids.get(record.topic_id) is not None:
            raise MetadataError(f"topic {record.name} has the id of another topic")
        topic = TopicImage(record.name, record.topic_id, {})
        self._names.writable()[record.name] = topic
        self._ids.writable()[record.topic_id] = topic
        self._partitions[record.topic_id] = {}
        self._created.add(record.topic_id)

    def _partition_record(self, record: records.PartitionRecord) -> None:
        partitions = self._partitions_of(record.topic_id, "a partition")
        before = partitions.get(record.partition_id)
        after = tuple(record.replicas)
        self.moved_replicas.append(
            (record.topic_id, record.partition_id, before.replicas if before else (), after)
        )
        partitions[record.partition_id] = PartitionRegistration(
            replicas=after,
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=tuple(record.directories)
            or (uuids.MIGRATING_DIRECTORY,) * len(record.replicas),
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
            leader_recovery_state=record.leader_recovery_state,
        )

    def _partition_change_record(self, record: records.PartitionChangeRecord) -> None:
        partitions = self._partitions_of(record.topic_id, "a change")
        before = partitions.get(record.partition_id)
        if before is None:
            topic = self._known(record.topic_id, "a change").name
            raise MetadataError(f"a change of the unknown partition {topic}-{record.partition_id}")
        partitions[record.partition_id] = after = merge_partition(before, record)
        if record.replicas is not None:
            self.moved_replicas.append(
                (record.topic_id, record.partition_id, before.replicas, after.replicas)
            )

    def _remove_topic_record(self, record: records.RemoveTopicRecord) -> None:
        topic = self._topic(record.topic_id)
        self.moved_replicas += [
            (record.topic_id, index, partition.replicas, ())
            for index, partition in topic.partitions.items()
        ]
        del self._ids.writable()[record.topic_id]
        del self._names.writable()[topic.name]
        self._partitions.pop(record.topic_id, None)
        if record.topic_id in self._created:
            self._created.discard(record.topic_id)
        else:
            self.deleted_topics[topic.name] = self.image.topics_by_id[record.topic_id]
        resource = (ResourceType.TOPIC, topic.name)
        if self._configs.get(resource) is not None:
            del self._configs.writable()[resource]
            self.changed_configs.add(resource)

    def _clear_elr_record(self, record: records.ClearElrRecord) -> None:
        """Of one topic, or with an empty name of all."""
        self._settle()
        if record.topic_name:
            topic = self._names.get(record.topic_name)
            if topic is None:
                raise MetadataError(f"the unknown topic {record.topic_name} loses its ELR")
            topics: Iterable[TopicImage] = (topic,)
        else:
            topics = list(self._ids.finish().values())
        for topic in topics:
            for index, partition in topic.partitions.items():
                if partition.elr or partition.last_known_elr:
                    self._partitions_of(topic.topic_id, "a change")[index] = partition._replace(
                        elr=(), last_known_elr=(), partition_epoch=partition.partition_epoch + 1
                    )

    # ---- configs, features, producer ids

    def _config_record(self, record: records.ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        before = self._configs.get(resource)
        values = dict(before or ())
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            self._configs.writable()[resource] = values
        elif before is not None:
            del self._configs.writable()[resource]
        self.changed_configs.add(resource)

    def _feature_level_record(self, record: records.FeatureLevelRecord) -> None:
        levels = dict(self._features.finalized_levels)
        if record.feature_level == 0:
            levels.pop(record.name, None)
        else:
            levels[record.name] = record.feature_level
        self._features = replace(self._features, finalized_levels=levels)
        self.features_changed = True

    def _zk_migration_state_record(self, record: records.ZkMigrationStateRecord) -> None:
        self._features = replace(self._features, zk_migration_state=record.zk_migration_state)

    def _producer_ids_record(self, record: records.ProducerIdsRecord) -> None:
        self._producer_ids = images.ProducerIdsImage(
            record.next_producer_id, record.broker_id, record.broker_epoch
        )

    def _no_op_record(self, record: Message) -> None:
        pass

    # ---- brokers and controllers

    def _register_broker_record(self, record: records.RegisterBrokerRecord) -> None:
        cordoned = record.cordoned_log_dirs
        self._brokers.writable()[record.broker_id] = BrokerRegistration(
            broker_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            listeners=_listeners(record.end_points),
            features=_ranges(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            directories=tuple(record.log_dirs),
            cordoned_directories=None if cordoned is None else tuple(cordoned),
            is_migrating_zk_broker=record.is_migrating_zk_broker,
        )
        self.changed_brokers.add(record.broker_id)

    def _broker(self, broker_id: int, epoch: int, what: str) -> BrokerRegistration:
        broker = self._brokers.get(broker_id)
        if broker is None:
            raise MetadataError(f"{what} of the unknown broker {broker_id}")
        if broker.epoch != epoch:
            raise MetadataError(
                f"{what} of broker {broker_id} in epoch {epoch}, but it is in {broker.epoch}"
            )
        return broker

    def _unregister_broker_record(self, record: records.UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch, "the end")
        del self._brokers.writable()[record.broker_id]
        self.changed_brokers.add(record.broker_id)

    def _set_broker(self, broker: BrokerRegistration, **changes: Any) -> None:
        self._brokers.writable()[broker.broker_id] = replace(broker, **changes)
        self.changed_brokers.add(broker.broker_id)

    def _fence_broker_record(self, record: records.FenceBrokerRecord) -> None:
        self._set_broker(self._broker(record.id, record.epoch, "the fencing"), fenced=True)

    def _unfence_broker_record(self, record: records.UnfenceBrokerRecord) -> None:
        self._set_broker(self._broker(record.id, record.epoch, "the unfencing"), fenced=False)

    def _broker_registration_change_record(
        self, record: records.BrokerRegistrationChangeRecord
    ) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch, "a change")
        changes: dict[str, Any] = {}
        if record.fenced:
            changes["fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
        if record.log_dirs:
            changes["directories"] = tuple(record.log_dirs)
        if record.cordoned_log_dirs is not None:
            changes["cordoned_directories"] = tuple(record.cordoned_log_dirs)
        self._set_broker(broker, **changes)

    def _register_controller_record(self, record: records.RegisterControllerRecord) -> None:
        self._controllers.writable()[record.controller_id] = ControllerRegistration(
            controller_id=record.controller_id,
            incarnation_id=record.incarnation_id,
            listeners=_listeners(record.end_points),
            features=_ranges(record.features),
            zk_migration_ready=record.zk_migration_ready,
        )

    # ---- quotas and security

    def _client_quota_record(self, record: records.ClientQuotaRecord) -> None:
        entity = tuple((each.entity_type, each.entity_name) for each in record.entity)
        values = dict(self._quotas.get(entity) or ())
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self._quotas.writable()[entity] = values
        else:
            self._quotas.writable().pop(entity, None)

    def _access_control_entry_record(self, record: records.AccessControlEntryRecord) -> None:
        self._acls.writable()[record.id] = images.Acl(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )

    def _remove_access_control_entry_record(
        self, record: records.RemoveAccessControlEntryRecord
    ) -> None:
        if self._acls.writable().pop(record.id, None) is None:
            raise MetadataError(f"the unknown ACL {uuids.to_text(record.id)} is removed")

    def _user_scram_credential_record(self, record: records.UserScramCredentialRecord) -> None:
        self._scram.writable()[record.name, record.mechanism] = images.ScramCredential(
            record.salt, record.stored_key, record.server_key, record.iterations
        )

    def _remove_user_scram_credential_record(
        self, record: records.RemoveUserScramCredentialRecord
    ) -> None:
        self._scram.writable().pop((record.name, record.mechanism), None)

    def _delegation_token_record(self, record: records.DelegationTokenRecord) -> None:
        self._tokens.writable()[record.token_id] = images.DelegationToken(
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )

    def _remove_delegation_token_record(self, record: records.RemoveDelegationTokenRecord) -> None:
        self._tokens.writable().pop(record.token_id, None)


def merge_partition(
    before: PartitionRegistration, record: records.PartitionChangeRecord
) -> PartitionRegistration:
    """A partition after a change: what the record leaves out stays.

    Any change raises the partition epoch; one that names a leader raises the leader epoch too.
    """
    changes: dict[str, Any] = {"partition_epoch": before.partition_epoch + 1}
    if record.leader != LEADER_UNCHANGED:
        changes["leader"] = record.leader
        changes["leader_epoch"] = before.leader_epoch + 1
    if record.leader_recovery_state != RECOVERY_UNCHANGED:
        changes["leader_recovery_state"] = record.leader_recovery_state
    for name, field in _CHANGES:
        value = getattr(record, name)
        if value is not None:
            changes[field] = tuple(value)
    if record.replicas is not None and record.directories is None:
        known = dict(zip(before.replicas, before.directories, strict=False))
        changes["directories"] = tuple(
            known.get(replica, uuids.UNASSIGNED_DIRECTORY) for replica in record.replicas
        )
    return before._replace(**changes)


_CHANGES = (
    ("replicas", "replicas"),
    ("isr", "isr"),
    ("removing_replicas", "removing_replicas"),
    ("adding_replicas", "adding_replicas"),
    ("directories", "directories"),
    ("eligible_leader_replicas", "elr"),
    ("last_known_elr", "last_known_elr"),
)


def _listeners(
    endpoints: Iterable[records.BrokerEndpoint | records.ControllerEndpoint],
) -> tuple[Listener, ...]:
    return tuple(Listener(e.name, e.host, e.port, e.security_protocol) for e in endpoints)


def _ranges(
    features: Iterable[records.BrokerFeature | records.ControllerFeature],
) -> dict[str, tuple[int, int]]:
    return {
        feature.name: (feature.min_supported_version, feature.max_supported_version)
        for feature in features
    }


_HANDLERS: Mapping[int, Callable[[MetadataDelta, Any], None]] = {
    cast(Any, cls).RECORD_TYPE: handler
    for cls, handler in (
        (records.RegisterBrokerRecord, MetadataDelta._register_broker_record),
        (records.UnregisterBrokerRecord, MetadataDelta._unregister_broker_record),
        (records.TopicRecord, MetadataDelta._topic_record),
        (records.PartitionRecord, MetadataDelta._partition_record),
        (records.ConfigRecord, MetadataDelta._config_record),
        (records.PartitionChangeRecord, MetadataDelta._partition_change_record),
        (records.FenceBrokerRecord, MetadataDelta._fence_broker_record),
        (records.UnfenceBrokerRecord, MetadataDelta._unfence_broker_record),
        (records.RemoveTopicRecord, MetadataDelta._remove_topic_record),
        (records.DelegationTokenRecord, MetadataDelta._delegation_token_record),
        (records.UserScramCredentialRecord, MetadataDelta._user_scram_credential_record),
        (records.FeatureLevelRecord, MetadataDelta._feature_level_record),
        (records.ClientQuotaRecord, MetadataDelta._client_quota_record),
        (records.ProducerIdsRecord, MetadataDelta._producer_ids_record),
        (
            records.BrokerRegistrationChangeRecord,
            MetadataDelta._broker_registration_change_record,
        ),
        (records.AccessControlEntryRecord, MetadataDelta._access_control_entry_record),
        (
            records.RemoveAccessControlEntryRecord,
            MetadataDelta._remove_access_control_entry_record,
        ),
        (records.NoOpRecord, MetadataDelta._no_op_record),
        (records.ZkMigrationStateRecord, MetadataDelta._zk_migration_state_record),
        (
            records.RemoveUserScramCredentialRecord,
            MetadataDelta._remove_user_scram_credential_record,
        ),
        (records.BeginTransactionRecord, MetadataDelta._no_op_record),
        (records.EndTransactionRecord, MetadataDelta._no_op_record),
        (records.AbortTransactionRecord, MetadataDelta._no_op_record),
        (records.RemoveDelegationTokenRecord, MetadataDelta._remove_delegation_token_record),
        (records.RegisterControllerRecord, MetadataDelta._register_controller_record),
        (records.ClearElrRecord, MetadataDelta._clear_elr_record),
    )
}
