"""The log under a coordinator's shards, where its disk fails."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from barnabas.server.coordinator_log import ReplicaPartitionLog
from barnabas.wire.errors import ApiError, ErrorCode


class WornOut:
    """A partition and its log; every read fails."""

    log_end_offset = 5
    high_watermark = 5
    log_start_offset = 0

    def online_log(self) -> WornOut:
        return self

    def read(self, *_args: object, **_named: object) -> Any:
        raise OSError(errno.EIO, "worn out")


class Replicas:
    def __init__(self) -> None:
        self.failures: list[tuple[str | None, int, OSError]] = []

    def find(self, topic: str, index: int) -> WornOut:
        return WornOut()

    def log_failed(self, topic: str | None, index: int, error: OSError) -> None:
        self.failures.append((topic, index, error))


def test_a_shard_that_cannot_be_read_takes_its_directory_offline() -> None:
    """Otherwise its groups would stay without a coordinator for as long as this broker leads."""
    replicas = Replicas()
    log = ReplicaPartitionLog("__consumer_offsets", replicas)  # type: ignore[arg-type]
    with pytest.raises(ApiError) as refused:
        log.read(3, 0, 1000)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    ((topic, index, error),) = replicas.failures
    assert (topic, index, error.errno) == ("__consumer_offsets", 3, errno.EIO)
