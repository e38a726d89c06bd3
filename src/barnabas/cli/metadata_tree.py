"""A metadata image as a tree of directories and files, laid out as Kafka's metadata shell does.

A directory is a dict, a file a `Leaf`: the same facts as data and as the text that Kafka's shell
prints. Leaves make their text when somebody reads it, so a tree of many partitions costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Union

from barnabas.metadata.features import METADATA_VERSION, level_name
from barnabas.metadata.image import (
    Acl,
    BrokerRegistration,
    ControllerRegistration,
    MetadataImage,
    PartitionRegistration,
    ResourceType,
    TopicImage,
)
from barnabas.wire.uuids import to_text

if TYPE_CHECKING:
    from barnabas.cli.metadata_source import Loaded

RESOURCES = {
    ResourceType.TOPIC: "TOPIC",
    ResourceType.BROKER: "BROKER",
    ResourceType.BROKER_LOGGER: "BROKER_LOGGER",
    ResourceType.CLIENT_METRICS: "CLIENT_METRICS",
    ResourceType.GROUP: "GROUP",
}
MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
RECOVERY = {0: "RECOVERED", 1: "RECOVERING"}
PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A file. `java` is its text in Kafka's shell; `data` the same for programs."""

    data: Any
    java: Callable[[], str] | None = None

    @property
    def text(self) -> str:
        return str(self.data) if self.java is None else self.java()


Tree = dict[str, Union["Tree", Leaf]]


def build(loaded: Loaded, version: str, commit: str = "unknown") -> Tree:
    image = loaded.image
    return {
        "image": {
            "acls": {"byId": {to_text(i): _acl(a) for i, a in _sorted(image.acls.items())}},
            "clientQuotas": _quotas(image),
            "cluster": {
                "brokers": {str(i): _broker(b) for i, b in _sorted(image.brokers.items())},
                "controllers": {
                    str(i): _controller(c) for i, c in _sorted(image.controllers.items())
                },
            },
            "configs": _configs(image),
            "delegationToken": {
                name: Leaf(str(token)) for name, token in _sorted(image.delegation_tokens.items())
            },
            "features": _features(image),
            "producerIds": {"nextProducerId": Leaf(image.producer_ids.next_producer_id or -1)},
            "provenance": _provenance(loaded),
            "scram": _scram(image),
            "topics": {
                "byId": {
                    to_text(t.topic_id): _topic(t)
                    for t in sorted(image.topics.values(), key=lambda t: to_text(t.topic_id))
                },
                "byName": {name: _topic(t) for name, t in _sorted(image.topics.items())},
            },
        },
        "local": {"commitId": Leaf(commit), "version": Leaf(version)},
    }


