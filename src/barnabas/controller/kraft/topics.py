"""Topics: creating and deleting them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from barnabas.config.definition import ConfigError
from barnabas.config.describe import BrokerSources, describe_topic
from barnabas.config.topic import validate_topic_configs
from barnabas.controller.kraft.decision import MAX_RECORDS_PER_OPERATION, Decision, check_size
from barnabas.controller.kraft.placement import (
    check_manual_assignment,
    default_directory,
    place_replicas,
)
from barnabas.controller.topic_names import (
    collision_key,
    has_collision_characters,
    topic_name_error,
)
from barnabas.metadata.image import (
    MetadataImage,
    PartitionRegistration,
    ResourceType,
    TopicImage,
)
from barnabas.metadata.snapshot import partition_record
from barnabas.wire import uuids
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from barnabas.wire.records.metadata import ConfigRecord, RemoveTopicRecord, TopicRecord

if TYPE_CHECKING:
    from barnabas.controller.kraft.decision import View
    from barnabas.wire.message import Message

METADATA_TOPIC: Final = "__cluster_metadata"
DEFAULT: Final = -1


def create_topics(view: View, request: CreateTopicsRequest) -> Decision[CreateTopicsResponse]:
    try:
        _check_total(view, request)
        return _create_topics(view, request)
    except ApiError as error:
        refused = [_refused(topic.name, error) for topic in request.topics]
        return Decision([], CreateTopicsResponse(topics=refused))


def _create_topics(view: View, request: CreateTopicsRequest) -> Decision[CreateTopicsResponse]:
    counts = Counter(topic.name for topic in request.topics)
    names = _Names(view.image)
    shown = _Shown(view)
    records: list[Message] = []
    results: list[CreatableTopicResult] = []
    for topic in request.topics:
        if counts[topic.name] > 1:
            if all(result.name != topic.name for result in results):
                results.append(
                    _refused(
                        topic.name, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                    )
                )
            continue
        try:
            names.check(topic.name)
            made, result = _create(view, topic, shown)
        except ApiError as error:
            results.append(_refused(topic.name, error))
            continue
        records += made
        results.append(result)
    check_size(records)
    response = CreateTopicsResponse(topics=results)
    return Decision([] if request.validate_only else records, response)


def _check_total(view: View, request: CreateTopicsRequest) -> None:
    """Before anything is decided: one request makes so many partitions or none at all."""
    total = 0
    for topic in request.topics:
        if topic.assignments:
            total += len(topic.assignments)
        elif topic.num_partitions == DEFAULT:
            total += view.config.num_partitions
        else:
            total += max(0, topic.num_partitions)
    if total > MAX_RECORDS_PER_OPERATION:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
        )


class _Names:
    """The names that are taken. As in Kafka, topics of one request are not held against each other."""

    def __init__(self, image: MetadataImage) -> None:
        self._topics = image.topics
        self._colliding: dict[str, str] | None = None

    def check(self, name: str) -> None:
        problem = topic_name_error(name)
        if problem is not None:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        if name == METADATA_TOPIC:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
            )
        if name in self._topics:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if has_collision_characters(name):
            other = self._collisions().get(collision_key(name))
            if other is not None:
                raise ApiError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"Topic '{name}' collides with existing topic: {other}",
                )

    def _collisions(self) -> dict[str, str]:
        if self._colliding is None:
            self._colliding = {
                collision_key(name): name for name in self._topics if has_collision_characters(name)
            }
        return self._colliding


def _refused(name: str, error: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


def _create(
    view: View, topic: CreatableTopic, shown: _Shown
) -> tuple[list[Message], CreatableTopicResult]:
    image = view.image
    configs = _configs(view, topic)
    if topic.assignments:
        placed = _manual(view.image, topic)
    else:
        placed = _automatic(view, topic)
    topic_id = uuids.random_uuid(view.randomness.randbytes)
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(
            resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value
        )
        for name, value in configs.items()
    ]
    level = image.features.metadata_version
    for index, replicas in enumerate(placed):
        partition = new_partition(image, index, replicas)
        records.append(partition_record(topic_id, index, partition, level))
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(placed),
        replication_factor=len(placed[0]),
        configs=shown.of(configs),
    )
    return records, result


def _configs(view: View, topic: CreatableTopic) -> dict[str, str]:
    given: dict[str, str] = {}
    empty = [config.name for config in topic.configs if config.value is None]
    if empty:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(empty)}",
        )
    for config in topic.configs:
        assert config.value is not None
        given[config.name] = config.value
    try:
        validate_topic_configs(given, view.config.topic_defaults)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return given


def _automatic(view: View, topic: CreatableTopic) -> list[list[int]]:
    factor, count = topic.replication_factor, topic.num_partitions
    if factor < DEFAULT or factor == 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if count < DEFAULT or count == 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if count == DEFAULT:
        count = view.config.num_partitions
    if factor == DEFAULT:
        factor = view.config.default_replication_factor
    return place_replicas(view.image.brokers.values(), 0, count, factor, view.randomness)


def _manual(image: MetadataImage, topic: CreatableTopic) -> list[list[int]]:
    if topic.replication_factor != DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to "
            "-1.",
        )
    if topic.num_partitions != DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    placed: dict[int, list[int]] = {}
    factor: int | None = None
    for assignment in topic.assignments:
        index = assignment.partition_index
        if index in placed:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        check_manual_assignment(image, assignment.broker_ids, factor)
        factor = len(assignment.broker_ids)
        placed[index] = list(assignment.broker_ids)
        check_some_active(image, index, placed[index])
    if sorted(placed) != list(range(len(placed))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [placed[index] for index in range(len(placed))]


def check_some_active(image: MetadataImage, index: int, replicas: Iterable[int]) -> None:
    if not any(image.brokers[broker_id].active for broker_id in replicas):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {index} are "
            "fenced or in controlled shutdown.",
        )


def new_partition(image: MetadataImage, index: int, replicas: list[int]) -> PartitionRegistration:
    """A partition as it begins: those in service are in sync, the first of them leads."""
    isr = tuple(broker_id for broker_id in replicas if image.brokers[broker_id].active)
    return PartitionRegistration(
        replicas=tuple(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(default_directory(image, broker_id) for broker_id in replicas),
    )


class _Shown:
    """Every setting of new topics; topics of one request that set the same share the answer."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._known: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}

    def of(self, own: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        key = tuple(sorted(own.items()))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = effective_configs(self._view, own)
        return found


def effective_configs(view: View, own: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    """Every setting that a topic with these own settings has."""
    sources = BrokerSources(
        per_broker=view.image.config(ResourceType.BROKER, str(view.node_id)),
        for_all=view.image.config(ResourceType.BROKER, ""),
        static=view.static_config.given,
    )
    return [
        CreatableTopicConfigs(
            name=each.name,
            value=each.value,
            read_only=each.read_only,
            config_source=each.source,
            is_sensitive=each.sensitive,
        )
        for each in sorted(describe_topic(own, view.config, sources), key=lambda each: each.name)
    ]


def delete_topics(view: View, request: DeleteTopicsRequest) -> Decision[DeleteTopicsResponse]:
    records: list[Message] = []
    results: list[DeletableTopicResult] = []
    names = Counter(topic.name for topic in request.topics if topic.name is not None)
    ids = Counter(topic.topic_id for topic in request.topics if topic.topic_id != uuids.ZERO)
    told: set[str | bytes] = set()
    both = {topic.topic_id for name in names if (topic := view.image.topics.get(name))} & set(ids)
    for asked in request.topics:
        key: str | bytes = asked.topic_id if asked.name is None else asked.name
        try:
            if names[asked.name or ""] > 1 or ids[asked.topic_id] > 1:
                if key in told:
                    continue
                told.add(key)
                what = "name" if asked.name is not None else "id"
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
            topic = _to_delete(view.image, asked)
            if topic.topic_id in both:
                if asked.name is None:
                    continue
                asked.topic_id = topic.topic_id
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    "The provided topic name maps to an ID that was already supplied.",
                )
        except ApiError as error:
            results.append(
                DeletableTopicResult(
                    name=asked.name,
                    topic_id=asked.topic_id,
                    error_code=error.code,
                    error_message=error.message,
                )
            )
            continue
        records.append(RemoveTopicRecord(topic_id=topic.topic_id))
        results.append(DeletableTopicResult(name=topic.name, topic_id=topic.topic_id))
    check_size(records)
    return Decision(records, DeleteTopicsResponse(responses=results))


def _to_delete(image: MetadataImage, asked: DeleteTopicState) -> TopicImage:
    if asked.name is None:
        if asked.topic_id == uuids.ZERO:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        found = image.topics_by_id.get(asked.topic_id)
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        return found
    if asked.topic_id != uuids.ZERO:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
        )
    found = image.topics.get(asked.name)
    if found is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return found
