"""The client's side of one broker's incremental fetch session (KIP-227).

A session lets a request name only what differs from the one before it: partitions that were added
or whose position moved, and partitions to forget. The broker keeps the rest. Both sides count
requests with an epoch, so that neither goes on from something the other does not have:

    epoch 0         a full request that asks for a new session (and closes the old one, if an id is
                    given); the answer brings the session's id, or 0 if the broker keeps none
    epoch 1, 2, …   incremental requests; after the largest int32 comes 1 again

`known` is what the broker holds for this session. It is replaced when a request is made, not when it
is answered: if the answer never comes, or brings an error, the next request is a full one anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.client.core.metadata import TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.uuids import ZERO

NEW_SESSION = 0
_LAST_EPOCH = 0x7FFFFFFF
SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class Wanted(NamedTuple):
    """What is asked for of one partition."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int


class SessionRequest(NamedTuple):
    """What one request says. `by_id` is whether every topic has an id, so that topics can be named
    by it."""

    session_id: int
    epoch: int
    changed: dict[TopicPartition, Wanted]
    forgotten: dict[TopicPartition, bytes]
    by_id: bool

    @property
    def is_full(self) -> bool:
        return self.epoch == NEW_SESSION


class FetchSession:
    __slots__ = ("_by_id", "epoch", "known", "session_id")

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = NEW_SESSION
        self.known: dict[TopicPartition, Wanted] = {}
        self._by_id = True

    def request(self, wanted: Mapping[TopicPartition, Wanted]) -> SessionRequest:
        """The request for exactly these partitions, in their order."""
        by_id = all(w.topic_id != ZERO for w in wanted.values())
        if by_id != self._by_id and self.known:
            self.restart()  # a session names its topics one way only
        self._by_id = by_id
        if self.epoch == NEW_SESSION:
            self.known = dict(wanted)
            return SessionRequest(self.session_id, NEW_SESSION, dict(wanted), {}, by_id)
        known = self.known
        changed = {p: w for p, w in wanted.items() if known.get(p) != w}
        forgotten = {}
        for partition, before in known.items():
            now = wanted.get(partition)
            if now is None or now.topic_id != before.topic_id:
                forgotten[partition] = before.topic_id
        for partition in forgotten:
            del known[partition]
        known.update(changed)
        assert known.keys() == wanted.keys()
        return SessionRequest(self.session_id, self.epoch, changed, forgotten, by_id)

    def answered(self, session_id: int) -> None:
        """An answer without an error at its top came, with this id."""
        if session_id == 0 or (self.epoch != NEW_SESSION and session_id != self.session_id):
            self.session_id = 0
            self.epoch = NEW_SESSION
            return
        self.session_id = session_id
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def refused(self, code: int) -> None:
        """The answer says that the session is not as this side thinks."""
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.session_id = 0
        self.restart()

    def restart(self) -> None:
        """Begin anew; a session that the broker may still have is closed by the same request."""
        self.epoch = NEW_SESSION
        self.known = {}
