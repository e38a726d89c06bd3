"""From batches to a Produce request: compression, header, checksum, message."""

from __future__ import annotations

from struct import Struct
from typing import Any

from barnabas.client.core.batch import ProducerBatch
from barnabas.client.core.metadata import TopicPartition
from barnabas.record.batch import CRC, CRC_OFFSET, compute_crc
from barnabas.record.build import seal_batch
from barnabas.record.compression import Codec
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.uuids import ZERO

CODECS = {
    "none": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
LAST_VERSION_BY_NAME = 12
_PRODUCER = Struct(">qhi")
_PRODUCER_OFFSET = 43


def seal(batch: ProducerBatch, codec: int, level: int | None) -> bytearray:
    """The bytes of a batch, with the producer id and sequence number that it has now."""
    data = batch.data
    if data is None:
        builder = batch.builder
        base_timestamp, max_timestamp = builder.base_timestamp, builder.max_timestamp
        batch.data = data = seal_batch(
            builder.finish(),
            codec=codec,
            level=level,
            base_offset=0,
            partition_leader_epoch=-1,
            attributes=codec,
            last_offset_delta=batch.record_count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            record_count=batch.record_count,
        )
        return data
    stamp = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    if _PRODUCER.unpack_from(data, _PRODUCER_OFFSET) != stamp:
        _PRODUCER.pack_into(data, _PRODUCER_OFFSET, *stamp)
        CRC.pack_into(data, CRC_OFFSET, compute_crc(data, 0, len(data)))
    return data


class RequestForm:
    """What all Produce requests of one producer have in common."""

    __slots__ = ("_acks", "_codec", "_level", "_timeout_ms")

    def __init__(self, acks: str, compression: str, level: int | None, timeout_ms: int) -> None:
        self._acks = -1 if acks in ("all", "-1") else int(acks)
        self._codec = int(CODECS[compression])
        self._level = level
        self._timeout_ms = timeout_ms

    @property
    def answered(self) -> bool:
        return self._acks != 0

    def request(
        self, batches: list[ProducerBatch], ids: dict[str, bytes]
    ) -> tuple[ProduceRequest, int | None]:
        """The request, and the highest version in which it can be sent. `ids`: those of topics."""
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            data = PartitionProduceData(
                index=batch.partition, records=seal(batch, self._codec, self._level)
            )
            topic = topics.get(batch.topic)
            if topic is None:
                topics[batch.topic] = TopicProduceData(
                    name=batch.topic, topic_id=ids[batch.topic], partition_data=[data]
                )
            else:
                topic.partition_data.append(data)
        request = ProduceRequest(
            acks=self._acks, timeout_ms=self._timeout_ms, topic_data=list(topics.values())
        )
        return request, LAST_VERSION_BY_NAME if ZERO in ids.values() else None


def answers_of(response: ProduceResponse, names: dict[bytes, str]) -> dict[TopicPartition, Any]:
    """An answer by partition. `names`: those of the topics that the request named by id."""
    found: dict[TopicPartition, Any] = {}
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for answer in topic.partition_responses:
            found[name, answer.index] = answer
    return found
