"""What can go wrong for a client: one exception class for one cause.

Each says what was tried, where, how often, and what to do next, because the same symptom ("no broker
available") has very different cures when a name does not resolve, a port is closed, or a server
answers something that is not Kafka's protocol.

`retriable` tells whether the same call may succeed later without anyone changing anything.
`BrokerError` is the one class for an error code a broker answered; its subclasses exist where callers
treat the cause differently. Errors can be pickled, so that they cross a process's border whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.client.kernels_consumer import ConsumerRecord

__all__ = [
    "AlreadyExistsError",
    "AuthenticationError",
    "AuthorizationError",
    "BrokerError",
    "BrokerUnavailableError",
    "BufferExhausted",
    "CertificateNotTrusted",
    "ClientCertificateRefused",
    "ClientError",
    "ClosedError",
    "ClusterAuthorizationError",
    "CommitFailedError",
    "ConnectTimeout",
    "ConnectionFailure",
    "ConnectionLost",
    "ConnectionRefused",
    "CorruptRecordsError",
    "DeliveryTimeout",
    "DeserializationError",
    "FencedError",
    "GroupAuthorizationError",
    "GroupNotEmptyError",
    "HostNameMismatch",
    "IllegalStateError",
    "LogTruncationError",
    "MechanismNotEnabled",
    "NameLookupError",
    "NoBrokerReachable",
    "NoOffsetError",
    "NotFoundError",
    "OffsetOutOfRangeError",
    "OptionError",
    "PlaintextPeer",
    "PoisonRecordError",
    "ProtocolMismatch",
    "QueueFull",
    "RebalanceInProgressError",
    "RecordTooLargeError",
    "RequestTimeout",
    "SerializationError",
    "TlsError",
    "TopicAuthorizationError",
    "VersionError",
    "WakeupError",
    "broker_error",
    "to_code",
]


def _restore(cls: type[ClientError], args: tuple[Any, ...], state: dict[str, Any]) -> ClientError:
    error = cls.__new__(cls, *args)
    Exception.__init__(error, *args)
    error.__dict__.update(state)
    return error


class ClientError(Exception):
    """Anything a client raises. `next_step` is a sentence for a person; it is part of the text."""

    retriable = False

    def __init__(self, message: str, *, next_step: str | None = None) -> None:
        self.message = message
        self.next_step = next_step
        super().__init__(f"{message} {next_step}" if next_step else message)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)


class OptionError(ClientError):
    """An option of a client is unknown, of the wrong type, or contradicts another."""


class IllegalStateError(ClientError):
    """A call that contradicts an earlier one, or comes at a moment when it has no meaning."""


class ClosedError(IllegalStateError):
    """The client was closed before or during the call."""


class WakeupError(ClientError):
    """`wakeup()` ended the call. The consumer goes on working; call again."""

    retriable = True

    def __init__(self, message: str = "The call was ended by wakeup().") -> None:
        super().__init__(message)


class SerializationError(ClientError):
    """A key, value or header could not be turned into bytes. Nothing of the record was sent."""

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        field: str | None = None,
        next_step: str | None = None,
    ) -> None:
        self.topic = topic
        self.field = field
        super().__init__(message, next_step=next_step)


class RecordTooLargeError(SerializationError):
    """A record is larger than `max.request.size` or `buffer.memory` allows."""

    def __init__(self, topic: str, size: int, limit: int, option: str) -> None:
        self.size = size
        self.limit = limit
        self.option = option
        super().__init__(
            f"A record for topic {topic} takes {size} bytes, and {option} allows {limit}.",
            topic=topic,
            next_step=f"Send less in one record, or raise {option}.",
        )


class DeserializationError(ClientError):
    """Bytes of a record could not be turned into a key or a value."""

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        field: str,
        partition: int | None = None,
        offset: int | None = None,
        next_step: str | None = None,
    ) -> None:
        self.topic = topic
        self.field = field
        self.partition = partition
        self.offset = offset
        super().__init__(message, next_step=next_step)


class PoisonRecordError(DeserializationError):
    """A consumer cannot get past a record: its bytes do not decode. The position stays on it.

    `record` is the record with key and value as the bytes they are.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        field: str,
        reason: str,
        record: ConsumerRecord | None = None,
    ) -> None:
        self.record = record
        super().__init__(
            f"The {field} of {topic}-{partition} at offset {offset} cannot be decoded: {reason}.",
            topic=topic,
            field=field,
            partition=partition,
            offset=offset,
            next_step=f"seek() to offset {offset + 1} to pass over it, or let the consumer do that "
            "with poison_records='skip' or poison_records='dead-letter'.",
        )


