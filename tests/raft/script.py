"""Runs a text script against a quorum in virtual time and writes down everything visible.

A script is commands, one a line, each followed by what it caused, lines that begin with ">": what
listeners are told, states that changed, answers to requests, and, with `show`, every message. `#`
begins a comment. Messages take a millisecond, flushes none.

    quorum 1 2 3            voters from the configuration; `dynamic 1 2 3`: from the log
    observer 4              a replica that cannot vote; `joiner 4`: one that could; `auto_joiner 4`:
                            one that asks to vote by itself
    start 1 | stop 1 | kill 1 | power 1
    run MS                  let time go by; `show MS`: with every message
    cut 1 2 | cut 1 | heal  both ways, or from everybody; and none any more
    append 1 a b            one batch
    snapshot 1 | clean 1
    add 1 4 | remove 1 2    ask node 1 to change the voters; `timeout MS`: how long it may take
    upgrade 1 LEVEL         raise kraft.version
    describe 1 | state | file 1
    leader, last            in place of a number: who leads, and who was meant by that before
    vote 1 from=2 epoch=3 last=0/0 [pre] [cluster=X] [voter=9] and other requests, field by field
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from barnabas.raft.connections import Send
from barnabas.raft.raft import NotLeader, Raft
from barnabas.raft.settings import RaftSettings
from barnabas.record.batch import iterate_batches
from barnabas.wire import uuids
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages import add_raft_voter
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest
from barnabas.wire.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
)
from barnabas.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from barnabas.wire.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestTopicData,
)
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestTopicSnapshot,
    SnapshotId,
)
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.wire.messages.vote import (
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
)
from barnabas.wire.uuids import METADATA_TOPIC_ID
from tests.raft.cluster import (
    CLUSTER_ID,
    Node,
    directory_of,
    dynamic_voters,
    endpoint_of,
    is_api_versions,
    static_voters,
    through_the_wire,
    version_of,
    versions_response,
)

START_MS = 1_000_000
TOPIC = "__cluster_metadata"
SETTINGS = RaftSettings(
    fetch_max_bytes=300, fetch_snapshot_max_bytes=200, listener_name="CONTROLLER"
)


class Script:
    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.now_ms = START_MS
        self.out: list[str] = []
        self.showing = False
        self.cuts: set[tuple[int, int]] = set()
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.counter = itertools.count()
        self.told: dict[int, int] = {}
        self.states: dict[int, str] = {}
        self.timeout_ms = 5000
        self.last = ""
        self.lives: dict[int, int] = {}

    def line(self, text: str) -> None:
        self.out.append(f"> {text}")

    def run(self, words: Sequence[str]) -> None:
        command, *rest = [self._resolve(each) for each in words]
        getattr(self, f"do_{command}")(*rest)
        self.notice()

    def _resolve(self, word: str) -> str:
        """`leader` is whoever leads the highest epoch, `last` whoever was called so before."""
        if word == "leader":
            leading = [
                (node.raft.epoch, node_id)
                for node_id, node in self.nodes.items()
                if node.raft is not None and node.raft.is_leader
            ]
            self.last = str(max(leading)[1])
            return self.last
        return self.last if word == "last" else word

    # ---- nodes

    def do_quorum(self, *ids: str) -> None:
        voters = static_voters([int(each) for each in ids])
        for each in ids:
            self._make(int(each), voters=voters)

    def do_dynamic(self, *ids: str) -> None:
        numbers = [int(each) for each in ids]
        for each in numbers:
            self._make(each, initial=dynamic_voters(numbers), bootstrap=numbers)

    def do_observer(self, node_id: str, *, can_vote: bool = False) -> None:
        others = list(self.nodes)
        voters = next(iter(self.nodes.values())).voters
        self._make(int(node_id), voters=voters, can_vote=can_vote, bootstrap=others)

    def do_joiner(self, node_id: str) -> None:
        self.do_observer(node_id, can_vote=True)

    def do_auto_joiner(self, node_id: str) -> None:
        self.do_joiner(node_id)
        self.nodes[int(node_id)].settings = replace(SETTINGS, auto_join=True)

    def do_upgrade(self, node_id: str, level: str) -> None:
        try:
            self.raft(node_id).upgrade_kraft_version(int(level), self.now_ms)
        except ApiError as error:
            self.line(f"{node_id} refuses: {error.code.name} {error.message or ''}".rstrip())
        self.drive(int(node_id))

    def _make(self, node_id: int, **options: Any) -> None:
        self.nodes[node_id] = Node(node_id, settings=SETTINGS, **options)
        self.lives[node_id] = 0

    def do_start(self, *ids: str) -> None:
        for each in ids:
            self.told[int(each)] = 0
            self.nodes[int(each)].start(self.now_ms)
            self.drive(int(each))

    def do_stop(self, node_id: str) -> None:
        self.raft(node_id).shutdown(self.now_ms)
        self.drive(int(node_id))

    def do_resign(self, node_id: str) -> None:
        self.raft(node_id).resign(self.now_ms)
        self.drive(int(node_id))

    def do_kill(self, node_id: str) -> None:
        self.lives[int(node_id)] += 1
        self.nodes[int(node_id)].crash(power=False)

    def do_power(self, node_id: str) -> None:
        self.lives[int(node_id)] += 1
        self.nodes[int(node_id)].crash(power=True)

    def raft(self, node_id: str | int) -> Raft:
        raft = self.nodes[int(node_id)].raft
        assert raft is not None
        return raft

    # ---- time and messages

    def do_run(self, ms: str) -> None:
        end_ms = self.now_ms + int(ms)
        while self.events and self.events[0][0] <= end_ms:
            at_ms, _, event = heapq.heappop(self.events)
            self.now_ms = max(at_ms, self.now_ms)
            event()
            self.notice()
        self.now_ms = end_ms

    def do_show(self, ms: str) -> None:
        self.showing = True
        self.do_run(ms)
        self.showing = False

    def do_cut(self, *ids: str) -> None:
        group = {int(each) for each in ids}
        others = set(self.nodes) - group
        if len(group) == 2:
            others = group
        self.cuts |= {pair for a in group for b in others for pair in ((a, b), (b, a))}

    def do_heal(self) -> None:
        self.cuts = set()

    def later(self, node_id: int, delay_ms: int, event: Callable[[], None]) -> None:
        life = self.lives[node_id]

        def run() -> None:
            if self.lives[node_id] == life and self.nodes[node_id].raft is not None:
                event()

        heapq.heappush(self.events, (self.now_ms + delay_ms, next(self.counter), run))

    def drive(self, node_id: int) -> None:
        node = self.nodes[node_id]
        raft = node.raft
        if raft is None:
            return
        while True:
            for send in raft.take_sends():
                self.deliver(node_id, send)
            if not node.flush(self.now_ms):
                break
        if raft.next_tick_ms < 1 << 60:
            delay_ms = max(raft.next_tick_ms - self.now_ms, 0)
            self.later(node_id, delay_ms, lambda: self.tick(node_id))

    def tick(self, node_id: int) -> None:
        raft = self.raft(node_id)
        if self.now_ms >= raft.next_tick_ms:
            raft.tick(self.now_ms)
            self.drive(node_id)

    def deliver(self, source: int, send: Send) -> None:
        target = int(send.host[1:])
        version = version_of(send)
        if self.showing:
            self.line(f"{source}>{target} {send.key.name} {shown(send.request)}")

        def answer(response: Message | None) -> None:
            raft = self.nodes[source].raft
            if raft is not None:
                raft.answered(send, response, self.now_ms)
                self.drive(source)

        def reply(response: Message) -> None:
            given = through_the_wire(response, version)
            if self.showing:
                self.line(f"{target}>{source} {send.key.name} answer {shown(given)}")
            if (target, source) not in self.cuts:
                self.later(source, 1, lambda: answer(given))

        def arrive() -> None:
            if is_api_versions(send):
                reply(versions_response())
                return
            request = through_the_wire(send.request, version)
            self.raft(target).handle(
                send.key, version, request, self.now_ms, reply, listener_name="CONTROLLER"
            )
            self.drive(target)

        if (source, target) in self.cuts:
            self.later(source, send.timeout_ms, lambda: answer(None))
        elif self.nodes[target].raft is None:
            self.later(source, 1, lambda: answer(None))
        else:
            self.later(target, 1, arrive)

    # ---- what is seen

    def notice(self) -> None:
        for node_id, node in self.nodes.items():
            raft = node.raft
            state = "down"
            if raft is not None:
                state = f"{raft.state.value} epoch={raft.epoch} leader={raft.leader_id}"
                if not raft.is_voter:
                    state = f"observer {state}"
            if state != self.states.get(node_id, "down"):
                self.states[node_id] = state
                self.line(f"{node_id}: {state} at {self.now_ms - START_MS} ms")
            events = node.recorder.events
            while self.told.get(node_id, 0) < len(events):
                self.line(f"{node_id}: told {events[self.told.get(node_id, 0)]}")
                self.told[node_id] = self.told.get(node_id, 0) + 1

    def do_state(self) -> None:
        for node_id, node in self.nodes.items():
            raft = node.raft
            if raft is None:
                self.line(f"{node_id} down")
                continue
            log = raft.log
            snapshots = " ".join(f"{each.offset}-{each.epoch}" for each in log.snapshots)
            self.line(
                f"{node_id} {raft.state.value} epoch={raft.epoch} leader={raft.leader_id} "
                f"log={log.start_offset}..{log.end_offset} last_epoch={log.last_epoch} "
                f"flushed={log.flushed_offset} hw={raft.high_watermark} "
                f"voters={raft.voters.ids} kraft.version={raft.kraft_version}"
                + (f" snapshots={snapshots}" if snapshots else "")
            )

    def do_file(self, node_id: str) -> None:
        self.line(self.nodes[int(node_id)].disk.read_file("/d/quorum-state").decode())

    # ---- what is asked

    def do_append(self, node_id: str, *values: str) -> None:
        try:
            offset = self.raft(node_id).append([each.encode() for each in values], self.now_ms)
        except NotLeader as error:
            self.line(str(error))
            return
        self.line(f"{node_id} appended up to {offset}")
        self.drive(int(node_id))

    def do_snapshot(self, node_id: str) -> None:
        found = self.nodes[int(node_id)].snapshot()
        self.line(f"snapshot {found}")

    def do_clean(self, node_id: str) -> None:
        self.nodes[int(node_id)].forget_log()

    def do_timeout(self, ms: str) -> None:
        self.timeout_ms = int(ms)

    def do_add(self, node_id: str, voter: str, *options: str) -> None:
        given = _options(options)
        endpoint = endpoint_of(int(voter))
        listener = add_raft_voter.Listener(
            name=given.get("listener", endpoint.name), host=endpoint.host, port=endpoint.port
        )
        request = AddRaftVoterRequest(
            cluster_id=given.get("cluster", CLUSTER_ID),
            timeout_ms=self.timeout_ms,
            voter_id=int(voter),
            voter_directory_id=directory_of(int(voter)),
            listeners=[listener],
            ack_when_committed="early" not in given,
        )
        self.ask(node_id, request)

    def do_remove(self, node_id: str, voter: str, *options: str) -> None:
        given = _options(options)
        generation = int(given.get("generation", "0"))
        request = RemoveRaftVoterRequest(
            cluster_id=given.get("cluster", CLUSTER_ID),
            voter_id=int(voter),
            voter_directory_id=directory_of(int(voter), generation),
        )
        self.ask(node_id, request)

    def do_describe(self, node_id: str) -> None:
        partition = DescribeQuorumRequestPartitionData(partition_index=0)
        topic = DescribeQuorumRequestTopicData(topic_name=TOPIC, partitions=[partition])
        self.ask(node_id, DescribeQuorumRequest(topics=[topic]))

    def do_vote(self, node_id: str, *options: str) -> None:
        given = _options(options)
        offset, epoch = _pair(given.get("last", "0/0"))
        partition = VoteRequestPartitionData(
            partition_index=0,
            replica_epoch=int(given["epoch"]),
            replica_id=int(given["from"]),
            replica_directory_id=directory_of(abs(int(given["from"]))),
            voter_directory_id=directory_of(int(node_id), int(given.get("generation", "0"))),
            last_offset_epoch=epoch,
            last_offset=offset,
            pre_vote="pre" in given,
        )
        topic = VoteRequestTopicData(topic_name=given.get("topic", TOPIC), partitions=[partition])
        request = VoteRequest(
            cluster_id=given.get("cluster", CLUSTER_ID),
            voter_id=int(given.get("voter", node_id)),
            topics=[topic],
        )
        self.ask(node_id, request)

    def do_begin(self, node_id: str, *options: str) -> None:
        given = _options(options)
        partition = BeginQuorumEpochRequestPartitionData(
            partition_index=0,
            voter_directory_id=directory_of(int(node_id), int(given.get("generation", "0"))),
            leader_id=int(given["from"]),
            leader_epoch=int(given["epoch"]),
        )
        topic = BeginQuorumEpochRequestTopicData(
            topic_name=given.get("topic", TOPIC), partitions=[partition]
        )
        request = BeginQuorumEpochRequest(
            cluster_id=given.get("cluster", CLUSTER_ID),
            voter_id=int(given.get("voter", node_id)),
            topics=[topic],
        )
        self.ask(node_id, request)

    def do_end(self, node_id: str, *options: str) -> None:
        given = _options(options)
        partition = EndQuorumEpochRequestPartitionData(
            partition_index=0, leader_id=int(given["from"]), leader_epoch=int(given["epoch"])
        )
        topic = EndQuorumEpochRequestTopicData(
            topic_name=given.get("topic", TOPIC), partitions=[partition]
        )
        request = EndQuorumEpochRequest(cluster_id=given.get("cluster", CLUSTER_ID), topics=[topic])
        self.ask(node_id, request)

    def do_fetch(self, node_id: str, *options: str) -> None:
        given = _options(options)
        offset, epoch = _pair(given.get("at", "0/0"))
        partition = FetchPartition(
            partition=int(given.get("partition", "0")),
            current_leader_epoch=int(given["epoch"]),
            fetch_offset=offset,
            last_fetched_epoch=epoch,
            replica_directory_id=directory_of(int(given["from"])),
            high_watermark=int(given.get("hw", "-1")),
        )
        topic = FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])
        request = FetchRequest(
            cluster_id=given.get("cluster", CLUSTER_ID),
            replica_state=ReplicaState(replica_id=int(given["from"])),
            max_wait_ms=int(given.get("wait", "0")),
            max_bytes=1000,
            topics=[topic],
        )
        self.ask(node_id, request)

    def do_fetch_snapshot(self, node_id: str, *options: str) -> None:
        given = _options(options)
        offset, epoch = _pair(given["id"])
        partition = FetchSnapshotRequestPartitionSnapshot(
            partition=int(given.get("partition", "0")),
            current_leader_epoch=int(given["epoch"]),
            snapshot_id=SnapshotId(end_offset=offset, epoch=epoch),
            position=int(given.get("position", "0")),
        )
        topic = FetchSnapshotRequestTopicSnapshot(name=TOPIC, partitions=[partition])
        request = FetchSnapshotRequest(
            cluster_id=given.get("cluster", CLUSTER_ID),
            replica_id=int(given["from"]),
            max_bytes=100,
            topics=[topic],
        )
        self.ask(node_id, request)

    def ask(self, node_id: str, request: Message) -> None:
        key = type(request).API_KEY
        version = type(request).VERSIONS[1]

        def reply(response: Message) -> None:
            given = through_the_wire(response, version)
            self.line(f"{node_id} answers {key.name} {shown(given)}")

        assert isinstance(key, ApiKey)
        self.raft(node_id).handle(
            key,
            version,
            through_the_wire(request, version),
            self.now_ms,
            reply,
            listener_name="CONTROLLER",
        )
        self.drive(int(node_id))


def _options(words: Sequence[str]) -> dict[str, str]:
    return dict(each.split("=", 1) if "=" in each else (each, "") for each in words)


def _pair(text: str) -> tuple[int, int]:
    offset, _, epoch = text.partition("/")
    return int(offset), int(epoch)


HIDDEN = {"cluster_id", "topic_name", "topic_id", "topic", "name", "partition_index", "index"}
HIDDEN |= {"throttle_time_ms", "max_bytes", "min_bytes", "partition", "preferred_successors"}


def shown(message: Message) -> str:
    """The fields that say something, flat."""
    return " ".join(_fields(message)) or "nothing"


def _fields(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _fields(each, name)
    elif hasattr(value, "__slots__") and hasattr(type(value), "FIELDS"):
        default = type(value)()
        for field in type(value).FIELDS:
            each = getattr(value, field.name)
            if field.name in HIDDEN or each == getattr(default, field.name):
                continue
            yield from _fields(each, field.name)
    elif isinstance(value, bytes | memoryview):
        yield f"{name}={_bytes(bytes(value))}"
    elif name == "error_code":
        yield ErrorCode(value).name
    elif isinstance(value, str) and " " in value:
        yield f'{name}="{value}"'
    else:
        yield f"{name}={value}"


def _bytes(value: bytes) -> str:
    if len(value) == 16:
        return "none" if value == uuids.ZERO else f"d{value[-1] - 100}"
    try:
        offsets = [
            (header.base_offset, header.last_offset)
            for header, _, _ in iterate_batches(value, partial_tail=True)
        ]
    except Exception:
        return f"{len(value)} bytes"
    if not offsets:
        return f"{len(value)} bytes"
    return f"{offsets[0][0]}..{offsets[-1][1]}"


def run_file(path: Path) -> str:
    script = Script()
    for line in path.read_text().splitlines():
        if line.startswith(">"):
            continue
        script.out.append(line)
        words = line.split("#")[0].split()
        if words:
            script.run(words)
    return "\n".join(script.out) + "\n"
