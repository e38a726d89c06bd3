"""Writes single records aside, for a consumer that may not lose what it cannot read.

Each record is a request of its own that waits for all replicas; it is rare, so nothing is batched and no
producer is needed. It goes to the partition of the same number (counted round, if the topic has fewer),
so the dead letters of a partition stay in order. A retry after an answer that was lost may write a
record twice.
"""

from __future__ import annotations

from typing import Any, Final

from barnabas.client.cluster import Cluster
from barnabas.client.errors import broker_error
from barnabas.client.kernels_consumer import ConsumerRecord
from barnabas.record.build import build_batch
from barnabas.wire.errors import ErrorCode

ACKS_OF_ALL: Final = -1
LAST_VERSION_BY_NAME: Final = 12


class DeadLetters:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def write(
        self, topic: str, record: ConsumerRecord, headers: tuple[tuple[str, bytes | None], ...]
    ) -> None:
        """Returns once the record is in `topic`, with its key and value as they are."""
        cluster = self._cluster
        found = (await cluster.topics([topic], allow_auto_create=True))[topic]
        place = (topic, sorted(found.partitions)[record.partition % len(found.partitions)])
        timestamp = cluster.reactor.wall_ms() if record.timestamp < 0 else record.timestamp
        batch = build_batch([(timestamp, record.key, record.value, headers)])

        async def attempt() -> None:
            node_id = await cluster.leader(place)
            response = await cluster.request(
                node_id,
                self._request(place, batch),
                what=f"the dead letter to be written to {topic}",
                highest=LAST_VERSION_BY_NAME,
            )
            answer = response.responses[0].partition_responses[0]
            if answer.error_code != ErrorCode.NONE:
                error = broker_error(
                    answer.error_code, answer.error_message, subject=f"{topic}-{place[1]}"
                )
                if error.code.invalidates_metadata:
                    await cluster.refresh([topic])
                raise error

        await cluster.retry(f"the dead letter to be written to {topic}", attempt)

    def _request(self, place: tuple[str, int], batch: bytearray) -> Any:
        from barnabas.wire.messages import produce as api

        return api.ProduceRequest(
            acks=ACKS_OF_ALL,
            timeout_ms=self._cluster.settings.request_timeout_ms,
            topic_data=[
                api.TopicProduceData(
                    name=place[0],
                    partition_data=[
                        api.PartitionProduceData(index=place[1], records=memoryview(batch))
                    ],
                )
            ],
        )
