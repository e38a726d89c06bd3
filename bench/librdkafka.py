"""librdkafka driven without a Python call for each record.

The producer side calls `rd_kafka_produce_batch` of the library inside the confluent-kafka wheel
through ctypes, a thousand records a call; so the client process is librdkafka's own cost, and what
is measured is the broker. Where the bundled library cannot be found, confluent-kafka's `produce` is
used, the same for both brokers. The consumer uses `consume(n)`, which loops in C.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition

BATCH = 1000
MAX_QUEUED = 200_000
PRODUCER = 0
COPY_PAYLOAD = 0x2
Settings = dict[str, str | int]
PRODUCER_SETTINGS: Settings = {
    "acks": "1",
    "linger.ms": 5,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1_000_000,
}


class Message(ctypes.Structure):
    """rd_kafka_message_t."""

    _fields_ = (
        ("error", ctypes.c_int),
        ("topic", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_length", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("private", ctypes.c_void_p),
    )


SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "rd_kafka_conf_new": (ctypes.c_void_p, []),
    "rd_kafka_conf_set": (
        ctypes.c_int,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t],
    ),
    "rd_kafka_new": (
        ctypes.c_void_p,
        [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t],
    ),
    "rd_kafka_topic_new": (
        ctypes.c_void_p,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    ),
    "rd_kafka_produce_batch": (
        ctypes.c_int,
        [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int, ctypes.c_void_p, ctypes.c_int],
    ),
    "rd_kafka_outq_len": (ctypes.c_int, [ctypes.c_void_p]),
    "rd_kafka_poll": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int]),
}


def load() -> ctypes.CDLL | None:
    """The library inside the wheel, or None when this wheel keeps it elsewhere."""
    package = Path(confluent_kafka.__file__).parent
    candidates = [
        *package.parent.glob("confluent_kafka.libs/librdkafka*"),
        *package.glob(".dylibs/librdkafka*"),
    ]
    if not candidates:
        return None
    library = ctypes.CDLL(str(candidates[0]))
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


@dataclass(frozen=True, slots=True)
class Load:
    """Records of `size` bytes for a topic, a thousand to each partition in turn."""

    topic: str
    partitions: int
    size: int
    acks: str = "1"

    def produce(self, bootstrap: str, count: int) -> float:
        """Seconds from the first record to the last acknowledgement."""
        settings = {**PRODUCER_SETTINGS, "acks": self.acks, "bootstrap.servers": bootstrap}
        library = load()
        if library is None:
            return self.produce_each(settings, count)
        return self.produce_batches(library, settings, count)

    def produce_batches(self, library: ctypes.CDLL, settings: Settings, count: int) -> float:
        configuration = library.rd_kafka_conf_new()
        for key, value in settings.items():
            text = str(value).encode()
            assert library.rd_kafka_conf_set(configuration, key.encode(), text, None, 0) == 0
        client = library.rd_kafka_new(PRODUCER, configuration, None, 0)
        handle = library.rd_kafka_topic_new(client, self.topic.encode(), None)
        payload = ctypes.create_string_buffer(b"x" * self.size)
        batch = min(BATCH, max(1, count // self.partitions))
        messages = (Message * batch)()
        for message in messages:
            message.payload = ctypes.addressof(payload)
            message.length = self.size
        address = ctypes.addressof(messages)
        started = time.perf_counter()
        for number in range(count // batch):
            queued = library.rd_kafka_produce_batch(
                handle, number % self.partitions, COPY_PAYLOAD, address, batch
            )
            assert queued == batch, "librdkafka's queue is full"
            while library.rd_kafka_outq_len(client) > MAX_QUEUED:
                library.rd_kafka_poll(client, 1)
        while library.rd_kafka_outq_len(client):
            library.rd_kafka_poll(client, 5)
        return time.perf_counter() - started

    def produce_each(self, settings: Settings, count: int) -> float:
        producer = Producer(settings)
        value = b"x" * self.size
        started = time.perf_counter()
        for number in range(count):
            partition = number // BATCH % self.partitions
            while True:
                try:
                    producer.produce(self.topic, value, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.flush()
        return time.perf_counter() - started


def consume(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    """Reads `count` records from the beginning; seconds from the first to the last of them."""
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
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found = 0
    started = 0.0
    while found < count:
        messages = consumer.consume(20_000, 10.0)
        assert messages, "no records for ten seconds"
        if not started:
            started = time.perf_counter()
            first = len(messages)
        found += len(messages)
    elapsed = time.perf_counter() - started
    consumer.close()
    return elapsed * count / (count - first)


def round_trips(bootstrap: str, topic: str, count: int) -> list[float]:
    """End to end, one record at a time: milliseconds from produce to poll."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "1", "linger.ms": 0})
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False,
         "fetch.wait.max.ms": 500}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    times: list[float] = []
    for number in range(count + 50):
        started = time.perf_counter()
        producer.produce(topic, b"x" * 100, partition=0)
        producer.poll(0)
        message = consumer.poll(10)
        assert message is not None, "the record did not arrive"
        assert message.error() is None
        if number >= 50:
            times.append((time.perf_counter() - started) * 1000)
    consumer.close()
    producer.flush()
    return times


def end_offsets(bootstrap: str, topic: str, partitions: int) -> int:
    """How many records the partitions have, added up."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench"})
    ends = [
        consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=20)[1]
        for index in range(partitions)
    ]
    consumer.close()
    return sum(ends)


def acknowledgements(bootstrap: str, topic: str, count: int) -> list[float]:
    """acks=all, one record at a time: milliseconds from produce to its acknowledgement."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    times: list[float] = []
    for number in range(count + 50):
        started = time.perf_counter()
        producer.produce(topic, b"x" * 100, partition=0)
        assert producer.flush(10) == 0, "the record was not acknowledged"
        if number >= 50:
            times.append((time.perf_counter() - started) * 1000)
    return times
