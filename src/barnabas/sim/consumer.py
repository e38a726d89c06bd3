"""A consumer without a group: reads partitions from their beginning to their end, for ever."""

from __future__ import annotations

from typing import Any

from barnabas.record.read import read_records
from barnabas.sim.client import ClientProcess
from barnabas.sim.history import History, Place
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

FETCH_VERSION = 12
MAX_WAIT_MS = 500
MAX_BYTES = 4096

_NEVER = frozenset(
    {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_REQUEST}
)


class Reader:
    """Reads one partition."""

    def __init__(
        self, client: ClientProcess, history: History, place: Place, max_bytes: int = MAX_BYTES
    ) -> None:
        self._max_bytes = max_bytes
        self._client = client
        self._history = history
        self.place = place
        self.position = 0

    async def read(self, max_wait_ms: int = MAX_WAIT_MS) -> bool:
        """One fetch; False if it failed and one should look for the leader again."""
        topic, partition = self.place
        try:
            connection, epoch = await self._client.to_leader(topic, partition)
            response = await connection.ask(self._request(epoch, max_wait_ms), FETCH_VERSION)
        except OSError:
            return False
        if response.error_code != ErrorCode.NONE:
            return False
        (answer,) = response.responses[0].partitions
        code = ErrorCode.of(answer.error_code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._history.out_of_range(self.place, self.position, self._client.name)
        if code in _NEVER:
            self._history.violated(f"{self.place}: a fetch was answered with {code.name}")
        if code != ErrorCode.NONE:
            return False
        self._take(answer)
        return True

    def _take(self, answer: Any) -> None:
        if not answer.records:
            return
        for record in read_records(answer.records, partial_tail=True):
            if record.offset < self.position:
                continue
            if record.offset >= answer.high_watermark:
                self._history.violated(
                    f"{self.place}: offset {record.offset} was shown, the high watermark is "
                    f"{answer.high_watermark}"
                )
            if record.offset != self.position:
                self._history.violated(
                    f"{self.place}: offset {record.offset} was shown where {self.position} is due"
                )
            assert record.value is not None
            self._history.read(self.place, record.offset, bytes(record.value))
            self.position = record.offset + 1

    def _request(self, epoch: int, max_wait_ms: int) -> FetchRequest:
        topic, partition = self.place
        wanted = FetchPartition(
            partition=partition,
            current_leader_epoch=epoch,
            fetch_offset=self.position,
            partition_max_bytes=self._max_bytes,
        )
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=self._max_bytes,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )


async def consume(client: ClientProcess, history: History, place: Place) -> None:
    reader = Reader(client, history, place)
    while True:
        if not await reader.read():
            await client.look_again(place[0])
