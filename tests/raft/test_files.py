"""The two small files: `quorum-state` and `meta.properties`."""

from __future__ import annotations

import pytest

from barnabas.raft.errors import StorageError
from barnabas.raft.meta_properties import (
    MetaProperties,
    load_ensemble,
    read_meta_properties,
    write_meta_properties,
)
from barnabas.raft.quorum_state import Election, QuorumStateFile
from barnabas.wire import uuids
from tests.log.simulated_disk import SimulatedDisk

ID = bytes(range(200, 216))


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    for directory in ("/d", "/e"):
        disk.make_directory(directory)
    return disk


class TestQuorumState:
    def test_none_on_the_first_start(self, disk: SimulatedDisk) -> None:
        assert QuorumStateFile(disk, "/d").read() is None

    def test_the_bytes_are_those_of_apache(self, disk: SimulatedDisk) -> None:
        file = QuorumStateFile(disk, "/d")
        file.write(Election(1, 1), 1, (1,))
        assert disk.read_file(file.path) == (
            b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,'
            b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
        )
        file.write(Election(2, 1), 0, (1,))
        assert disk.read_file(file.path) == (
            b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
            b'"currentVoters":[{"voterId":1}],"data_version":0}'
        )

    @pytest.mark.parametrize("version", [0, 1])
    def test_round_trip(self, disk: SimulatedDisk, version: int) -> None:
        file = QuorumStateFile(disk, "/d")
        election = Election(7, -1, 3, ID if version else uuids.ZERO)
        file.write(election, version, (1, 3))
        assert file.read() == election

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{",
            b"[]",
            b"{}",
            b'{"leaderEpoch":1}',
            b'{"leaderEpoch":1,"data_version":7}',
            b'{"leaderEpoch":-3,"data_version":0}',
            b'{"leaderEpoch":"x","data_version":0}',
            b'{"leaderEpoch":1,"votedDirectoryId":"?","data_version":1}',
            b'{"leaderEpoch":1,"data_version":1}',
            b"\xff\xfe",
        ],
    )
    def test_nonsense_is_named(self, disk: SimulatedDisk, content: bytes) -> None:
        disk.write_atomically("/d/quorum-state", content)
        with pytest.raises(StorageError, match="/d/quorum-state is corrupt"):
            QuorumStateFile(disk, "/d").read()


class TestMetaProperties:
    def test_round_trip(self, disk: SimulatedDisk) -> None:
        meta = MetaProperties("cluster", 3, ID)
        write_meta_properties(disk, "/d", meta, 1_794_989_820_000)
        assert read_meta_properties(disk, "/d") == meta
        assert disk.read_file("/d/meta.properties").startswith(
            b"#\n#Wed Nov 18 08:17:00 UTC 2026\n"
        )

    def test_none_if_not_formatted(self, disk: SimulatedDisk) -> None:
        assert read_meta_properties(disk, "/d") is None

    def test_the_older_version(self, disk: SimulatedDisk) -> None:
        disk.write_atomically("/d/meta.properties", b"version=0\nbroker.id=4\ncluster.id=c\n")
        assert read_meta_properties(disk, "/d") == MetaProperties("c", 4, None)

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (b"", "version none"),
            (b"version=9\n", "version 9"),
            (b"version=1\ncluster.id=c\n", "no node.id"),
            (b"version=1\nnode.id=x\ncluster.id=c\n", "no node.id"),
            (b"version=1\nnode.id=1\n", "no cluster.id"),
            (b"version=1\nnode.id=1\ncluster.id=c\ndirectory.id=%%\n", "directory.id"),
            (b"\xff\xff", "not a properties file"),
            (b"a=\\u12\n", "not a properties file"),
        ],
    )
    def test_nonsense_is_named(self, disk: SimulatedDisk, content: bytes, problem: str) -> None:
        disk.write_atomically("/d/meta.properties", content)
        with pytest.raises(StorageError, match=problem):
            read_meta_properties(disk, "/d")


class TestEnsemble:
    def test_all_belong_together(self, disk: SimulatedDisk) -> None:
        one, two = MetaProperties("c", 1, ID), MetaProperties("c", 1, ID[::-1])
        write_meta_properties(disk, "/d", one, 0)
        write_meta_properties(disk, "/e", two, 0)
        assert load_ensemble(disk, ["/d", "/e"], 1) == {"/d": one, "/e": two}

    @pytest.mark.parametrize(
        ("first", "second", "problem"),
        [
            (None, None, "format the directory first"),
            (MetaProperties("c", 1, ID), None, "format the missing ones"),
            (MetaProperties("c", 1, ID), MetaProperties("x", 1, ID), "different clusters"),
            (
                MetaProperties("c", 1, ID),
                MetaProperties("c", 2, ID),
                "belongs to node 2, .* this node is 1",
            ),
            (MetaProperties("c", 1, ID), MetaProperties("c", 1, ID), "a copy of the other"),
        ],
    )
    def test_what_does_not_fit(
        self,
        disk: SimulatedDisk,
        first: MetaProperties | None,
        second: MetaProperties | None,
        problem: str,
    ) -> None:
        for directory, meta in (("/d", first), ("/e", second)):
            if meta is not None:
                write_meta_properties(disk, directory, meta, 0)
        with pytest.raises(StorageError, match=problem):
            load_ensemble(disk, ["/d", "/e"], 1)
