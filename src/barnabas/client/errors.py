"""What can go wrong for a client: one exception class for one cause.

Each says what was tried, where, how often, and what to do next, because the same symptom ("no broker
available") has very different cures when a name does not resolve, a port is closed, or a server
answers something that is not Kafka's protocol.

`retriable` tells whether the same call may succeed later without anyone changing anything.
`BrokerError` is the one class for an error code a broker answered; its subclasses exist where callers
treat the cause differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.client.kernels_consumer import ConsumerRecord


class ClientError(Exception):
    """Anything a client raises. `next_step` is a sentence for a person; it is part of the text."""

    retriable = False

    def __init__(self, message: str, *, next_step: str | None = None) -> None:
        self.message = message
        self.next_step = next_step
        super().__init__(f"{message} {next_step}" if next_step else message)


class OptionError(ClientError):
    """An option of a client is unknown, of the wrong type, or contradicts another."""


class ClosedError(ClientError):
    """The client was closed before or during the call."""


class QueueFull(ClientError):
    """More is waiting for a broker than this client keeps; there is room again later."""

    retriable = True


class SerializationError(ClientError):
    """A key, value or header could not be turned into bytes."""


class ConnectionFailure(ClientError):
    """A connection could not be made or did not live. Carries the address and the attempt."""

    retriable = True
    waiting_for: str | None = None
    """What the client waited for on a connection that ended; None if there never was one."""

    def __init__(
        self, message: str, *, address: str, attempt: int = 1, next_step: str | None = None
    ) -> None:
        self.address = address
        self.attempt = attempt
        if attempt > 1:
            message = f"{message} (attempt {attempt})"
        super().__init__(message, next_step=next_step)


class NameLookupError(ConnectionFailure):
    """The host name does not resolve."""

    retriable = False

    def __init__(self, host: str, port: int, reason: str, *, attempt: int = 1) -> None:
        super().__init__(
            f"The name {host!r} does not resolve to an address ({reason}).",
            address=f"{host}:{port}",
            attempt=attempt,
            next_step="Check its spelling and this machine's name service; if a broker told the "
            "client this name, correct that broker's advertised.listeners.",
        )


class ConnectionRefused(ConnectionFailure):
    """Nothing listens on that port."""

    def __init__(self, address: str, *, attempt: int = 1) -> None:
        super().__init__(
            f"Nothing listens on {address}: the connection was refused.",
            address=address,
            attempt=attempt,
            next_step="Start a broker there, or name another one with --bootstrap-server.",
        )


class ConnectTimeout(ConnectionFailure):
    """The host did not answer the connection in time."""

    def __init__(self, address: str, timeout_ms: int, *, attempt: int = 1) -> None:
        super().__init__(
            f"{address} did not accept a connection within {timeout_ms} ms.",
            address=address,
            attempt=attempt,
            next_step="Check that the host is up and that no firewall drops the packets.",
        )


class ConnectionLost(ConnectionFailure):
    """The peer closed the connection, or the network broke, during a request."""

    def __init__(self, address: str, waiting_for: str, reason: str, *, attempt: int = 1) -> None:
        super().__init__(
            f"{address} closed the connection while the client waited for {waiting_for} ({reason}).",
            address=address,
            attempt=attempt,
            next_step="The broker's log may say why.",
        )
        self.waiting_for = waiting_for


class ProtocolMismatch(ConnectionFailure):
    """What answers on that port does not speak Kafka's protocol."""

    retriable = False

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            f"{address} does not speak Kafka's protocol in plain text: {reason}.",
            address=address,
            next_step="Check the port; a TLS listener, an HTTP server and a ZooKeeper look like this.",
        )


class VersionError(ClientError):
    """Client and broker share no version of an API, or the broker lacks a feature asked for."""

    def __init__(self, address: str, api: str, detail: str) -> None:
        self.address = address
        self.api = api
        super().__init__(
            f"{address} cannot do this: {api} {detail}.",
            next_step="A newer broker can; 'barnabas broker api-versions' shows what this one offers.",
        )


class RequestTimeout(ClientError):
    """A broker accepted a request and did not answer in time, or retries used up the time."""

    retriable = True

    def __init__(self, waiting_for: str, timeout_ms: int, *, last: BaseException | None = None):
        self.waiting_for = waiting_for
        self.timeout_ms = timeout_ms
        text = f"Gave up after {timeout_ms} ms waiting for {waiting_for}."
        if last is not None:
            text = f"{text} The last attempt said: {last}"
        super().__init__(text)


class NoBrokerReachable(ClientError):
    """None of the addresses could be used; carries the failure of each."""

    retriable = True

    def __init__(self, failures: Sequence[ConnectionFailure], waited_ms: int) -> None:
        self.failures = list(failures)
        if len(self.failures) == 1:
            only = self.failures[0]
            super().__init__(only.message, next_step=only.next_step)
            return
        lines = "".join(f"\n  {failure.message}" for failure in self.failures)
        super().__init__(
            f"None of {len(self.failures)} brokers could be reached within {waited_ms} ms:{lines}",
            next_step="\nName one that is up with --bootstrap-server.",
        )


