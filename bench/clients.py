"""The Python clients side by side against one broker: `python -m bench --clients`.

Each client runs in a process of its own, with the same acks, linger and batch size and otherwise its
defaults, and as its users write it: a loop of `send` or `produce`, a loop over the records that come.
What is counted is the client's process: records a second, processor time, memory.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.peers.apache import ROOT
from tests.peers.topics import create_topic

from bench import nodes, report

PARTITIONS = 4
SIZES = (100, 1024)
LINGER_MS = 5
BATCH_BYTES = 1_000_000
TIMEOUT_S = 600.0
POLL_S = 10.0
WARM_UP = 10_000
ROUND_TRIPS_WARM_UP = 50

# How many records of 100 bytes a client is given: about the same time for each.
RECORDS = {"barnabas": 3_000_000, "confluent": 2_000_000, "aiokafka": 200_000, "kafka": 150_000}
FEWEST_TO_READ = 40_000
# What librdkafka is given below and does by default: 4 MiB of a partition, checksums not checked.
FETCH: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "max_partition_fetch_bytes": 4 << 20,
    "check_crcs": False,
}
NAMES = {
    "barnabas": "Barnabas",
    "arrow": "Barnabas, Arrow",
    "confluent": "confluent-kafka",
    "aiokafka": "aiokafka",
    "kafka": "kafka-python",
}


class Meter:
    """Time and processor time of this process, from its making on."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._cpu_began = self._cpu()

    @staticmethod
    def _cpu() -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    def rates(self, count: int) -> dict[str, float]:
        elapsed = time.perf_counter() - self._began
        cpu_s = self._cpu() - self._cpu_began
        peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {
            "per_s": count / elapsed,
            "per_cpu_s": count / cpu_s,
            "cpu_s_a_million": cpu_s / count * 1e6,
            "peak_mb": peak_kb / 1024,
        }


# -- producing


def produce_barnabas(bootstrap: str, topic: str, size: int, count: int) -> dict[str, float]:
    from barnabas import Producer

    value = b"x" * size
    producer = Producer(
        bootstrap_servers=bootstrap, acks=1, linger_ms=LINGER_MS, batch_size=BATCH_BYTES
    )
    send = producer.send
    for _ in range(WARM_UP):
        send(topic, value)
    producer.flush()
    meter = Meter()
    for _ in range(count):
        send(topic, value)
    producer.flush()
    found = meter.rates(count)
    producer.close()
    return found


def produce_confluent(bootstrap: str, topic: str, size: int, count: int) -> dict[str, float]:
    from confluent_kafka import Producer

    value = b"x" * size
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": 1,
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    produce, poll = producer.produce, producer.poll

    def all_of(many: int) -> None:
        for _ in range(many):
            try:
                produce(topic, value)
            except BufferError:
                poll(0.01)
                while True:
                    try:
                        produce(topic, value)
                        break
                    except BufferError:
                        poll(0.01)
        producer.flush()

    all_of(WARM_UP)
    meter = Meter()
    all_of(count)
    return meter.rates(count)


def produce_aiokafka(bootstrap: str, topic: str, size: int, count: int) -> dict[str, float]:
    from aiokafka import AIOKafkaProducer

    value = b"x" * size

    async def main() -> dict[str, float]:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks=1, linger_ms=LINGER_MS, max_batch_size=BATCH_BYTES
        )
        await producer.start()
        for _ in range(WARM_UP):
            await producer.send(topic, value)
        await producer.flush()
        meter = Meter()
        for _ in range(count):
            await producer.send(topic, value)
        await producer.flush()
        found = meter.rates(count)
        await producer.stop()
        return found

    return asyncio.run(main())


def produce_kafka(bootstrap: str, topic: str, size: int, count: int) -> dict[str, float]:
    from kafka import KafkaProducer

    value = b"x" * size
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, acks=1, linger_ms=LINGER_MS, batch_size=BATCH_BYTES
    )
    for _ in range(WARM_UP):
        producer.send(topic, value)
    producer.flush()
    meter = Meter()
    for _ in range(count):
        producer.send(topic, value)
    producer.flush()
    found = meter.rates(count)
    producer.close()
    return found


# -- consuming: every record's value is looked at


