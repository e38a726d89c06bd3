"""Runs a text script against one `Member` in virtual time and writes down everything visible.

A script is commands, one a line, each followed by what it caused, lines that begin with ">": what the
member asks, what it has to say, what the caller has to run, errors, and its state when that changed.
`#` begins a comment. Times are milliseconds from the start.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from barnabas.client.core.assignors import assignors
from barnabas.client.core.assignors.assignor import GroupTopics
from barnabas.client.core.consumer_protocol import (
    by_topic,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas.client.core.membership import Ask, Asked, Member, Warned
from barnabas.client.errors import ClientError, ConnectionLost, VersionError
from barnabas.client.settings import ConsumerSettings
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from barnabas.wire.messages.leave_group import LeaveGroupResponse
from barnabas.wire.messages.sync_group import SyncGroupResponse

ASKS = {ask.name.lower(): ask for ask in Ask}
Partition = tuple[str, int]


def shown(partitions: Any) -> str:
    """t:0,1 u:2"""
    found = by_topic(partitions)
    return " ".join(f"{t}:{','.join(map(str, each))}" for t, each in found.items()) or "-"


def read(text: str) -> list[Partition]:
    topic, _, indexes = text.partition(":")
    return [(topic, int(index)) for index in indexes.split(",") if index]


class MemberScript:
    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[str] = []
        self.member: Member | None = None
        self.asked: dict[Ask, Asked] = {}
        self.state: tuple[str, str, int] = ("unjoined", "", -1)

    def run(self, text: str) -> str:
        out = []
        for line in text.splitlines():
            if line.startswith(">"):
                continue
            out.append(line)
            words = shlex.split(line, comments=True)
            if words:
                out += [f"> {each}" for each in self._command(words)]
        return "\n".join(out) + "\n"

    def _command(self, words: list[str]) -> list[str]:
        self.lines = []
        arguments = [word for word in words[1:] if "=" not in word]
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        getattr(self, "do_" + words[0].replace("-", "_"))(arguments, options)
        self._look()
        return self.lines

    def say(self, line: str) -> None:
        self.lines.append(line)

    @property
    def one(self) -> Member:
        if self.member is None:
            self.do_member([], {})
        assert self.member is not None
        return self.member

    def _look(self) -> None:
        member = self.member
        if member is None:
            return
        for effect in member.effects():
            if isinstance(effect, Asked):
                self.asked[effect.ask] = effect
                self.say(self._shown(effect))
            elif isinstance(effect, Warned):
                self.say(f"warns: {effect.text}")
            else:
                self.say("forgets the coordinator")
        state = (member.state.value, *member.identity)
        if state != self.state:
            self.state = state
            self.say(f"is {state[0]} as {state[1] or '-'} in {state[2]}")

    def _shown(self, asked: Asked) -> str:
        name, request = asked.ask.name.lower(), asked.request
        if asked.ask is Ask.METADATA:
            return f"asks metadata of {' '.join(sorted(asked.topics))}"
        if asked.ask is Ask.JOIN:
            said = decode_subscription(request.protocols[0].metadata)
            owned = [(e.topic, i) for e in said.owned_partitions for i in e.partitions]
            return (
                f"asks join as {request.member_id or '-'} for {' '.join(said.topics) or '-'} "
                f"with {','.join(p.name for p in request.protocols)} owns {shown(owned)} "
                f"since {said.generation_id}: {request.reason.strip()}"
            )
        if asked.ask is Ask.SYNC:
            given = "; ".join(
                f"{each.member_id} gets {shown(_partitions(each.assignment))}"
                for each in request.assignments
            )
            who = f"{request.member_id} in {request.generation_id}"
            return f"asks sync as {who}: {given or 'follows'}"
        if asked.ask is Ask.HEARTBEAT:
            return f"asks heartbeat as {request.member_id} in {request.generation_id}"
        if asked.ask is Ask.LEAVE:
            [leaver] = request.members
            return f"asks leave as {leaver.member_id}: {leaver.reason}"
        return f"asks {name}"

    # -- the caller

    def do_member(self, arguments: list[str], options: dict[str, str]) -> None:
        """A new one. Options are Kafka's with underscores."""
        strategy = options.pop("strategy", "range")
        values: dict[str, Any] = {
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "heartbeat_interval_ms": 3_000,
            "max_poll_interval_ms": 60_000,
            "retry_backoff_ms": 100,
        }
        for name, text in options.items():
            values[name] = int(text) if text.isdigit() else text
        settings = ConsumerSettings(**values)
        self.now = 0.0
        self.member = Member(settings, assignors(strategy), lambda: 0.5, 0.0)
        self.asked = {}
        self.state = ("unjoined", "", -1)

    def do_subscribe(self, arguments: list[str], options: dict[str, str]) -> None:
        self.one.subscribe(arguments)
        self.one.advance(self.now)

    def do_poll(self, arguments: list[str], options: dict[str, str]) -> None:
        """Enters poll and stays in it until `away`."""
        self.one.poll_began(self.now)
        self.one.advance(self.now)
        self._look()
        self._check()

    def do_away(self, arguments: list[str], options: dict[str, str]) -> None:
        self.one.poll_ended(self.now)

    def _check(self) -> None:
        try:
            self.one.check()
        except Exception as error:
            self.say(f"raises {type(error).__name__}: {error}")

    def do_call(self, arguments: list[str], options: dict[str, str]) -> None:
        """Runs what the caller has to run; `fails` lets it raise, `stays` does not end it."""
        call = self.one.next_call(self.now)
        if call is None:
            self.say("nothing to run")
            return
        self.say(f"runs {call.gate.name.lower()} {shown(call.partitions)}")
        if "stays" not in arguments:
            self.do_called(arguments, options)

    def do_called(self, arguments: list[str], options: dict[str, str]) -> None:
        error = ValueError("the listener failed") if "fails" in arguments else None
        self.one.called(self.now, error)
        self._look()
        self._check()

    def do_owned(self, arguments: list[str], options: dict[str, str]) -> None:
        may = "may" if self.one.may_consume else "may not"
        self.say(f"owns {shown(self.one.owned)} and {may} consume")

    def do_may_commit(self, arguments: list[str], options: dict[str, str]) -> None:
        refusal = self.one.refuses_commit()
        self.say("yes" if refusal is None else f"{type(refusal).__name__}: {refusal}")

    def do_commit_refused(self, arguments: list[str], options: dict[str, str]) -> None:
        self.one.commit_refused(self.now, self.one.identity, ErrorCode[arguments[0]])
        self.one.advance(self.now)

    def do_leave(self, arguments: list[str], options: dict[str, str]) -> None:
        self.one.leave(self.now, " ".join(arguments) or "the consumer is closed")

    # -- time and the world

    def do_advance(self, arguments: list[str], options: dict[str, str]) -> None:
        """Time passes; the member is advanced whenever it is due. `beats`: heartbeats are answered,
        and nothing is said of them."""
        end = self.now + int(arguments[0]) / 1000
        for _ in range(1_000):
            due = self.one.due()
            if due is None or due > end:
                break
            assert due >= self.now, "due in the past"
            self.now = due
            self.one.advance(self.now)
            count = len(self.lines)
            self._look()
            if "beats" in arguments and Ask.HEARTBEAT in self.asked:
                self.do_heartbeat([], {})
                self.lines.pop()
                continue
            if len(self.lines) > count:
                self.lines.insert(count, f"after {round(self.now * 1000)} ms")
            due_now = self.one.due()
            assert due_now is None or due_now > self.now, "it does not get on"
        else:
            raise AssertionError("it never rests")
        self.now = end

    def _answer(self, name: str, answer: Any) -> None:
        asked = self.asked.pop(ASKS[name], None)
        if asked is None:
            self.say(f"nobody asked: {name}")
        else:
            self.one.answered(self.now, asked.number, answer)

    def do_found(self, arguments: list[str], options: dict[str, str]) -> None:
        self._answer("coordinator", None)

    def do_described(self, arguments: list[str], options: dict[str, str]) -> None:
        counts = {topic: int(count) for topic, count in options.items()}
        self._answer("metadata", GroupTopics(counts))

    def do_counts(self, arguments: list[str], options: dict[str, str]) -> None:
        """Metadata that came by itself."""
        self.one.metadata_changed({topic: int(count) for topic, count in options.items()})
        self.one.advance(self.now)

    def do_joined(self, arguments: list[str], options: dict[str, str]) -> None:
        """joined as=m1 generation=1 leader=m1 m1:t,u m2:t  (an error's name instead: an error)"""
        if arguments and arguments[0] in ErrorCode.__members__:
            code = ErrorCode[arguments[0]]
            self._answer(
                "join", JoinGroupResponse(error_code=code, member_id=options.get("as", ""))
            )
            return
        members = []
        for word in arguments:
            name, _, topics = word.partition(":")
            metadata = encode_subscription(filter(None, topics.split(",")))
            members.append(JoinGroupResponseMember(member_id=name, metadata=metadata))
        response = JoinGroupResponse(
            generation_id=int(options["generation"]),
            protocol_type="consumer",
            protocol_name=options.get("protocol", "range"),
            leader=options.get("leader", "another"),
            member_id=options["as"],
            members=members,
            skip_assignment=options.get("skip") == "yes",
        )
        self._answer("join", response)

    def do_synced(self, arguments: list[str], options: dict[str, str]) -> None:
        if arguments and arguments[0] in ErrorCode.__members__:
            self._answer("sync", SyncGroupResponse(error_code=ErrorCode[arguments[0]]))
            return
        partitions = [p for word in arguments for p in read(word)]
        response = SyncGroupResponse(
            protocol_type="consumer",
            protocol_name=options.get("protocol"),
            assignment=encode_assignment(by_topic(partitions)),
        )
        self._answer("sync", response)

    def do_heartbeat(self, arguments: list[str], options: dict[str, str]) -> None:
        code = ErrorCode[arguments[0]] if arguments else ErrorCode.NONE
        self._answer("heartbeat", HeartbeatResponse(error_code=code))

    def do_left(self, arguments: list[str], options: dict[str, str]) -> None:
        self._answer("leave", LeaveGroupResponse())

    def do_fails(self, arguments: list[str], options: dict[str, str]) -> None:
        """fails join  (connection lost; `version`: not retriable; `hopeless`)"""
        error: ClientError = ConnectionLost("broker:9092", arguments[0], "the test wants it")
        if "version" in arguments:
            error = VersionError("broker:9092", "JOIN_GROUP", "is not offered by this broker")
        asked = self.asked.pop(ASKS[arguments[0]], None)
        if asked is None:
            self.say(f"nobody asked: {arguments[0]}")
            return
        self.one.failed(self.now, asked.number, error, hopeless="hopeless" in arguments)

    # -- in short

    def do_stable(self, arguments: list[str], options: dict[str, str]) -> None:
        """A member that follows and got these partitions, with nothing said about it."""
        say, self.say = self.say, lambda line: None  # type: ignore[method-assign]
        steps: list[tuple[Callable[..., None], list[str], dict[str, str]]] = [
            (self.do_poll, [], {}),
            (self.do_found, [], {}),
            (self.do_joined, ["MEMBER_ID_REQUIRED"], {"as": "m1"}),
            (self.do_joined, [], {"as": "m1", "generation": "1", **options}),
            (self.do_synced, arguments, {}),
            (self.do_call, [], {}),
        ]
        for step, words, more in steps:
            step(words, more)
            self._look()
        self.say = say  # type: ignore[method-assign]


def _partitions(data: bytes) -> list[Partition]:
    return [(t, i) for t, indexes in decode_assignment(bytes(data)).items() for i in indexes]


def run_file(path: Path) -> str:
    return MemberScript().run(path.read_text())
