"""Times and counts as a scrape shows them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from barnabas.api import DEFERRED
from barnabas.delayed.purgatory import DelayedOperation, Purgatory
from barnabas.server.api_metrics import BOUNDS_MS, ApiMetrics, Histogram
from barnabas.server.error_counts import error_finder
from barnabas.server.metrics import Metrics
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.server.running import create_topic, running, send
from tests.server.serving import api, frame, on_loop, serving

PREFIX = "kafka_network_requestmetrics"


def samples(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def handle(node: Any, context: Any, request: Any) -> object:
    if request.generation_id == 2:
        asyncio.get_running_loop().call_later(0.03, context.respond, HeartbeatResponse())
        return DEFERRED
    return HeartbeatResponse(
        error_code=ErrorCode.UNKNOWN_MEMBER_ID if request.generation_id == 3 else ErrorCode.NONE
    )


def heartbeat(generation: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=generation, member_id="")


@on_loop
async def test_a_scrape() -> None:
    class Never(DelayedOperation):
        def try_complete(self) -> bool:
            return False

        def on_complete(self) -> None:
            pass

    async with serving(api(ApiKey.HEARTBEAT, handle)) as served:
        metrics = Metrics(served.network)
        purgatory = Purgatory("Fetch", served.network.wheel)
        purgatory.try_complete_else_watch(Never(10_000), ["a", "b"])
        metrics.watch_purgatory(purgatory)
        metrics.gauge("kafka_server_answer", "An answer", lambda: 42)
        metrics.counter(
            "kafka_log_appends", "Appends", lambda: {("t", "0"): 7}, labels=("topic", "partition")
        )
        metrics.gauge("kafka_broken", "Broken", lambda: 1 // 0)
        peer = await served.connect()
        sent = [frame(heartbeat(generation), 4, generation) for generation in (1, 2, 3)]
        for data in (*sent, frame(heartbeat(1), 3, 4)):
            peer.send(data)
        for _ in range(3):
            await peer.response(ApiKey.HEARTBEAT, 4)
        await peer.response(ApiKey.HEARTBEAT, 3)
        found = samples(metrics.render())

    api_label = ("request", "Heartbeat")
    assert found[f"{PREFIX}_requests_total", (api_label, ("version", "4"))] == 3
    assert found[f"{PREFIX}_requests_total", (api_label, ("version", "3"))] == 1
    assert found[f"{PREFIX}_errors_total", (("error", "UNKNOWN_MEMBER_ID"), api_label)] == 1
    assert found[f"{PREFIX}_requestbytes_total", (api_label,)] > sum(map(len, sent))
    assert found[f"{PREFIX}_responsebytes_total", (api_label,)] > 0
    for time in ("requestqueue", "local", "remote", "throttle", "responsequeue", "responsesend"):
        assert found[f"{PREFIX}_{time}timems_count", (api_label,)] == 4
        assert found[f"{PREFIX}_{time}timems_bucket", (("le", "+Inf"), api_label)] == 4
    assert found[f"{PREFIX}_remotetimems_sum", (api_label,)] >= 25
    assert found[f"{PREFIX}_responsequeuetimems_sum", (api_label,)] >= 25
    assert found[f"{PREFIX}_totaltimems_sum", (api_label,)] >= 50
    listener = (("listener", "PLAINTEXT"),)
    assert found["kafka_server_socketservermetrics_connection_count", listener] == 1
    assert found["kafka_server_socketservermetrics_connection_creation_total", listener] == 1
    assert found["kafka_network_requestchannel_requestqueuesize", ()] == 0
    fetch = (("delayedoperation", "Fetch"),)
    assert found["kafka_server_delayedoperationpurgatory_purgatorysize", fetch] == 2
    assert found["kafka_server_delayedoperationpurgatory_numdelayedoperations", fetch] == 1
    assert found["kafka_server_answer", ()] == 42
    assert found["kafka_log_appends_total", (("partition", "0"), ("topic", "t"))] == 7
    assert ("process_resident_memory_bytes", ()) in found
    assert not any(name == "kafka_broken" for name, _ in found)


def test_histograms_count_up_to_and_including_a_bound() -> None:
    histogram = Histogram()
    for bound in BOUNDS_MS:
        histogram.observe(int(bound * 1_000_000))
        histogram.observe(int(bound * 1_000_000) + 1)
    assert histogram.counts == [1] + [2] * (len(BOUNDS_MS) - 1) + [1]
    assert histogram.count() == 2 * len(BOUNDS_MS)


def test_the_same_api_on_several_listeners_is_added_up() -> None:
    one, two = ApiMetrics("Fetch"), ApiMetrics("Fetch")
    for metrics, code in ((one, 1), (two, 1), (two, 3)):
        metrics.requests += 1
        metrics.count_errors([code])
        metrics.local.observe(5)
    total = ApiMetrics.added([one, two])
    assert (total.name, total.requests, total.errors) == ("Fetch", 3, {1: 2, 3: 1})
    assert (total.local.count(), total.local.sum_ns) == (3, 15)


def test_errors_are_found_at_every_depth() -> None:
    find = error_finder(MetadataResponse)
    assert list(find(MetadataResponse())) == []
    response = MetadataResponse(
        error_code=9,
        topics=[
            MetadataResponseTopic(error_code=3),
            MetadataResponseTopic(
                partitions=[
                    MetadataResponsePartition(error_code=5),
                    MetadataResponsePartition(),
                ]
            ),
        ],
    )
    assert sorted(find(response)) == [3, 5, 9]


def documented() -> set[str]:
    page = Path(__file__).parents[2] / "docs" / "metrics.md"
    return set(re.findall(r"^\| `(kafka_[a-z_]+)` \|", page.read_text(), re.MULTILINE))


@on_loop
async def test_the_page_of_metrics_is_what_a_node_tells(tmp_path: Path) -> None:
    async with running(tmp_path, **{"barnabas.metrics.port": 0}) as run:
        peer = await run.connect()
        await create_topic(peer, "t", 2)
        assert await send(peer, "t", b"v") == 0
        assert run.node.metrics_server is not None
        port = run.node.metrics_server.address[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
    assert head.startswith(b"HTTP/1.1 200 ")
    families = list(text_string_to_metric_families(body.decode()))
    names = [
        f"{family.name}_total" if family.type == "counter" else family.name for family in families
    ]
    assert len(set(names)) == len(names)
    assert all(family.documentation for family in families)
    told = {name for name in names if name.startswith("kafka_")}
    assert told == documented()
    found = samples(body)
    assert found["kafka_log_log_logendoffset", (("partition", "0"), ("topic", "t"))] == 1
    assert found["kafka_server_brokerstate", ()] == 3
    produce = (("request", "Produce"), ("version", "9"))
    assert found[f"{PREFIX}_requests_total", produce] == 1
    for family in families:
        if family.type == "histogram":
            for sample in family.samples:
                if sample.name.endswith("_bucket") and sample.labels["le"] == "+Inf":
                    count = found[f"{family.name}_count", (("request", sample.labels["request"]),)]
                    assert sample.value == count
