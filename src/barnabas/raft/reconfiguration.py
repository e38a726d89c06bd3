"""Adding, removing and updating voters while the quorum runs (KIP-853).

One change at a time, and each a single voter, so that any majority before and any majority after it
have a replica in common. A change begins only when the one before is committed, and something of the
leader's own epoch with it. The new set of voters counts as soon as it is in the log.

A new voter is asked first whether it speaks the quorum's version, and must have caught up with the
leader: otherwise adding it could stop the quorum until it has. The request waits for that, and then
for the commit, within its timeout.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from barnabas.raft.connections import NEVER_MS, Send
from barnabas.raft.follower import Follower
from barnabas.raft.incoming import is_our_cluster
from barnabas.raft.leader import Leader
from barnabas.raft.replica import Replica
from barnabas.raft.serving import check_leader_request
from barnabas.raft.voters import ReplicaKey, VoterEndpoint, VoterNode, VoterSet
from barnabas.record.control import ControlType
from barnabas.seams import Address
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from barnabas.wire.messages.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from barnabas.wire.records.raft import encode_control_record

logger = logging.getLogger(__name__)

NONE = ErrorCode.NONE
KRAFT_VERSION_FEATURE = "kraft.version"

Reply = Callable[[Message], None]
Finish = Callable[[ErrorCode, str | None], None]


class Phase(Enum):
    ASKING = "asks the new voter for its versions"
    CATCHING_UP = "waits until the new voter has caught up"
    COMMITTING = "waits for the commit"


@dataclass(slots=True)
class VoterChange:
    """The change that is under way. `offset` is where its record stands, once it does."""

    phase: Phase
    voter: VoterNode
    address: Address | None
    deadline_ms: int
    finish: Finish
    ack_when_committed: bool = True
    offset: int = -1


class Reconfiguration:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    # ---- requests

    def add(self, request: AddRaftVoterRequest, now_ms: int, reply: Reply) -> None:
        def finish(code: ErrorCode, message: str | None = None) -> None:
            reply(
                AddRaftVoterResponse(
                    error_code=code, error_message=None if code is NONE else message or code.message
                )
            )

        voter = VoterNode(
            request.voter_id,
            request.voter_directory_id,
            tuple(VoterEndpoint(each.name, each.host, each.port) for each in request.listeners),
        )
        leader = self._leader_for(request.cluster_id, finish)
        if leader is None:
            return
        if request.voter_id < 0 or request.timeout_ms < 0:
            finish(ErrorCode.INVALID_REQUEST, f"Voter id {request.voter_id} is not valid.")
            return
        address = voter.address(self._replica.settings.listener_name)
        if address is None:
            finish(
                ErrorCode.INVALID_REQUEST,
                "Add voter request didn't include the default listener "
                f"{self._replica.settings.listener_name!r} for voter {voter.key}.",
            )
            return
        if not self._may_begin(leader, "adding", finish):
            return
        voters = self._replica.voters
        if voters.find(voter.voter_id) is not None:
            finish(
                ErrorCode.DUPLICATE_VOTER,
                f"The voter id for {voter.key} is already part of the set of voters {voters}.",
            )
            return
        leader.change = VoterChange(
            Phase.ASKING,
            voter,
            address,
            now_ms + request.timeout_ms,
            finish,
            request.ack_when_committed,
        )

    def remove(self, request: RemoveRaftVoterRequest, now_ms: int, reply: Reply) -> None:
        def finish(code: ErrorCode, message: str | None = None) -> None:
            reply(
                RemoveRaftVoterResponse(
                    error_code=code, error_message=None if code is NONE else message or code.message
                )
            )

        leader = self._leader_for(request.cluster_id, finish)
        if leader is None or not self._may_begin(leader, "removing", finish):
            return
        voters = self._replica.voters
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        found = voters.find(request.voter_id)
        if found is None or found.key != key:
            finish(
                ErrorCode.VOTER_NOT_FOUND,
                f"Cannot remove voter {key} from the set of voters {voters}",
            )
            return
        if len(voters.voters) == 1:
            finish(
                ErrorCode.INVALID_REQUEST,
                f"Cannot remove {key}: it is the only voter of the quorum",
            )
            return
        deadline_ms = now_ms + self._replica.settings.request_timeout_ms
        leader.change = VoterChange(Phase.COMMITTING, found, None, deadline_ms, finish)
        self._append(leader.change, voters.without_voter(request.voter_id), now_ms)

    def update(
        self, request: UpdateRaftVoterRequest, now_ms: int, reply: Reply, listener_name: str
    ) -> None:
        def finish(code: ErrorCode, message: str | None = None) -> None:
            endpoint = self._replica.leader_endpoint(listener_name) or ("", 0)
            reply(
                UpdateRaftVoterResponse(
                    error_code=code,
                    current_leader=CurrentLeader(
                        leader_id=self._replica.leader_id,
                        leader_epoch=self._replica.epoch,
                        host=endpoint[0],
                        port=endpoint[1],
                    ),
                )
            )

        if not is_our_cluster(self._replica, request.cluster_id):
            finish(ErrorCode.INCONSISTENT_CLUSTER_ID)
            return
        error = check_leader_request(self._replica, request.current_leader_epoch)
        leader = self._replica.leader
        if error is not NONE or leader is None:
            finish(error)
            return
        versions = request.kraft_version_feature
        updated = VoterNode(
            request.voter_id,
            request.voter_directory_id,
            tuple(VoterEndpoint(each.name, each.host, each.port) for each in request.listeners),
            (versions.min_supported_version, versions.max_supported_version),
        )
        voters = self._replica.voters
        history = self._replica.voter_history
        lowest, highest = updated.kraft_versions
        if (
            updated.address(self._replica.settings.listener_name) is None
            or not lowest <= history.kraft_version <= highest
        ):
            finish(ErrorCode.INVALID_REQUEST)
        elif history.kraft_version == 0:
            if voters.is_voter(updated.key):
                leader.described[updated.voter_id] = updated
                finish(NONE)
            else:
                finish(ErrorCode.VOTER_NOT_FOUND)
        elif self._may_begin(leader, "updating", finish):
            found = voters.find(updated.voter_id)
            if found is None or found.key != updated.key:
                finish(ErrorCode.VOTER_NOT_FOUND)
                return
            if found != updated:
                deadline_ms = now_ms + self._replica.settings.request_timeout_ms
                change = VoterChange(Phase.COMMITTING, updated, None, deadline_ms, _nothing)
                leader.change = change
                self._append(change, voters.with_voter(updated), now_ms)
            finish(NONE)

    def upgrade(self, version: int, now_ms: int) -> int:
        """Raise `kraft.version` to 1: from here on the voters stand in the log."""
        voters = self.check_upgrade(version)
        if voters is None:
            return self._replica.log.end_offset - 1
        return self._replica.append_control(self._replica.voter_controls(voters, version), now_ms)

    def check_upgrade(self, version: int) -> VoterSet | None:
        """The voters that an upgrade would write; None if there is nothing to do."""
        leader = self._replica.leader
        if leader is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        history = self._replica.voter_history
        if version == history.kraft_version:
            return None
        if (history.kraft_version, version) != (0, 1):
            raise ApiError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Invalid update version {version} for feature kraft.version. Its level is "
                f"{history.kraft_version}.",
            )
        own = VoterNode(
            self._replica.node_id, self._replica.directory_id, self._replica.own_endpoints
        )
        described = {**leader.described, own.voter_id: own}
        voters = []
        for voter_id in self._replica.voters.ids:
            voter = described.get(voter_id)
            if voter is None or not voter.kraft_versions[0] <= version <= voter.kraft_versions[1]:
                raise ApiError(
                    ErrorCode.INVALID_UPDATE_VERSION,
                    f"Invalid update version {version} for feature kraft.version. Voter {voter_id} "
                    "has not said that it supports it.",
                )
            voters.append(voter)
        if not leader.has_committed or leader.change is not None:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT)
        return VoterSet(tuple(voters))

    def _leader_for(self, cluster_id: str | None, finish: Finish) -> Leader | None:
        if not is_our_cluster(self._replica, cluster_id):
            finish(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f'The given id "{cluster_id}" doesn\'t match the cluster id '
                f'"{self._replica.cluster_id}"',
            )
            return None
        error = check_leader_request(self._replica, self._replica.epoch)
        if error is not NONE:
            finish(error, None)
            return None
        return self._replica.leader

    def _may_begin(self, leader: Leader, doing: str, finish: Finish) -> bool:
        """One change at a time, and only upon what is committed."""
        history = self._replica.voter_history
        if leader.change is not None:
            finish(
                ErrorCode.REQUEST_TIMED_OUT,
                "Request timed out waiting for leader to handle previous voter change request",
            )
        elif not leader.has_committed:
            finish(
                ErrorCode.REQUEST_TIMED_OUT,
                "Request timed out waiting for leader to establish HWM and fence previous voter "
                "changes",
            )
        elif history.kraft_version < 1:
            finish(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Cluster doesn't support {doing} voter because the kraft.version feature is "
                f"{history.kraft_version}",
            )
        elif max(history.last_offset, history.version_offset) >= self._replica.high_watermark:
            finish(
                ErrorCode.REQUEST_TIMED_OUT,
                "Request timed out waiting for voters to commit the latest voter change at "
                f"{history.last_offset} with HWM {self._replica.high_watermark}",
            )
        else:
            return True
        return False

    # ---- on the way

    def _append(self, change: VoterChange, voters: VoterSet, now_ms: int) -> None:
        record = (ControlType.KRAFT_VOTERS, encode_control_record(voters.to_record()))
        change.phase = Phase.COMMITTING
        change.offset = self._replica.append_control([record], now_ms)
        logger.info("the voters are %s from offset %d on", voters, change.offset)
        if not change.ack_when_committed:
            change.finish(NONE, None)
            change.finish = _nothing

    def poll(self, leader: Leader, now_ms: int) -> int:
        change = leader.change
        if change is None:
            return NEVER_MS
        if change.phase is Phase.COMMITTING:
            if self._replica.high_watermark > change.offset:
                self._end(leader, NONE, None)
                return now_ms
            if change.finish is not _nothing and now_ms >= change.deadline_ms:
                # It may still be committed; until then no other change begins.
                change.finish(ErrorCode.REQUEST_TIMED_OUT, None)
                change.finish = _nothing
            return NEVER_MS if change.finish is _nothing else change.deadline_ms
        if now_ms >= change.deadline_ms:
            why = "is not ready to receive requests"
            if change.phase is Phase.CATCHING_UP:
                why = "has not caught up with the leader"
            self._end(leader, ErrorCode.REQUEST_TIMED_OUT, f"New voter {change.voter.key} {why}")
            return now_ms
        if change.phase is Phase.CATCHING_UP:
            self._add_if_caught_up(leader, change, now_ms)
            return change.deadline_ms
        return min(change.deadline_ms, self._ask(change, now_ms))

    def _ask(self, change: VoterChange, now_ms: int) -> int:
        assert change.address is not None
        connections = self._replica.connections
        if connections.is_ready(change.address, now_ms):
            request = ApiVersionsRequest(
                client_software_name="barnabas", client_software_version="raft"
            )
            connections.send(change.voter.voter_id, change.address, request, now_ms)
        return connections.ready_ms(change.address)

    def _add_if_caught_up(self, leader: Leader, change: VoterChange, now_ms: int) -> None:
        """Caught up: it has fetched, within this epoch, all that there was when it fetched."""
        progress = leader.observers.get(change.voter.key)
        if progress is None or progress.last_caught_up_ms < 0:
            return
        recent_ms = now_ms - self._replica.settings.fetch_timeout_ms
        if progress.last_fetch_ms >= recent_ms:
            self._append(change, self._replica.voters.with_voter(change.voter), now_ms)

    def answered(self, send: Send, response: Message, now_ms: int) -> None:
        leader = self._replica.leader
        if isinstance(response, ApiVersionsResponse) and leader is not None:
            change = leader.change
            asking = change is not None and change.phase is Phase.ASKING
            if asking and change is not None and (send.host, send.port) == change.address:
                self._take_versions(leader, change, response)
        elif isinstance(response, UpdateRaftVoterResponse):
            if response.error_code != NONE:
                logger.info("updating this voter was answered with error %d", response.error_code)
        elif isinstance(self._replica.state, Follower):
            assert isinstance(response, AddRaftVoterResponse | RemoveRaftVoterResponse)
            if response.error_code != NONE:
                logger.info("joining the voters was answered: %s", response.error_message)

    def _take_versions(
        self, leader: Leader, change: VoterChange, response: ApiVersionsResponse
    ) -> None:
        if response.error_code != NONE:
            self._end(
                leader,
                ErrorCode.INVALID_REQUEST,
                f"Aborted add voter operation for {change.voter.key} since API_VERSIONS returned "
                f"error {response.error_code}",
            )
            return
        level = self._replica.voter_history.kraft_version
        feature = next(
            (each for each in response.supported_features if each.name == KRAFT_VERSION_FEATURE),
            None,
        )
        if feature is None or not feature.min_version <= level <= feature.max_version:
            self._end(
                leader,
                ErrorCode.INVALID_REQUEST,
                f"Aborted add voter operation for {change.voter.key} since kraft.version {level} is "
                "not supported by it",
            )
            return
        change.voter = VoterNode(
            change.voter.voter_id,
            change.voter.directory_id,
            change.voter.endpoints,
            (feature.min_version, feature.max_version),
        )
        change.phase = Phase.CATCHING_UP

    def _end(self, leader: Leader, code: ErrorCode, message: str | None) -> None:
        change, leader.change = leader.change, None
        assert change is not None
        change.finish(code, message)

    def stop(self, leader: Leader) -> None:
        """This replica leads no more; the change may be committed by the next leader, or not."""
        if leader.change is not None:
            if leader.change.offset >= 0 and self._replica.high_watermark > leader.change.offset:
                self._end(leader, NONE, None)
            else:
                self._end(leader, ErrorCode.NOT_LEADER_OR_FOLLOWER, None)


def _nothing(code: ErrorCode, message: str | None) -> None:
    """Whoever asked has been answered, or nobody did."""
