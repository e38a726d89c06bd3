"""Questions about settings: describing, altering and listing them."""

from __future__ import annotations

import re
from typing import Any

from barnabas.wire.messages import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from tests.api.interview import Interview, versions_of
from tests.api.topic_questions import make_topic

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
# Settings that tell where a node is, and those that only Barnabas has.
OF_THE_PLACE = re.compile(
    "(advertised.)?listeners$|log.dirs$|process.roles$|controller.(listener.names|quorum.voters)$"
    "|listener.security.protocol.map$|barnabas[.]|max.decompressed.message.bytes$"
)


def describing(*resources: tuple[int, str, list[str] | None], **more: Any) -> Any:
    return describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=keys
            )
            for kind, name, keys in resources
        ],
        **more,
    )


def altering(kind: int, name: str, *changes: tuple[str, int, str | None], **more: Any) -> Any:
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=key, config_operation=operation, value=value
                    )
                    for key, operation, value in changes
                ],
            )
        ],
        **more,
    )


def replacing(kind: int, name: str, *changes: tuple[str, str | None], **more: Any) -> Any:
    return alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    alter_configs.AlterableConfig(name=key, value=value) for key, value in changes
                ],
            )
        ],
        **more,
    )


def ask_about_configs(it: Interview) -> None:
    make_topic(it, "configured", 1, retention_ms="5000", cleanup_policy="compact,delete")
    _describe(it)
    _alter(it)
    _replace(it)
    _list(it)


def _show(it: Interview, question: str, request: Any, version: int) -> None:
    _keep(it, question, it.quietly(request, version), version)


def _keep(it: Interview, question: str, answer: Any, version: int) -> None:
    for result in answer.results:
        result.configs.sort(key=lambda each: each.name)
        for config in result.configs:
            # The words are each project's own; that there are some is what counts.
            if config.documentation is not None:
                config.documentation = "WORDS" if config.documentation else ""
    it.keep(question, answer, version)


def _describe(it: Interview) -> None:
    it.newest(altering(BROKER, "", ("log.retention.ms", SET, "77000000")))
    it.newest(altering(BROKER, "1", ("log.cleaner.threads", SET, "2")))
    it.newest(altering(GROUP, "group-one", ("consumer.session.timeout.ms", SET, "50000")))
    it.newest(altering(CLIENT_METRICS, "metrics-one", ("interval.ms", SET, "5000")))
    chosen = ["retention.ms", "cleanup.policy", "segment.bytes", "no.such", "max.message.bytes"]
    in_broker = [
        "log.retention.ms",
        "log.cleaner.threads",
        "log.segment.bytes",
        "node.id",
        "broker.rack",
        "num.partitions",
        "ssl.keystore.password",
        "offsets.topic.num.partitions",
        "message.max.bytes",
        "log.cleanup.policy",
        "background.threads",
        "no.such",
    ]

    def seen() -> bool:
        answer = it.newest(describing((BROKER, "1", ["log.cleaner.threads"])))
        groups = it.newest(describing((GROUP, "group-one", ["consumer.session.timeout.ms"])))
        metrics = it.newest(describing((CLIENT_METRICS, "metrics-one", ["interval.ms"])))
        return (
            answer.results[0].configs[0].value == "2"
            and groups.results[0].configs[0].value == "50000"
            and bool(metrics.results[0].configs)
            and metrics.results[0].configs[0].value == "5000"
        )

    it.wait(seen)
    full: dict[str, bool] = {"include_synonyms": True, "include_documentation": True}
    for version in versions_of(describe_configs.DescribeConfigsRequest):
        for question, request in {
            "topic": describing((TOPIC, "configured", None)),
            "topic in full": describing((TOPIC, "configured", None), **full),
            "topic, chosen": describing((TOPIC, "configured", chosen), include_synonyms=True),
            "topic, none": describing((TOPIC, "configured", [])),
            "unknown topic": describing((TOPIC, "no-such-topic", None)),
            "bad topic name": describing((TOPIC, "a b", None)),
            "no topic name": describing((TOPIC, "", None)),
            "broker": describing((BROKER, "1", in_broker)),
            "broker in full": describing((BROKER, "1", in_broker), **full),
            "all brokers": describing((BROKER, "", None), include_synonyms=True),
            "another broker": describing((BROKER, "9", None)),
            "no number": describing((BROKER, "one", None)),
            "group": describing((GROUP, "group-one", None), include_synonyms=True),
            "another group": describing((GROUP, "no-such-group", None)),
            "no group name": describing((GROUP, "", None)),
            "metrics": describing((CLIENT_METRICS, "metrics-one", None), include_synonyms=True),
            "other metrics": describing((CLIENT_METRICS, "no-such", None)),
            "no metrics name": describing((CLIENT_METRICS, "", None)),
            "loggers of another": describing((BROKER_LOGGER, "9", [])),
            "loggers of no number": describing((BROKER_LOGGER, "one", [])),
            "loggers of nobody": describing((BROKER_LOGGER, "", [])),
            "unknown logger": describing((BROKER_LOGGER, "1", ["no.such"])),
            "unknown type": describing((99, "x", None)),
            "several": describing(
                (TOPIC, "no-such-topic", None), (TOPIC, "configured", ["retention.ms"])
            ),
            "twice": describing(
                (TOPIC, "configured", ["retention.ms"]), (TOPIC, "configured", ["retention.ms"])
            ),
            "nothing": describing(),
        }.items():
            _show(it, question, request, version)
    for version in versions_of(describe_configs.DescribeConfigsRequest):
        answer = it.quietly(describing((BROKER, "1", None), **full), version)
        for result in answer.results:
            result.configs = [each for each in result.configs if not OF_THE_PLACE.match(each.name)]
        _keep(it, "whole broker", answer, version)


