"""The registry of the clients' metrics, in virtual time."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.metrics import OTHER, SLOTS, Distribution, Meter, Metrics
from barnabas.client.settings import ProducerSettings

START = 1_000.0


def registry(**options: Any) -> Metrics:
    return Metrics("producer", "me", START, **{"window_s": 30.0, **options})


def test_the_window_is_an_option() -> None:
    assert Metrics.of("producer", ProducerSettings(), START).window_s == 60.0
    settings = ProducerSettings(client_id="x", metrics_sample_window_ms=500, metrics_num_samples=10)
    metrics = Metrics.of("producer", settings, START)
    assert (metrics.window_s, metrics.client_id) == (5.0, "x")
    meter = metrics.meter("g", "n")
    meter.add(10, START)
    assert meter.rate(START + 5.5) == 0


def test_a_young_meter_divides_by_its_age() -> None:
    meter = Meter(START, 30.0)
    meter.add(60, START)
    assert meter.rate(START) == 20.0  # at least one slot of three seconds
    assert meter.rate(START + 6) == 10.0
    assert meter.total == 60


def test_what_is_older_than_the_window_is_forgotten_but_not_in_the_total() -> None:
    meter = Meter(0.0, 30.0)
    for second in range(100):
        meter.add(5, float(second))
    assert meter.rate(100.0) == pytest.approx(5.0, rel=0.2)
    assert meter.rate(129.0) == pytest.approx(0.0, abs=1.0)
    assert meter.rate(500.0) == 0.0
    assert meter.total == 500


def test_a_clock_that_goes_back_a_little_does_no_harm() -> None:
    meter = Meter(100.0, 30.0)
    meter.add(1, 110.0)
    meter.add(1, 104.0)
    assert meter.total == 2
    assert meter.rate(110.0) > 0


@given(
    st.lists(
        st.tuples(st.floats(0, 40), st.integers(1, 100)),
        min_size=1,
        max_size=60,
    )
)
def test_a_window_holds_what_happened_in_it_and_at_most_one_slot_more(
    steps: list[tuple[float, int]],
) -> None:
    meter, sizes = Meter(0.0, 30.0), Distribution(0.0, (), 30.0)
    now, seen = 0.0, []
    for pause, count in steps:
        now += pause
        meter.add(count, now)
        sizes.observe(count, now)
        seen.append((now, count))
    width = 30.0 / SLOTS
    surely = [c for t, c in seen if t > now - 30.0 + width + 1e-6]
    perhaps = [c for t, c in seen if t > now - 30.0 - 1e-6]
    in_window = meter.rate(now) * meter.seconds(now)
    assert sum(surely) - 1e-6 <= in_window <= sum(perhaps) + 1e-6
    assert max(surely) <= sizes.maximum(now) <= max(perhaps)
    assert min(perhaps) - 1e-6 <= sizes.average(now) <= max(perhaps) + 1e-6
    assert meter.total == sum(c for _, c in seen)


def test_averages_and_maxima_are_of_the_window() -> None:
    latency = Distribution(0.0, (1.0, 10.0), 30.0)
    assert latency.average(0.0) == 0.0
    latency.observe(100.0, 1.0)
    latency.observe(4.0, 35.0)
    latency.observe(8.0, 36.0)
    assert latency.average(36.0) == 6.0
    assert latency.maximum(36.0) == 8.0
    assert (latency.count, latency.sum) == (3, 112.0)
    assert latency.buckets == [0, 2, 1]


def test_the_dict_has_kafkas_names() -> None:
    metrics = registry()
    metrics.meter("producer-metrics", "record-send").add(30, START)
    metrics.latency("producer-metrics", "request-latency").observe(12.0, START)
    metrics.gauge("producer-metrics", "buffer-available-bytes", read=lambda: 77)
    metrics.meter("producer-topic-metrics", "byte", topic="orders").add(300, START)
    metrics.latency("producer-node-metrics", "request-latency", node="node-1")
    metrics.gauge("consumer-fetch-manager-metrics", "records-lag", topic="a", partition=0).set(9)
    assert metrics.as_dict(START + 3) == {
        "producer-metrics": {
            "record-send-rate": 10.0,
            "record-send-total": 30,
            "request-latency-avg": 12.0,
            "request-latency-max": 12.0,
            "buffer-available-bytes": 77,
        },
        "producer-topic-metrics": {"orders": {"byte-rate": 100.0, "byte-total": 300}},
        "producer-node-metrics": {"node-1": {"request-latency-avg": 0.0, "request-latency-max": 0}},
        "consumer-fetch-manager-metrics": {"a-0": {"records-lag": 9}},
    }


def test_an_instrument_is_made_once() -> None:
    metrics = registry()
    meter = metrics.meter("g", "x", topic="a")
    assert metrics.meter("g", "x", topic="a") is meter
    assert metrics.meter("g", "x", topic="b") is not meter
    with pytest.raises(ValueError, match="is a Meter, not a Gauge"):
        metrics.gauge("g", "x", topic="a")


def test_label_sets_are_bounded() -> None:
    metrics = registry(limit=3)
    for index in range(10):
        metrics.meter("g", "x", topic=f"t{index}").add(1, START)
    shown = metrics.as_dict(START)["g"]
    assert set(shown) == {"t0", "t1", "t2", OTHER}
    assert shown[OTHER]["x-total"] == 7
    metrics.remove(topic="t1")
    metrics.remove(topic="t2")
    metrics.meter("g", "x", topic="new")
    metrics.meter("g", "x", topic="newer")
    assert set(metrics.as_dict(START)["g"]) == {"t0", "new", OTHER}


def test_remove_takes_every_instrument_with_these_labels() -> None:
    metrics = registry()
    for partition in range(2):
        metrics.gauge("g", "lag", topic="a", partition=partition)
        metrics.gauge("g", "lead", topic="a", partition=partition)
    metrics.gauge("g", "all")
    metrics.remove(topic="a", partition=1)
    assert set(metrics.as_dict(START)["g"]) == {"a-0", "all"}


def filled() -> Metrics:
    metrics = registry()
    metrics.meter("producer-topic-metrics", "record-send", "Records sent.", topic='a"\\b').add(
        3, START
    )
    latency = metrics.distribution("producer-metrics", "request-latency", bounds=(1, 10))
    for value in (0.5, 5.0, 50.0):
        latency.observe(value, START)
    metrics.gauge("producer-metrics", "connection-count").set(2)
    return metrics


def test_prometheus_text() -> None:
    stem = "kafka_producer_producer_metrics"
    assert filled().prometheus(START).splitlines() == [
        "# HELP kafka_producer_producer_topic_metrics_record_send_total Records sent.",
        "# TYPE kafka_producer_producer_topic_metrics_record_send_total counter",
        "kafka_producer_producer_topic_metrics_record_send_total"
        '{client_id="me",topic="a\\"\\\\b"} 3',
        f"# HELP {stem}_request_latency request latency",
        f"# TYPE {stem}_request_latency histogram",
        f'{stem}_request_latency_bucket{{client_id="me",le="1"}} 1',
        f'{stem}_request_latency_bucket{{client_id="me",le="10"}} 2',
        f'{stem}_request_latency_bucket{{client_id="me",le="+Inf"}} 3',
        f'{stem}_request_latency_sum{{client_id="me"}} 55.5',
        f'{stem}_request_latency_count{{client_id="me"}} 3',
        f"# HELP {stem}_request_latency_max request latency",
        f"# TYPE {stem}_request_latency_max gauge",
        f'{stem}_request_latency_max{{client_id="me"}} 50.0',
        f"# HELP {stem}_connection_count connection count",
        f"# TYPE {stem}_connection_count gauge",
        f'{stem}_connection_count{{client_id="me"}} 2',
    ]


def samples(text: str) -> set[tuple[str, frozenset[tuple[str, str]], float]]:
    from prometheus_client.parser import text_string_to_metric_families

    return {
        (sample.name, frozenset(sample.labels.items()), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_own_parser_reads_the_text_and_the_collector_says_the_same() -> None:
    from prometheus_client import CollectorRegistry, generate_latest

    metrics = filled()
    collected = CollectorRegistry()
    collected.register(metrics.collector(lambda: START))
    collected.register(registry().collector(lambda: START))
    assert samples(generate_latest(collected).decode()) == samples(metrics.prometheus(START))
    assert registry().prometheus(START) == ""


def test_the_library_is_not_imported_unless_asked_for() -> None:
    code = (
        "import sys; from barnabas.client.metrics import Metrics; "
        "m = Metrics('producer', 'x', 0.0); m.meter('a', 'b').add(1, 0.0); m.prometheus(1.0); "
        "assert 'prometheus_client' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
