"""A member of a classic consumer group, without I/O.

The member is driven from two sides. What the world says comes in with the time: answers and failures
of requests, the end of a callback, metadata. What the caller does comes in as `poll_began` and
`poll_ended`. `advance(now)` then does all that is due; what has to be done outside is picked up with
`effects()` and `next_call()`, and `due()` says when to advance again if nothing happens.

Who may run when. Requests (join, sync, heartbeats) go out and come in at any time, in whichever thread
turns the reactor. Functions of the user are different: they run only inside poll, one at a time, picked
up with `next_call` and ended with `called`. So every way from one generation to the next passes two
gates that only a polling caller opens: REVOKING before the join, RECONCILING after the sync.

Eager members (any assignor of theirs is eager) give up everything at the first gate. Cooperative ones
keep their partitions, give up at the second gate what is missing in the new assignment, and then join
again, so that it can be given to others (KIP-429).

Two kinds of going back are told apart:

- *again*: the identity (member id and generation) is good, only the round failed: the coordinator
  moved, another rebalance began. The member goes back to JOINING and still owns what it owned.
- *lost*: the coordinator does not know this identity. Others may own the partitions already. The
  member is UNJOINED, and the next poll reports them as lost, not as revoked, before it joins anew.

Finding the coordinator is no state: any state may need it, and it goes on beside (`_Lookup`).

Time: a member that hears nothing from the coordinator for session.timeout.ms looks for another one. A
member whose caller does not poll for max.poll.interval.ms leaves the group and says why; functions of
the user count as not polling, for they hold up the group just as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from barnabas.client.core.assignors.assignor import Assignor, GroupTopics, MemberSubscription
from barnabas.client.core.backoff import Backoff
from barnabas.client.core.consumer_protocol import decode_assignment
from barnabas.client.core.group_requests import JOIN_SLACK_S, Requests, assign, read_members
from barnabas.client.core.metadata import TopicPartition
from barnabas.client.errors import (
    ClientError,
    CommitFailedError,
    RebalanceInProgressError,
    broker_error,
    to_code,
)
from barnabas.client.settings import ConsumerSettings
from barnabas.wire.codec import DecodeError
from barnabas.wire.errors import ErrorCode


class State(Enum):
    UNJOINED = "unjoined"  # no part of a group; partitions may have to be reported lost
    REVOKING = "revoking"  # the caller commits and gives up what it must before the join
    JOINING = "joining"  # until the answer to JoinGroup
    ASSIGNING = "assigning"  # the leader waits for metadata to divide
    SYNCING = "syncing"  # until the answer to SyncGroup
    RECONCILING = "reconciling"  # the caller learns what it lost and got
    STABLE = "stable"
    LEAVING = "leaving"  # closing: partitions are given up, then LeaveGroup
    LEFT = "left"
    FENCED = "fenced"  # another member has this group.instance.id; only closing is left


_ROUND = {State.JOINING, State.ASSIGNING, State.SYNCING}
_ENDS = {State.UNJOINED, State.LEAVING, State.FENCED}
STEPS: Final[Mapping[State, set[State]]] = {
    State.UNJOINED: {State.REVOKING, State.LEAVING, State.FENCED},
    State.REVOKING: {State.JOINING, *_ENDS},
    State.JOINING: {State.ASSIGNING, State.SYNCING, *_ENDS},
    State.ASSIGNING: {State.SYNCING, State.JOINING, *_ENDS},
    State.SYNCING: {State.RECONCILING, State.JOINING, *_ENDS},
    State.RECONCILING: {State.STABLE, *_ENDS},
    State.STABLE: {State.REVOKING, *_ENDS},
    State.LEAVING: {State.LEFT},
    State.FENCED: {State.LEAVING},
    State.LEFT: set(),
}
_MEMBER = {State.REVOKING, State.RECONCILING, State.STABLE}
"""States in which the caller may commit, given an identity."""
_BEATING = _MEMBER | {State.ASSIGNING, State.SYNCING}
"""States in which the coordinator waits for heartbeats; it expects none from who is joining."""


class Ask(Enum):
    """What is under way; at most one of each."""

    COORDINATOR = "the group's coordinator"
    METADATA = "metadata of the group's topics"
    JOIN = "the group's other members to join"
    SYNC = "the assignment of the group's leader"
    HEARTBEAT = "a heartbeat"
    LEAVE = "leaving the group"


@dataclass(frozen=True, slots=True)
class Asked:
    """Something to be asked: `request` of the coordinator, or metadata of `topics`.

    The answer comes back with `number`. Answers to what is not asked any more are passed over.
    """

    ask: Ask
    number: int
    request: Any = None
    timeout_s: float = 0.0
    topics: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Warned:
    """Something for the log."""

    text: str


class ForgetCoordinator:
    """The coordinator is not (or not any more) where it was thought to be."""


Effect = Asked | Warned | ForgetCoordinator


class Gate(Enum):
    """What the caller has to run, in poll."""

    COMMIT = "the commit before a rebalance"  # automatic commits, and the end of those under way
    REVOKED = "on_partitions_revoked"
    ASSIGNED = "on_partitions_assigned"
    LOST = "on_partitions_lost"


@dataclass(frozen=True, slots=True)
class Call:
    gate: Gate
    partitions: frozenset[TopicPartition]


_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_STRANGER = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
_ADVICE = {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "The members of the group have no assignor in common "
    "with partition.assignment.strategy={strategy}, or it is no group of consumers.",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The group has as many members as the broker allows "
    "(group.max.size).",
    ErrorCode.INVALID_SESSION_TIMEOUT: "The broker does not allow session.timeout.ms={session}; "
    "its group.min.session.timeout.ms and group.max.session.timeout.ms say what it does.",
    ErrorCode.FENCED_INSTANCE_ID: "Another consumer joined with group.instance.id={instance}; "
    "every member needs one of its own.",
}


class Member:
    """`random` is in [0, 1). Errors for the caller are raised by `check`."""

    def __init__(
        self,
        settings: ConsumerSettings,
        assignors: Sequence[Assignor],
        random: Callable[[], float],
        now: float,
    ) -> None:
        self.settings = settings
        self.cooperative = all(assignor.cooperative for assignor in assignors)
        self.state = State.UNJOINED
        self.topics: frozenset[str] = frozenset()
        self.owned: frozenset[TopicPartition] = frozenset()
        self.member_id = ""
        self.generation = -1
        self.protocol: str | None = None
        self.leads = False
        self.polling = False
        self.fatal: ClientError | None = None
        self.rebalances = 0
        self._requests = Requests(settings, assignors)
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._errors: deque[BaseException] = deque(maxlen=16)
        self._effects: list[Effect] = []
        self._calls: deque[Call] = deque()
        self._calling: Call | None = None
        self._rejoin: str | None = None
        self._reason = ""
        self._asked: dict[Ask, int] = {}
        self._number = 0
        self._previous: tuple[frozenset[TopicPartition], int] = (frozenset(), -1)
        self._members: list[MemberSubscription] = []
        self._snapshot: dict[str, int] = {}
        self._confirmed_id = ""
        self._was_forgotten = False
        self._divided: dict[str, int] = {}
        self._keeps_assignment = False
        self._group_topics: frozenset[str] = frozenset()
        self._assignment: dict[str, list[TopicPartition]] = {}
        self._coordinator_known = False
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, random)
        self._not_before = now
        self._find_not_before = now
        self._next_heartbeat = now
        self._heard_at = now
        self._busy_since: float | None = None
        self._busy_with = "the records that poll() returned"
        self._slow: tuple[float, str] | None = None

    # -- what the caller sees

    @property
    def group_id(self) -> str:
        return self._requests.group_id

    @property
    def static(self) -> bool:
        return self.settings.group_instance_id is not None

    @property
    def left(self) -> bool:
        return self.state is State.LEFT

    @property
    def settled(self) -> bool:
        """Nothing stands between the caller and its partitions."""
        return (
            self.state is State.STABLE
            and self._rejoin is None
            and not self._errors
            and self._calling is None
        )

    @property
    def may_consume(self) -> bool:
        """Whether records of owned partitions may be handed out now: a cooperative member keeps
        what it has while the others join."""
        if self.settled:
            return True
        return (
            self.cooperative
            and self.state in _ROUND
            and bool(self.owned)
            and not self._errors
            and self._calling is None
        )

    @property
    def group_topics(self) -> frozenset[str]:
        """The topics whose partition counts this member has to watch."""
        return self.topics | self._group_topics if self.leads else self.topics

    @property
    def identity(self) -> tuple[str, int]:
        return self.member_id, self.generation

    def check(self) -> None:
        """Raise what the caller has to know."""
        if self._errors:
            raise self._errors.popleft()
        if self.fatal is not None and not self._calls:
            raise self.fatal

    def effects(self) -> list[Effect]:
        taken, self._effects = self._effects, []
        return taken

    # -- what the caller does

    def poll_began(self, now: float) -> None:
        self.polling = True
        if self._slow is not None:
            since, what = self._slow
            self._slow = None
            self._warn(
                f"This consumer left group {self.group_id}: {what} took {now - since:.1f} s, "
                f"more than max.poll.interval.ms ({self.settings.max_poll_interval_ms}) allows "
                "between two calls of poll(). It joins again now. Make that quicker, lower "
                "max.poll.records, or raise max.poll.interval.ms."
            )
        self._busy_since = None

    def poll_ended(self, now: float) -> None:
        self.polling = False
        self._busy_since = now
        self._busy_with = "the handling of the records that poll() returned"

    def subscribe(self, topics: Collection[str]) -> None:
        """The topics this member wants; also when those that match a pattern have changed."""
        wanted = frozenset(topics)
        if wanted != self.topics:
            added, removed = sorted(wanted - self.topics), sorted(self.topics - wanted)
            self.topics = wanted
            self._want_rejoin(f"the subscription changed: {_some(added, '+')}{_some(removed, '-')}")

    def tell(self, error: ClientError) -> None:
        """Something that the next poll has to raise."""
        self._errors.append(error)

    def leave(self, now: float, reason: str) -> None:
        """Give everything up and go; `advance` and `next_call` until the state is LEFT."""
        if self.state in (State.LEAVING, State.LEFT):
            return
        gone = self.state is State.FENCED or self.generation < 0
        self._reason = reason
        self._asked.clear()
        self._calls.clear()
        self._errors.clear()
        self._to(State.LEAVING)
        if self.owned:
            self._calls.append(Call(Gate.LOST if gone else Gate.REVOKED, self.owned))
        if self.fatal is not None:
            self._reset_identity()
        self.advance(now)

    def abandon(self) -> None:
        """The time for leaving is up."""
        assert self.state is State.LEAVING
        self._asked.clear()
        self._calls.clear()
        self.owned = frozenset()
        self._to(State.LEFT)

    # -- callbacks

    def next_call(self, now: float) -> Call | None:
        """The next function to run for the caller; it ends with `called`."""
        if self._calling is not None or not self._calls:
            return None
        call = self._calling = self._calls.popleft()
        if call.gate is Gate.ASSIGNED:
            self.owned |= call.partitions
        self._busy_since = now
        self._busy_with = call.gate.value
        return call

    def called(self, now: float, error: BaseException | None = None) -> None:
        call, self._calling = self._calling, None
        assert call is not None
        self._busy_since = None if self.polling else now
        if call.gate in (Gate.REVOKED, Gate.LOST):
            self.owned -= call.partitions
        if error is not None:
            self._errors.append(error)
        self.advance(now)

    # -- commits

    def refuses_commit(self) -> ClientError | None:
        """Why offsets cannot be committed now, or None."""
        if self.generation >= 0:
            if self.state in _MEMBER or (self.state is State.LEAVING and self.member_id):
                return None
            if self.state in _ROUND:
                return RebalanceInProgressError(
                    ErrorCode.REBALANCE_IN_PROGRESS,
                    "The group is being rebalanced; call poll() until that is over, then commit.",
                    subject=f"group {self.group_id}",
                )
        if self.fatal is not None:
            return self.fatal
        return CommitFailedError(
            self.group_id,
            "this consumer is not part of the group (any more), so that its partitions may have "
            "been given to other members",
        )

    def commit_refused(self, now: float, identity: tuple[str, int], code: int) -> None:
        """What the coordinator answered to a commit that was sent with `identity`."""
        if code in _MOVED:
            self._forget_coordinator(now)
        elif identity == self.identity and self.state in _BEATING:
            self._take_group_code(now, code)

    # -- time

    def advance(self, now: float) -> None:
        self._check_caller(now)
        self._check_session(now)
        before = None
        while before is not self.state:
            before = self.state
            self._step(now)
        self._beat(now)
        self._find(now)

    def due(self) -> float | None:
        """When `advance` is to be called at the latest; None if only events can change anything."""
        times: list[float] = []
        state = self.state
        if state is State.UNJOINED and self.polling and self._idle:
            times.append(self._not_before)
        if state in (State.JOINING, State.SYNCING):
            ask = Ask.JOIN if state is State.JOINING else Ask.SYNC
            times += self._when(ask, self._not_before)
        if state is State.ASSIGNING and Ask.METADATA not in self._asked:
            times.append(self._not_before)
        if state is State.LEAVING and not self._coordinator_known:
            times += self._when(Ask.LEAVE, self._find_not_before)
        if self._beats:
            times.append(self._heard_at + self.settings.session_timeout_ms / 1000)
            times += self._when(Ask.HEARTBEAT, self._next_heartbeat)
        if self._busy_since is not None and self._may_be_slow:
            times.append(self._busy_since + self.settings.max_poll_interval_ms / 1000)
        return min(times, default=None)

    def _when(self, ask: Ask, at: float) -> list[float]:
        """When a request to the coordinator, or the search for it, can begin: only one time."""
        if self._coordinator_known:
            return [] if ask in self._asked else [at]
        return [] if Ask.COORDINATOR in self._asked else [self._find_not_before]

    @property
    def waits_for_answer(self) -> bool:
        return bool(self._asked)

    @property
    def _idle(self) -> bool:
        """The caller has nothing to run and runs nothing."""
        return self._calling is None and not self._calls

    @property
    def _beats(self) -> bool:
        return self.state in _BEATING and self.generation >= 0

    @property
    def _may_be_slow(self) -> bool:
        return self.state in _ROUND | _MEMBER

    def _check_caller(self, now: float) -> None:
        since = self._busy_since
        limit_s = self.settings.max_poll_interval_ms / 1000
        if since is None or not self._may_be_slow or now < since + limit_s:
            return
        reason = f"poll() was not called for {limit_s:g} s (max.poll.interval.ms): the consumer is "
        reason += f"busy with {self._busy_with}"
        self._slow = (since, self._busy_with)
        if self.member_id and not self.static:
            self._ask(Ask.LEAVE, self._requests.leave(self.member_id, reason), self._answer_s)
        self._lose(now, "it left the group because poll() was not called for too long")

    def _check_session(self, now: float) -> None:
        if self._beats and now >= self._heard_at + self.settings.session_timeout_ms / 1000:
            self._warn(
                f"The coordinator of group {self.group_id} did not answer for session.timeout.ms "
                f"({self.settings.session_timeout_ms}); looking for another one."
            )
            self._heard_at = now
            self._asked.pop(Ask.HEARTBEAT, None)
            self._forget_coordinator(now)

    def _step(self, now: float) -> None:
        """What the present state does by itself."""
        idle = self._idle
        state = self.state
        if state is State.UNJOINED:
            if self.polling and idle and now >= self._not_before:
                self._prepare()
        elif state is State.STABLE:
            if self.polling and idle and self._rejoin is not None:
                self._prepare()
        elif state is State.REVOKING:
            if idle:
                self._to(State.JOINING)
        elif state is State.JOINING:
            if self._may_ask(now, Ask.JOIN):
                self._send_join()
        elif state is State.ASSIGNING:
            if Ask.METADATA not in self._asked and now >= self._not_before:
                number = self._begin(Ask.METADATA)
                self._effects.append(Asked(Ask.METADATA, number, topics=self._group_topics))
        elif state is State.SYNCING:
            if self._may_ask(now, Ask.SYNC):
                request = self._requests.sync(
                    self.member_id, self.generation, self.protocol or "", self._assignment
                )
                self._ask(Ask.SYNC, request, self._join_s)
        elif state is State.RECONCILING:
            if idle:
                self._to(State.STABLE)
        elif state is State.LEAVING and idle:
            self._go()

    def _prepare(self) -> None:
        """The first gate: what must be done before the join."""
        self._to(State.REVOKING)
        if self.generation < 0:
            if self.owned:
                self._calls.append(Call(Gate.LOST, self.owned))
            return
        gives_up = self.owned
        if self.cooperative:
            gives_up = frozenset(p for p in self.owned if p[0] not in self.topics)
        if self.owned:
            self._calls.append(Call(Gate.COMMIT, self.owned))
        if gives_up:
            self._calls.append(Call(Gate.REVOKED, gives_up))

    def _go(self) -> None:
        """The end of leaving. A static member stays known until its session ends."""
        if not self.member_id or self.static:
            self._to(State.LEFT)
        elif Ask.LEAVE not in self._asked and self._coordinator_known:
            self._ask(Ask.LEAVE, self._requests.leave(self.member_id, self._reason), self._answer_s)

    # -- asking

    @property
    def _answer_s(self) -> float:
        return self.settings.request_timeout_ms / 1000

    @property
    def _join_s(self) -> float:
        return max(self._answer_s, self.settings.max_poll_interval_ms / 1000 + JOIN_SLACK_S)

    def _may_ask(self, now: float, ask: Ask) -> bool:
        return ask not in self._asked and self._coordinator_known and now >= self._not_before

    def _begin(self, ask: Ask) -> int:
        self._number += 1
        self._asked[ask] = self._number
        return self._number

    def _ask(self, ask: Ask, request: Any, timeout_s: float) -> None:
        self._effects.append(Asked(ask, self._begin(ask), request, timeout_s))

    def _send_join(self) -> None:
        self._reason = self._rejoin or self._reason or "the consumer subscribed"
        self._rejoin = None
        request = self._requests.join(
            self.member_id,
            self.topics,
            owned=self.owned,
            generation=self.generation,
            previous=self._previous,
            reason=self._reason,
        )
        self._ask(Ask.JOIN, request, self._join_s)

    def _beat(self, now: float) -> None:
        if self._beats and now >= self._next_heartbeat and self._coordinator_known:
            if Ask.HEARTBEAT in self._asked:
                return
            self._next_heartbeat = now + self.settings.heartbeat_interval_ms / 1000
            request = self._requests.heartbeat(self.member_id, self.generation)
            timeout_s = min(self._answer_s, self.settings.session_timeout_ms / 1000)
            self._ask(Ask.HEARTBEAT, request, timeout_s)

    def _find(self, now: float) -> None:
        wants = self.state in _ROUND or self._beats or (self.state is State.LEAVING)
        if (
            wants
            and not self._coordinator_known
            and Ask.COORDINATOR not in self._asked
            and now >= self._find_not_before
        ):
            self._effects.append(Asked(Ask.COORDINATOR, self._begin(Ask.COORDINATOR)))

    def _forget_coordinator(self, now: float) -> None:
        self._coordinator_known = False
        self._find_not_before = now + self._backoff.next_ms() / 1000
        self._effects.append(ForgetCoordinator())

    # -- answers

    def answered(self, now: float, number: int, answer: Any) -> None:
        """The answer to `Asked`: a response; for metadata `GroupTopics`; None for a coordinator."""
        ask = self._ended(number)
        if ask is not None:
            self._take[ask](self, now, answer)
            self.advance(now)

    def failed(
        self, now: float, number: int, error: ClientError, *, hopeless: bool = False
    ) -> None:
        """There is no answer. A hopeless failure is told to the caller instead of tried again."""
        ask = self._ended(number)
        if ask is None:
            return
        if ask is Ask.LEAVE:
            self._take_leave(now, None)
        elif self.state is State.LEAVING:
            self.member_id = ""
        elif hopeless or not error.retriable:
            self._find_not_before = self._pause(now)
            if ask is Ask.COORDINATOR and self.state not in _ROUND:
                self._errors.append(error)
            else:
                self._give_up(now, error)
        elif ask is Ask.COORDINATOR:
            self._find_not_before = self._pause(now)
        elif ask is Ask.METADATA:
            self._not_before = self._pause(now)
        else:
            self._forget_coordinator(now)
            if ask is not Ask.HEARTBEAT:
                self._again(now)
        self.advance(now)

    def _ended(self, number: int) -> Ask | None:
        for ask, asked in self._asked.items():
            if asked == number:
                del self._asked[ask]
                return ask
        return None

    def _take_coordinator(self, now: float, _answer: None) -> None:
        self._coordinator_known = True
        self._next_heartbeat = min(self._next_heartbeat, now)

    def _take_join(self, now: float, answer: Any) -> None:
        code = answer.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self._not_before = now
        elif code != ErrorCode.NONE:
            self._take_group_code(now, code)
        elif answer.protocol_name not in self._assignors:
            detail = f"The group uses the assignor {answer.protocol_name!r}, which this consumer "
            detail += "does not have."
            self._give_up(now, self._error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail))
        else:
            self._heard(now)
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.protocol = answer.protocol_name
            self.leads = answer.leader == answer.member_id
            self._assignment = {}
            self._members = read_members(answer.members) if self.leads else []
            self._group_topics = frozenset().union(*(m.topics for m in self._members))
            self._snapshot = {}
            # A static leader that came back only has to know what to watch (KIP-814).
            self._keeps_assignment = bool(answer.skip_assignment)
            self._to(State.ASSIGNING if self.leads else State.SYNCING)

    def _take_metadata(self, now: float, topics: GroupTopics) -> None:
        if self.state is not State.ASSIGNING:
            return
        self._snapshot = {topic: topics.counts.get(topic, 0) for topic in self._group_topics}
        self._assignment = {}
        if self._keeps_assignment:
            if self._divided and self._divided != self._snapshot:
                self._want_rejoin("partitions came while this member was away")
        else:
            try:
                assignor = self._assignors[self.protocol or ""]
                self._assignment = assign(assignor, topics, self._members)
            except Exception as error:
                self._give_up(now, error)
                return
            self._divided = self._snapshot
        self._members = []
        self._to(State.SYNCING)

    def _take_sync(self, now: float, answer: Any) -> None:
        code = answer.error_code
        if code == ErrorCode.NONE and answer.protocol_name not in (None, self.protocol):
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if code != ErrorCode.NONE:
            self._take_group_code(now, code)
            return
        try:
            given = decode_assignment(bytes(answer.assignment))
        except DecodeError as error:
            self._give_up(
                now, ClientError(f"The group's leader sent what is no assignment: {error}.")
            )
            return
        self._heard(now)
        self._confirmed_id = self.member_id
        self._was_forgotten = False
        self._assignment = {}
        assigned = frozenset((topic, index) for topic in given for index in given[topic])
        self._previous = (assigned, self.generation)
        wanted = frozenset(p for p in assigned if p[0] in self.topics)
        self._reconcile(wanted)
        if wanted != assigned:
            # As a static member that came back with another subscription and got what it had.
            self._want_rejoin("the assignment has topics that this consumer does not want")

    def _reconcile(self, assigned: frozenset[TopicPartition]) -> None:
        """The second gate: what is gone is given up before what is new is taken."""
        self._to(State.RECONCILING)
        self.rebalances += 1
        revoked = self.owned - assigned
        assert self.cooperative or not self.owned, "an eager member owns nothing when it joins"
        if revoked:
            self._calls.append(Call(Gate.COMMIT, self.owned))
            self._calls.append(Call(Gate.REVOKED, revoked))
            self._want_rejoin(f"{len(revoked)} partitions were given up: others can have them now")
        self._calls.append(Call(Gate.ASSIGNED, assigned - self.owned))

    def _take_heartbeat(self, now: float, answer: Any) -> None:
        code = answer.error_code
        if code == ErrorCode.NONE:
            self._heard(now)
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._heard(now)
            if self.state in _MEMBER - {State.REVOKING}:
                self._want_rejoin("the group is being rebalanced")
        elif self.state in _BEATING:
            self._take_group_code(now, code)

    def _take_leave(self, now: float, _answer: Any) -> None:
        if self.state is State.LEAVING:
            self._reset_identity()
            self._to(State.LEFT)

    _take: Final[Mapping[Ask, Callable[[Member, float, Any], None]]] = {
        Ask.COORDINATOR: _take_coordinator,
        Ask.METADATA: _take_metadata,
        Ask.JOIN: _take_join,
        Ask.SYNC: _take_sync,
        Ask.HEARTBEAT: _take_heartbeat,
        Ask.LEAVE: _take_leave,
    }

    def _heard(self, now: float) -> None:
        self._heard_at = now
        self._next_heartbeat = max(
            self._next_heartbeat, now + self.settings.heartbeat_interval_ms / 1000
        )
        self._backoff.reset()

    def _take_group_code(self, now: float, code: int) -> None:
        """An error of any request of the group, except of leaving."""
        if code in _STRANGER:
            self._lose(
                now,
                f"the coordinator answered {to_code(code).name}",
                keep_member_id=code == ErrorCode.ILLEGAL_GENERATION,
            )
        elif code in _MOVED:
            self._forget_coordinator(now)
            self._again(now)
        elif code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._again(now)
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state in _ROUND:
                self._again(now)
            else:
                self._want_rejoin("the group is being rebalanced")
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            if self.member_id == self._confirmed_id or self._was_forgotten:
                self._fence(self._error(code))
            else:
                # A coordinator that failed before the sync took this id into its grave: the next
                # one knows the instance by an older id. Two real rivals come here only once.
                self._was_forgotten = True
                self._lose(now, "the coordinator forgot this member's id")
        elif to_code(code).retriable:
            self._again(now)
        else:
            self._give_up(now, self._error(code))

    def _error(self, code: int, detail: str | None = None) -> ClientError:
        advice = _ADVICE.get(to_code(code))
        if detail is None and advice is not None:
            detail = advice.format(
                strategy=",".join(self._assignors),
                session=self.settings.session_timeout_ms,
                instance=self.settings.group_instance_id,
            )
        return broker_error(code, detail, subject=f"group {self.group_id}")

    # -- going back

    def _again(self, now: float) -> None:
        """The round failed, the identity is good: wait a little and join once more."""
        self._not_before = self._pause(now)
        if self.state in _ROUND:
            self._drop(Ask.JOIN, Ask.SYNC, Ask.METADATA)
            if self.state is not State.JOINING:
                self._to(State.JOINING)

    def _lose(self, now: float, reason: str, *, keep_member_id: bool = False) -> None:
        """The coordinator does not know this identity: partitions may be others' already."""
        member_id = self.member_id
        self._drop(Ask.JOIN, Ask.SYNC, Ask.METADATA, Ask.HEARTBEAT)
        self._calls.clear()
        self._reset_identity()
        if keep_member_id:
            self.member_id = member_id
        self._want_rejoin(reason)
        if self.state is not State.UNJOINED:
            self._to(State.UNJOINED)
        self._not_before = now

    def _give_up(self, now: float, error: BaseException) -> None:
        """The caller has to know; the next poll after that tries again."""
        self._errors.append(error)
        self._not_before = self._pause(now)
        self._want_rejoin("the last attempt failed")
        if self.state in _ROUND:
            self._drop(Ask.JOIN, Ask.SYNC, Ask.METADATA)
            self._to(State.UNJOINED)

    def _fence(self, error: ClientError) -> None:
        self.fatal = error
        self._asked.clear()
        self._calls.clear()
        self._reset_identity()
        self._to(State.FENCED)
        if self.owned:
            self._calls.append(Call(Gate.LOST, self.owned))

    def _reset_identity(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.leads = False

    def _drop(self, *asks: Ask) -> None:
        for ask in asks:
            self._asked.pop(ask, None)

    def _pause(self, now: float) -> float:
        return now + self._backoff.next_ms() / 1000

    def _want_rejoin(self, reason: str) -> None:
        if self._rejoin is None:
            self._rejoin = reason

    # -- metadata

    def metadata_changed(self, counts: Mapping[str, int]) -> None:
        """Partition counts as they are known now; topics that say nothing are not in it."""
        if not self.leads or self.state not in _MEMBER:
            return
        known = self._snapshot
        now = {topic: counts.get(topic, known.get(topic, 0)) for topic in self._group_topics}
        if now != known:
            changed = [
                f"{topic} has {count} partitions instead of {known.get(topic, 0)}"
                for topic, count in sorted(now.items())
                if count != known.get(topic, 0)
            ]
            self._snapshot = now
            self._want_rejoin(_some(changed, ""))

    def _warn(self, text: str) -> None:
        self._effects.append(Warned(text))

    def _to(self, state: State) -> None:
        assert state in STEPS[self.state], f"{self.state.name} to {state.name}"
        self.state = state


_SHOWN = 5


def _some(names: Sequence[str], sign: str) -> str:
    shown = " ".join(sign + name for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{shown}{more} " if shown else ""
