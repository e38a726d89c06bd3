"""Requests to a controller as lines of text, and its answers as lines.

The same words are used on a controller without a network (`test_scripts.py`) and on a connection to
a real broker, ours or Apache Kafka's (`tests/peers/test_controller_scripts.py`), so that what was
recorded of the one can be compared with the other.

    create NAME [partitions=3] [factor=1] [assign=0:1/1:1] [config.KEY=VALUE] [+ NAME ...] [validate]
    delete NAME | id:NAME | id:? ...
    partitions NAME count=3 [assign=1/1] [validate]
    alter KIND NAME KEY=VALUE KEY+=VALUE KEY-=VALUE KEY! KEY=(null) [+ KIND NAME ...] [validate]
    replace KIND NAME KEY=VALUE [validate]
    features NAME=LEVEL[:upgrade|safe|unsafe|KIND] [validate]

A KIND is topic, broker, group, metrics or logger; `""` is the resource of all brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from barnabas.metadata.image import ResourceType
from barnabas.wire import uuids
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages import alter_configs, create_partitions, create_topics
from barnabas.wire.messages import delete_topics as deletion
from barnabas.wire.messages import incremental_alter_configs as incremental
from barnabas.wire.messages import update_features as features

KINDS = {
    "topic": ResourceType.TOPIC,
    "broker": ResourceType.BROKER,
    "group": ResourceType.GROUP,
    "metrics": ResourceType.CLIENT_METRICS,
    "logger": ResourceType.BROKER_LOGGER,
    "nonsense": 77,
}
NAMES = {number: name for name, number in KINDS.items()}
UPGRADES = {"upgrade": 1, "safe": 2, "unsafe": 3}
OPERATIONS = (("+=", 2), ("-=", 3), ("=", 0))
VERSIONS = {"create": 7, "delete": 6, "partitions": 3, "alter": 1, "replace": 2, "features": 2}

Make = Callable[[list[str], bool, Mapping[str, bytes]], Message]
Show = Callable[[Any], list[str]]


def error(code: int, message: str | None) -> str:
    return ErrorCode(code).name if message is None else f"{ErrorCode(code).name} {message}"


def _parts(words: list[str]) -> list[list[str]]:
    """What stands between the plus signs."""
    parts: list[list[str]] = [[]]
    for word in words:
        if word == "+":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _replicas(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def _create(words: list[str], validate: bool, ids: Mapping[str, bytes]) -> Message:
    topics = []
    for name, *options in _parts(words):
        topic = create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for option in options:
            key, value = option.split("=", 1)
            if key == "partitions":
                topic.num_partitions = int(value)
            elif key == "factor":
                topic.replication_factor = int(value)
            elif key == "assign":
                for part in value.split("/"):
                    index, _, replicas = part.partition(":")
                    topic.assignments.append(
                        create_topics.CreatableReplicaAssignment(
                            partition_index=int(index), broker_ids=_replicas(replicas)
                        )
                    )
            else:
                topic.configs.append(
                    create_topics.CreatableTopicConfig(
                        name=key.removeprefix("config."), value=None if value == "(null)" else value
                    )
                )
        topics.append(topic)
    return create_topics.CreateTopicsRequest(
        topics=topics, timeout_ms=10_000, validate_only=validate
    )


def _created(response: create_topics.CreateTopicsResponse) -> list[str]:
    lines = []
    for topic in sorted(response.topics, key=lambda each: each.name):
        line = f"{topic.name}: {error(topic.error_code, topic.error_message)}"
        if topic.error_code == ErrorCode.NONE:
            own = [f" {c.name}={c.value}" for c in topic.configs or () if c.config_source == 1]
            line += f" partitions={topic.num_partitions} factor={topic.replication_factor}"
            line += "".join(sorted(own))
        lines.append(line)
    return lines


def _delete(words: list[str], validate: bool, ids: Mapping[str, bytes]) -> Message:
    topics = []
    for word in words:
        if word == "nothing":
            topics.append(deletion.DeleteTopicState(name=None))
        elif word.startswith("both:"):
            name = word[5:]
            topics.append(deletion.DeleteTopicState(name=name, topic_id=ids[name]))
        elif word.startswith("id:"):
            topic_id = ids.get(word[3:], b"?" * 16)
            topics.append(deletion.DeleteTopicState(name=None, topic_id=topic_id))
        else:
            topics.append(deletion.DeleteTopicState(name=word))
    return deletion.DeleteTopicsRequest(topics=topics, timeout_ms=10_000)


def _deleted(response: deletion.DeleteTopicsResponse) -> list[str]:
    return sorted(
        f"{topic.name or '-'}{'' if topic.topic_id == uuids.ZERO else ' with id'}: "
        f"{error(topic.error_code, topic.error_message)}"
        for topic in response.responses
    )


def _partitions(words: list[str], validate: bool, ids: Mapping[str, bytes]) -> Message:
    topics = []
    for name, *options in _parts(words):
        topic = create_partitions.CreatePartitionsTopic(name=name, count=1, assignments=None)
        for option in options:
            key, value = option.split("=", 1)
            if key == "count":
                topic.count = int(value)
            else:
                topic.assignments = [
                    create_partitions.CreatePartitionsAssignment(broker_ids=_replicas(part))
                    for part in value.split("/")
                ]
        topics.append(topic)
    return create_partitions.CreatePartitionsRequest(
        topics=topics, timeout_ms=10_000, validate_only=validate
    )


def _more_partitions(response: create_partitions.CreatePartitionsResponse) -> list[str]:
    return sorted(
        f"{each.name}: {error(each.error_code, each.error_message)}" for each in response.results
    )


def _change(word: str) -> incremental.AlterableConfig:
    if word.endswith("!"):
        return incremental.AlterableConfig(name=word[:-1], config_operation=1, value=None)
    for sign, operation in OPERATIONS:
        name, found, value = word.partition(sign)
        if found and "=" not in name:
            return incremental.AlterableConfig(
                name=name,
                config_operation=operation,
                value=None if value == "(null)" else value,
            )
    raise AssertionError(word)


def _alter(words: list[str], validate: bool, ids: Mapping[str, bytes]) -> Message:
    return incremental.IncrementalAlterConfigsRequest(
        validate_only=validate,
        resources=[
            incremental.AlterConfigsResource(
                resource_type=KINDS[kind],
                resource_name=name,
                configs=[_change(each) for each in changes],
            )
            for kind, name, *changes in _parts(words)
        ],
    )


def _replace(words: list[str], validate: bool, ids: Mapping[str, bytes]) -> Message:
    resources = []
    for kind, name, *changes in _parts(words):
        configs = []
        for each in changes:
            key, _, value = each.partition("=")
            configs.append(
                alter_configs.AlterableConfig(name=key, value=None if value == "(null)" else value)
            )
        resources.append(
            alter_configs.AlterConfigsResource(
                resource_type=KINDS[kind], resource_name=name, configs=configs
            )
        )
    return alter_configs.AlterConfigsRequest(validate_only=validate, resources=resources)


def _altered(response: Any) -> list[str]:
    return sorted(
        f"{NAMES[each.resource_type]} {each.resource_name or '(all)'}: "
        f"{error(each.error_code, each.error_message or None)}"
        for each in response.responses
    )


def _features(words: list[str], validate: bool, ids: Mapping[str, bytes]) -> Message:
    updates = []
    for word in words:
        name, _, rest = word.partition("=")
        level, _, kind = rest.partition(":")
        updates.append(
            features.FeatureUpdateKey(
                feature=name,
                max_version_level=int(level),
                upgrade_type=UPGRADES.get(kind or "upgrade", 9),
            )
        )
    return features.UpdateFeaturesRequest(
        feature_updates=updates, timeout_ms=10_000, validate_only=validate
    )


def _updated(response: features.UpdateFeaturesResponse) -> list[str]:
    return [f"features: {error(response.error_code, response.error_message or None)}"]


REQUESTS: Mapping[str, tuple[Make, Show]] = {
    "create": (_create, _created),
    "delete": (_delete, _deleted),
    "partitions": (_partitions, _more_partitions),
    "alter": (_alter, _altered),
    "replace": (_replace, _altered),
    "features": (_features, _updated),
}


def make(words: list[str], ids: Mapping[str, bytes]) -> Message:
    """The request that a line asks for; `ids` has the ids of topics by name."""
    name, *arguments = words
    validate = arguments[-1:] == ["validate"]
    return REQUESTS[name][0](arguments[:-1] if validate else arguments, validate, ids)


def show(command: str, response: Any) -> list[str]:
    """An answer as lines that are the same for every broker that answers alike."""
    return REQUESTS[command][1](response)
