"""Who votes.

With `kraft.version` 1 the set of voters stands in the log, as a control record; with 0 it comes
from the configuration (`controller.quorum.voters`) and must be the same on every node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.wire import uuids
from barnabas.wire.records.raft import (
    Endpoint,
    KRaftVersionFeature,
    Voter,
    VotersRecord,
)

_STATIC = re.compile(r"(-?[0-9]+)@\[?([^\]]*?)\]?:([0-9]+)")
KRAFT_VERSIONS = (0, 1)


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


@dataclass(frozen=True, slots=True)
class VoterSet:
    voters: tuple[VoterNode, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(voter.voter_id for voter in self.voters)

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