def consume_barnabas(bootstrap: str, topic: str, size: int, count: int) -> dict[str, float]:
    from barnabas import Consumer, TopicPartition

    with Consumer(bootstrap_servers=bootstrap, **FETCH) as consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
        found, meter, first = 0, None, 0
        while found < count:
            records = consumer.poll(POLL_S, max_records=10_000)
            assert records, "no records for ten seconds"
            for record in records:
                assert len(record.value) == size
            found += len(records)
            if meter is None:
                meter, first = Meter(), found
        assert meter is not None
        return meter.rates(found - first)


def consume_arrow(bootstrap: str, topic: str, size: int, count: int) -> dict[str, float]:
    from barnabas import Consumer, TopicPartition

    with Consumer(bootstrap_servers=bootstrap, **FETCH) as consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
        found, meter, first = 0, None, 0
        while found < count:
            batch = consumer.poll_arrow(POLL_S, max_records=1_000_000)
            assert batch.num_rows, "no records for ten seconds"
            found += batch.num_rows
            if meter is None:
                meter, first = Meter(), found
        assert meter is not None
        return meter.rates(found - first)


def consume_confluent(bootstrap: str, topic: str, size: int, count: int) -> dict[str, float]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1_000_000,
            "fetch.message.max.bytes": 4 << 20,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found, meter, first = 0, None, 0
    while found < count:
        messages = consumer.consume(10_000, POLL_S)
        assert messages, "no records for ten seconds"
        for message in messages:
            assert len(message.value()) == size
        found += len(messages)
        if meter is None:
            meter, first = Meter(), found
    assert meter is not None
    rates = meter.rates(found - first)
    consumer.close()
    return rates


def consume_aiokafka(bootstrap: str, topic: str, size: int, count: int) -> dict[str, float]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def main() -> dict[str, float]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
        found, meter, first = 0, None, 0
        while found < count:
            batches = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=10_000)
            for records in batches.values():
                for record in records:
                    assert len(record.value) == size
                found += len(records)
            if meter is None:
                meter, first = Meter(), found
        assert meter is not None
        rates = meter.rates(found - first)
        await consumer.stop()
        return rates

    return asyncio.run(main())


def consume_kafka(bootstrap: str, topic: str, size: int, count: int) -> dict[str, float]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
    found, meter, first = 0, None, 0
    while found < count:
        batches = consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=10_000)
        for records in batches.values():
            for record in records:
                assert len(record.value) == size
            found += len(records)
        if meter is None:
            meter, first = Meter(), found
    assert meter is not None
    rates = meter.rates(found - first)
    consumer.close()
    return rates


# -- one record at a time, from send to acknowledgement


def latency_barnabas(bootstrap: str, topic: str, count: int) -> list[float]:
    from barnabas import Producer

    with Producer(bootstrap_servers=bootstrap, acks=1, linger_ms=0) as producer:
        return round_trips(lambda: producer.send(topic, b"x" * 100, partition=0).result(10), count)


def latency_confluent(bootstrap: str, topic: str, count: int) -> list[float]:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, "linger.ms": 0})

    def once() -> None:
        producer.produce(topic, b"x" * 100, partition=0)
        assert producer.flush(10) == 0

    return round_trips(once, count)


def latency_aiokafka(bootstrap: str, topic: str, count: int) -> list[float]:
    from aiokafka import AIOKafkaProducer

    async def main() -> list[float]:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks=1, linger_ms=0)
        await producer.start()
        times = []
        for _ in range(count + ROUND_TRIPS_WARM_UP):
            began = time.perf_counter()
            await producer.send_and_wait(topic, b"x" * 100, partition=0)
            times.append((time.perf_counter() - began) * 1e6)
        await producer.stop()
        return times[ROUND_TRIPS_WARM_UP:]

    return asyncio.run(main())


def latency_kafka(bootstrap: str, topic: str, count: int) -> list[float]:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks=1, linger_ms=0)
    times = round_trips(lambda: producer.send(topic, b"x" * 100, partition=0).get(10), count)
    producer.close()
    return times


def round_trips(once: Callable[[], Any], count: int) -> list[float]:
    """Microseconds of each."""
    times = []
    for _ in range(count + ROUND_TRIPS_WARM_UP):
        began = time.perf_counter()
        once()
        times.append((time.perf_counter() - began) * 1e6)
    return times[ROUND_TRIPS_WARM_UP:]


