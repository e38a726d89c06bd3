"""Creating topics for tests with librdkafka's admin client, which every test run has."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient, NewTopic

TIMEOUT_S = 20.0


def create_topic(
    bootstrap: str, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, partitions, 1, config=dict(config or {}))
    for future in admin.create_topics([new], operation_timeout=TIMEOUT_S).values():
        future.result(TIMEOUT_S)
