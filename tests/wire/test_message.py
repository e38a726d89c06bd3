"""Message classes: keyword construction, own defaults, equality, a short repr."""

from __future__ import annotations

import pytest

from barnabas.wire.messages.fetch import EpochEndOffset, FetchRequest, FetchTopic, PartitionData
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.produce import PartitionProduceData


def test_defaults_are_kafkas() -> None:
    request = FetchRequest()
    assert request.max_bytes == 0x7FFFFFFF
    assert request.replica_id == -1
    assert request.session_epoch == -1
    assert request.topics == []
    assert request.cluster_id is None


def test_defaults_are_not_shared() -> None:
    one, other = PartitionData(), PartitionData()
    one.diverging_epoch.epoch = 5
    assert one.aborted_transactions is not None
    one.aborted_transactions.append(None)  # type: ignore[arg-type]
    assert other.diverging_epoch == EpochEndOffset()
    assert other.aborted_transactions == []


def test_a_given_value_is_kept_even_if_null() -> None:
    epoch = EpochEndOffset(epoch=1)
    assert PartitionData(diverging_epoch=epoch).diverging_epoch is epoch
    assert PartitionData(aborted_transactions=None).aborted_transactions is None


def test_equality_and_no_hash() -> None:
    assert FetchTopic(topic="a") == FetchTopic(topic="a")
    assert FetchTopic(topic="a") != FetchTopic(topic="b")
    assert FetchTopic() != EpochEndOffset()
    with pytest.raises(TypeError):
        hash(FetchTopic())


def test_only_known_names() -> None:
    with pytest.raises(TypeError):
        FetchTopic(nonsense=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        FetchTopic("topic")  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        FetchTopic().nonsense = 1  # type: ignore[attr-defined]


def test_repr_is_short() -> None:
    assert repr(FetchTopic(topic="a")) == "FetchTopic(topic='a')"
    assert repr(MetadataRequest(topics=None)) == "MetadataRequest(topics=None)"
    shown = repr(PartitionProduceData(index=1, records=memoryview(bytes(1000))))
    assert shown == "PartitionProduceData(index=1, records=<1000 bytes>)"
    assert len(repr(FetchRequest(topics=[FetchTopic(topic="t" * 1000)] * 1000))) < 2000
