"""The producer against a broker that misbehaves on purpose."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client.async_producer import AsyncProducer
from barnabas.client.core.batch import RecordMetadata
from barnabas.client.errors import (
    BrokerError,
    BufferExhausted,
    ClosedError,
    DeliveryTimeout,
    NotFoundError,
    OptionError,
    RecordTooLargeError,
    RequestTimeout,
    SerializationError,
)
from barnabas.client.producer import Producer
from barnabas.record.batch import read_header, verify_crc
from barnabas.record.read import read_records
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.init_producer_id import InitProducerIdResponse
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.client.fake_broker import FakeBroker, offer
from tests.client.producers import KINDS, make_producer

TOPIC_ID = bytes(range(16))
Verdict = Callable[[int, Any], ErrorCode | None]


class OnePartition:
    """A broker with the topic t of one partition; `verdict` decides each batch (None hangs up)."""

    def __init__(self, verdict: Verdict = lambda _n, _header: ErrorCode.NONE) -> None:
        self.verdict = verdict
        self.accepted: list[bytes | None] = []
        self.headers: list[Any] = []
        self.producer_ids = 0
        self.fake = FakeBroker(self.handle)

    def handle(self, key: ApiKey, version: int, request: Any) -> Any:
        if key == ApiKey.API_VERSIONS:
            return offer(ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID)
        if key == ApiKey.METADATA:
            place = MetadataResponsePartition(
                partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
            )
            return MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.fake.port)],
                controller_id=1,
                topics=[MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=[place])],
            )
        if key == ApiKey.INIT_PRODUCER_ID:
            self.producer_ids += 1
            return InitProducerIdResponse(producer_id=self.producer_ids, producer_epoch=0)
        return self.produce(request)

    def produce(self, request: Any) -> Any:
        records = bytes(request.topic_data[0].partition_data[0].records)
        header = read_header(records)
        verify_crc(records, header, 0)
        self.headers.append(header)
        code = self.verdict(len(self.headers), header)
        if code is None:
            return None
        offset = len(self.accepted)
        if code == ErrorCode.NONE:
            self.accepted += [record.value for record in read_records(records)]
        if request.acks == 0:
            return b""
        answer = PartitionProduceResponse(index=0, error_code=int(code), base_offset=offset)
        topic = TopicProduceResponse(name="t", topic_id=TOPIC_ID, partition_responses=[answer])
        return ProduceResponse(responses=[topic])

    def producer(self, kind: str = "plain", **options: Any) -> Any:
        options = {"bootstrap_servers": self.fake.address, "retry_backoff_ms": 1, **options}
        return make_producer(kind, **options)

    def __enter__(self) -> OnePartition:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.fake.close()


def numbers(count: int) -> list[bytes | None]:
    return [str(number).encode() for number in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_records_arrive_in_order_with_offsets(kind: str) -> None:
    with OnePartition() as broker, broker.producer(kind, batch_size=200) as producer:
        sent = [producer.send("t", str(n)) for n in range(100)]
        producer.flush()
        assert broker.accepted == numbers(100)
        assert all(future.done() for future in sent)
        assert [producer.outcome(future).offset for future in sent] == list(range(100))
        assert len(broker.headers) > 5
        sequences = [(h.base_sequence, h.record_count) for h in broker.headers]
        assert all(a + n == b for (a, n), (b, _) in itertools.pairwise(sequences))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, None]
)
def test_retriable_failures_are_repeated_in_order(kind: str, code: ErrorCode | None) -> None:
    def verdict(count: int, header: Any) -> ErrorCode | None:
        if count in (2, 3):
            return code
        expected = len(broker.accepted)
        if header.base_sequence < expected:
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        if header.base_sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return ErrorCode.NONE

    with OnePartition(verdict) as broker, broker.producer(kind, batch_size=120) as producer:
        for n in range(60):
            producer.send("t", str(n))
        producer.flush()
        assert broker.accepted == numbers(60)
        assert broker.producer_ids == 1


def test_a_refused_batch_fails_alone_and_a_new_epoch_follows() -> None:
    def verdict(count: int, _header: Any) -> ErrorCode:
        return ErrorCode.MESSAGE_TOO_LARGE if count == 1 else ErrorCode.NONE

    with OnePartition(verdict) as broker, broker.producer() as producer:
        bad = producer.send("t", "bad")
        with pytest.raises(BrokerError) as caught:
            bad.result(10)
        assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
        assert bad.exception() is caught.value
        assert producer.send("t", "good").result(10).offset == 0
        last = broker.headers[-1]
        assert broker.producer_ids == 1
        assert (last.producer_id, last.producer_epoch, last.base_sequence) == (1, 1, 0)


def test_an_id_that_the_broker_refuses_is_replaced() -> None:
    def verdict(count: int, header: Any) -> ErrorCode:
        return ErrorCode.INVALID_PRODUCER_EPOCH if header.producer_id == 1 else ErrorCode.NONE

    with OnePartition(verdict) as broker, broker.producer() as producer:
        assert producer.send("t", "x").result(10).offset == 0
        last = broker.headers[-1]
        assert (last.producer_id, last.producer_epoch, last.base_sequence) == (2, 0, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_batch_that_is_too_large_is_split(kind: str, compression: str) -> None:
    def verdict(_count: int, header: Any) -> ErrorCode:
        return ErrorCode.MESSAGE_TOO_LARGE if header.record_count > 3 else ErrorCode.NONE

    heard: list[int] = []
    with (
        OnePartition(verdict) as broker,
        broker.producer(kind, linger_ms=10_000, compression_type=compression) as producer,
    ):
        sent = [
            producer.send("t", str(n), on_delivery=lambda m, _e: heard.append(m.offset))
            for n in range(20)
        ]
        producer.flush()
        assert broker.accepted == numbers(20)
        assert [producer.outcome(future).offset for future in sent] == list(range(20))
    assert sorted(heard) == list(range(20))


def test_the_records_at_fault_are_named() -> None:
    class Refusing(OnePartition):
        def produce(self, request: Any) -> Any:
            fault = BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")
            answer = PartitionProduceResponse(
                index=0, error_code=int(ErrorCode.INVALID_RECORD), record_errors=[fault]
            )
            topic = TopicProduceResponse(name="t", topic_id=TOPIC_ID, partition_responses=[answer])
            return ProduceResponse(responses=[topic])

    with Refusing() as broker, broker.producer(linger_ms=10_000) as producer:
        sent = [producer.send("t", "x") for _ in range(2)]
        producer.flush()
        assert str(sent[1].exception()) == "t-0: no key (INVALID_RECORD)"
        assert "another one of the same batch: no key" in str(sent[0].exception())


@pytest.mark.parametrize("kind", KINDS)
def test_delivery_timeout(kind: str) -> None:
    with OnePartition(lambda *_: ErrorCode.NOT_ENOUGH_REPLICAS) as broker:
        options = {"delivery_timeout_ms": 150, "request_timeout_ms": 100, "linger_ms": 0}
        with broker.producer(kind, **options) as producer:
            sent = producer.send("t", "x")
            with pytest.raises(DeliveryTimeout, match="NOT_ENOUGH_REPLICAS"):
                producer.outcome(sent, 10)


@pytest.mark.parametrize("kind", KINDS)
def test_acks_0_and_callbacks(kind: str) -> None:
    seen: list[Any] = []
    with OnePartition() as broker, broker.producer(kind, acks="0") as producer:
        producer.send("t", "x", on_delivery=lambda *told: seen.append(told), timestamp_ms=7)
        sent = producer.send("t", "y")
        sent.add_done_callback(lambda future: seen.append(future is sent))
        producer.flush()
    assert seen == [(RecordMetadata("t", 0, -1, 7), None), True]
    assert broker.producer_ids == 0


def test_a_callback_never_runs_inside_send_and_may_send_itself() -> None:
    inside: list[bool] = []
    lock = threading.Lock()
    sending = False

    def heard(metadata: RecordMetadata, _error: Any) -> None:
        with lock:
            inside.append(sending and threading.current_thread() is threading.main_thread())
        if metadata.offset == 0:
            producer.send("t", "again", on_delivery=heard)

    with OnePartition() as broker, broker.producer(batch_size=100) as producer:
        for number in range(50):
            with lock:
                sending = True
                producer.send("t", str(number), on_delivery=heard)
                sending = False
        producer.flush()
        producer.close()
        assert len(broker.accepted) == 51
    assert len(inside) == 51
    assert not any(inside)


def test_a_callback_may_wait_for_others() -> None:
    heard: list[Any] = []

    def first(_metadata: RecordMetadata, _error: Any) -> None:
        heard.append(producer.send("t", "second").result(10).offset)
        producer.flush(10)
        heard.append("flushed")

    with OnePartition() as broker, broker.producer() as producer:
        producer.send("t", "first", on_delivery=first)
        producer.flush(10)
        producer.close()
    assert heard == [1, "flushed"]


@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_bounded(kind: str) -> None:
    with OnePartition(lambda *_: ErrorCode.NOT_ENOUGH_REPLICAS) as broker:
        producer = broker.producer(kind, buffer_memory=2_000, max_block_ms=50, batch_size=500)

        def fill() -> None:
            for _ in range(100):
                producer.send("t", "x" * 100)

        with pytest.raises(BufferExhausted, match=r"buffer\.memory"):
            fill()
        producer.close(0)


def test_who_waits_for_memory_goes_on_in_order() -> None:
    gate = threading.Event()

    def verdict(_count: int, _header: Any) -> ErrorCode:
        gate.wait(10)
        return ErrorCode.NONE

    with OnePartition(verdict) as broker:
        options = {"buffer_memory": 1_024, "batch_size": 1_024, "linger_ms": 0}
        with broker.producer(**options) as producer:
            producer.send("t", "x" * 900)
            threads = []
            for number in range(3):
                threads.append(
                    threading.Thread(target=producer.send, args=("t", str(number) * 900))
                )
                threads[-1].start()
                while producer._engine.accumulator.pool.waiting <= number:
                    threading.Event().wait(0.001)
            gate.set()
            for thread in threads:
                thread.join(10)
            producer.flush()
            assert [value[:1] for value in broker.accepted if value] == [b"x", b"0", b"1", b"2"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("record", "error", "words"),
    [
        ({"value": "x" * 2_000}, RecordTooLargeError, r"max\.request\.size"),
        ({"value": "x", "partition": 7}, NotFoundError, "1 partitions"),
        ({"value": "x", "partition": -1}, NotFoundError, "not the number of a partition"),
        ({"value": "x", "partition": "0"}, NotFoundError, "not the number of a partition"),
        ({"value": 5}, SerializationError, "value_serializer"),
        ({"value": "x", "key": object()}, SerializationError, "key_serializer"),
        ({"value": "\ud800"}, SerializationError, "UTF-8"),
        ({"value": "x", "timestamp_ms": -1}, SerializationError, "milliseconds"),
        ({"value": "x", "timestamp_ms": 2**64}, SerializationError, "milliseconds"),
        ({"value": "x", "headers": [("a", 5)]}, SerializationError, "headers"),
        ({"value": "x", "headers": [("a",)]}, SerializationError, "headers"),
        ({"value": "x", "on_delivery": "no"}, TypeError, "function"),
        ({"value": "x", "topic": "no/topic"}, BrokerError, "letters, digits"),
        ({"value": "x", "topic": 7}, TypeError, "str"),
    ],
)
def test_bad_input_is_refused_at_the_call_and_nothing_is_lost(
    kind: str, record: dict[str, Any], error: type[Exception], words: str
) -> None:
    with OnePartition() as broker, broker.producer(kind, max_request_size=1_000) as producer:
        before = producer.send("t", "before")
        with pytest.raises(error, match=words):
            producer.send(**{"topic": "t", **record})
        producer.send("t", "after")
        producer.flush()
        assert broker.accepted == [b"before", b"after"]
        assert producer.outcome(before).offset == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_producer(kind: str) -> None:
    with OnePartition() as broker, broker.producer(kind) as producer:
        producer.send("t", "x")
        producer.close()
        producer.close()
        assert broker.accepted == [b"x"]
        with pytest.raises(ClosedError):
            producer.send("t", "y")


def test_serializers_and_headers() -> None:
    seen: list[Any] = []

    class Reading(OnePartition):
        def produce(self, request: Any) -> Any:
            data = bytes(request.topic_data[0].partition_data[0].records)
            seen.extend((r.key, r.value, r.headers) for r in read_records(data))
            return super().produce(request)

    options = {"key_serializer": "int", "value_serializer": lambda value: repr(value).encode()}
    with Reading() as broker, broker.producer(**options) as producer:
        producer.send("t", {1: 2}, 5, headers={"trace": "ä", "none": None})
        producer.send("t", None, None)
        with pytest.raises(SerializationError, match="int"):
            producer.send("t", 1, "no number")
        producer.flush()
    headers = (("trace", "ä".encode()), ("none", None))
    assert seen == [((5).to_bytes(4, "big"), b"{1: 2}", headers), (None, None, ())]


@pytest.mark.parametrize("kind", KINDS)
def test_interceptors(kind: str) -> None:
    told: list[Any] = []

    class Interceptor:
        def on_send(self, record: Any) -> Any:
            return record._replace(value=record.value.upper())

        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            told.append((metadata.offset, error is None))

    with OnePartition() as broker, broker.producer(kind, interceptors=[Interceptor()]) as producer:
        producer.send("t", "x")
        with pytest.raises(NotFoundError):
            producer.send("t", "y", partition=4)
        producer.flush()
        producer.close()
        assert broker.accepted == [b"X"]
    assert sorted(told) == [(-1, False), (0, True)]


def test_an_own_partitioner() -> None:
    def bad(_topic: str, _key: Any, _value: Any, partitions: Any) -> int:
        return len(partitions)

    with (
        OnePartition() as broker,
        broker.producer(partitioner=bad) as producer,
        pytest.raises(SerializationError, match="gave 1"),
    ):
        producer.send("t", "x")
    seen: list[Any] = []

    def good(*args: Any) -> int:
        seen.append(args)
        return 0

    with OnePartition() as broker, broker.producer(partitioner=good) as producer:
        producer.send("t", "x", "k")
        producer.send("t", "y")
        producer.flush()
        assert broker.accepted == [b"x", b"y"]
    assert seen == [("t", b"k", b"x", range(1)), ("t", None, b"y", range(1))]
    with pytest.raises(OptionError, match="round_robin"):
        Producer(partitioner="sideways")


def test_leaving_with_an_exception_sends_what_was_accepted() -> None:
    with OnePartition() as broker:

        def failing() -> None:
            with broker.producer(linger_ms=10_000) as producer:
                producer.send("t", "x")
                raise KeyError("the caller's")

        with pytest.raises(KeyError):
            failing()
        assert broker.accepted == [b"x"]


def test_close_gives_up_when_the_time_is_up(caplog: pytest.LogCaptureFixture) -> None:
    with OnePartition(lambda *_: ErrorCode.NOT_ENOUGH_REPLICAS) as broker:
        producer = broker.producer()
        sent = [producer.send("t", "x") for _ in range(3)]
        with pytest.raises(RequestTimeout, match="3 records"):
            producer.flush(0.05)
        with pytest.raises(RequestTimeout):
            sent[0].result(0.01)
        producer.close(0.05)
        assert "3 records" in caplog.text
        with pytest.raises(ClosedError):
            sent[0].result()


def test_result_does_not_wait_for_others_to_join() -> None:
    with OnePartition() as broker, broker.producer(linger_ms=60_000) as producer:
        assert producer.send("t", "x").result(20).offset == 0


INTERRUPTED = """
import _thread, sys, threading
from barnabas.client.producer import Producer
producer = Producer(bootstrap_servers=sys.argv[1], retry_backoff_ms=1)
sent = producer.send("t", "x")
threading.Timer(0.3, _thread.interrupt_main).start()
try:
    CALL
