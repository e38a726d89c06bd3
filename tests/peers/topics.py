"""Creating topics for tests with librdkafka's admin client, which every test run has."""

from __future__ import annotations

import time
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
    # Apache's controller answers before the broker knows of it.
    deadline = time.monotonic() + TIMEOUT_S
    while not _has_leaders(admin, topic):
        assert time.monotonic() < deadline, f"{topic} has no leaders"
        time.sleep(0.01)


def _has_leaders(admin: AdminClient, topic: str) -> bool:
    found = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
    return found.error is None and all(p.leader >= 0 for p in found.partitions.values())
