"""What Raft writes besides metadata: the `quorum-state` file and its control records.

A control record's value starts with a field `version`, which is also the version that it is written
in; a reader takes it from there. The file is JSON with the field names of `QuorumStateData`.
"""

from __future__ import annotations

from struct import Struct as Format
from typing import TypeVar

from barnabas.wire.codec import decode, encode
from barnabas.wire.fields import array, int16, int32, int64, string, struct, uint16, uuid
from barnabas.wire.message import Message, Struct
from barnabas.wire.primitives import Buffer, DecodeError


class QuorumStateVoter(Struct):
    voter_id: int = int32("0")


class QuorumStateData(Message):
    VERSIONS = (0, 1)
    FLEXIBLE = (0, 1)

    cluster_id: str = string("0")
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
    voted_id: int = int32(default=-1)
    voted_directory_id: bytes = uuid("1+")
    applied_offset: int = int64("0")
    current_voters: list[QuorumStateVoter] | None = array(QuorumStateVoter, "0", nullable=True)


class LeaderChangeVoter(Struct):
    voter_id: int = int32()
    voter_directory_id: bytes = uuid("1+")


class LeaderChangeMessage(Message):
    VERSIONS = (0, 1)
    FLEXIBLE = (0, 1)

    version: int = int16()
    leader_id: int = int32()
    voters: list[LeaderChangeVoter] = array(LeaderChangeVoter)
    granting_voters: list[LeaderChangeVoter] = array(LeaderChangeVoter)


class SnapshotHeaderRecord(Message):
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    version: int = int16()
    last_contained_log_timestamp: int = int64()


class SnapshotFooterRecord(Message):
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    version: int = int16()


class KRaftVersionRecord(Message):
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    version: int = int16()
    kraft_version: int = int16()


class Endpoint(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()


class KRaftVersionFeature(Struct):
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class Voter(Struct):
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    endpoints: list[Endpoint] = array(Endpoint)
    kraft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature)


class VotersRecord(Message):
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    version: int = int16()
    voters: list[Voter] = array(Voter)


ControlRecord = (
    LeaderChangeMessage
    | SnapshotHeaderRecord
    | SnapshotFooterRecord
    | KRaftVersionRecord
    | VotersRecord
)
C = TypeVar("C", bound=ControlRecord)

_VERSION = Format(">h")


def encode_control_record(record: ControlRecord) -> bytes:
    """A control record's value, in the version that its field `version` names."""
    return encode(record, record.version)


def decode_control_record(cls: type[C], data: Buffer) -> C:
    """A control record from its value. Later versions only add tagged fields and can be read."""
    if len(data) < _VERSION.size:
        raise DecodeError(f"a {cls.__name__} without a version")
    (version,) = _VERSION.unpack_from(data)
    return decode(cls, min(version, cls.VERSIONS[1]), data)
