"""An interview: a node is asked many questions, each in every version of its API, over the wire.

A question is a request written once, in full; what a version cannot say is taken out of it. An
answer is kept as plain values: the fields that its version has, with what differs from run to run
(ids, ports, moments, directories) replaced by words. Two nodes that behave alike give equal
answers, and so do two versions of one API in the fields that both have.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.layout import Layout
from barnabas.wire.message import Message, Struct
from barnabas.wire.messages import metadata
from barnabas.wire.uuids import ZERO, to_text
from tests.peers.wire_connection import Wire

PATIENCE_S = 20.0
UNSTABLE = {ApiKey.INIT_PRODUCER_ID: 6}
LONG_AGO_MS = 1_750_000_000_000
MOMENTS = re.compile("timestamp|time_ms$|_age$")

Plain = Any
Answers = dict[tuple[str, str, int], Plain]


def versions_of(request: type[Message]) -> range:
    lowest, highest = request.VERSIONS
    return range(lowest, min(highest, UNSTABLE.get(request.API_KEY, 99) - 1) + 1)


class Interview:
    """Asks one node. `answers` has them all, by API, question and version."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.answers: Answers = {}
        self.ids: dict[str, bytes] = {}
        self._wire = Wire(bootstrap)
        self._words: dict[str, str] = {}
        self._members = itertools.count(1)
        self.port = int(bootstrap.rsplit(":", 1)[1])
        self.call(bootstrap, "HOST:PORT")

    def close(self) -> None:
        self._wire.socket.close()

    def call(self, text: str, word: str) -> None:
        """From now on `text` stands as `word` in answers."""
        self._words[text] = word

    def another(self) -> Wire:
        """A second connection, for requests that wait for others."""
        return Wire(self.bootstrap)

    def every(
        self, question: str, cls: type[Message], build: Callable[[int], Message | None]
    ) -> None:
        """Ask in every version of the API for which `build` gives a request."""
        for version in versions_of(cls):
            request = build(version)
            if request is not None:
                self.ask(question, request, version)

    def ask(self, question: str, request: Message, version: int) -> Any:
        answer = self.quietly(request, version)
        self.keep(question, answer, version)
        return answer

    def keep(self, question: str, answer: Message, version: int) -> None:
        name = ApiKey(answer.API_KEY).name
        assert (name, question, version) not in self.answers, (name, question, version)
        self.call(f"-v{version}", "-vN")
        self.answers[name, question, version] = self._plain_struct(
            answer, Layout(type(answer), version)
        )
        del self._words[f"-v{version}"]

    def quietly(self, request: Message, version: int) -> Any:
        """Ask without keeping the answer."""
        return self._wire.ask(expressible(request, version), version)

    def newest(self, request: Message) -> Any:
        return self.quietly(request, versions_of(type(request))[-1])

    def wait(self, condition: Callable[[], Any]) -> Any:
        """Metadata reaches a broker when it does: wait until a condition holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := condition()):
            assert time.monotonic() < deadline, "what the interview waits for does not come"
            time.sleep(0.01)
        return found

    def know(self, topic: str) -> bytes:
        """Wait until a topic is there and can be used; gives its id."""

        def look() -> bytes | None:
            asked = metadata.MetadataRequest(
                topics=[metadata.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
            )
            (found,) = self.quietly(asked, 12).topics
            if found.error_code or not all(each.leader_id >= 0 for each in found.partitions):
                return None
            identity: bytes = found.topic_id
            return identity

        self.ids[topic] = self.wait(look)
        self.call(to_text(self.ids[topic]), f"id of {topic}")
        return self.ids[topic]

    def name_of(self, topic: Any) -> str:
        """The name of a topic in an answer that may have only its id."""
        names = {identity: name for name, identity in self.ids.items()}
        return topic.name or names[topic.topic_id]

    # Answers as plain values

    def _plain_struct(self, value: Struct, layout: Layout) -> dict[str, Plain]:
        return {
            field.name: self._plain(field.name, getattr(value, field.name), layout)
            for field in value.FIELDS
            if layout.has(field)
        }

    def _plain(self, name: str, value: Any, layout: Layout) -> Plain:
        if isinstance(value, Struct):
            return self._plain_struct(value, layout)
        if isinstance(value, list):
            return [self._plain(name, each, layout) for each in value]
        if isinstance(value, memoryview):
            return bytes(value).hex()
        if isinstance(value, bytes):
            return self._identity(value) if len(value) == len(ZERO) else value.decode("latin-1")
        if isinstance(value, str):
            return self._text(name, value)
        if name == "port" and value == self.port:
            return "PORT"
        if MOMENTS.search(name) and value > LONG_AGO_MS:
            return "A RECENT MOMENT"
        return value

    def _identity(self, value: bytes) -> str | None:
        if value == ZERO:
            return None
        return self._words.get(to_text(value), "AN ID")

    def _text(self, name: str, value: str) -> str:
        if name in ("member_id", "leader") and value and value not in self._words:
            self.call(value, f"MEMBER {next(self._members)}")
        for text, word in self._words.items():
            value = value.replace(text, word)
        return value


def expressible(request: Message, version: int) -> Message:
    """The request without what this version lacks."""
    return _expressible(request, Layout(type(request), version))


def _expressible(value: Any, layout: Layout) -> Any:
    if isinstance(value, list):
        return [_expressible(each, layout) for each in value]
    if not isinstance(value, Struct):
        return value
    return type(value)(
        **{
            field.name: _expressible(getattr(value, field.name), layout)
            for field in value.FIELDS
            if layout.has(field)
        }
    )


# Comparing answers


def differences(one: Plain, other: Plain, path: str = "") -> Iterator[tuple[str, Plain, Plain]]:
    """Where two answers differ, in the fields that both have."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in one.keys() & other.keys():
            yield from differences(one[name], other[name], f"{path}.{name}" if path else name)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{path}[{at}]")
    elif one != other:
        yield path, one, other


def error_codes(answer: Plain) -> Iterator[int]:
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name.endswith("error_code"):
                yield value
            yield from error_codes(value)
    elif isinstance(answer, list):
        for value in answer:
            yield from error_codes(value)


def answered_versions(answers: Answers) -> dict[ApiKey, set[int]]:
    found: dict[ApiKey, set[int]] = {}
    for name, _question, version in answers:
        found.setdefault(ApiKey[name], set()).add(version)
    return found