class BrokerError(ClientError):
    """A broker answered an error code. `subject` names what it was about (a topic, a group)."""

    def __init__(
        self, code: ErrorCode | int, detail: str | None = None, *, subject: str | None = None
    ) -> None:
        self.code = to_code(code)
        self.subject = subject
        self.detail = (detail or self.code.message).strip()
        self.retriable = self.code.retriable
        text = f"{self.detail} ({self.code.name})"
        super().__init__(f"{subject}: {text}" if subject else text)


class NotFoundError(BrokerError):
    """The topic, partition, group or resource is not there."""


class AlreadyExistsError(BrokerError):
    """The topic is there already."""


class GroupNotEmptyError(BrokerError):
    """A group has members, so its offsets cannot be changed from outside."""


class FencedError(BrokerError):
    """Another producer or member with the same identity took over."""


class OffsetOutOfRangeError(BrokerError):
    """A position is outside what the partition holds, and no reset policy was given."""


class NoOffsetError(ClientError):
    """A partition has no position: none was committed, and auto.offset.reset is none."""

    def __init__(self, partitions: Sequence[tuple[str, int]]) -> None:
        self.partitions = list(partitions)
        names = ", ".join(f"{topic}-{index}" for topic, index in self.partitions)
        super().__init__(
            f"No offset is known for {names}, and auto.offset.reset is none.",
            next_step="Seek to where reading shall begin, or set auto.offset.reset.",
        )


class LogTruncationError(ClientError):
    """Records that this consumer had read are no longer in the log: an unclean election lost them.

    `diverged_offset` is the first offset whose record differs from what was read, -1 if the leader
    knows nothing of that time.
    """

    def __init__(self, topic: str, partition: int, offset: int, diverged_offset: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.diverged_offset = diverged_offset
        where = f"at {diverged_offset}" if diverged_offset >= 0 else "at an offset it cannot tell"
        super().__init__(
            f"{topic}-{partition}: the log was truncated {where}, below the position {offset}: "
            "records that were read are gone.",
            next_step="Seek to the offset to go on from, or set auto.offset.reset.",
        )


class CorruptRecordsError(ClientError):
    """A batch that was fetched is damaged: its checksum, its compression or its records.

    `raw` is the batch as it came. The position stays in front of it, so polling again fetches it
    again; seeking to `next_offset` passes over it.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        next_offset: int,
        raw: bytes,
        cause: BaseException,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.next_offset = next_offset
        self.raw = raw
        super().__init__(
            f"{topic}-{partition}: the batch at offset {offset} cannot be read: {cause}.",
            next_step=f"Poll again to fetch it once more, or seek to {next_offset} to pass over it.",
        )


class RecordDeserializationError(ClientError):
    """A deserializer does not take a record. The position stays in front of it.

    `record` has the key and value as the bytes they are.
    """

    def __init__(self, record: ConsumerRecord, cause: BaseException) -> None:
        self.record = record
        self.topic = record.topic
        self.partition = record.partition
        self.offset = record.offset
        self.cause = cause
        super().__init__(
            f"{self.topic}-{self.partition}: the record at offset {self.offset} cannot be "
            f"deserialized: {type(cause).__name__}: {cause}.",
            next_step=f"Seek to {self.offset + 1} to pass over it, or set on_poison to skip such "
            "records or to send them to a dead-letter topic.",
        )


_CLASSES: dict[str, type[BrokerError]] = {
    "UNKNOWN_TOPIC_OR_PARTITION": NotFoundError,
    "UNKNOWN_TOPIC_ID": NotFoundError,
    "GROUP_ID_NOT_FOUND": NotFoundError,
    "RESOURCE_NOT_FOUND": NotFoundError,
    "TOPIC_ALREADY_EXISTS": AlreadyExistsError,
    "NON_EMPTY_GROUP": GroupNotEmptyError,
    "GROUP_SUBSCRIBED_TO_TOPIC": GroupNotEmptyError,
    "FENCED_INSTANCE_ID": FencedError,
    "PRODUCER_FENCED": FencedError,
    "INVALID_PRODUCER_EPOCH": FencedError,
    "OFFSET_OUT_OF_RANGE": OffsetOutOfRangeError,
}

_TOPIC_DETAILS = {
    "UNKNOWN_TOPIC_OR_PARTITION": "There is no such topic.",
    "UNKNOWN_TOPIC_ID": "There is no such topic.",
}


def to_code(code: int) -> ErrorCode:
    """A code this client knows, or UNKNOWN_SERVER_ERROR for one from a newer broker."""
    try:
        return ErrorCode(code)  # type: ignore[call-arg]
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def broker_error(
    code: int, detail: str | None = None, *, subject: str | None = None
) -> BrokerError:
    """The exception for an error code a broker answered."""
    known = to_code(code)
    if known == ErrorCode.UNKNOWN_SERVER_ERROR and code != known:
        detail = (
            detail or f"The broker answered error code {code}, which this client does not know."
        )
    if detail is None and subject is not None and subject.startswith("topic "):
        detail = _TOPIC_DETAILS.get(known.name)
    return _CLASSES.get(known.name, BrokerError)(known, detail, subject=subject)
