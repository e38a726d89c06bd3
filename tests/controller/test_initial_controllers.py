"""Formatting for a dynamic quorum: who votes first, and what is refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.controller.format import format_storage, random_cluster_id
from barnabas.controller.initial_controllers import (
    parse_initial_controllers,
    show_initial_controllers,
)
from barnabas.log.disk import RealDisk
from barnabas.raft.errors import StorageError
from barnabas.raft.log import LogSettings, MetadataLog
from barnabas.raft.meta_properties import read_meta_properties
from barnabas.raft.voters import VoterSet

IDS = ("AAAAAAAAQACAAAAAAAAAAQ", "AAAAAAAAQACAAAAAAAAAAg", "AAAAAAAAQACAAAAAAAAAAw")
THREE = ",".join(f"{n}@host{n}:909{n}:{directory}" for n, directory in enumerate(IDS, 1))


def config(data: Path, **more: str) -> BrokerConfig:
    return BrokerConfig(
        {
            "node.id": "2",
            "log.dirs": f"{data}/a,{data}/b",
            "listeners": "PLAINTEXT://:9092,CTL://:9093",
            "controller.listener.names": "CTL",
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )


def voters_in(data: Path) -> VoterSet | None:
    log = MetadataLog.open(
        RealDisk(), f"{data}/a", LogSettings(1 << 20, 1 << 40, 1 << 20, 1 << 40), 0
    )
    newest = log.latest_snapshot
    return None if newest is None else log.read_snapshot(newest).voters


def do_format(settings: BrokerConfig, **options: object) -> None:
    randomness = random.Random(1)
    format_storage(
        RealDisk(),
        settings,
        cluster_id=random_cluster_id(randomness),
        randomness=randomness,
        now_ms=1,
        **options,  # type: ignore[arg-type]
    )


def test_all_first_voters_stand_in_the_snapshot_and_this_one_in_its_directory(
    tmp_path: Path,
) -> None:
    do_format(config(tmp_path), initial_controllers=THREE)
    voters = voters_in(tmp_path)
    assert voters == parse_initial_controllers(THREE, "CTL")
    assert show_initial_controllers(voters) == THREE
    meta = read_meta_properties(RealDisk(), f"{tmp_path}/a")
    assert meta is not None
    assert meta.settings()["directory.id"] == IDS[1]
    other = read_meta_properties(RealDisk(), f"{tmp_path}/b")
    assert other is not None
    assert other.settings()["directory.id"] not in IDS


def test_standalone_is_this_node_alone(tmp_path: Path) -> None:
    servers = "h:1,h:2"
    do_format(config(tmp_path, controller_quorum_bootstrap_servers=servers), standalone=True)
    voters = voters_in(tmp_path)
    assert voters is not None
    assert voters.ids == (2,)


def test_without_initial_controllers_nobody_votes(tmp_path: Path) -> None:
    do_format(config(tmp_path), no_initial_controllers=True)
    assert voters_in(tmp_path) is None


@pytest.mark.parametrize(
    ("more", "options", "reason"),
    [
        ({}, {"standalone": True, "no_initial_controllers": True}, "together"),
        ({"controller_quorum_voters": "2@h:1"}, {"standalone": True}, "controller.quorum.voters"),
        ({"node_id": "7"}, {"initial_controllers": THREE}, "do not include this node"),
        ({}, {"initial_controllers": "2@h:1"}, "id@host:port:directory-id"),
        ({}, {"initial_controllers": f"2@h:1:{IDS[0]},2@h:2:{IDS[1]}"}, "different id"),
        ({}, {"initial_controllers": f"2@h:1:{IDS[0]},3@h:2:{IDS[0]}"}, "directory id"),
        ({}, {"initial_controllers": ""}, "No initial controllers"),
        ({"controller_quorum_bootstrap_servers": "h:1,h:2"}, {}, "you must specify one"),
        (
            {
                "process_roles": "broker",
                "listeners": "PLAINTEXT://:9092",
                "controller_quorum_bootstrap_servers": "h:1",
            },
            {"initial_controllers": THREE},
            "not a controller",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    tmp_path: Path, more: dict[str, str], options: dict[str, object], reason: str
) -> None:
    with pytest.raises(StorageError, match=reason):
        do_format(config(tmp_path, **more), **options)
    assert list(tmp_path.iterdir()) == []
