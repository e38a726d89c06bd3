from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.raft.errors import LogCorrupt
from barnabas.raft.snapshot import SnapshotId, read_snapshot, write_snapshot
from barnabas.raft.voters import VoterEndpoint, VoterNode, VoterSet

VOTERS = VoterSet(
    (VoterNode(1, bytes(range(16)), (VoterEndpoint("CONTROLLER", "localhost", 9093),)),)
)


def test_names() -> None:
    snapshot = SnapshotId(4022, 7)
    assert snapshot.file_name == "00000000000000004022-0000000007.checkpoint"
    assert SnapshotId.parse(snapshot.file_name) == snapshot
    for other in (
        "bootstrap.checkpoint",
        "00000000000000004022-0000000007.checkpoint.part",
        "00000000000000004022.log",
        "4022-7.checkpoint",
    ):
        assert SnapshotId.parse(other) is None


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=30), st.booleans())
@settings(deadline=None)
def test_round_trip(records: list[bytes], with_voters: bool) -> None:
    data = write_snapshot(
        records,
        epoch=3,
        now_ms=1000,
        last_contained_timestamp_ms=999,
        kraft_version=1 if with_voters else 0,
        voters=VOTERS if with_voters else None,
    )
    found = read_snapshot(data, "x")
    assert found.records == records
    assert found.last_contained_timestamp_ms == 999
    assert (found.kraft_version, found.voters) == ((1, VOTERS) if with_voters else (None, None))


def test_many_records_become_several_batches() -> None:
    records = [b"x" * 100] * 5000
    data = write_snapshot(records, epoch=0, now_ms=0, last_contained_timestamp_ms=0)
    assert read_snapshot(data, "x").records == records


def test_anything_that_is_cut_off_is_refused() -> None:
    data = write_snapshot([b"one", b"two"], epoch=0, now_ms=0, last_contained_timestamp_ms=0)
    for length in range(len(data)):
        with pytest.raises(LogCorrupt):
            read_snapshot(data[:length], "x")


def test_a_flipped_bit_in_a_record_is_refused() -> None:
    data = write_snapshot([b"needle"], epoch=0, now_ms=0, last_contained_timestamp_ms=0)
    damaged = data.replace(b"needle", b"Needle")
    with pytest.raises(LogCorrupt, match="damaged"):
        read_snapshot(damaged, "x")


def test_voters_from_the_configuration() -> None:
    found = VoterSet.from_config(["1@host:9093", "2@[::1]:9094"])
    assert found.ids == (1, 2)
    assert found.voters[1].endpoints == (VoterEndpoint("CONTROLLER", "::1", 9094),)
    with pytest.raises(ValueError, match="id@host:port"):
        VoterSet.from_config(["1-host"])
    assert VoterSet.from_record(VOTERS.to_record()) == VOTERS
