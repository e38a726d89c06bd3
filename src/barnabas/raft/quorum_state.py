"""The file `quorum-state`: what a voter must not forget over a restart.

That is the epoch it has seen last, whom it voted for in it, and who led it. It is written, durably,
before the voter acts on any of it, so that it never votes twice in one epoch. The file is one line
of JSON. Version 1 belongs to `kraft.version` 1, where a voter is an id and a directory; version 0
has ids alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from barnabas.raft.errors import StorageError
from barnabas.seams import Disk
from barnabas.wire import uuids

FILE_NAME = "quorum-state"
NOBODY = -1


@dataclass(frozen=True, slots=True)
class Election:
    """An epoch, and what this voter knows of it."""

    epoch: int = 0
    leader_id: int = NOBODY
    voted_id: int = NOBODY
    voted_directory_id: bytes = uuids.ZERO


class QuorumStateFile:
    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.path = f"{directory}/{FILE_NAME}"

    def read(self) -> Election | None:
        """None on the first start; a `StorageError` if the file makes no sense."""
        if not self._disk.exists(self.path):
            return None
        try:
            return _election(json.loads(self._disk.read_file(self.path)))
        except (ValueError, TypeError, KeyError) as error:
            raise StorageError(
                f"{self.path} is corrupt ({error}). It says whom this node voted for: without it "
                "the node could vote twice. If the node is the only voter of its cluster, or no "
                "voter, the file may be removed. Otherwise give the node an empty directory: remove "
                "it from the voters, format it anew, and add it again once it has caught up."
            ) from error

    def voters(self) -> tuple[int, ...] | None:
        """The voters under which the file was written, where it names them (static voters)."""
        if self.read() is None:
            return None
        found = json.loads(self._disk.read_file(self.path)).get("currentVoters")
        if not isinstance(found, list):
            return None
        return tuple(sorted(each["voterId"] for each in found if isinstance(each, dict)))

    def write(self, election: Election, kraft_version: int, voter_ids: tuple[int, ...]) -> None:
        data: dict[str, Any]
        if kraft_version >= 1:
            data = {
                "leaderId": election.leader_id,
                "leaderEpoch": election.epoch,
                "votedId": election.voted_id,
                "votedDirectoryId": uuids.to_text(election.voted_directory_id),
                "data_version": 1,
            }
        else:
            data = {
                "clusterId": "",
                "leaderId": election.leader_id,
                "leaderEpoch": election.epoch,
                "votedId": election.voted_id,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter_id} for voter_id in voter_ids],
                "data_version": 0,
            }
        text = json.dumps(data, separators=(",", ":"))
        self._disk.write_atomically(self.path, text.encode("ascii"))


def _election(data: Any) -> Election:
    if not isinstance(data, dict):
        raise ValueError("not a JSON object")
    version = data["data_version"]
    if version not in (0, 1):
        raise ValueError(f"unknown data_version {version}")
    numbers = (data["leaderEpoch"], data.get("leaderId", NOBODY), data.get("votedId", NOBODY))
    if not all(isinstance(number, int) for number in numbers):
        raise ValueError("leaderEpoch, leaderId and votedId must be numbers")
    epoch, leader_id, voted_id = numbers
    if epoch < 0:
        raise ValueError(f"leaderEpoch is {epoch}")
    directory = uuids.from_text(data["votedDirectoryId"]) if version == 1 else uuids.ZERO
    return Election(epoch, leader_id, voted_id, directory)
