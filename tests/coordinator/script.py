"""Runs a text script against a coordinator in virtual time and writes down everything visible.

A script is commands, one a line, each followed by what it caused, lines that begin with ">": answers
(also those that were parked long before), records that were written, and groups whose state changed.
`#` begins a comment. Clients are named by the first word after a command; a client remembers the member
id and generation it was given. Ids are shown as name#number, in the order they were handed out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from struct import pack

from barnabas.coordinator.group.config import DEFAULT_LIMITS, GroupCoordinatorConfig
from barnabas.coordinator.group.coordinator import ClientInfo
from barnabas.coordinator.group.records import CommittedOffset, OffsetCommitRecord, decode
from barnabas.record.batch import iterate_batches
from barnabas.record.build import build_batch
from barnabas.record.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
)
from barnabas.record.read import read_records
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from barnabas.wire.messages.leave_group import LeaveGroupResponse, MemberIdentity
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from barnabas.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.coordinator.virtual import START_MS, VirtualCoordinator

_UUID = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-([0-9a-f]{12})")
DEFAULT_GROUP = "g"


def subscription(*topics: str) -> bytes:
    """What a consumer sends as protocol metadata."""
    data = pack(">hi", 0, len(topics))
    for topic in topics:
        data += pack(">h", len(topic)) + topic.encode()
    return data + pack(">i", -1)


def short(text: str) -> str:
    return _UUID.sub(lambda found: f"#{int(found[1], 16)}", text)


class Client:
    def __init__(self, name: str) -> None:
        self.name = name
        self.member_id = ""
        self.generation = -1
        self.instance: str | None = None
        self.protocols = "range:t"
        self.group = DEFAULT_GROUP


class Script:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self._clients: dict[str, Client] = {}
        self._states: dict[str, str] = {}
        self._epoch = 0
        self._config = GroupCoordinatorConfig(
            offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0
        )
        self._limits = DEFAULT_LIMITS
        self._node: VirtualCoordinator | None = None

    def run(self, text: str) -> str:
        out = []
        for line in text.splitlines():
            if line.startswith(">"):
                continue
            out.append(line)
            words = shlex.split(line, comments=True)
            if words:
                out += [f"> {short(shown)}" for shown in self._command(words)]
        return "\n".join(out) + "\n"

    def _command(self, words: list[str]) -> list[str]:
        self._lines = []
        arguments = [word for word in words[1:] if "=" not in word]
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        command: Callable[[list[str], dict[str, str]], None] = getattr(
            self, "do_" + words[0].replace("-", "_")
        )
        command(arguments, options)
        if self._node is not None and words[0] != "fail" and self._node.log.failures:
            self.say(f"not failed: {self._node.log.failures.pop().name}")
        self._show_states()
        return self._lines

    # ---- what is visible

    def say(self, line: str) -> None:
        self._lines.append(line)

    def _show_states(self) -> None:
        if self._node is None:
            return
        states = {}
        for entry in self._node.groups.runtime.partitions.values():
            if entry.state.value == "active":
                for group in self._node.shard(entry.partition).groups:
                    states[group.group_id] = (
                        f"{group.state.value} generation={group.generation} "
                        f"members={','.join(sorted(group.members)) or '-'}"
                        + (
                            f" pending={len(group.pending_members)}"
                            if group.pending_members
                            else ""
                        )
                    )
        for group_id in sorted(states.keys() | self._states.keys()):
            now = states.get(group_id, "gone")
            if now != self._states.get(group_id, "gone"):
                self.say(f"group {group_id}: {now}")
        self._states = states

    def _appended(self, partition: int, batch: bytes) -> None:
        for header, _start, _end in iterate_batches(batch):
            if header.is_control:
                self.say(f"record marker of producer {header.producer_id}")
                return
        for record in read_records(batch):
            decoded = decode(record.key, record.value)
            if isinstance(decoded, OffsetCommitRecord):
                shown = _shown_offset(decoded.committed)
                where = f"{decoded.group_id} {decoded.topic}-{decoded.partition}"
                self.say(f"record offset {where} {shown}")
            elif decoded is not None and decoded.value is None:
                self.say(f"record group {decoded.group_id} tombstone")
            elif decoded is not None:
                value = decoded.value
                members = " ".join(
                    f"{one.member_id}={one.assignment.decode() or '-'}" for one in value.members
                )
                self.say(
                    f"record group {decoded.group_id} type={value.protocol_type or '-'} "
                    f"generation={value.generation} protocol={value.protocol} "
                    f"leader={value.leader} members=[{members}]"
                )

    @property
    def node(self) -> VirtualCoordinator:
        if self._node is None:
            self._node = VirtualCoordinator(self._config, limits=self._limits).start()
            self._node.log.on_append = self._appended
        return self._node

    def client(self, name: str) -> Client:
        return self._clients.setdefault(name, Client(name))

    # ---- the environment

    def do_config(self, arguments: list[str], options: dict[str, str]) -> None:
        assert self._node is None, "config comes first"
        limits = {key[6:]: int(text) for key, text in options.items() if key.startswith("limit_")}
        self._limits = replace(self._limits, **limits)
        values = {key: int(text) for key, text in options.items() if not key.startswith("limit_")}
        self._config = replace(self._config, **values)

    def do_reconfigure(self, arguments: list[str], options: dict[str, str]) -> None:
        """Settings of the coordinator that comes with the next restart."""
        values = {key: int(text) for key, text in options.items()}
        self.node.config = replace(self.node.config, **values)

    def do_advance(self, arguments: list[str], options: dict[str, str]) -> None:
        self.node.advance(int(arguments[0]))

    def do_restart(self, arguments: list[str], options: dict[str, str]) -> None:
        """The coordinator stops without a word and another one loads its log."""
        self._node = self.node.successor()
        self._epoch += 1
        self._node.start(self._epoch)
        self._node.advance(1_000)

    def do_resign(self, arguments: list[str], options: dict[str, str]) -> None:
        self.node.groups.resign(0)

    def do_lead(self, arguments: list[str], options: dict[str, str]) -> None:
        self._epoch += 1
        self.node.groups.become_leader(0, self._epoch)

    def do_stop(self, arguments: list[str], options: dict[str, str]) -> None:
        self.node.groups.stop()

    def do_hold(self, arguments: list[str], options: dict[str, str]) -> None:
        self.node.log.held = True

    def do_release(self, arguments: list[str], options: dict[str, str]) -> None:
        self.node.log.release()

    def do_fail(self, arguments: list[str], options: dict[str, str]) -> None:
        self.node.log.failures.append(ErrorCode[arguments[0]])

    # ---- membership

    def do_join(self, arguments: list[str], options: dict[str, str]) -> None:
        client = self.client(arguments[0])
        client.group = options.get("group", client.group)
        client.instance = options.get("instance", client.instance)
        client.protocols = options.get("protocols", client.protocols)
        protocols = []
        for text in filter(None, client.protocols.split(";")):
            name, _, topics = text.partition(":")
            metadata = subscription(*filter(None, topics.split(",")))
            protocols.append(JoinGroupRequestProtocol(name=name, metadata=metadata))
        version = int(options.get("version", "9"))
        request = JoinGroupRequest(
            group_id=client.group,
            session_timeout_ms=int(options.get("session", "10000")),
            rebalance_timeout_ms=int(options.get("rebalance", "60000")),
            member_id=self._member(client, options),
            group_instance_id=client.instance,
            protocol_type=options.get("type", "consumer"),
            protocols=protocols,
            reason=options.get("reason"),
        )

        def joined(response: JoinGroupResponse) -> None:
            if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                client.member_id = response.member_id
            code = ErrorCode(response.error_code).name
            if response.error_code:
                self.say(f"{client.name}: join {code} member={response.member_id or '-'}")
                return
            client.generation = response.generation_id
            members = ",".join(one.member_id for one in response.members)
            self.say(
                f"{client.name}: join {code} member={response.member_id} "
                f"generation={response.generation_id} type={response.protocol_type} "
                f"protocol={response.protocol_name} leader={response.leader} "
                f"members=[{members}]" + (" skip-assignment" if response.skip_assignment else "")
            )

        answer = self.node.groups.join_group(
            request, ClientInfo(client.name, "/10.0.0.1"), version, joined
        )
        if answer is not None:
            joined(answer)
        else:
            self.say(f"{client.name}: join waits")

    def _member(self, client: Client, options: dict[str, str]) -> str:
        text = options.get("member", client.member_id)
        return self._clients[text[1:]].member_id if text.startswith("@") else text

    def do_forget(self, arguments: list[str], options: dict[str, str]) -> None:
        """The client restarts and does not know its member id any more."""
        for name in arguments:
            client = self.client(name)
            client.member_id = ""
            client.generation = -1

    def do_sync(self, arguments: list[str], options: dict[str, str]) -> None:
        client = self.client(arguments[0])
        assignments = []
        for text in filter(None, options.get("assign", "").split(",")):
            name, _, assignment = text.partition(":")
            known = self._clients.get(name)
            assignments.append(
                SyncGroupRequestAssignment(
                    member_id=known.member_id if known else name, assignment=assignment.encode()
                )
            )
        request = SyncGroupRequest(
            group_id=options.get("group", client.group),
            generation_id=int(options.get("generation", client.generation)),
            member_id=self._member(client, options),
            group_instance_id=options.get("instance", client.instance),
            protocol_type=options.get("type"),
            protocol_name=options.get("protocol"),
            assignments=assignments,
        )

        def synced(response: SyncGroupResponse) -> None:
            code = ErrorCode(response.error_code).name
            shown = "" if response.error_code else f" {response.assignment.decode() or '-'}"
            self.say(f"{client.name}: sync {code}{shown}")

        answer = self.node.groups.sync_group(request, synced)
        if answer is not None:
            synced(answer)
        else:
            self.say(f"{client.name}: sync waits")

    def do_heartbeat(self, arguments: list[str], options: dict[str, str]) -> None:
        for name in arguments:
            client = self.client(name)
            answer = self.node.groups.heartbeat(
                HeartbeatRequest(
                    group_id=options.get("group", client.group),
                    generation_id=int(options.get("generation", client.generation)),
                    member_id=self._member(client, options),
                    group_instance_id=options.get("instance", client.instance),
                )
            )
            self.say(f"{name}: heartbeat {ErrorCode(answer.error_code).name}")

    def do_leave(self, arguments: list[str], options: dict[str, str]) -> None:
        group = options.get("group", DEFAULT_GROUP)
        members = []
        for name in arguments:
            client = self.client(name)
            group = options.get("group", client.group)
            members.append(
                MemberIdentity(
                    member_id=self._member(client, options),
                    group_instance_id=options.get("as", client.instance),
                )
            )
        for instance in filter(None, options.get("instances", "").split(",")):
            members.append(MemberIdentity(member_id="", group_instance_id=instance))

        def left(response: LeaveGroupResponse) -> None:
            each = " ".join(
                f"{one.member_id or one.group_instance_id}={ErrorCode(one.error_code).name}"
                for one in response.members
            )
            self.say(f"leave {ErrorCode(response.error_code).name} {each}".rstrip())

        answer = self.node.groups.leave_group(group, members, left)
        if answer is not None:
            left(answer)
        else:
            self.say("leave waits")

    def do_describe(self, arguments: list[str], options: dict[str, str]) -> None:
        group = self.node.groups.describe_group(arguments[0])
        self.say(
            f"{group.group_id}: {ErrorCode(group.error_code).name} {group.group_state} "
            f"type={group.protocol_type or '-'} protocol={group.protocol_data or '-'}"
        )
        for one in group.members:
            self.say(
                f"  {one.member_id} instance={one.group_instance_id} client={one.client_id} "
                f"host={one.client_host} metadata={len(one.member_metadata)}B "
                f"assignment={one.member_assignment.decode() or '-'}"
            )

    def do_list(self, arguments: list[str], options: dict[str, str]) -> None:
        answer = self.node.groups.list_groups(
            list(filter(None, options.get("states", "").split(","))),
            list(filter(None, options.get("types", "").split(","))),
        )
        self.say(f"list {ErrorCode(answer.error_code).name}")
        for one in answer.groups:
            self.say(
                f"  {one.group_id} {one.group_type} type={one.protocol_type or '-'} "
                f"{one.group_state}"
            )

    def do_delete(self, arguments: list[str], options: dict[str, str]) -> None:
        def deleted(results: list) -> None:  # type: ignore[type-arg]
            for one in results:
                self.say(f"delete {one.group_id} {ErrorCode(one.error_code).name}")

        answer = self.node.groups.delete_groups(arguments, deleted)
        if answer is not None:
            deleted(answer)
        else:
            self.say("delete waits")

    # ---- offsets

    def do_commit(self, arguments: list[str], options: dict[str, str]) -> None:
        """`commit a t:0:42 t:1:7:metadata`; a client that never joined commits as nobody."""
        client = self.client(arguments[0])
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for text in arguments[1:]:
            topic, partition, offset, metadata = [*text.split(":"), "", ""][:4]
            at = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic))
            at.topic_id = bytes.fromhex(options.get("topic-id", "00")).rjust(16, b"\0")
            at.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=int(partition),
                    committed_offset=int(offset),
                    committed_leader_epoch=int(options.get("epoch", "-1")),
                    committed_metadata=metadata * int(options.get("times", "1")) or None,
                )
            )
        request = OffsetCommitRequest(
            group_id=options.get("group", client.group),
            generation_id_or_member_epoch=int(options.get("generation", client.generation)),
            member_id=self._member(client, options),
            group_instance_id=options.get("instance", client.instance),
            retention_time_ms=int(options.get("retention", "-1")),
            topics=list(topics.values()),
        )

        def committed(response: OffsetCommitResponse) -> None:
            each = " ".join(
                f"{topic.name}-{one.partition_index}={ErrorCode(one.error_code).name}"
                for topic in response.topics
                for one in topic.partitions
            )
            self.say(f"{client.name}: commit {each}")

        answer = self.node.groups.commit_offsets(
            request, int(options.get("version", "9")), committed
        )
        if answer is not None:
            committed(answer)
        else:
            self.say(f"{client.name}: commit waits")

    def do_fetch(self, arguments: list[str], options: dict[str, str]) -> None:
        """`fetch g` for all, `fetch g t:0,1` for some; `stable=1` requires stable offsets."""
        topics = None
        if len(arguments) > 1:
            topics = [
                OffsetFetchRequestTopics(
                    name=topic,
                    topic_id=bytes.fromhex(options.get("topic-id", "00")).rjust(16, b"\0"),
                    partition_indexes=[int(index) for index in indexes.split(",")],
                )
                for topic, _, indexes in (text.partition(":") for text in arguments[1:])
            ]
        group_id = arguments[0]

        def fetched(response: OffsetFetchResponseGroup) -> None:
            self.say(f"fetch {group_id} {ErrorCode(response.error_code).name}")
            for topic in response.topics:
                for one in topic.partitions:
                    code = f" {ErrorCode(one.error_code).name}" if one.error_code else ""
                    self.say(
                        f"  {topic.name}-{one.partition_index} {one.committed_offset} "
                        f"epoch={one.committed_leader_epoch} {one.metadata!r}{code}"
                    )

        answer = self.node.groups.fetch_offsets(
            OffsetFetchRequestGroup(group_id=group_id, topics=topics),
            require_stable="stable" in options,
            respond=fetched,
        )
        if answer is not None:
            fetched(answer)
        else:
            self.say(f"fetch {group_id} waits")

    def do_delete_offsets(self, arguments: list[str], options: dict[str, str]) -> None:
        request = OffsetDeleteRequest(
            group_id=arguments[0],
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetDeleteRequestPartition(partition_index=int(index))
                        for index in indexes.split(",")
                    ],
                )
                for topic, _, indexes in (text.partition(":") for text in arguments[1:])
            ],
        )

        def deleted(response: OffsetDeleteResponse) -> None:
            each = " ".join(
                f"{topic.name}-{one.partition_index}={ErrorCode(one.error_code).name}"
                for topic in response.topics
                for one in topic.partitions
            )
            self.say(f"delete-offsets {ErrorCode(response.error_code).name} {each}".rstrip())

        answer = self.node.groups.delete_offsets(request, deleted)
        if answer is not None:
            deleted(answer)
        else:
            self.say("delete-offsets waits")

    def do_expire(self, arguments: list[str], options: dict[str, str]) -> None:
        self.node.groups.expire_offsets()

    def do_topics_deleted(self, arguments: list[str], options: dict[str, str]) -> None:
        topic_id = bytes.fromhex(options.get("topic-id", "ff")).rjust(16, b"\0")
        self.node.groups.topics_deleted([(topic, topic_id) for topic in arguments])

    def do_transaction(self, arguments: list[str], options: dict[str, str]) -> None:
        """`transaction 7 g t:0:42` writes a transactional commit of producer 7 into the log."""
        producer, group_id, *offsets = arguments
        records = []
        for text in offsets:
            topic, partition, offset = text.split(":")
            committed = CommittedOffset(int(offset), -1, "", self.node.clock.now_ms())
            record = OffsetCommitRecord(group_id, topic, int(partition), committed)
            records.append((self.node.clock.now_ms(), *record.encode(), ()))
        batch = build_batch(
            records,
            producer_id=int(producer),
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        self.node.log.append_raw(0, batch)

    def do_end_transaction(self, arguments: list[str], options: dict[str, str]) -> None:
        producer, outcome = arguments
        batch = build_end_transaction_marker(
            EndTransactionMarker(ControlType[outcome.upper()], 0),
            producer_id=int(producer),
            producer_epoch=0,
            timestamp_ms=self.node.clock.now_ms(),
        )
        self.node.log.append_raw(0, batch)


def _shown_offset(committed: CommittedOffset | None) -> str:
    if committed is None:
        return "tombstone"
    text = f"{committed.offset} epoch={committed.leader_epoch} {committed.metadata!r}"
    if committed.expire_timestamp_ms >= 0:
        text += f" expires={committed.expire_timestamp_ms - START_MS}"
    if any(committed.topic_id):
        text += f" topic-id={committed.topic_id.hex().lstrip('0')}"
    return text


def run_file(path: Path) -> str:
    return Script().run(path.read_text())