def run(workload: str, client: str, **arguments: Any) -> dict[str, float]:
    """One workload of one client in a fresh process."""
    command = [sys.executable, "-m", "bench.clients", workload, client, json.dumps(arguments)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{workload} with {client} failed\n{done.stderr[-3000:]}")
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


# -- all of them, and the table


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table: a workload, and which of its figures is shown."""

    title: str
    workload: str
    figure: str
    digits: int = 0


def lines() -> list[Line]:
    shown = []
    for size in SIZES:
        for verb in ("produce", "consume"):
            shown.append(Line(f"{verb} {size} B, records/s", f"{verb}_{size}", "per_s"))
            shown.append(Line("  records a CPU second", f"{verb}_{size}", "per_cpu_s"))
            shown.append(Line("  peak memory, MB", f"{verb}_{size}", "peak_mb"))
    shown.append(Line("one in flight, p50 µs", "latency", "p50_us"))
    shown.append(Line("one in flight, p99 µs", "latency", "p99_us"))
    return shown


class ClientBench:
    def __init__(self, system: str, rounds: int, quick: bool, directory: Path) -> None:
        self.system = system
        self.rounds = rounds
        self.scale = 10 if quick else 1
        self.directory = directory
        self.samples: dict[str, dict[str, dict[str, list[float]]]] = {}

    def note(self, client: str, workload: str, figures: dict[str, float]) -> None:
        place = self.samples.setdefault(client, {}).setdefault(workload, {})
        for name, value in figures.items():
            place.setdefault(name, []).append(value)
        text = ", ".join(f"{name} {report.number(value)}" for name, value in figures.items())
        print(f"  {NAMES[client]:<16} {workload:<12} {text}", flush=True)

    def run(self) -> None:
        node = nodes.start(self.system, self.directory)
        try:
            for number in range(self.rounds):
                print(f"clients, round {number + 1} of {self.rounds}", flush=True)
                for size in SIZES:
                    self.sizes(node.bootstrap, number, size)
                topic = f"latency-{number}"
                create_topic(node.bootstrap, topic, 1)
                for client in RECORDS:
                    count = 5_000 // self.scale
                    figures = run(
                        "latency", client, bootstrap=node.bootstrap, topic=topic, count=count
                    )
                    self.note(client, "latency", figures)
        finally:
            node.stop()

    def sizes(self, bootstrap: str, number: int, size: int) -> None:
        """All clients write the same topic; then each reads as much of it as it wrote."""
        topic = f"clients-{size}-{number}"
        create_topic(bootstrap, topic, PARTITIONS)
        shrink = self.scale * (1 if size == SIZES[0] else 5)
        order = list(RECORDS) if number % 2 == 0 else list(RECORDS)[::-1]
        for client in order:
            count = RECORDS[client] // shrink
            given = {"bootstrap": bootstrap, "topic": topic, "size": size, "count": count}
            self.note(client, f"produce_{size}", run("produce", client, **given))
        for client in ["arrow", *order]:
            count = max(RECORDS.get(client, RECORDS["barnabas"]) // shrink, FEWEST_TO_READ)
            given = {"bootstrap": bootstrap, "topic": topic, "size": size, "count": count}
            self.note(client, f"consume_{size}", run("consume", client, **given))

    def table(self) -> str:
        """Medians, and for each other client the ratio of ours to it."""
        head = f"{'clients against ' + self.system:<28}"
        head += "".join(f"{name:>18}" for name in NAMES.values())
        rows = [head, "-" * len(head)]
        for line in lines():
            row = f"{line.title:<28}"
            ours = self.median("barnabas", line)
            for client in NAMES:
                value = self.median(client, line)
                if value is None:
                    row += f"{'':>18}"
                elif client == "barnabas" or not ours:
                    row += f"{report.number(value):>18}"
                else:
                    row += f"{report.number(value) + f' ({value / ours:.2f})':>18}"
            rows.append(row)
        rows.append("in brackets: the figure as a part of Barnabas's")
        return "\n".join(rows)

    def median(self, client: str, line: Line) -> float | None:
        values = self.samples.get(client, {}).get(line.workload, {}).get(line.figure)
        return statistics.median(values) if values else None


def main() -> None:
    workload, client, text = sys.argv[1:]
    function = globals()[f"{workload}_{client}"]
    result = function(**json.loads(text))
    if workload == "latency":
        cuts = statistics.quantiles(result, n=100)
        result = {"p50_us": cuts[49], "p99_us": cuts[98]}
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