def _sorted(items: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    return sorted(items, key=lambda item: item[0])


def _provenance(loaded: Loaded) -> Leaf:
    image = loaded.image
    seconds, millis = divmod(loaded.timestamp_ms, 1000)
    moment = datetime.fromtimestamp(seconds, UTC)
    fraction = f".{millis:03}".rstrip("0").rstrip(".")
    shown = f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z[UTC]"
    data = {"offset": image.offset, "epoch": image.epoch, "timestamp_ms": loaded.timestamp_ms}
    return Leaf(data, lambda: f"offset {image.offset}, epoch {image.epoch}, time {shown}")


def _features(image: MetadataImage) -> Tree:
    levels = image.features.finalized_levels
    found: Tree = {
        f"finalized_{name}": Leaf(level)
        for name, level in sorted(levels.items())
        if name != METADATA_VERSION
    }
    name = (
        level_name(METADATA_VERSION, levels[METADATA_VERSION]) if METADATA_VERSION in levels else ""
    )
    found["metadataVersion"] = Leaf(
        name or None, lambda: f"Optional[{name}]" if name else "Optional.empty"
    )
    return found


def _configs(image: MetadataImage) -> Tree:
    found: Tree = {}
    for (kind, name), settings in image.configs.items():
        if settings:
            label = RESOURCES.get(kind, str(kind)) + (f":{name}" if name else "")
            found[label] = {key: Leaf(settings[key]) for key in sorted(settings)}
    return dict(sorted(found.items()))


def _quotas(image: MetadataImage) -> Tree:
    found: Tree = {}
    for entity, quotas in image.client_quotas.items():
        label = ",".join(f"{kind}({_escaped(name)})" for kind, name in sorted(entity))
        found[label] = {key: Leaf(value) for key, value in sorted(quotas.items())}
    return dict(sorted(found.items()))


def _escaped(name: str | None) -> str:
    return "<default>" if name is None else name


def _scram(image: MetadataImage) -> Tree:
    found: Tree = {name: {} for name in MECHANISMS.values()}
    for (user, mechanism), credential in _sorted(image.scram.items()):
        users = found.setdefault(MECHANISMS.get(mechanism, str(mechanism)), {})
        assert isinstance(users, dict)
        users[user] = Leaf({"iterations": credential.iterations, "secrets": "[redacted]"})
    return found


def _acl(acl: Acl) -> Leaf:
    return Leaf(dict(zip(acl._fields, acl, strict=True)))


def _topic(topic: TopicImage) -> Tree:
    found: Tree = {str(i): _partition(p) for i, p in sorted(topic.partitions.items())}
    found = dict(sorted(found.items()))
    found["id"] = Leaf(to_text(topic.topic_id))
    found["name"] = Leaf(topic.name)
    return found


def _partition(p: PartitionRegistration) -> Leaf:
    directories = [to_text(d) for d in p.directories]
    recovery = RECOVERY.get(p.leader_recovery_state, str(p.leader_recovery_state))
    data = {
        "replicas": list(p.replicas),
        "directories": directories,
        "isr": list(p.isr),
        "removingReplicas": list(p.removing_replicas),
        "addingReplicas": list(p.adding_replicas),
        "elr": list(p.elr),
        "lastKnownElr": list(p.last_known_elr),
        "leader": p.leader,
        "leaderRecoveryState": recovery,
        "leaderEpoch": p.leader_epoch,
        "partitionEpoch": p.partition_epoch,
    }
    return Leaf(data, lambda: f"PartitionRegistration({_java_fields(data)})")


def _java_fields(data: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_java(value)}" for name, value in data.items())


def _java(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_java, value))}]"
    return str(value)


def _listeners(node: BrokerRegistration | ControllerRegistration) -> tuple[list[Any], str]:
    data = [
        {
            "name": at.name,
            "host": at.host,
            "port": at.port,
            "security": PROTOCOLS.get(at.security_protocol, str(at.security_protocol)),
        }
        for at in node.listeners
    ]
    text = ", ".join(
        f"Endpoint(listenerName='{at['name']}', securityProtocol={at['security']}, "
        f"host='{at['host']}', port={at['port']})"
        for at in data
    )
    return data, text


def _ranges(features: Mapping[str, tuple[int, int]]) -> tuple[dict[str, str], str]:
    data = {name: f"{low}-{high}" for name, (low, high) in sorted(features.items())}
    return data, ", ".join(f"{name}: {span}" for name, span in data.items())


def _broker(broker: BrokerRegistration) -> Leaf:
    listeners, listeners_text = _listeners(broker)
    features, features_text = _ranges(broker.features)
    directories = [to_text(d) for d in broker.directories]
    cordoned = [to_text(d) for d in broker.cordoned_directories or ()]
    rack = broker.rack
    data = {
        "id": broker.broker_id,
        "epoch": broker.epoch,
        "incarnationId": to_text(broker.incarnation_id),
        "listeners": listeners,
        "supportedFeatures": features,
        "rack": rack,
        "fenced": broker.fenced,
        "inControlledShutdown": broker.in_controlled_shutdown,
        "isMigratingZkBroker": broker.is_migrating_zk_broker,
        "directories": directories,
        "cordonedDirectories": cordoned,
    }

    def text() -> str:
        shown = {
            **data,
            "listeners": f"[{listeners_text}]",
            "supportedFeatures": f"{{{features_text}}}",
            "rack": f"Optional[{rack}]" if rack is not None else "Optional.empty",
        }
        return f"BrokerRegistration({_java_fields(shown)})"

    return Leaf(data, text)


def _controller(controller: ControllerRegistration) -> Leaf:
    listeners, listeners_text = _listeners(controller)
    features, features_text = _ranges(controller.features)
    data = {
        "id": controller.controller_id,
        "incarnationId": to_text(controller.incarnation_id),
        "zkMigrationReady": controller.zk_migration_ready,
        "listeners": listeners,
        "supportedFeatures": features,
    }

    def text() -> str:
        shown = {
            **data,
            "listeners": f"[{listeners_text}]",
            "supportedFeatures": f"{{{features_text}}}",
        }
        return f"ControllerRegistration({_java_fields(shown)})"

    return Leaf(data, text)
