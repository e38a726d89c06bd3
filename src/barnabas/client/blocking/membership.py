"""Membership of a consumer in a group: join, synchronise, heartbeat, commit, leave.

`ensure` advances the join as far as its deadline allows and says whether the member is stable; it may
be called again and picks up the answer it waits for. Heartbeats run in a thread of their own with a
connection of their own, so a caller that is busy with records does not lose its place, until
max.poll.interval.ms has passed without a poll: then the member leaves, and the next poll says so.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.client.blocking.cluster import Cluster
from barnabas.client.blocking.connection import Connection, Pending
from barnabas.client.core.assignment import assign_range
from barnabas.client.core.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas.client.core.metadata import TopicPartition
from barnabas.client.errors import ClientError, FencedError, NoBrokerReachable, broker_error
from barnabas.client.settings import ConsumerSettings
from barnabas.wire.errors import ErrorCode

PROTOCOL = "range"
JOIN_PURPOSE, HEARTBEAT_PURPOSE = "join", "heartbeat"
_MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
_REJOIN = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
)


class Membership:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        topics: Callable[[], list[str]],
        on_assigned: Callable[[list[TopicPartition]], None],
    ) -> None:
        assert settings.group_id is not None
        self.cluster = cluster
        self.settings = settings
        self.group_id: str = settings.group_id
        self.member_id = ""
        self.generation_id = -1
        self.stable = False
        self._topics = topics
        self._joined_topics: list[str] = []
        self._on_assigned = on_assigned
        self._waiting: tuple[Connection, Pending] | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._polled_at = time.monotonic()
        self._fatal: ClientError | None = None
        self._rejoin = True
        self._not_before = 0.0

    # -- joining

    def ensure(self, deadline: float) -> bool:
        """True once this member has its assignment; False when the time is up first."""
        self._polled_at = time.monotonic()
        if self._fatal is not None:
            raise self._fatal
        while not self.stable or self._rejoin:
            now = time.monotonic()
            if now < self._not_before:
                time.sleep(min(self._not_before, max(deadline, now)) - now)
                if time.monotonic() < self._not_before:
                    return False
            try:
                if not self._advance(deadline):
                    return False
            except ClientError as error:
                self._waiting = None
                nobody = isinstance(error, NoBrokerReachable) and not self.cluster.metadata.brokers
                if nobody or isinstance(error, FencedError) or not error.retriable:
                    raise
                self.cluster.forget_coordinator(self.group_id)
                self._not_before = time.monotonic() + self.settings.retry_backoff_ms / 1000
                if time.monotonic() >= deadline:
                    return False
        self._start_heartbeats()
        return True

    def request_rejoin(self) -> None:
        """The subscription changed, or partitions of it did."""
        self._rejoin = True

    def _advance(self, deadline: float) -> bool:
        if self._waiting is None:
            self._send_join()
        assert self._waiting is not None
        connection, sent = self._waiting
        answer = connection.receive(deadline, "the group's other members to join")
        if answer is None:
            limit_s = (self.settings.max_poll_interval_ms + 5_000) / 1000
            if time.monotonic() - sent.sent_at > limit_s:
                connection.close()
                self._waiting = None
            return False
        self._waiting = None
        _, response = answer
        self._handle(sent.context, response)
        return True

    def _connection(self, purpose: str) -> Connection:
        return self.cluster.connection(self.cluster.coordinator(self.group_id), purpose)

    def _send_join(self) -> None:
        from barnabas.wire.messages import join_group as api

        self._rejoin = False
        self.stable = False
        self._joined_topics = self._topics()
        request = api.JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.settings.session_timeout_ms,
            rebalance_timeout_ms=self.settings.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type="consumer",
            protocols=[
                api.JoinGroupRequestProtocol(
                    name=PROTOCOL,
                    metadata=encode_subscription(
                        self._joined_topics, rack=self.settings.client_rack or None
                    ),
                )
            ],
        )
        self._send(request, self._on_joined)

    def _send(self, request: Any, then: Callable[[Any], None]) -> None:
        connection = self._connection(JOIN_PURPOSE)
        sent = connection.send(request, connection.choose_version(request), then)
        self._waiting = (connection, sent)

    def _handle(self, then: Callable[[Any], None], response: Any) -> None:
        code = response.error_code
        if code == ErrorCode.NONE:
            then(response)
        elif code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif code in _MOVED:
            raise broker_error(code, subject=f"group {self.group_id}")
        elif code in _REJOIN:
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self._rejoin = True
        else:
            raise broker_error(code, subject=f"group {self.group_id}")

    def _on_joined(self, response: Any) -> None:
        from barnabas.wire.messages import sync_group as api

        self.member_id = response.member_id
        self.generation_id = response.generation_id
        assignments = []
        if response.leader == response.member_id and not response.skip_assignment:
            for member_id, partitions in self._divide(response.members).items():
                assignments.append(
                    api.SyncGroupRequestAssignment(
                        member_id=member_id, assignment=encode_assignment(partitions)
                    )
                )
        request = api.SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type="consumer",
            protocol_name=response.protocol_name,
            assignments=assignments,
        )
        self._send(request, self._on_synced)

    def _divide(self, members: list[Any]) -> dict[str, dict[str, list[int]]]:
        wanted = {m.member_id: list(decode_subscription(bytes(m.metadata)).topics) for m in members}
        names = sorted({topic for topics in wanted.values() for topic in topics})
        found = self.cluster.refresh(names) if names else {}
        counts = {name: len(info.partitions) for name, info in found.items()}
        instances = {m.member_id: m.group_instance_id for m in members}
        return assign_range(counts, wanted, instances)

    def _on_synced(self, response: Any) -> None:
        assignment = decode_assignment(bytes(response.assignment))
        self.stable = True
        self._on_assigned(
            [(topic, index) for topic, indexes in assignment.items() for index in indexes]
        )

    # -- heartbeats

    def _start_heartbeats(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._heartbeat_loop, name="barnabas-heartbeat", daemon=True
            )
            self._thread.start()

    def _heartbeat_loop(self) -> None:
        while not self._stop.wait(self.settings.heartbeat_interval_ms / 1000):
            if not self.stable or self._rejoin:
                continue
            limit_s = self.settings.max_poll_interval_ms / 1000
            if time.monotonic() - self._polled_at > limit_s:
                self._leave_for_slowness()
                continue
            try:
                self._heartbeat()
            except ClientError:
                self.cluster.forget_coordinator(self.group_id)

    def _heartbeat(self) -> None:
        from barnabas.wire.messages.heartbeat import HeartbeatRequest

        generation_id = self.generation_id
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
        )
        response = self._connection(HEARTBEAT_PURPOSE).request(request, what="a heartbeat")
        code = response.error_code
        if code == ErrorCode.NONE or generation_id != self.generation_id:
            return
        if code in _REJOIN:
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self._rejoin = True
        elif code in _MOVED:
            self.cluster.forget_coordinator(self.group_id)
        else:
            self._fatal = broker_error(code, subject=f"group {self.group_id}")

    def _leave_for_slowness(self) -> None:
        self.stable = False
        self._rejoin = True
        try:
            self._leave()
        except ClientError:
            pass

    # -- offsets

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Commit (offset, leader epoch) of partitions as this member."""
        from barnabas.client.blocking.administration.topics import by_topic
        from barnabas.wire.messages import offset_commit as api

        if not offsets:
            return
        request = api.OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            topics=[
                api.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        api.OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offsets[(topic, index)][0],
                            committed_leader_epoch=offsets[(topic, index)][1],
                            committed_metadata="",
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(offsets).items()
            ],
        )
        response = self.cluster.call_coordinator(
            self.group_id,
            request,
            f"the commit of group {self.group_id}",
            code_of=lambda r: next((p.error_code for t in r.topics for p in t.partitions), 0),
            highest=9,
        )
        for topic in response.topics:
            for p in topic.partitions:
                if p.error_code in _REJOIN:
                    self._rejoin = True
                if p.error_code != ErrorCode.NONE:
                    subject = f"{topic.name}-{p.partition_index}"
                    raise broker_error(p.error_code, subject=subject)

    # -- the end

    def _leave(self) -> None:
        from barnabas.wire.messages import leave_group as api

        if not self.member_id or self.settings.group_instance_id is not None:
            return
        connection = self._connection(HEARTBEAT_PURPOSE)
        request = api.LeaveGroupRequest(group_id=self.group_id)
        if connection.choose_version(request) >= 3:
            request.members = [
                api.MemberIdentity(member_id=self.member_id, reason="the consumer is being closed")
            ]
        else:
            request.member_id = self.member_id
        self.member_id = ""
        self.generation_id = -1
        connection.request(request, what="leaving the group", timeout_ms=5_000)

    def close(self) -> None:
        """Stop heartbeats and leave, so that others get the partitions at once."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2.0)
        try:
            self._leave()
        except ClientError:
            pass
