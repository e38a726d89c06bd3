"""The consumer's part in a group: drives a `core.membership.Member` over a `Cluster`.

For the consumer, in this order:

    membership = Membership(cluster, settings, holder)   # no I/O; needs settings.group_id
    membership.subscribe(["t"] or re.compile("^t"), listener)

    membership.poll_began()                              # on entering poll, in its thread
    try:
        if not membership.may_consume:                   # cheap: the usual case is True
            await membership.settle(deadline)            # joins, runs callbacks; raises what is wrong
        ...                                              # hand out records if may_consume
    finally:
        membership.poll_ended()

    await membership.commits.commit(offsets)             # or membership.commits.add(offsets, done)
    await membership.leave("the consumer is closed", timeout_ms)

- `settle` returns whether records may be handed out: True once the member is stable, or while a
  cooperative member that owns partitions waits for the others; False at the deadline or after
  `interrupt()`. While poll waits for records it must look at `may_consume` again whenever `attention`
  (a hook the consumer may set) is called.
- The consumer is the `Holder`: it is told which partitions to fetch (`assigned`) and which to forget
  (`revoked`), around the calls of the user's listener; `commit_before_rebalance` is the place for
  automatic commits.
- `listener` has `on_partitions_revoked(partitions)`, `on_partitions_assigned(partitions)` and, if it
  wants to tell lost from revoked, `on_partitions_lost(partitions)`; any may be missing. They are called
  through `reactor.call_user`, only inside `settle` and `leave`.
- `due()` is for `Pump.start`: the time from which somebody must turn the reactor. Heartbeats, joins and
  commits go on in whichever thread does.
- A consumer with a group id that assigns itself partitions uses `commits` alone and never subscribes.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, Protocol

from barnabas.client.cluster import Cluster
from barnabas.client.commits import GROUP_PURPOSE, GroupCommits
from barnabas.client.core.assignors import assignors
from barnabas.client.core.assignors.assignor import GroupTopics
from barnabas.client.core.group_requests import leave_before_3
from barnabas.client.core.membership import (
    Ask,
    Asked,
    Call,
    ForgetCoordinator,
    Gate,
    Member,
    State,
    Warned,
)
from barnabas.client.core.metadata import TopicInfo, TopicPartition
from barnabas.client.errors import (
    ClientError,
    ConnectionFailure,
    NoBrokerReachable,
    OptionError,
    SerializationError,
    VersionError,
    broker_error,
)
from barnabas.client.reactor import Future, Timer
from barnabas.client.settings import ConsumerSettings
from barnabas.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

NEVER: Final = float("inf")
JOIN_PURPOSE: Final = "join"
MISSING_TOPIC_CHECK_S: Final = 1.0
"""How often a leader asks for a topic of the group that is not there (yet)."""

_PURPOSES = {
    Ask.JOIN: JOIN_PURPOSE,
    Ask.SYNC: JOIN_PURPOSE,
    Ask.HEARTBEAT: GROUP_PURPOSE,
    Ask.LEAVE: GROUP_PURPOSE,
}
_REFUSED = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION)
_LISTENER_METHODS = {
    Gate.REVOKED: ("on_partitions_revoked",),
    Gate.ASSIGNED: ("on_partitions_assigned",),
    Gate.LOST: ("on_partitions_lost", "on_partitions_revoked"),
}


class Holder(Protocol):
    """What the consumer does when partitions come and go."""

    async def commit_before_rebalance(self) -> None:
        """Commit what was handed out, if that is automatic. Its errors are logged."""

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """These are new: fetch them. The listener is told afterwards and may seek."""

    def revoked(self, partitions: Collection[TopicPartition], *, lost: bool) -> None:
        """These are gone: forget them. The listener was told before and may have committed."""


class Membership:
    def __init__(self, cluster: Cluster, settings: ConsumerSettings, holder: Holder) -> None:
        self.cluster = cluster
        self.settings = settings
        self.holder = holder
        self.attention: Callable[[], object] | None = None
        self.commits = GroupCommits(cluster, settings, lambda: self._member, self._turn)
        self._assignors = assignors(settings.partition_assignment_strategy)
        self._reactor = cluster.reactor
        self._member: Member | None = None
        self._listener: object = None
        self._pattern: re.Pattern[str] | None = None
        self._discovered = False
        self._refused: frozenset[str] = frozenset()
        self._node_id: int | None = None
        self._watching: frozenset[str] = frozenset()
        self._timer: Timer | None = None
        self._timer_at = NEVER
        self._check_timer: Timer | None = None
        self._check_at = NEVER
        self._waiting: Future[None] | None = None
        self._interrupted = False
        cluster.updated.append(self._metadata_updated)

    # -- what the consumer asks

    @property
    def subscribed(self) -> bool:
        return self._member is not None

    @property
    def may_consume(self) -> bool:
        member = self._member
        return member is None or (self._discovered and member.may_consume)

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return frozenset() if self._member is None else self._member.owned

    @property
    def topics(self) -> frozenset[str]:
        """The topics subscribed to, of a pattern those that match now."""
        return frozenset() if self._member is None else self._member.topics

    @property
    def member_id(self) -> str:
        return "" if self._member is None else self._member.member_id

    @property
    def generation(self) -> int:
        return -1 if self._member is None else self._member.generation

    @property
    def state(self) -> State | None:
        return None if self._member is None else self._member.state

    @property
    def rebalances(self) -> int:
        return 0 if self._member is None else self._member.rebalances

    def due(self) -> float:
        """From when on somebody must turn the reactor."""
        member = self._member
        if not self.commits.idle:
            return 0.0
        if member is None:
            return NEVER
        if member.waits_for_answer:
            return 0.0
        return self._timer_at

    # -- subscribing

    def subscribe(self, topics: Collection[str] | re.Pattern[str], listener: object = None) -> None:
        """Replaces the subscription before; takes effect with the next `settle`."""
        now = self._reactor.now()
        if self._member is None:
            self._member = Member(self.settings, self._assignors, self._reactor.random, now)
        self._listener = listener
        self._discovered = False
        self._refused = frozenset()
        if isinstance(topics, re.Pattern):
            self._pattern = topics
        else:
            self._pattern = None
            self._member.subscribe(topics)
        if self._check_timer is None:
            self._plan_check(self._check_s)

    async def _discover(self) -> None:
        """Ask for the topics; those that match a pattern are only known then."""
        member = self._member
        if member is None:
            return
        pattern = self._pattern
        if pattern is not None:
            found = await self.cluster.refresh(None)
            if pattern is self._pattern:
                matching = [n for n, t in found.items() if self._matches(pattern, n, t)]
                member.subscribe(matching)
        else:
            create = self.settings.allow_auto_create_topics
            await self.cluster.refresh(member.topics, allow_auto_create=create)
        self._discovered = True

    def _matches(self, pattern: re.Pattern[str], name: str, topic: TopicInfo) -> bool:
        hidden = topic.internal and self.settings.exclude_internal_topics
        if hidden or topic.error_code not in (
            ErrorCode.NONE,
            ErrorCode.LEADER_NOT_AVAILABLE,
        ):
            return False
        return pattern.search(name) is not None

    @property
    def _check_s(self) -> float:
        return self.settings.metadata_max_age_ms / 1000

    def _plan_check(self, pause_s: float) -> None:
        if self._check_timer is not None:
            self._check_timer.cancel()
        self._check_at = self._reactor.now() + pause_s
        self._check_timer = self._reactor.call_at(self._check_at, self._check)

    def _check(self) -> None:
        """Now and then: topics that match the pattern, topics of the group that were missing."""
        self._check_timer = None
        member = self._member
        if member is None:
            return
        if self._pattern is not None and self._discovered:
            self._reactor.spawn(self._discover_again())
        elif self._missing(member):
            self.cluster.request_update()
        self._plan_check(
            min(MISSING_TOPIC_CHECK_S, self._check_s) if self._missing(member) else self._check_s
        )

    async def _discover_again(self) -> None:
        try:
            await self._discover()
        except ClientError as error:
            logger.debug("Topics could not be looked up: %s", error)
        self._turn()

    def _missing(self, member: Member) -> bool:
        if not member.leads or self._pattern is not None:
            return False
        known = self.cluster.metadata.topics
        return any(t not in known or not known[t].partitions for t in member.group_topics)

    # -- polling

    def poll_began(self) -> None:
        if self._member is not None:
            self._interrupted = False
            self._member.poll_began(self._reactor.now())

    def poll_ended(self) -> None:
        if self._member is not None:
            self._member.poll_ended(self._reactor.now())
            self._plan()

    def interrupt(self) -> None:
        """Let `settle` return."""
        self._interrupted = True
        self._notify()

    async def settle(self, deadline: float) -> bool:
        """Do all that stands between the member and its records; False if there was no time.

        Raises, once, what went wrong meanwhile, also what the user's listener raised.
        """
        reactor = self._reactor
        while (member := self._member) is not None:
            if not self._discovered:
                if not await self._first_discovery(deadline):
                    return False
                continue
            self._turn()
            member.check()
            call = member.next_call(reactor.now())
            if call is not None:
                await self._run(member, call)
            elif member.may_consume:
                return True
            elif self._interrupted or reactor.now() >= deadline:
                return False
            else:
                await self._changed(deadline)
        return True

    async def _first_discovery(self, deadline: float) -> bool:
        backoff = self.cluster.backoff()
        while True:
            try:
                await self._discover()
            except ClientError as error:
                if self._is_hopeless(error):
                    raise
                pause_s = backoff.next_ms() / 1000
                if self._interrupted or self._reactor.now() + pause_s >= deadline:
                    return False
                await self._reactor.sleep(pause_s)
            else:
                return True

    def _is_hopeless(self, error: ClientError) -> bool:
        first_contact = isinstance(error, NoBrokerReachable) and not self.cluster.had_contact
        return first_contact or not error.retriable

    async def _changed(self, deadline: float) -> None:
        reactor = self._reactor
        waiting = self._waiting = reactor.future()
        timer = None if deadline == NEVER else reactor.call_at(deadline, self._notify)
        try:
            await waiting
        finally:
            self._waiting = None
            if timer is not None:
                timer.cancel()

    def _notify(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
        if self.attention is not None and not self.may_consume:
            self.attention()

    # -- callbacks

    async def _run(self, member: Member, call: Call) -> None:
        error: Exception | None = None
        try:
            if call.gate is Gate.COMMIT:
                await self._commit_before_rebalance()
            elif call.gate is Gate.ASSIGNED:
                self.holder.assigned(call.partitions)
                await self._tell_listener(call)
            else:
                try:
                    await self._tell_listener(call)
                finally:
                    self.holder.revoked(call.partitions, lost=call.gate is Gate.LOST)
                    self.commits.partitions_lost(call.partitions)
        except Exception as thrown:
            error = thrown
        finally:
            member.called(self._reactor.now(), error)

    async def _commit_before_rebalance(self) -> None:
        try:
            await self.holder.commit_before_rebalance()
        except ClientError as error:
            logger.warning(
                "Group %s: offsets could not be committed before a rebalance: %s",
                self.settings.group_id,
                error,
            )
        limit_ms = min(self.settings.default_api_timeout_ms, self.settings.max_poll_interval_ms)
        await self.commits.drained(limit_ms / 1000)

    async def _tell_listener(self, call: Call) -> None:
        for name in _LISTENER_METHODS[call.gate]:
            method = getattr(self._listener, name, None)
            if method is not None:
                result = await self._reactor.call_user(method, sorted(call.partitions))
                if inspect.iscoroutine(result):
                    result.close()
                    raise OptionError(
                        f"{name} of the rebalance listener is a coroutine function, which only an "
                        "AsyncConsumer can run.",
                        next_step="Make it a plain function.",
                    )
                return

    # -- the end

    async def leave(self, reason: str, timeout_ms: float) -> None:
        """Give up everything and leave the group; the next `subscribe` begins anew."""
        member = self._member
        if member is None:
            return
        reactor = self._reactor
        deadline = reactor.now() + timeout_ms / 1000
        member.leave(reactor.now(), reason)
        try:
            while not member.left:
                self._turn()
                call = member.next_call(reactor.now())
                if call is not None:
                    await self._run(member, call)
                elif not member.left and reactor.now() >= deadline:
                    member.abandon()
                elif not member.left:
                    await self._changed(deadline)
        finally:
            self._end(member)
        if member.fatal is None:
            member.check()

    def _end(self, member: Member) -> None:
        if member.owned:
            self.holder.revoked(member.owned, lost=True)
        self._member = None
        self._pattern = None
        for timer in (self._timer, self._check_timer):
            if timer is not None:
                timer.cancel()
        self._timer, self._timer_at = None, NEVER
        self._check_timer, self._check_at = None, NEVER
        self._watch(frozenset())
        self.commits.advance()

    def close(self) -> None:
        """After `leave`, or instead of it if there is no time: nothing more is done."""
        if self._member is not None:
            self._end(self._member)
        self.commits.close()
        if self._metadata_updated in self.cluster.updated:
            self.cluster.updated.remove(self._metadata_updated)

    # -- turning the member

    def _turn(self) -> None:
        """Advance the member and do what it wants done."""
        member = self._member
        if member is None:
            return
        member.advance(self._reactor.now())
        for effect in member.effects():
            if isinstance(effect, Warned):
                logger.warning("%s", effect.text)
            elif isinstance(effect, ForgetCoordinator):
                self._node_id = None
                self.cluster.forget_coordinator(member.group_id)
            else:
                self._ask(member, effect)
        self._watch(member.group_topics)
        soon = min(MISSING_TOPIC_CHECK_S, self._check_s)
        if self._check_at > self._reactor.now() + soon and self._missing(member):
            self._plan_check(soon)
        self.commits.advance()
        self._plan()
        self._notify()

    def _plan(self) -> None:
        member = self._member
        due = None if member is None else member.due()
        when = NEVER if due is None else due
        if when == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = None if when == NEVER else self._reactor.call_at(when, self._timed)

    def _timed(self) -> None:
        self._timer, self._timer_at = None, NEVER
        self._turn()

    def _watch(self, topics: frozenset[str]) -> None:
        if topics != self._watching:
            self.cluster.watch(topics - self._watching)
            self.cluster.unwatch(self._watching - topics)
            self._watching = topics

    # -- asking

    def _ask(self, member: Member, asked: Asked) -> None:
        if asked.ask is Ask.COORDINATOR:
            self._reactor.spawn(self._answer(member, asked, self._find_coordinator(member)))
        elif asked.ask is Ask.METADATA:
            self._reactor.spawn(self._answer(member, asked, self._describe(asked.topics)))
        elif asked.ask is Ask.LEAVE:
            self._reactor.spawn(self._answer(member, asked, self._leave_group(asked)))
        else:
            self._send(member, asked)

    def _send(self, member: Member, asked: Asked) -> None:
        def done(response: Any, error: ClientError | None) -> None:
            self._ended(member, asked, response, error)

        assert self._node_id is not None, "a coordinator is known when something is asked of it"
        self.cluster.send(
            self._node_id,
            asked.request,
            done,
            purpose=_PURPOSES[asked.ask],
            timeout_ms=asked.timeout_s * 1000,
            what=asked.ask.value,
        )

    async def _answer(self, member: Member, asked: Asked, work: Any) -> None:
        try:
            answer = await work
        except ClientError as error:
            self._ended(member, asked, None, error)
        else:
            self._ended(member, asked, answer, None)

    def _ended(self, member: Member, asked: Asked, answer: Any, error: ClientError | None) -> None:
        now = self._reactor.now()
        if error is None:
            member.answered(now, asked.number, answer)
        else:
            if isinstance(error, SerializationError) and member.static:
                error = VersionError(
                    f"the coordinator of group {member.group_id}",
                    "JOIN_GROUP",
                    "knows no group.instance.id, which came with Apache Kafka 2.3",
                )
            hopeless = asked.ask is Ask.COORDINATOR and self._is_hopeless(error)
            member.failed(now, asked.number, error, hopeless=hopeless)
        if member is self._member:
            self._turn()

    async def _find_coordinator(self, member: Member) -> None:
        self._node_id = await self.cluster.coordinator(member.group_id)

    async def _leave_group(self, asked: Asked) -> Any:
        node_id = self._node_id
        if node_id is None:
            raise ConnectionFailure("The group's coordinator is not known.", address="")
        versions = await self.cluster.connected(node_id, GROUP_PURPOSE)
        request = asked.request
        if versions.choose_for(request) < 3:
            request = leave_before_3(request)
        return await self.cluster.request(
            node_id,
            request,
            what=asked.ask.value,
            purpose=GROUP_PURPOSE,
            timeout_ms=asked.timeout_s * 1000,
        )

    # -- metadata

    async def _describe(self, topics: frozenset[str]) -> GroupTopics:
        found: dict[str, TopicInfo] = {}
        if topics:
            create = self.settings.allow_auto_create_topics
            found = await self.cluster.refresh(topics, allow_auto_create=create)
        return self._group_topics(found.values())

    def _group_topics(self, topics: Iterable[TopicInfo]) -> GroupTopics:
        racks = {b.node_id: b.rack for b in self.cluster.metadata.brokers.values() if b.rack}
        counts: dict[str, int] = {}
        where: dict[TopicPartition, frozenset[str]] = {}
        for topic in topics:
            counts[topic.name] = len(topic.partitions)
            if racks:
                for index, info in topic.partitions.items():
                    where[(topic.name, index)] = frozenset(
                        racks[replica] for replica in info.replicas if replica in racks
                    )
        return GroupTopics(counts, where)

    def _metadata_updated(self) -> None:
        member = self._member
        if member is None:
            return
        counts: dict[str, int] = {}
        refused: dict[str, int] = {}
        for name in member.group_topics:
            topic = self.cluster.metadata.topics.get(name)
            if topic is None:
                continue
            if topic.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                counts[name] = len(topic.partitions)
            elif topic.error_code in _REFUSED and name in member.topics:
                refused[name] = topic.error_code
        member.metadata_changed(counts)
        for name in sorted(refused.keys() - self._refused):
            member.tell(broker_error(refused[name], subject=f"topic {name}"))
        self._refused = frozenset(refused)
        self._turn()
