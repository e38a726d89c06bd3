"""Settings that are changed while the node runs take hold at once, and again after a restart."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from barnabas.server.request_log import logger as request_logger
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.metadata import MetadataRequest
from tests.server.running import BROKER, TOPIC, alter, create_topic, running, send
from tests.server.serving import on_loop

OK = (0, None)


@on_loop
async def test_topic_defaults_follow_the_brokers(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        peer = await run.connect()
        await create_topic(peer, "plain")
        await create_topic(peer, "own", max_message_bytes="1000000", retention_ms="77")
        assert await send(peer, "plain", bytes(5000)) == 0
        changes = {
            "message_max_bytes": "1000",
            "log_retention_ms": "12345",
            "compression_type": "zstd",
            "log_segment_bytes": "2000000",
            "log_cleaner_delete_retention_ms": "9",
        }
        assert await alter(peer, BROKER, "", **changes) == OK
        assert await send(peer, "plain", bytes(5000)) == ErrorCode.MESSAGE_TOO_LARGE
        assert await send(peer, "own", bytes(5000)) == 0
        (plain, own) = (run.node.logs.get(name, 0) for name in ("plain", "own"))
        assert plain is not None
        assert own is not None
        assert (plain.config.retention_ms, own.config.retention_ms) == (12345, 77)
        assert plain.config.compression_type == "zstd"
        assert plain.config.segment_size == 2_000_000
        assert plain.config.delete_retention_ms == 9
        assert await alter(peer, BROKER, "1", message_max_bytes="2000000") == OK
        assert await send(peer, "plain", bytes(5000)) == 0
    async with running(tmp_path) as run:
        peer = await run.connect()
        log = run.node.logs.get("plain", 0)
        assert log is not None
        assert (log.config.retention_ms, log.config.max_message_bytes) == (12345, 2_000_000)
        nothing = dict.fromkeys(changes)
        assert await alter(peer, BROKER, "", **nothing) == OK
        assert log.config.retention_ms == 604_800_000


@on_loop
async def test_limits_of_connections(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        peer = await run.connect()
        assert await alter(peer, BROKER, "1", max_connections_per_ip_overrides="localhost:1") == OK
        assert await (await run.connect()).closed() == b""
        assert await alter(peer, BROKER, "1", max_connections_per_ip_overrides="") == OK
        assert await alter(peer, BROKER, "1", max_connections="1") == OK
        waiting = await run.connect()
        more = await run.connect()
        request = MetadataRequest(topics=[])
        (asked, also) = (asyncio.ensure_future(each.ask(request, 9)) for each in (waiting, more))
        assert await alter(peer, BROKER, "1", max_connections="3") == OK
        assert (await asked).cluster_id == (await also).cluster_id == run.node.cluster_id


@on_loop
async def test_the_cleaner_and_producer_ids(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        peer = await run.connect()
        await create_topic(peer, "t")
        changes = {
            "log_cleaner_dedupe_buffer_size": "5000000",
            "log_cleaner_backoff_ms": "7",
            "log_cleaner_io_max_bytes_per_second": "8000.5",
            "producer_id_expiration_ms": "1234",
        }
        assert await alter(peer, BROKER, "", **changes) == OK
        log = run.node.logs.get("t", 0)
        assert log is not None
        assert run.node.logs.cleaner.map_bytes == 5_000_000
        assert run.node.config.log_cleaner_backoff_ms == 7
        assert run.node.logs.cleaner.throttle.bytes_per_second == 8000.5
        assert log.producers.expiration_ms == 1234


@on_loop
async def test_the_request_log_is_switched_on_and_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    request_logger.addHandler(handler)
    try:
        async with running(tmp_path) as run:
            peer = await run.connect()
            assert await alter(peer, BROKER, "", barnabas_request_log_enable="true") == OK
            await create_topic(peer, "seen")
            assert await alter(peer, BROKER, "", barnabas_request_log_enable="false") == OK
            await create_topic(peer, "unseen")
    finally:
        request_logger.removeHandler(handler)
    assert sum(line.startswith("api=CreateTopics ") for line in lines) == 1


@pytest.mark.parametrize(
    ("broker", "setting", "value", "said"),
    [
        ("1", "num_partitions", "2", "Cannot update these configs dynamically: [num.partitions]"),
        ("", "listeners", "PLAINTEXT://:1", "broker id must be specified: [listeners]"),
        ("1", "listeners", "PLAINTEXT://:1", "Changing listeners while the broker runs is not"),
        ("1", "max_connections", "-1", "Invalid value -1 for configuration max.connections"),
        ("1", "log_retention_ms", "0", "unlimited (-1) or"),
    ],
)
def test_what_cannot_change_is_refused(
    tmp_path: Path, broker: str, setting: str, value: str, said: str
) -> None:
    @on_loop
    async def ask() -> None:
        async with running(tmp_path) as run:
            peer = await run.connect()
            code, message = await alter(peer, BROKER, broker, **{setting: value})
            assert code == ErrorCode.INVALID_REQUEST
            assert message is not None
            assert said in message

    ask()


@on_loop
async def test_changes_that_do_nothing_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as run:
        peer = await run.connect()
        await create_topic(peer, "t")
        assert await alter(peer, BROKER, "", num_io_threads="3", max_connections="99") == OK
        assert await alter(peer, TOPIC, "t", local_retention_bytes="5") == OK
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == [
        "all brokers: setting num.io.threads has no effect: this server has nothing that it could "
        "change",
        "topic t: setting local.retention.bytes is not supported yet and is ignored",
    ]


@on_loop
async def test_replication_is_throttled_as_brokers_and_topics_say(tmp_path: Path) -> None:
    rate, list_ = "leader_replication_throttled_rate", "leader_replication_throttled_replicas"
    async with running(tmp_path) as run:
        peer = await run.connect()
        await create_topic(peer, "t", 3)
        assert await alter(peer, BROKER, "", **{rate: "500"}) == OK
        assert await alter(peer, TOPIC, "t", **{list_: "0:1,1:2,2:1"}) == OK
        sent, fetched = run.node.replicas.leader_quota, run.node.replicas.follower_quota
        assert [sent.is_throttled("t", index) for index in range(3)] == [True, False, True]
        assert await alter(peer, BROKER, "1", **{rate: "9"}) == OK
        assert (sent.rate, fetched.rate) == (9, (1 << 63) - 1)
        assert not fetched.is_throttled("t", 0)
    async with running(tmp_path) as run:
        peer = await run.connect()
        sent = run.node.replicas.leader_quota
        assert sent.rate == 9
        assert sent.is_throttled("t", 2)
        assert await alter(peer, BROKER, "1", **{rate: None}) == OK
        assert sent.rate == 500
        assert await alter(peer, TOPIC, "t", **{list_: None}) == OK
        assert not sent.is_throttled("t", 2)