class CorruptRecordsError(ClientError):
    """A batch that was fetched is damaged: its checksum, its compression or its records.

    `raw` is the batch as it came. The position stays in front of it, so polling again fetches it
    again; seeking to `next_offset` passes over it.
    """

    def __init__(
        self, topic: str, partition: int, offset: int, next_offset: int, raw: bytes, reason: str
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.next_offset = next_offset
        self.raw = raw
        super().__init__(
            f"The batch of {topic}-{partition} at offset {offset} cannot be read: {reason}.",
            next_step=f"poll() again to fetch it once more, or seek() to {next_offset} to pass "
            "over it.",
        )


class QueueFull(ClientError):
    """A bounded queue of the client has no place; what was asked for was not begun."""

    retriable = True

    def __init__(
        self, message: str, *, next_step: str | None = "Wait for some of them to end."
    ) -> None:
        super().__init__(message, next_step=next_step)


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
    """The host did not answer the connection, or its TLS handshake, in time."""

    def __init__(
        self,
        address: str,
        timeout_ms: int,
        *,
        attempt: int = 1,
        did_not: str = "accept a connection",
    ) -> None:
        super().__init__(
            f"{address} did not {did_not} within {timeout_ms} ms.",
            address=address,
            attempt=attempt,
            next_step="Check that the host is up and that no firewall drops the packets.",
        )


class ConnectionLost(ConnectionFailure):
    """The peer closed the connection, or the network broke, during a request."""

    def __init__(
        self,
        address: str,
        waiting_for: str,
        reason: str,
        *,
        attempt: int = 1,
        next_step: str = "The broker's log may say why.",
    ) -> None:
        super().__init__(
            f"{address} closed the connection while the client waited for {waiting_for} ({reason}).",
            address=address,
            attempt=attempt,
            next_step=next_step,
        )
        self.waiting_for = waiting_for


class ProtocolMismatch(ConnectionFailure):
    """What answers on that port does not speak Kafka's protocol."""

    retriable = False

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            f"{address} does not speak Kafka's protocol in plain text: {reason}.",
            address=address,
            next_step="Check the port; a TLS listener (security.protocol=SSL or SASL_SSL), an HTTP "
            "server and a ZooKeeper look like this.",
        )


class TlsError(ConnectionFailure):
    """The TLS handshake failed: no common protocol version or cipher, or a malformed message."""

    retriable = False

    def __init__(
        self, address: str, reason: str, *, attempt: int = 1, next_step: str | None = None
    ) -> None:
        self.reason = reason
        super().__init__(
            f"TLS with {address} failed: {reason}.",
            address=address,
            attempt=attempt,
            next_step=next_step
            or "Compare ssl.enabled.protocols and ssl.cipher.suites of client and broker.",
        )


class CertificateNotTrusted(TlsError):
    """The broker's certificate is expired, or signed by nobody this client trusts."""

    def __init__(self, address: str, reason: str, *, attempt: int = 1) -> None:
        super().__init__(
            address,
            f"its certificate is not trusted ({reason})",
            attempt=attempt,
            next_step="Name the file with the certificate of the authority that signed it: "
            "ssl.ca.location.",
        )


