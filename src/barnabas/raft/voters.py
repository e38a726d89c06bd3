"""Who votes.

With `kraft.version` 1 the set of voters stands in the log, as a control record; with 0 it comes
from the configuration (`controller.quorum.voters`) and must be the same on every node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.seams import Address
from barnabas.wire import uuids
from barnabas.wire.records.raft import (
    Endpoint,
    KRaftVersionFeature,
    Voter,
    VotersRecord,
)

_STATIC = re.compile(r"(-?[0-9]+)@\[?([^\]]*?)\]?:([0-9]+)")
KRAFT_VERSIONS = (0, 1)


class ReplicaKey(NamedTuple):
    """A replica: the node, and the directory in which it keeps the log. A voter that lost its
    disk comes back as another replica. The zero id stands for a directory that is not known."""

    node_id: int
    directory_id: bytes = uuids.ZERO

    def may_be(self, other: ReplicaKey) -> bool:
        """The same, as far as is known."""
        return self.node_id == other.node_id and (
            self.directory_id == other.directory_id
            or uuids.ZERO in (self.directory_id, other.directory_id)
        )

    def __str__(self) -> str:
        if self.directory_id == uuids.ZERO:
            return str(self.node_id)
        return f"{self.node_id}-{uuids.to_text(self.directory_id)}"


@dataclass(frozen=True, slots=True)
class VoterEndpoint:
    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class VoterNode:
    voter_id: int
    directory_id: bytes = uuids.ZERO
    endpoints: tuple[VoterEndpoint, ...] = ()
    kraft_versions: tuple[int, int] = KRAFT_VERSIONS

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.voter_id, self.directory_id)

    def address(self, listener: str = "") -> Address | None:
        return endpoint_address(self.endpoints, listener)


def endpoint_address(endpoints: Iterable[VoterEndpoint], listener: str = "") -> Address | None:
    """The endpoint with this name; without a name, the first one."""
    for each in endpoints:
        if not listener or each.name.upper() == listener.upper():
            return each.host, each.port
    return None


@dataclass(frozen=True, slots=True)
class VoterSet:
    voters: tuple[VoterNode, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(voter.voter_id for voter in self.voters)

    def find(self, node_id: int) -> VoterNode | None:
        return next((voter for voter in self.voters if voter.voter_id == node_id), None)

    def is_voter(self, key: ReplicaKey) -> bool:
        voter = self.find(key.node_id)
        return voter is not None and voter.directory_id in (uuids.ZERO, key.directory_id)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def with_voter(self, added: VoterNode) -> VoterSet:
        """With this voter, in place of one with the same id if there is one."""
        others = [voter for voter in self.voters if voter.voter_id != added.voter_id]
        return VoterSet(tuple(sorted([*others, added], key=lambda voter: voter.voter_id)))

    def without_voter(self, node_id: int) -> VoterSet:
        return VoterSet(tuple(voter for voter in self.voters if voter.voter_id != node_id))

    def __str__(self) -> str:
        return "[" + ", ".join(str(voter.key) for voter in self.voters) + "]"

    def is_only(self, node_id: int) -> bool:
        return self.ids == (node_id,)

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            version=0,
            voters=[
                Voter(
                    voter_id=voter.voter_id,
                    voter_directory_id=voter.directory_id,
                    endpoints=[
                        Endpoint(name=each.name, host=each.host, port=each.port)
                        for each in voter.endpoints
                    ],
                    kraft_version_feature=KRaftVersionFeature(
                        min_supported_version=voter.kraft_versions[0],
                        max_supported_version=voter.kraft_versions[1],
                    ),
                )
                for voter in self.voters
            ],
        )

    @classmethod
    def from_record(cls, record: VotersRecord) -> VoterSet:
        return cls(
            tuple(
                VoterNode(
                    voter.voter_id,
                    voter.voter_directory_id,
                    tuple(
                        VoterEndpoint(each.name, each.host, each.port) for each in voter.endpoints
                    ),
                    (
                        voter.kraft_version_feature.min_supported_version,
                        voter.kraft_version_feature.max_supported_version,
                    ),
                )
                for voter in record.voters
            )
        )

    @classmethod
    def from_config(cls, voters: Iterable[str], listener: str = "CONTROLLER") -> VoterSet:
        """From the entries of `controller.quorum.voters`: `id@host:port`."""
        found = []
        for text in voters:
            match = _STATIC.fullmatch(text)
            if match is None:
                raise ValueError(f"{text} is not of the form id@host:port")
            endpoint = VoterEndpoint(listener, match[2], int(match[3]))
            found.append(VoterNode(int(match[1]), endpoints=(endpoint,)))
        return cls(tuple(found))
