"""Client libraries, our own two among them, behind one face: write records, read a topic from its start.

What a library cannot do is a fact of its class (`codecs`, `sets_timestamps`, …), so that one table
of tests covers all of them, each at the most it can do. `None` is Kafka's null and differs from
empty bytes.
"""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import shutil
import subprocess
import time
import uuid
from dataclasses import dataclass
from typing import Any

from tests.peers import jvm, node_process

ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONSUME_TIMEOUT_S = 20.0
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it is sent (`offset` unset) or as it came back."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None
    offset: int | None = None


class Client:
    """One library. `produce` returns when everything is acknowledged (or sent, with acks=0)."""

    name = ""
    codecs: tuple[str, ...] = ALL_CODECS
    sets_timestamps = True
    headers_per_record = True
    null_header_values = True

    def missing(self) -> str | None:
        module = self.name.replace("kafka_python", "kafka").replace("confluent", "confluent_kafka")
        return None if importlib.util.find_spec(module) else f"{module} is not installed"

    def produce(
        self,
        bootstrap: str,
        topic: str,
        records: list[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> None:
        raise NotImplementedError

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Record]:
        """The first `count` records of all partitions, or fewer when no more came in time."""
        raise NotImplementedError


class Confluent(Client):
    name = "confluent"

    def produce(self, bootstrap, topic, records, *, codec="none", acks="all", idempotent=False):  # type: ignore[no-untyped-def]
        from confluent_kafka import Producer

        failures: list[str] = []
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": idempotent,
                "linger.ms": 20,
                "message.max.bytes": 20_000_000,
            }
        )

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                failures.append(str(error))

        for record in records:
            producer.produce(
                topic,
                partition=record.partition,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                timestamp=record.timestamp or 0,
                on_delivery=delivered,
            )
            producer.poll(0)
        assert producer.flush(CONSUME_TIMEOUT_S) == 0
        assert not failures, failures

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Record]:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused-" + topic})
        try:
            indexes = consumer.list_topics(topic, timeout=10).topics[topic].partitions
            consumer.assign([TopicPartition(topic, i, OFFSET_BEGINNING) for i in indexes])
            found: list[Record] = []
            deadline = time.monotonic() + CONSUME_TIMEOUT_S
            while len(found) < count and time.monotonic() < deadline:
                for message in consumer.consume(count - len(found), timeout=0.2):
                    assert message.error() is None, message.error()
                    found.append(
                        Record(
                            message.partition(),
                            message.key(),
                            message.value(),
                            tuple(message.headers() or ()),
                            message.timestamp()[1],
                            message.offset(),
                        )
                    )
            return found
        finally:
            consumer.close()


class AioKafka(Client):
    name = "aiokafka"

    def produce(self, bootstrap, topic, records, *, codec="none", acks="all", idempotent=False):  # type: ignore[no-untyped-def]
        from aiokafka import AIOKafkaProducer

        async def run() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                acks=acks if acks == "all" else int(acks),
                enable_idempotence=idempotent,
                linger_ms=20,
                max_request_size=20_000_000,
            )
            await producer.start()
            try:
                futures = [
                    await producer.send(
                        topic,
                        record.value,
                        record.key,
                        record.partition,
                        record.timestamp,
                        list(record.headers),
                    )
                    for record in records
                ]
                await asyncio.gather(*futures)
            finally:
                await producer.stop()

        asyncio.run(run())

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Record]:
        from aiokafka import AIOKafkaConsumer

        async def run() -> list[Record]:
            consumer = AIOKafkaConsumer(
                topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
            )
            await consumer.start()
            found: list[Record] = []
            deadline = time.monotonic() + CONSUME_TIMEOUT_S
            try:
                while len(found) < count and time.monotonic() < deadline:
                    for batch in (await consumer.getmany(timeout_ms=200)).values():
                        found += [
                            Record(r.partition, r.key, r.value, r.headers, r.timestamp, r.offset)
                            for r in batch
                        ]
            finally:
                await consumer.stop()
            return found

        return asyncio.run(run())


