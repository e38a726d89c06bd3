"""How far a follower's log agrees with its leader's (KIP-101, KIP-279).

The leader was told the epoch of the follower's last batch and answers with the largest epoch not above
it that the leader has, and where that one ended. If the follower has that epoch too, the logs agree up
to the earlier of the two ends. If not, the follower cuts back to where its own largest epoch below
ended, and the next question tells more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.log.log import Log


def agreed_offset(log: Log, leader_epoch: int, leader_end_offset: int) -> tuple[int, bool]:
    """Where to truncate to, and whether the logs then agree for certain."""
    end = log.log_end_offset
    if leader_end_offset < 0:
        return min(log.high_watermark, end), True
    if leader_epoch < 0:
        return min(leader_end_offset, end), True
    own_epoch, own_end_offset = log.epoch_end_offset(leader_epoch)
    if own_end_offset < 0:
        return min(leader_end_offset, end), True
    if own_epoch != leader_epoch:
        return min(own_end_offset, end), False
    return min(own_end_offset, leader_end_offset, end), True
