"""A replica of the metadata log, as the node around it uses it. It does no I/O of its own.

The driver calls `tick` when `next_tick_ms` has come, hands in requests (`handle`) and answers
(`answered`), and after every call takes what is to be sent (`take_sends`) and flushes the log in the
background if `wants_flush` says so (`log.sync`, whose result goes to `flushed`). Calls that do not
come from the driver, such as `append`, end with `wake`, which the driver sets.

The time that is handed in is the wall clock's, which may jump. Timeouts are measured on a clock of
their own, which goes on with it but never back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from barnabas.log.log import FlushPoint
from barnabas.raft import answers
from barnabas.raft.connections import NEVER_MS, Send
from barnabas.raft.describe import describe_quorum
from barnabas.raft.errors import NotLeader, StorageError
from barnabas.raft.incoming import (
    handle_begin_quorum_epoch,
    handle_end_quorum_epoch,
    handle_vote,
)
from barnabas.raft.leader import Leader
from barnabas.raft.listener import RaftListener
from barnabas.raft.log import MetadataLog
from barnabas.raft.quorum_state import QuorumStateFile
from barnabas.raft.reconfiguration import Reconfiguration
from barnabas.raft.replica import Replica
from barnabas.raft.resigned import Resigned
from barnabas.raft.serving import FetchServer
from barnabas.raft.settings import RaftSettings
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.states import State
from barnabas.raft.voters import VoterEndpoint, VoterSet
from barnabas.seams import Address, Randomness
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.wire.messages.api_versions import ApiVersionsResponse
from barnabas.wire.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from barnabas.wire.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from barnabas.wire.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from barnabas.wire.messages.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from barnabas.wire.messages.vote import VoteRequest, VoteResponse

__all__ = ["NotLeader", "Raft", "RaftSettings", "Send"]

logger = logging.getLogger(__name__)

Reply = Callable[[Message], None]

RESPONSES: dict[ApiKey, Callable[..., Message]] = {
    ApiKey.VOTE: VoteResponse,
    ApiKey.BEGIN_QUORUM_EPOCH: BeginQuorumEpochResponse,
    ApiKey.END_QUORUM_EPOCH: EndQuorumEpochResponse,
    ApiKey.FETCH: FetchResponse,
    ApiKey.FETCH_SNAPSHOT: FetchSnapshotResponse,
    ApiKey.DESCRIBE_QUORUM: DescribeQuorumResponse,
    ApiKey.ADD_RAFT_VOTER: AddRaftVoterResponse,
    ApiKey.REMOVE_RAFT_VOTER: RemoveRaftVoterResponse,
    ApiKey.UPDATE_RAFT_VOTER: UpdateRaftVoterResponse,
}
"""The requests that a replica answers."""


class Raft:
    def __init__(
        self,
        *,
        log: MetadataLog,
        state_file: QuorumStateFile,
        node_id: int,
        directory_id: bytes,
        cluster_id: str,
        can_vote: bool,
        static_voters: VoterSet | None,
        bootstrap_servers: Sequence[Address],
        own_endpoints: Sequence[VoterEndpoint],
        settings: RaftSettings,
        randomness: Randomness,
        listener: RaftListener,
    ) -> None:
        self.log = log
        self.node_id = node_id
        self.directory_id = directory_id
        self.wake: Callable[[], None] = lambda: None
        self.failure: Exception | None = None
        self._replica = Replica(
            log=log,
            state_file=state_file,
            node_id=node_id,
            directory_id=directory_id,
            cluster_id=cluster_id,
            can_vote=can_vote,
            static_voters=static_voters,
            bootstrap_servers=bootstrap_servers,
            own_endpoints=own_endpoints,
            settings=settings,
            randomness=randomness,
            listener=listener,
        )
        self._replica.left_leading = self._left_leading
        self._server = FetchServer(self._replica, self._commit)
        self._reconfiguration = Reconfiguration(self._replica)
        self._wall_ms = 0
        self._now_ms = 0
        self._next_ms = NEVER_MS
        self._is_settling = False

    # ---- what is known

    @property
    def state(self) -> State:
        return self._replica.state.STATE

    @property
    def epoch(self) -> int:
        return self._replica.epoch

    @property
    def leader_id(self) -> int:
        """-1 while it is not known, or has just resigned."""
        return self._replica.present_leader_id

    @property
    def is_leader(self) -> bool:
        return self._replica.leader is not None

    @property
    def is_voter(self) -> bool:
        return self._replica.is_voter

    @property
    def voters(self) -> VoterSet:
        return self._replica.voters

    @property
    def kraft_version(self) -> int:
        return self._replica.voter_history.kraft_version

    @property
    def high_watermark(self) -> int:
        """Everything below is committed. It never goes back while the replica lives."""
        return self._replica.high_watermark

    def leader_endpoint(self, listener_name: str = "") -> Address | None:
        return self._replica.leader_endpoint(listener_name) if self.leader_id >= 0 else None

    def voters_at(self, end_offset: int) -> tuple[int, VoterSet]:
        """The level of `kraft.version` and the voters that a snapshot of this much tells."""
        history = self._replica.voter_history
        return history.kraft_version_at(end_offset), history.at(end_offset)

    @property
    def next_tick_ms(self) -> int:
        return self._wall_ms + max(self._next_ms - self._now_ms, 0)

    @property
    def wants_flush(self) -> bool:
        return self.failure is None and self.log.flushed_offset < self.log.end_offset

    # ---- what happens

    def start(self, now_ms: int) -> None:
        self._wall_ms = self._now_ms = now_ms
        self._replica.start(now_ms)
        self._settle()

    def tick(self, now_ms: int) -> None:
        self._advance(now_ms)
        with self._guarded():
            self._settle()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """A replica whose disk fails, or that finds its log to be another than its leader's, stops.
        Everything else is a bug and goes its way."""
        try:
            yield
        except (OSError, StorageError) as error:
            self.failed(error)

    def append(self, values: Sequence[bytes], now_ms: int) -> int:
        """Append one batch; gives its last offset. `NotLeader` if this replica does not lead."""
        if self._replica.leader is None or self.failure is not None:
            raise NotLeader(f"node {self.node_id} does not lead the metadata log")
        self._advance(now_ms)
        try:
            last_offset = self._replica.append(values, now_ms)
        except OSError as error:
            self.failed(error)
            raise
        self._settle()
        self.wake()
        return last_offset

    def flushed(self, point: FlushPoint, now_ms: int) -> None:
        """The driver ran `log.sync`, with this result."""
        self.log.note_synced(point)
        self._advance(now_ms)
        with self._guarded():
            self._settle()

    def failed(self, error: Exception) -> None:
        """The disk failed, so that nothing which this replica says of its log can be relied upon:
        it says nothing more."""
        if self.failure is not None:
            return
        logger.critical("the replica of the metadata log stops: %s", error)
        self.failure = error
        self._replica.stop(self._now_ms)
        self._next_ms = NEVER_MS
        self.wake()

    @property
    def is_quiet(self) -> bool:
        """After `shutdown`: there is nobody left whom this replica has to tell that it goes."""
        state = self._replica.state
        return not isinstance(state, Resigned) or not state.unacknowledged

    def check_kraft_version(self, version: int) -> None:
        """Refuse what `upgrade_kraft_version` would refuse."""
        self._reconfiguration.check_upgrade(version)

    def upgrade_kraft_version(self, version: int, now_ms: int) -> int:
        """Leader only; gives the last offset of what was written. Refusals are `ApiError`."""
        self._advance(now_ms)
        last_offset = self._reconfiguration.upgrade(version, now_ms)
        self._settle()
        self.wake()
        return last_offset

    def resign(self, now_ms: int) -> None:
        self._advance(now_ms)
        if self._replica.leader is not None:
            self._replica.become_resigned(self._now_ms, "it was asked to")
        self._settle()
        self.wake()

    def shutdown(self, now_ms: int) -> None:
        """Lead no more, and stand for election no more. `is_quiet` says when all voters know."""
        self._replica.is_shutting_down = True
        self.resign(now_ms)

    def snapshot_stored(self, snapshot: SnapshotId) -> None:
        self.log.snapshot_stored(snapshot)
        self.wake()

    # ---- requests and answers

    def handle(
        self,
        key: ApiKey,
        version: int,
        request: Message,
        now_ms: int,
        reply: Reply,
        *,
        listener_name: str = "",
    ) -> None:
        self._advance(now_ms)
        answered = False

        def answer(response: Message) -> None:
            nonlocal answered
            assert not answered, "one answer to each request"
            answered = True
            reply(response)

        if self.failure is None:
            with self._guarded():
                self._handle(key, version, request, self._now_ms, answer, listener_name)
                self._settle()
        if self.failure is not None and not answered:
            answer(RESPONSES[key](error_code=ErrorCode.BROKER_NOT_AVAILABLE))

    def _handle(
        self,
        key: ApiKey,
        version: int,
        request: Message,
        now_ms: int,
        reply: Reply,
        listener_name: str,
    ) -> None:
        replica = self._replica
        match request:
            case VoteRequest():
                reply(handle_vote(replica, version, request, now_ms, listener_name))
            case BeginQuorumEpochRequest():
                reply(handle_begin_quorum_epoch(replica, version, request, now_ms, listener_name))
            case EndQuorumEpochRequest():
                reply(handle_end_quorum_epoch(replica, version, request, now_ms, listener_name))
            case FetchRequest():
                self._server.handle_fetch(version, request, now_ms, reply, listener_name)
            case FetchSnapshotRequest():
                reply(self._server.handle_fetch_snapshot(version, request, now_ms, listener_name))
            case DescribeQuorumRequest():
                reply(describe_quorum(replica, request, now_ms))
            case AddRaftVoterRequest():
                self._reconfiguration.add(request, now_ms, reply)
            case RemoveRaftVoterRequest():
                self._reconfiguration.remove(request, now_ms, reply)
            case UpdateRaftVoterRequest():
                self._reconfiguration.update(request, now_ms, reply, listener_name)
            case _:
                raise AssertionError(f"{key.name} is no request of the quorum")

    def take_sends(self) -> list[Send]:
        return [] if self.failure is not None else self._replica.connections.take_sends()

    def answered(self, send: Send, response: Message | None, now_ms: int) -> None:
        """None: it could not be reached, did not answer in time, or not in a readable way."""
        self._advance(now_ms)
        if self.failure is not None:
            return
        known = self._replica.connections.answered(send, response is not None, self._now_ms)
        if known:
            with self._guarded():
                self._answered(send, response, self._now_ms)
                self._settle()

    def _answered(self, send: Send, response: Message | None, now_ms: int) -> None:
        replica = self._replica
        if getattr(response, "error_code", None) == ErrorCode.NONE:
            replica.meet_own((send.host, send.port))
        match response:
            case VoteResponse():
                answers.take_vote(replica, send, response, now_ms)
            case BeginQuorumEpochResponse():
                answers.take_begin_quorum_epoch(replica, send, response, now_ms)
            case EndQuorumEpochResponse():
                answers.take_end_quorum_epoch(replica, send, response, now_ms)
            case FetchResponse():
                answers.take_fetch(replica, send, response, now_ms)
            case FetchSnapshotResponse():
                answers.take_fetch_snapshot(replica, send, response, now_ms)
            case ApiVersionsResponse() | AddRaftVoterResponse() | RemoveRaftVoterResponse():
                self._reconfiguration.answered(send, response, now_ms)
            case UpdateRaftVoterResponse():
                self._reconfiguration.answered(send, response, now_ms)
            case None:
                answers.take_nothing(replica, send, now_ms)

    # ---- what follows

    def _advance(self, wall_ms: int) -> None:
        self._now_ms += max(wall_ms - self._wall_ms, 0)
        self._wall_ms = wall_ms

    def _commit(self, now_ms: int) -> None:
        """The leader's high watermark, after a position changed."""
        leader = self._replica.leader
        if leader is None:
            return
        offset = leader.majority_offset(self.log.flushed_offset)
        if offset > leader.epoch_start_offset:
            self._replica.raise_high_watermark(offset)

    def _left_leading(self, leader: Leader) -> None:
        self._server.stop(leader)
        self._reconfiguration.stop(leader)

    def _settle(self) -> None:
        """Do all that is due now. What comes in meanwhile is done in the same round."""
        if self._is_settling or self.failure is not None:
            return
        self._is_settling = True
        try:
            now_ms = self._now_ms
            while True:
                state = self._replica.state
                self._commit(now_ms)
                self._replica.tell()
                leader = self._replica.leader
                next_ms = NEVER_MS
                if leader is not None:
                    next_ms = self._reconfiguration.poll(leader, now_ms)
                    self._server.wake(leader, now_ms)
                next_ms = min(next_ms, self._poll(now_ms))
                before = (self.log.end_offset, self._replica.high_watermark)
                self._replica.tell()
                after = (self.log.end_offset, self._replica.high_watermark)
                if state is self._replica.state and before == after:
                    break
            self._next_ms = next_ms
        finally:
            self._is_settling = False

    def _poll(self, now_ms: int) -> int:
        state = self._replica.state
        if self._replica.is_shutting_down and state.STATE is not State.RESIGNED:
            return NEVER_MS
        return state.poll(self._replica, now_ms)
