"""Chains of interceptors: order, failures, absence."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from barnabas.client.errors import OptionError
from barnabas.client.interceptors import (
    ConsumerInterceptor,
    ConsumerInterceptors,
    ProducerInterceptor,
    ProducerInterceptors,
    ProducerRecord,
)


class Marking:
    def __init__(self, mark: str, seen: list[Any]) -> None:
        self.mark = mark
        self.seen = seen

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(value=record.value + self.mark)

    def on_acknowledgement(self, metadata: Any, error: Exception | None) -> None:
        self.seen.append((self.mark, metadata, error))

    def on_consume(self, records: list[Any]) -> list[Any]:
        return [record + self.mark for record in records]

    def on_commit(self, offsets: Any) -> None:
        self.seen.append((self.mark, offsets))

    def close(self) -> None:
        self.seen.append((self.mark, "closed"))


class Failing:
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("send")

    def on_acknowledgement(self, metadata: Any, error: Exception | None) -> None:
        raise RuntimeError("acknowledgement")

    def on_consume(self, records: list[Any]) -> list[Any]:
        raise RuntimeError("consume")

    def on_commit(self, offsets: Any) -> None:
        raise RuntimeError("commit")

    def close(self) -> None:
        raise RuntimeError("close")


class Forgetful:
    def on_send(self, record: ProducerRecord) -> None:
        pass

    def on_consume(self, records: list[Any]) -> None:
        pass


def test_the_protocols_fit() -> None:
    sending: ProducerInterceptor = Marking("a", [])
    consuming: ConsumerInterceptor = Marking("a", [])
    assert sending
    assert consuming


def test_each_gets_what_the_one_before_it_left() -> None:
    seen: list[Any] = []
    chain = ProducerInterceptors([Marking("a", seen), Marking("b", seen)])
    assert chain.send(ProducerRecord("t", "x")).value == "xab"
    chain.acknowledge("m", None)
    chain.close()
    chain.close()
    assert seen == [("a", "m", None), ("b", "m", None), ("a", "closed"), ("b", "closed")]
    readers = ConsumerInterceptors([Marking("a", seen), Marking("b", seen)])
    assert readers.consume(["x", "y"]) == ["xab", "yab"]
    readers.commit({("t", 0): 5})
    assert seen[4:] == [("a", {("t", 0): 5}), ("b", {("t", 0): 5})]


def test_one_that_fails_is_logged_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []
    chain = ProducerInterceptors([Marking("a", seen), Failing(), Forgetful(), Marking("b", seen)])
    readers = ConsumerInterceptors([Marking("a", seen), Failing(), Forgetful(), Marking("b", seen)])
    with caplog.at_level(logging.ERROR):
        assert chain.send(ProducerRecord("t", "x")).value == "xab"
        chain.acknowledge("m", None)
        assert readers.consume(["x"]) == ["xab"]
        readers.commit({})
        chain.close()
    assert len(seen) == 6
    text = caplog.text
    for name in ("on_send", "on_acknowledgement", "on_consume", "on_commit", "close"):
        assert f"interceptor Failing.{name} failed" in text
    assert "Forgetful.on_send returned NoneType instead of ProducerRecord" in text
    assert "Forgetful.on_consume returned NoneType instead of list" in text


def test_nobody_listens() -> None:
    class Acknowledging:
        def on_acknowledgement(self, metadata: Any, error: Exception | None) -> None: ...

    chain = ProducerInterceptors()
    assert (chain.on_send, chain.on_acknowledgement) == ((), ())
    partial = ProducerInterceptors([Acknowledging()])
    assert partial.on_send == ()
    assert len(partial.on_acknowledgement) == 1
    record = ProducerRecord("t")
    assert partial.send(record) is record


def test_ctrl_c_is_not_swallowed() -> None:
    class Interrupted:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ProducerInterceptors([Interrupted()]).send(ProducerRecord("t"))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (Marking, r"Marking\(\)"),
        (object(), "without on_send or on_acknowledgement"),
        ("com.example.Tracing", "of type str"),
    ],
)
def test_what_no_interceptor_is(given: Any, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        ProducerInterceptors([given])