class KafkaPython(Client):
    name = "kafka_python"
    null_header_values = False

    def produce(self, bootstrap, topic, records, *, codec="none", acks="all", idempotent=False):  # type: ignore[no-untyped-def]
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            linger_ms=20,
            max_request_size=20_000_000,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp,
                )
                for record in records
            ]
            for future in futures:
                future.get(CONSUME_TIMEOUT_S)
        finally:
            producer.close()

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Record]:
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None
        )
        found: list[Record] = []
        deadline = time.monotonic() + CONSUME_TIMEOUT_S
        try:
            while len(found) < count and time.monotonic() < deadline:
                for batch in consumer.poll(timeout_ms=200).values():
                    found += [
                        Record(r.partition, r.key, r.value, tuple(r.headers), r.timestamp, r.offset)
                        for r in batch
                    ]
        finally:
            consumer.close()
        return found


class Kcat(Client):
    """One run writes one partition, and its headers go to all records of the run."""

    name = "kcat"
    sets_timestamps = False
    headers_per_record = False
    null_header_values = False

    def missing(self) -> str | None:
        return None if shutil.which("kcat") else "no kcat on the PATH"

    def produce(self, bootstrap, topic, records, *, codec="none", acks="all", idempotent=False):  # type: ignore[no-untyped-def]
        runs: dict[tuple[int, Headers], list[Record]] = {}
        for record in records:
            runs.setdefault((record.partition, record.headers), []).append(record)
        for (partition, headers), lines in runs.items():
            command = ["kcat", "-P", "-b", bootstrap, "-t", topic, "-p", str(partition), "-Z"]
            command += ["-K", "|", "-D", ";", "-z", codec, "-X", f"acks={acks}"]
            command += ["-X", f"enable.idempotence={str(idempotent).lower()}"]
            for key, value in headers:
                command += ["-H", f"{key}={(value or b'').decode()}"]
            stdin = b";".join((r.key or b"") + b"|" + (r.value or b"") for r in lines)
            subprocess.run(command, input=stdin, check=True, timeout=CONSUME_TIMEOUT_S)

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Record]:
        command = ["kcat", "-C", "-b", bootstrap, "-t", topic, "-o", "beginning", "-q"]
        command += ["-c", str(count), "-f", "%p %o %T %K %S %h\n%k%s\n"]
        try:
            done = subprocess.run(
                command, capture_output=True, check=True, timeout=CONSUME_TIMEOUT_S
            )
            data = done.stdout
        except subprocess.TimeoutExpired as timeout:
            data = timeout.stdout or b""
        return list(self.parse(data))

    @staticmethod
    def parse(data: bytes) -> list[Record]:
        found = []
        position = 0
        while position < len(data):
            line_end = data.index(b"\n", position)
            fields = data[position:line_end].split(b" ", 5)
            partition, offset, timestamp, key_size, value_size = map(int, fields[:5])
            key_at = line_end + 1
            value_at = key_at + max(key_size, 0)
            position = value_at + max(value_size, 0) + 1
            pairs = [pair.split(b"=", 1) for pair in fields[5].split(b",") if pair]
            found.append(
                Record(
                    partition,
                    data[key_at:value_at] if key_size >= 0 else None,
                    data[value_at : position - 1] if value_size >= 0 else None,
                    tuple((k.decode(), None if v == b"NULL" else v) for k, v in pairs),
                    timestamp,
                    offset,
                )
            )
        return found


def to_json(record: Record) -> dict[str, Any]:
    def text(data: bytes | None) -> str | None:
        return None if data is None else base64.b64encode(data).decode()

    return {
        "partition": record.partition,
        "timestamp": record.timestamp,
        "key": text(record.key),
        "value": text(record.value),
        "headers": [[key, text(value)] for key, value in record.headers],
    }


def from_json(fields: dict[str, Any]) -> Record:
    def data(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    return Record(
        fields["partition"],
        data(fields["key"]),
        data(fields["value"]),
        tuple((key, data(value)) for key, value in fields["headers"]),
        fields["timestamp"],
        fields["offset"],
    )


class KafkaJs(Client):
    name = "kafkajs"
    codecs = ("none", "gzip", "snappy", "lz4")
    null_header_values = False

    def missing(self) -> str | None:
        return node_process.missing()

    def produce(self, bootstrap, topic, records, *, codec="none", acks="all", idempotent=False):  # type: ignore[no-untyped-def]
        node_process.shared().call(
            "produce",
            bootstrap=bootstrap,
            topic=topic,
            codec=codec,
            acks=-1 if acks == "all" else int(acks),
            idempotent=idempotent,
            records=[to_json(record) for record in records],
        )

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Record]:
        found = node_process.shared().call(
            "consume",
            bootstrap=bootstrap,
            topic=topic,
            group=f"kafkajs-{uuid.uuid4()}",
            count=count,
            timeout_ms=CONSUME_TIMEOUT_S * 1000,
        )
        return [from_json(fields) for fields in found]


