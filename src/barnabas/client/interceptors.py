"""Interceptors: code of a user that sees every record go by, for tracing, auditing, changing.

Four places, as in Kafka: a producer's records before they are serialized (`on_send`, which may
return another record), their acknowledgement or failure (`on_acknowledgement`), a consumer's records
before `poll` returns them (`on_consume`, which may return others), its commits (`on_commit`). An
interceptor needs only the methods it cares about, and may have `close()`.

What an interceptor does wrong hurts nobody but itself: an exception is logged with its name, and the
record goes on as the interceptor before it left it. The same holds for an `on_send` or `on_consume`
that returns `None`, which is the usual mistake.

A chain is made once from what the user gave; each place is a tuple of bound methods, empty when
nobody listens there, so a client tests `if chain.on_send:` and unused interceptors cost that test.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from barnabas.client.errors import OptionError

logger = logging.getLogger(__name__)


class ProducerRecord(NamedTuple):
    """What was given to `send`. `_replace(value=…)` makes a changed one."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None


class ProducerInterceptor(Protocol):
    """For `Producer(interceptors=[…])`. Runs in the thread that calls `send`."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record to send: this one or another."""

    def on_acknowledgement(self, metadata: Any, error: Exception | None) -> None:
        """A record was written (`metadata`: topic, partition, offset, timestamp_ms) or failed.

        Of a failed record as much of `metadata` is filled in as is known.
        """


class ConsumerInterceptor(Protocol):
    """For `Consumer(interceptors=[…])`. Runs in the thread that polls or commits."""

    def on_consume(self, records: list[Any]) -> list[Any]:
        """The records that `poll` returns: these or others."""

    def on_commit(self, offsets: Mapping[Any, Any]) -> None:
        """These offsets were committed."""


class _Chain:
    """What both chains do: find methods, call them, pass over those that fail."""

    __slots__ = ("_closers",)

    def __init__(self, members: Iterable[Any], places: tuple[str, ...]) -> None:
        members = tuple(members)
        for member in members:
            if isinstance(member, type):
                raise OptionError(
                    f"interceptors has the class {member.__name__}.",
                    next_step=f"Give an object: interceptors=[{member.__name__}()].",
                )
            if not any(callable(getattr(member, place, None)) for place in places):
                raise OptionError(
                    f"interceptors has an object of type {type(member).__name__} without "
                    f"{' or '.join(places)}.",
                    next_step="Give it at least one of these methods.",
                )
        for place in places:
            setattr(self, place, _methods(members, place))
        self._closers = _methods(members, "close")

    def close(self) -> None:
        closers, self._closers = self._closers, ()
        for call in closers:
            _tell(call)


class ProducerInterceptors(_Chain):
    """The chain of a producer."""

    __slots__ = ("on_acknowledgement", "on_send")

    on_send: tuple[Callable[[ProducerRecord], ProducerRecord], ...]
    on_acknowledgement: tuple[Callable[[Any, Exception | None], object], ...]

    def __init__(self, members: Iterable[Any] = ()) -> None:
        super().__init__(members, ("on_send", "on_acknowledgement"))

    def send(self, record: ProducerRecord) -> ProducerRecord:
        """The record as the last interceptor left it."""
        for call in self.on_send:
            record = _change(call, record)
        return record

    def acknowledge(self, metadata: Any, error: Exception | None) -> None:
        for call in self.on_acknowledgement:
            _tell(call, metadata, error)


class ConsumerInterceptors(_Chain):
    """The chain of a consumer."""

    __slots__ = ("on_commit", "on_consume")

    on_consume: tuple[Callable[[list[Any]], list[Any]], ...]
    on_commit: tuple[Callable[[Mapping[Any, Any]], object], ...]

    def __init__(self, members: Iterable[Any] = ()) -> None:
        super().__init__(members, ("on_consume", "on_commit"))

    def consume(self, records: list[Any]) -> list[Any]:
        """The records as the last interceptor left them."""
        for call in self.on_consume:
            records = _change(call, records)
        return records

    def commit(self, offsets: Mapping[Any, Any]) -> None:
        for call in self.on_commit:
            _tell(call, offsets)


def _methods(members: tuple[Any, ...], place: str) -> tuple[Callable[..., Any], ...]:
    found = (getattr(member, place, None) for member in members)
    return tuple(method for method in found if callable(method))


def _change(call: Callable[[Any], Any], given: Any) -> Any:
    try:
        changed = call(given)
    except Exception:
        logger.exception("interceptor %s failed and was passed over", _name(call))
        return given
    if isinstance(changed, type(given)):
        return changed
    logger.error(
        "interceptor %s returned %s instead of %s and was passed over",
        _name(call),
        type(changed).__name__,
        type(given).__name__,
    )
    return given


def _tell(call: Callable[..., object], *arguments: Any) -> None:
    try:
        call(*arguments)
    except Exception:
        logger.exception("interceptor %s failed and was passed over", _name(call))


def _name(call: Callable[..., Any]) -> str:
    return str(getattr(call, "__qualname__", None) or repr(call))
