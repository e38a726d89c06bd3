"""What a follower asks of the leader about itself as a voter (KIP-853, KIP-1186)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.raft.voters import VoterNode
from barnabas.wire.messages import add_raft_voter, update_raft_voter
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.wire.messages.update_raft_voter import UpdateRaftVoterRequest

if TYPE_CHECKING:
    from barnabas.raft.follower import Follower
    from barnabas.raft.replica import Replica


def voter_request(
    replica: Replica, follower: Follower, now_ms: int
) -> UpdateRaftVoterRequest | AddRaftVoterRequest | RemoveRaftVoterRequest | None:
    """What the leader should change about this replica as a voter, now and then, in place of a
    fetch: its endpoints and versions; or that it is none yet though it is configured to join."""
    if now_ms < follower.voter_update_ms or not follower.has_fetched:
        return None
    follower.voter_update_ms = now_ms + replica.settings.fetch_timeout_ms
    found = replica.voters.find(replica.node_id)
    is_dynamic = replica.voter_history.kraft_version >= 1
    if replica.is_voter:
        own = VoterNode(replica.node_id, replica.directory_id, replica.own_endpoints)
        if found == own or (not is_dynamic and follower.has_updated_voter):
            return None
        follower.has_updated_voter = True
        return _update_request(replica, own)
    if not (is_dynamic and replica.can_vote and replica.settings.auto_join):
        return None
    if not follower.is_caught_up:
        follower.voter_update_ms = now_ms
        return None
    # The leader adds whom it has seen to be caught up, and nothing is fetched until it answers:
    # before it is asked again, it shall have been fetched from.
    follower.is_caught_up = False
    if found is not None:
        # It was a voter before it lost its disk: that one will not come back.
        return RemoveRaftVoterRequest(
            cluster_id=replica.cluster_id,
            voter_id=found.voter_id,
            voter_directory_id=found.directory_id,
        )
    return AddRaftVoterRequest(
        cluster_id=replica.cluster_id,
        timeout_ms=replica.settings.request_timeout_ms,
        voter_id=replica.node_id,
        voter_directory_id=replica.directory_id,
        listeners=[
            add_raft_voter.Listener(name=each.name, host=each.host, port=each.port)
            for each in replica.own_endpoints
        ],
        ack_when_committed=False,
    )


def _update_request(replica: Replica, own: VoterNode) -> UpdateRaftVoterRequest:
    lowest, highest = own.kraft_versions
    return UpdateRaftVoterRequest(
        cluster_id=replica.cluster_id,
        current_leader_epoch=replica.epoch,
        voter_id=own.voter_id,
        voter_directory_id=own.directory_id,
        listeners=[
            update_raft_voter.Listener(name=each.name, host=each.host, port=each.port)
            for each in own.endpoints
        ],
        kraft_version_feature=update_raft_voter.KRaftVersionFeature(
            min_supported_version=lowest, max_supported_version=highest
        ),
    )