class Java(Client):
    name = "java"

    def missing(self) -> str | None:
        return jvm.missing()

    def produce(self, bootstrap, topic, records, *, codec="none", acks="all", idempotent=False):  # type: ignore[no-untyped-def]
        outcomes = jvm.shared().call(
            "produce",
            bootstrap=bootstrap,
            topic=topic,
            records=[to_json(record) for record in records],
            config={
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": str(idempotent).lower(),
                "linger.ms": "20",
                "max.request.size": "20000000",
            },
        )
        assert not [outcome for outcome in outcomes if "error" in outcome], outcomes

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Record]:
        found = jvm.shared().call(
            "consume",
            bootstrap=bootstrap,
            topic=topic,
            count=count,
            timeout_ms=CONSUME_TIMEOUT_S * 1000,
        )
        return [from_json(fields) for fields in found]


class Barnabas(Client):
    """This project's plain clients."""

    name = "barnabas"

    def missing(self) -> str | None:
        return None

    def produce(self, bootstrap, topic, records, *, codec="none", acks="all", idempotent=False):  # type: ignore[no-untyped-def]
        from barnabas.client.producer import Producer

        with Producer(options(bootstrap, codec, acks, idempotent)) as producer:
            futures = [producer.send(topic, **fields(record)) for record in records]
            producer.flush(30)
            for future in futures:
                future.result(0)

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Record]:
        from barnabas.client.consumer import Consumer

        found: list[Any] = []
        with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([(topic, index) for index in consumer.partitions_for(topic)])
            deadline = time.monotonic() + CONSUME_TIMEOUT_S
            while len(found) < count and time.monotonic() < deadline:
                found += consumer.poll(0.5)
        return [of_barnabas(record) for record in found[:count]]


class AsyncBarnabas(Client):
    """This project's clients for asyncio, reading as a member of a group."""

    name = "barnabas_asyncio"

    def missing(self) -> str | None:
        return None

    def produce(self, bootstrap, topic, records, *, codec="none", acks="all", idempotent=False):  # type: ignore[no-untyped-def]
        from barnabas.client.async_producer import AsyncProducer

        async def run() -> None:
            async with AsyncProducer(options(bootstrap, codec, acks, idempotent)) as producer:
                futures = [await producer.send(topic, **fields(record)) for record in records]
                for future in futures:
                    await future

        asyncio.run(run())

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Record]:
        from barnabas.client.consumer import AsyncConsumer

        async def run() -> list[Record]:
            found: list[Any] = []
            async with AsyncConsumer(
                bootstrap_servers=bootstrap,
                group_id=str(uuid.uuid4()),
                auto_offset_reset="earliest",
            ) as consumer:
                consumer.subscribe([topic])
                deadline = time.monotonic() + CONSUME_TIMEOUT_S
                while len(found) < count and time.monotonic() < deadline:
                    found += await consumer.poll(0.5)
            return [of_barnabas(record) for record in found[:count]]

        return asyncio.run(run())


def options(bootstrap: str, codec: str, acks: str, idempotent: bool) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "compression.type": codec,
        "acks": acks,
        "enable.idempotence": idempotent,
        "linger.ms": 20,
        "max.request.size": 20_000_000,
    }


def fields(record: Record) -> dict[str, Any]:
    return {
        "value": record.value,
        "key": record.key,
        "partition": record.partition,
        "headers": record.headers,
        "timestamp_ms": record.timestamp,
    }


def of_barnabas(record: Any) -> Record:
    return Record(
        record.partition,
        record.key,
        record.value,
        record.headers,
        record.timestamp,
        record.offset,
    )


CLIENTS: dict[str, Client] = {
    client.name: client
    for client in (
        Confluent(),
        AioKafka(),
        KafkaPython(),
        Kcat(),
        KafkaJs(),
        Java(),
        Barnabas(),
        AsyncBarnabas(),
    )
}