def _alter(it: Interview) -> None:
    for version in versions_of(incremental_alter_configs.IncrementalAlterConfigsRequest):
        topic = f"altered-v{version}"
        make_topic(it, topic)

        def ask(
            question: str, kind: int, name: str, *changes: Any, v: int = version, **more: Any
        ) -> None:
            it.ask(question, altering(kind, name, *changes, **more), v)

        ask("set", TOPIC, topic, ("retention.ms", SET, "1000"), ("segment.ms", SET, "2000"))
        ask("validate only", TOPIC, topic, ("retention.ms", SET, "3000"), validate_only=True)
        ask("validate only, bad", TOPIC, topic, ("retention.ms", SET, "x"), validate_only=True)
        ask("delete", TOPIC, topic, ("segment.ms", DELETE, None))
        ask("delete what is not set", TOPIC, topic, ("flush.ms", DELETE, None))
        ask("delete unknown", TOPIC, topic, ("no.such", DELETE, None))
        ask("append", TOPIC, topic, ("cleanup.policy", APPEND, "compact"))
        ask("append again", TOPIC, topic, ("cleanup.policy", APPEND, "compact"))
        ask("subtract", TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete"))
        ask("append to number", TOPIC, topic, ("retention.ms", APPEND, "1"))
        ask("subtract from number", TOPIC, topic, ("retention.ms", SUBTRACT, "1"))
        ask("append to unknown", TOPIC, topic, ("no.such", APPEND, "1"))
        ask("unknown", TOPIC, topic, ("no.such", SET, "1"))
        ask("bad value", TOPIC, topic, ("retention.ms", SET, "soon"))
        ask("out of range", TOPIC, topic, ("segment.bytes", SET, "1"))
        ask("bad choice", TOPIC, topic, ("cleanup.policy", SET, "burn"))
        ask("null", TOPIC, topic, ("retention.ms", SET, None))
        ask("null append", TOPIC, topic, ("cleanup.policy", APPEND, None))
        ask("twice", TOPIC, topic, ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
        ask("unknown operation", TOPIC, topic, ("retention.ms", 9, "1"))
        ask("no changes", TOPIC, topic)
        ask("unknown topic", TOPIC, "no-such-topic", ("retention.ms", SET, "1"))
        ask("bad topic name", TOPIC, "a b", ("retention.ms", SET, "1"))
        ask("no topic name", TOPIC, "", ("retention.ms", SET, "1"))
        ask("broker", BROKER, "1", ("log.cleaner.threads", SET, "1"))
        ask("all brokers", BROKER, "", ("log.retention.ms", SET, "88000000"))
        ask("fixed of broker", BROKER, "1", ("node.id", SET, "5"))
        ask("of one broker for all", BROKER, "", ("ssl.keystore.location", SET, "/x"))
        ask("bad of broker", BROKER, "1", ("log.cleaner.threads", SET, "many"))
        ask("unknown of broker", BROKER, "1", ("no.such", SET, "many"))
        ask("another broker", BROKER, "9", ("log.cleaner.threads", SET, "1"))
        ask("no number", BROKER, "one", ("log.cleaner.threads", SET, "1"))
        ask("group", GROUP, "group-two", ("consumer.heartbeat.interval.ms", SET, "6000"))
        ask("bad of group", GROUP, "group-two", ("consumer.heartbeat.interval.ms", SET, "-1"))
        ask("unknown of group", GROUP, "group-two", ("no.such", SET, "-1"))
        ask("no group name", GROUP, "", ("consumer.heartbeat.interval.ms", SET, "6000"))
        ask("metrics", CLIENT_METRICS, "metrics-two", ("interval.ms", SET, "6000"))
        ask("bad of metrics", CLIENT_METRICS, "metrics-two", ("interval.ms", SET, "1"))
        ask("unknown of metrics", CLIENT_METRICS, "metrics-two", ("no.such", SET, "1"))
        ask("no metrics name", CLIENT_METRICS, "", ("interval.ms", SET, "6000"))
        ask("unknown type", 99, "x", ("a", SET, "1"))
        ask("logger", BROKER_LOGGER, "1", ("root", SET, "WARN"), validate_only=True)
        ask("bad level", BROKER_LOGGER, "1", ("root", SET, "warn"))
        ask("no level", BROKER_LOGGER, "1", ("root", SET, None))
        ask("level deleted", BROKER_LOGGER, "1", ("root", DELETE, None))
        ask("level appended", BROKER_LOGGER, "1", ("root", APPEND, "INFO"))
        ask("level subtracted", BROKER_LOGGER, "1", ("root", SUBTRACT, "INFO"))
        ask("level twice", BROKER_LOGGER, "1", ("root", SET, "INFO"), ("root", SET, "WARN"))
        ask("unknown logger", BROKER_LOGGER, "1", ("no.such", SET, "INFO"))
        ask("unknown logger deleted", BROKER_LOGGER, "1", ("no.such", DELETE, None))
        ask("logger of another", BROKER_LOGGER, "9", ("root", SET, "INFO"))
        ask("logger of nobody", BROKER_LOGGER, "", ("root", SET, "INFO"))
        ask("no changes of loggers", BROKER_LOGGER, "1")
        request = altering(BROKER_LOGGER, "1", ("root", SET, "INFO"))
        request.resources *= 2
        it.ask("loggers twice", request, version)
        request = altering(TOPIC, topic, ("retention.ms", SET, "1"))
        request.resources *= 2
        it.ask("resource twice", request, version)
        request = altering(TOPIC, topic, ("retention.ms", SET, "1"))
        request.resources += altering(TOPIC, topic, ("segment.ms", SET, "2")).resources
        it.ask("resource twice, differently", request, version)
        request = altering(TOPIC, "no-such-topic", ("retention.ms", SET, "1"))
        request.resources += altering(TOPIC, topic, ("retention.ms", SET, "4000")).resources
        it.ask("several", request, version)
        it.ask("nothing", type(request)(), version)
        keys = ["retention.ms", "segment.ms", "cleanup.policy"]
        shown = describing((TOPIC, topic, keys))

        def changed(shown: Any = shown) -> bool:
            configs = {each.name: each.value for each in it.newest(shown).results[0].configs}
            return configs["retention.ms"] == "4000"

        it.wait(changed)
        _show(it, f"after changes by {version}", shown, 4)


def _replace(it: Interview) -> None:
    for version in versions_of(alter_configs.AlterConfigsRequest):
        topic = f"replaced-v{version}"
        make_topic(it, topic, 1, retention_ms="7000")

        def ask(
            question: str, kind: int, name: str, *changes: Any, v: int = version, **more: Any
        ) -> None:
            it.ask(question, replacing(kind, name, *changes, **more), v)

        ask("validate only", TOPIC, topic, ("retention.ms", "3000"), validate_only=True)
        ask("unknown", TOPIC, topic, ("no.such", "1"))
        ask("bad value", TOPIC, topic, ("retention.ms", "soon"))
        ask("null", TOPIC, topic, ("retention.ms", None))
        ask("twice", TOPIC, topic, ("retention.ms", "1"), ("retention.ms", "2"))
        ask("unknown topic", TOPIC, "no-such-topic", ("retention.ms", "1"))
        ask("bad topic name", TOPIC, "a b", ("retention.ms", "1"))
        ask("no topic name", TOPIC, "", ("retention.ms", "1"))
        ask("fixed of broker", BROKER, "1", ("node.id", "5"))
        ask("bad of broker", BROKER, "1", ("log.cleaner.threads", "many"))
        ask("another broker", BROKER, "9", ("log.cleaner.threads", "1"))
        ask("no number", BROKER, "one", ("log.cleaner.threads", "1"))
        ask("loggers", BROKER_LOGGER, "1", ("kafka", "INFO"))
        ask("unknown type", 99, "x", ("a", "1"))
        it.ask("nothing", alter_configs.AlterConfigsRequest(), version)
        ask("set", TOPIC, topic, ("segment.ms", "9000"))
        shown = describing((TOPIC, topic, ["retention.ms", "segment.ms"]))

        def changed(shown: Any = shown) -> bool:
            configs = {each.name: each.value for each in it.newest(shown).results[0].configs}
            return configs["segment.ms"] == "9000"

        it.wait(changed)
        _show(it, f"after replacing by {version}", shown, 4)


def _list(it: Interview) -> None:
    cls = list_config_resources.ListConfigResourcesRequest

    def keep(question: str, kinds: list[int], version: int) -> None:
        answer = it.quietly(cls(resource_types=kinds), version)
        known = ("configured", "1", "group-one", "metrics-one")
        answer.config_resources = sorted(
            (each for each in answer.config_resources if each.resource_name in known),
            key=lambda each: (each.resource_type, each.resource_name),
        )
        it.keep(question, answer, version)

    keep("all that 0 knows", [], 0)
    keep("all", [], 1)
    for kind in (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, 0, 1, 99):
        keep(f"type {kind}", [kind], 1)
    keep("two types", [TOPIC, GROUP], 1)
    keep("a known and an unknown type", [TOPIC, 99], 1)