except KeyboardInterrupt:
    print("interrupted", flush=True)
producer.close(0)
"""


@pytest.mark.parametrize("call", ["producer.flush()", "sent.result()", "producer.close()"])
def test_control_c_interrupts(call: str) -> None:
    with OnePartition(lambda *_: ErrorCode.NOT_ENOUGH_REPLICAS) as broker:
        done = subprocess.run(
            [sys.executable, "-c", INTERRUPTED.replace("CALL", call), broker.fake.address],
            capture_output=True,
            timeout=60,
            check=True,
            text=True,
        )
    assert done.stdout == "interrupted\n"


def test_a_program_that_forgets_to_close_sends_what_it_has() -> None:
    program = (
        "import sys; from barnabas.client.producer import Producer;"
        "Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000).send('t', 'x')"
    )
    with OnePartition() as broker:
        command = [sys.executable, "-c", program, broker.fake.address]
        subprocess.run(command, timeout=60, check=True, capture_output=True)
        assert broker.accepted == [b"x"]


def test_after_an_interruption_everything_is_sent_once() -> None:
    """Wherever an interruption falls into the sender, it goes on afterwards."""

    def verdict(_count: int, header: Any) -> ErrorCode:
        expected = len(broker.accepted)
        if header.base_sequence < expected:
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        return (
            ErrorCode.NONE
            if header.base_sequence == expected
            else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        )

    with OnePartition(verdict) as broker, broker.producer(batch_size=150) as producer:
        accepted: list[Any] = []
        left = 0

        def trace(frame: Any, _event: str, _argument: Any) -> Any:
            nonlocal left
            left -= "barnabas/client" in frame.f_code.co_filename
            if left == 0:
                raise KeyboardInterrupt
            return trace

        producer.send("t", "0").result(10)
        number = 1
        for steps in range(1, 1_200, 23):
            left = steps
            sys.settrace(trace)
            try:
                for _ in range(8):
                    accepted.append(producer.send("t", str(number)))
                    number += 1
            except KeyboardInterrupt:
                number += 1
            finally:
                sys.settrace(None)
        producer.flush(30)
        assert all(future.exception(0) is None for future in accepted)
        assert len(set(broker.accepted)) == len(broker.accepted)
        values = [int(value) for value in broker.accepted if value]
        assert values == sorted(values)
        pool = producer._engine.accumulator.pool
        assert pool.available == pool.total


def test_many_tasks_of_one_loop() -> None:
    async def main(address: str) -> int:
        async with AsyncProducer(bootstrap_servers=address, linger_ms=1) as producer:

            async def task(number: int) -> int:
                metadata = await producer.send_and_wait("t", str(number), key=str(number))
                return metadata.offset

            offsets = await asyncio.gather(*(task(number) for number in range(200)))
            assert sorted(offsets) == list(range(200))
            return len(offsets)

    with OnePartition() as broker:
        assert asyncio.run(main(broker.fake.address)) == 200


def test_metrics() -> None:
    with OnePartition() as broker, broker.producer() as producer:
        for _ in range(10):
            producer.send("t", "x")
        producer.flush()
        found = producer.metrics()
        assert found["producer-metrics"]["record-send-total"] == 10
        assert found["producer-topic-metrics"]["t"]["record-send-total"] == 10
        assert found["producer-metrics"]["buffer-available-bytes"] == 32 * 1024 * 1024
        assert "kafka_producer_producer_metrics_record_send_total" in producer.prometheus()