class HostNameMismatch(TlsError):
    """The broker's certificate is for another host name."""

    def __init__(self, address: str, reason: str, *, attempt: int = 1) -> None:
        super().__init__(
            address,
            f"its certificate is for another host ({reason})",
            attempt=attempt,
            next_step="Connect by a name that is in the certificate (for brokers: "
            "advertised.listeners); an empty ssl.endpoint.identification.algorithm turns this "
            "check off.",
        )


class PlaintextPeer(TlsError):
    """What answers on that port does not speak TLS."""

    def __init__(self, address: str, reason: str, *, attempt: int = 1) -> None:
        super().__init__(
            address,
            reason,
            attempt=attempt,
            next_step="Check the port; for a listener without TLS use "
            "security.protocol=PLAINTEXT or SASL_PLAINTEXT.",
        )


class ClientCertificateRefused(TlsError):
    """The broker asks for a certificate of the client and got none, or one it does not trust."""

    def __init__(self, address: str, reason: str, *, attempt: int = 1) -> None:
        super().__init__(
            address,
            f"the broker refused this client's certificate ({reason})",
            attempt=attempt,
            next_step="Set ssl.certificate.location and ssl.key.location to one that the broker's "
            "truststore knows.",
        )


class AuthenticationError(ConnectionFailure):
    """The broker refused the credentials, or proved itself not to know them."""

    retriable = False

    def __init__(
        self,
        address: str,
        mechanism: str,
        reason: str,
        *,
        attempt: int = 1,
        next_step: str | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.reason = reason
        super().__init__(
            f"{address} did not authenticate this client by {mechanism}: {reason}.",
            address=address,
            attempt=attempt,
            next_step=next_step
            or "Check sasl.username and sasl.password, and that the broker has this user.",
        )


class MechanismNotEnabled(AuthenticationError):
    """The broker does not offer the SASL mechanism of `sasl.mechanism`."""

    def __init__(
        self, address: str, mechanism: str, offered: Sequence[str], *, attempt: int = 1
    ) -> None:
        self.offered = tuple(offered)
        shown = ", ".join(offered) or "none"
        super().__init__(
            address,
            mechanism,
            f"it offers {shown}",
            attempt=attempt,
            next_step="Set sasl.mechanism to one of those, or add it to the broker's "
            "sasl.enabled.mechanisms.",
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

    def __init__(
        self,
        waiting_for: str,
        timeout_ms: int,
        *,
        last: BaseException | None = None,
        next_step: str | None = None,
    ) -> None:
        self.waiting_for = waiting_for
        self.timeout_ms = timeout_ms
        text = f"Gave up after {timeout_ms} ms waiting for {waiting_for}."
        if last is not None:
            text = f"{text} The last attempt said: {last}"
        super().__init__(text, next_step=next_step)


class BufferExhausted(RequestTimeout):
    """`buffer.memory` is full of records that were not sent yet, for longer than `max.block.ms`."""

    def __init__(self, buffer_memory: int, max_block_ms: int) -> None:
        self.buffer_memory = buffer_memory
        super().__init__(
            f"room in buffer.memory ({buffer_memory} bytes, all taken by records that wait for "
            "their broker)",
            max_block_ms,
            next_step="Send more slowly, or raise buffer.memory or max.block.ms; if nothing is "
            "sent at all, look at the brokers.",
        )


class DeliveryTimeout(RequestTimeout):
    """A record was not acknowledged within `delivery.timeout.ms`. It may have been written."""

    def __init__(
        self, topic: str, partition: int, timeout_ms: int, *, last: BaseException | None = None
    ) -> None:
        self.topic = topic
        self.partition = partition
        super().__init__(
            f"the acknowledgement of records for {topic}-{partition} (delivery.timeout.ms)",
            timeout_ms,
            last=last,
        )


class NoBrokerReachable(ClientError):
    """None of the addresses could be used; carries the failure of each."""

    retriable = True

    def __init__(self, failures: Sequence[ConnectionFailure], waited_ms: int) -> None:
        self.failures = list(failures)
        self.retriable = any(failure.retriable for failure in self.failures)
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
        self,
        code: ErrorCode | int,
        detail: str | None = None,
        *,
        subject: str | None = None,
        next_step: str | None = None,
    ) -> None:
        self.code = to_code(code)
        self.subject = subject
        self.detail = (detail or self.code.message).strip()
        self.retriable = self.code.retriable
        text = f"{self.detail} ({self.code.name})"
        super().__init__(
            f"{subject}: {text}" if subject else text,
            next_step=next_step or _NEXT_STEPS.get(self.code.name),
        )


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


class AuthorizationError(BrokerError):
    """The broker knows who asks and does not allow it."""


class TopicAuthorizationError(AuthorizationError):
    """An access rule of a topic does not allow it."""


class GroupAuthorizationError(AuthorizationError):
    """An access rule of a group does not allow it."""


class ClusterAuthorizationError(AuthorizationError):
    """An access rule of the cluster does not allow it."""


class CommitFailedError(ClientError):
    """Offsets were not committed because the member no longer owns these partitions.

    Committing again cannot succeed: whoever owns them now will read the same records.
    """

    def __init__(self, group: str, reason: str) -> None:
        self.group = group
        super().__init__(
            f"Offsets of group {group} were not committed: {reason}.",
            next_step="If handling records takes long, raise max.poll.interval.ms or lower "
            "max.poll.records; then poll() to get the present assignment.",
        )


class NoOffsetError(ClientError):
    """A partition has no committed offset, and `auto.offset.reset` is none."""

    def __init__(self, partitions: Sequence[tuple[str, int]], group: str | None) -> None:
        self.partitions = [tuple(partition) for partition in partitions]
        self.group = group
        names = ", ".join(f"{topic}-{index}" for topic, index in partitions)
        super().__init__(
            f"There is no committed offset{f' of group {group}' if group else ''} for {names}, "
            "and auto.offset.reset is none.",
            next_step="seek() to a position, or set auto.offset.reset to earliest or latest.",
        )


class LogTruncationError(ClientError):
    """Records this consumer already read were cut off the log by an unclean leader election."""

    def __init__(
        self, topic: str, partition: int, position: int, divergent_offset: int | None
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.position = position
        self.divergent_offset = divergent_offset
        known = "" if divergent_offset is None else f"; the logs agree up to {divergent_offset}"
        super().__init__(
            f"The log of {topic}-{partition} was truncated below position {position}{known}.",
            next_step="Undo what was done with the records from there on, then seek() to the offset "
            "to go on from.",
        )


class BrokerUnavailableError(BrokerError):
    """The cluster names no such broker now; one that restarts is named again later."""

    def __init__(self, detail: str) -> None:
        super().__init__(ErrorCode.BROKER_NOT_AVAILABLE, detail)
        self.retriable = True


class RebalanceInProgressError(BrokerError):
    """A commit came while the group was being rebalanced; the member still owns its partitions."""


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
    "TOPIC_AUTHORIZATION_FAILED": TopicAuthorizationError,
    "GROUP_AUTHORIZATION_FAILED": GroupAuthorizationError,
    "CLUSTER_AUTHORIZATION_FAILED": ClusterAuthorizationError,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": AuthorizationError,
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": AuthorizationError,
}

_NEXT_STEPS = {
    "MESSAGE_TOO_LARGE": "Send smaller records or batches, or raise the topic's max.message.bytes.",
    "TOPIC_AUTHORIZATION_FAILED": "Let an administrator grant this client's user access to it.",
    "GROUP_AUTHORIZATION_FAILED": "Let an administrator grant this client's user access to it.",
    "CLUSTER_AUTHORIZATION_FAILED": "Let an administrator grant this client's user access to it.",
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
