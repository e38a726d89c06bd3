"""The exceptions of the clients: each names where, how often and what to do next."""

from __future__ import annotations

import inspect
import pickle

import pytest

from barnabas.client import errors
from barnabas.client.errors import ClientError
from barnabas.client.kernels_consumer import ConsumerRecord
from barnabas.wire.errors import ErrorCode

AT = "broker:9092"
CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, ClientError)
]
EXAMPLES: list[ClientError] = [
    errors.OptionError("There is no client option 'x'."),
    errors.IllegalStateError("subscribe() after assign()."),
    errors.ClosedError("The producer is closed."),
    errors.WakeupError(),
    errors.SerializationError("No.", topic="t", field="key"),
    errors.RecordTooLargeError("orders", 20, 10, "max.request.size"),
    errors.DeserializationError("No.", topic="t", field="value", partition=3, offset=7),
    errors.PoisonRecordError(
        "orders", 3, 7, "value", "it is not JSON", ConsumerRecord("orders", 3, 7, value=b"{")
    ),
    errors.CorruptRecordsError("orders", 3, 7, 9, b"\0\0", "the checksum is wrong"),
    errors.RebalanceInProgressError(ErrorCode.REBALANCE_IN_PROGRESS, subject="group g"),
    errors.QueueFull("100 commits are in flight."),
    errors.ConnectionFailure("No route to broker.", address=AT, attempt=3, next_step="Walk."),
    errors.NameLookupError("broker", 9092, "unknown", attempt=3),
    errors.ConnectionRefused(AT, attempt=3),
    errors.ConnectTimeout(AT, 50, attempt=3),
    errors.ConnectionLost(AT, "metadata", "end of stream", attempt=3),
    errors.ProtocolMismatch(AT, "it answers HTTP"),
    errors.TlsError(AT, "no cipher in common", attempt=3),
    errors.CertificateNotTrusted(AT, "expired", attempt=3),
    errors.HostNameMismatch(AT, "it is for 'other'", attempt=3),
    errors.PlaintextPeer(AT, "it answers in plain text", attempt=3),
    errors.ClientCertificateRefused(AT, "unknown authority", attempt=3),
    errors.AuthenticationError(AT, "PLAIN", "wrong password", attempt=3),
    errors.MechanismNotEnabled(AT, "PLAIN", ["GSSAPI"], attempt=3),
    errors.VersionError(AT, "PRODUCE", "is not offered"),
    errors.RequestTimeout("metadata", 50, last=errors.ConnectionRefused(AT)),
    errors.BufferExhausted(1024, 60),
    errors.DeliveryTimeout("orders", 3, 50),
    errors.NoBrokerReachable([errors.ConnectionRefused(AT), errors.ConnectTimeout(AT, 5)], 10),
    errors.BrokerError(ErrorCode.INVALID_REQUEST, subject="topic orders"),
    errors.BrokerUnavailableError("Broker 9 is not in the cluster now."),
    errors.NotFoundError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    errors.AlreadyExistsError(ErrorCode.TOPIC_ALREADY_EXISTS),
    errors.GroupNotEmptyError(ErrorCode.NON_EMPTY_GROUP),
    errors.FencedError(ErrorCode.PRODUCER_FENCED),
    errors.OffsetOutOfRangeError(ErrorCode.OFFSET_OUT_OF_RANGE),
    errors.AuthorizationError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    errors.TopicAuthorizationError(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    errors.GroupAuthorizationError(ErrorCode.GROUP_AUTHORIZATION_FAILED),
    errors.ClusterAuthorizationError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    errors.BrokerUnavailableError("Broker 3 is not in the cluster now."),
    errors.CommitFailedError("readers", "the member was removed"),
    errors.NoOffsetError([("orders", 3)], "readers"),
    errors.LogTruncationError("orders", 3, 70, 65),
]


def name_of(value: object) -> str:
    return type(value).__name__


def test_there_is_an_example_of_every_class() -> None:
    assert {type(error) for error in EXAMPLES} == {*CLASSES} - {ClientError}


def test_every_class_is_exported_and_documented_by_itself() -> None:
    assert {cls.__name__ for cls in CLASSES} <= set(errors.__all__)
    for name in errors.__all__:
        assert vars(getattr(errors, name)).get("__doc__", getattr(errors, name).__doc__), name
    assert list(errors.__all__) == sorted(errors.__all__)
    for cls in CLASSES:
        assert cls.__dict__.get("__doc__"), cls


@pytest.mark.parametrize("error", EXAMPLES, ids=name_of)
def test_an_error_survives_a_process_border(error: ClientError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again).keys() == vars(error).keys()
    assert again.retriable == error.retriable


@pytest.mark.parametrize("error", EXAMPLES, ids=name_of)
def test_connection_failures_name_address_attempt_and_next_step(error: ClientError) -> None:
    if isinstance(error, errors.ConnectionFailure):
        assert error.address == AT
        assert "broker" in str(error)
        assert error.next_step
        if not isinstance(error, errors.ProtocolMismatch):
            assert "(attempt 3)" in str(error)
    if error.next_step:
        assert str(error).endswith(error.next_step)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errors.BufferExhausted(1024, 60), ["buffer.memory (1024", "60 ms", "max.block.ms"]),
        (errors.DeliveryTimeout("orders", 3, 50), ["orders-3", "delivery.timeout.ms"]),
        (errors.PoisonRecordError("orders", 3, 7, "value", "x"), ["orders-3", "offset 7", "seek"]),
        (errors.CorruptRecordsError("a", 0, 7, 9, b"", "x"), ["a-0", "offset 7", "seek() to 9"]),
        (errors.MechanismNotEnabled(AT, "PLAIN", ["A", "B"]), ["A, B", "sasl.mechanism"]),
        (errors.NoOffsetError([("a", 0), ("b", 1)], None), ["a-0, b-1", "auto.offset.reset"]),
        (errors.LogTruncationError("a", 0, 70, 65), ["a-0", "position 70", "up to 65"]),
        (errors.CommitFailedError("g", "x"), ["group g", "max.poll.interval.ms"]),
        (errors.QueueFull("100 commits are in flight."), ["100 commits", "Wait"]),
        (errors.RecordTooLargeError("t", 20, 10, "buffer.memory"), ["20 bytes", "allows 10"]),
    ],
    ids=name_of,
)
def test_what_the_texts_say(error: ClientError, words: list[str]) -> None:
    for word in words:
        assert word in str(error)


def test_retriable_means_that_nobody_must_change_anything() -> None:
    retriable = {type(error).__name__ for error in EXAMPLES if error.retriable}
    assert retriable == {
        "BrokerUnavailableError",
        "BufferExhausted",
        "ConnectTimeout",
        "ConnectionFailure",
        "ConnectionLost",
        "ConnectionRefused",
        "DeliveryTimeout",
        "NoBrokerReachable",
        "NotFoundError",
        "QueueFull",
        "RequestTimeout",
        "WakeupError",
    }
    hopeless = errors.NoBrokerReachable([errors.TlsError(AT, "x")], 10)
    assert not hopeless.retriable


@pytest.mark.parametrize(
    ("code", "cls"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, errors.TopicAuthorizationError),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, errors.GroupAuthorizationError),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, errors.ClusterAuthorizationError),
        (ErrorCode.PRODUCER_FENCED, errors.FencedError),
        (ErrorCode.INVALID_REQUEST, errors.BrokerError),
    ],
)
def test_the_class_of_a_code(code: ErrorCode, cls: type[ClientError]) -> None:
    assert type(errors.broker_error(code, subject="topic x")) is cls
