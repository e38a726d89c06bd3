"""The follower's side of an incremental fetch session (KIP-227).

What was last told to the leader is kept for every partition; a request names only those whose offset,
epoch or start moved, and those that are fetched no more. A leader without room for a session answers
with id 0, and every request is then a full one.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.replica.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    MAX_EPOCH,
)
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic


@dataclass(frozen=True, slots=True)
class Position:
    """What a follower asks of one partition."""

    topic: str
    topic_id: bytes
    index: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class FollowerSession:
    def __init__(self) -> None:
        self.session_id = INVALID_SESSION_ID
        self.epoch = INITIAL_EPOCH
        self._told: dict[tuple[bytes, int], Position] = {}

    @property
    def is_full(self) -> bool:
        """The next request names every partition."""
        return self.epoch == INITIAL_EPOCH

    def fill(self, request: FetchRequest, wanted: list[Position], max_bytes: int) -> None:
        """Put the session and what must be said of partitions into a request."""
        request.session_id = self.session_id
        request.session_epoch = self.epoch
        told = {} if self.is_full else self._told
        positions = {(each.topic_id, each.index): each for each in wanted}
        topics: dict[bytes, FetchTopic] = {}
        for key, position in positions.items():
            if told.get(key) == position:
                continue
            topic = topics.get(position.topic_id)
            if topic is None:
                topic = FetchTopic(topic=position.topic, topic_id=position.topic_id, partitions=[])
                topics[position.topic_id] = topic
            topic.partitions.append(
                FetchPartition(
                    partition=position.index,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_max_bytes=max_bytes,
                )
            )
        request.topics = list(topics.values())
        forgotten: dict[bytes, ForgottenTopic] = {}
        for key, position in told.items():
            if key not in positions:
                gone = forgotten.get(position.topic_id)
                if gone is None:
                    gone = ForgottenTopic(
                        topic=position.topic, topic_id=position.topic_id, partitions=[]
                    )
                    forgotten[position.topic_id] = gone
                gone.partitions.append(position.index)
        request.forgotten_topics_data = list(forgotten.values())
        self._told = positions

    def answered(self, session_id: int) -> None:
        """The leader took the request."""
        if session_id == INVALID_SESSION_ID:
            self.session_id = INVALID_SESSION_ID
            self.epoch = INITIAL_EPOCH
        elif self.is_full or session_id != self.session_id:
            self.session_id = session_id
            self.epoch = 1
        else:
            self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1

    def start_anew(self) -> None:
        """Nobody knows what the leader remembers: the next request closes it and opens another."""
        assert self.epoch != FINAL_EPOCH
        self.epoch = INITIAL_EPOCH
