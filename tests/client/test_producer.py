"""The producer against a broker that misbehaves on purpose."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client.errors import BrokerError, ClientError, ClosedError, RequestTimeout
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
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.client.fake_broker import FakeBroker, offer

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
        answer = PartitionProduceResponse(index=0, error_code=int(code), base_offset=offset)
        topic = TopicProduceResponse(name="t", topic_id=TOPIC_ID, partition_responses=[answer])
        return ProduceResponse(responses=[topic])

    def producer(self, **options: Any) -> Producer:
        return Producer(bootstrap_servers=self.fake.address, retry_backoff_ms=1, **options)

    def __enter__(self) -> OnePartition:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.fake.close()


def test_records_arrive_in_order_with_offsets() -> None:
    with OnePartition() as broker, broker.producer(batch_size=200) as producer:
        sent = [producer.send("t", str(n)) for n in range(100)]
        producer.flush()
        assert broker.accepted == [str(n).encode() for n in range(100)]
        assert [d.offset for d in sent] == list(range(100))
        assert len(broker.headers) > 5
        sequences = [(h.base_sequence, h.record_count) for h in broker.headers]
        assert all(a + n == b for (a, n), (b, _) in itertools.pairwise(sequences))


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, None]
)
def test_retriable_failures_are_repeated_in_order(code: ErrorCode | None) -> None:
    def verdict(count: int, header: Any) -> ErrorCode | None:
        if count in (2, 3):
            return code
        expected = len(broker.accepted)
        if header.base_sequence < expected:
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        if header.base_sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return ErrorCode.NONE

    with OnePartition(verdict) as broker, broker.producer(batch_size=120) as producer:
        for n in range(60):
            producer.send("t", str(n))
        producer.flush()
        assert broker.accepted == [str(n).encode() for n in range(60)]
        assert broker.producer_ids == 1


def test_a_refused_batch_fails_alone_and_a_new_producer_id_follows() -> None:
    def verdict(count: int, _header: Any) -> ErrorCode:
        return ErrorCode.MESSAGE_TOO_LARGE if count == 1 else ErrorCode.NONE

    with OnePartition(verdict) as broker, broker.producer() as producer:
        bad = producer.send("t", "bad")
        with pytest.raises(BrokerError) as caught:
            producer.wait(bad)
        assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
        good = producer.wait(producer.send("t", "good"))
        assert good.offset == 0
        assert broker.producer_ids == 2
        assert (broker.headers[-1].producer_id, broker.headers[-1].base_sequence) == (2, 0)


def test_delivery_timeout() -> None:
    with OnePartition(lambda *_: ErrorCode.NOT_ENOUGH_REPLICAS) as broker:
        producer = broker.producer(delivery_timeout_ms=100, request_timeout_ms=50, linger_ms=0)
        sent = producer.send("t", "x")
        with pytest.raises(ClientError):
            producer.wait(sent, 5_000)
        producer.close()


def test_callbacks_and_acks_0() -> None:
    seen: list[int] = []
    with OnePartition() as broker, broker.producer(acks="0") as producer:
        producer.send("t", "x", on_delivery=lambda d: seen.append(d.offset))
        producer.flush()
    assert seen == [-1]
    assert broker.producer_ids == 0


def test_memory_is_bounded() -> None:
    with OnePartition(lambda *_: ErrorCode.NOT_ENOUGH_REPLICAS) as broker:
        producer = broker.producer(buffer_memory=2_000, max_block_ms=50)

        def fill() -> None:
            for _ in range(100):
                producer.send("t", "x" * 100)

        with pytest.raises(RequestTimeout, match=r"buffer\.memory"):
            fill()
        producer.abandon()


def test_too_large_and_closed() -> None:
    with OnePartition() as broker:
        producer = broker.producer(max_request_size=100)
        with pytest.raises(BrokerError, match=r"max\.request\.size"):
            producer.send("t", "x" * 200)
        with pytest.raises(BrokerError, match="1 partitions"):
            producer.send("t", "x", partition=7)
        producer.close()
        with pytest.raises(ClosedError):
            producer.send("t", "x")
