"""How one partition changes: who is in sync, who leads, who is remembered as eligible.

Every change of a partition that exists goes through `PartitionChange`. The caller sets what it
wants (another in-sync set, other replicas, another directory, an election) and `build` gives the one
record that makes it so, or None where nothing would change. What follows from the wish is decided
here and nowhere else:

* A reassignment is completed as soon as all that are added are in sync.
* A leader is looked for whenever the present one may not lead. In order: the present leader (or
  first of all the preferred one, if that election was asked for), the first replica that is in sync
  or eligible and in service, the last leader that is known if nobody is in sync or eligible, and, if
  an unclean election is allowed, any replica in service. The last two may have lost records, so the
  in-sync set becomes that one broker, and the partition is marked as recovering.
* Eligible leaders (KIP-966): as long as the in-sync set is smaller than `min.insync.replicas`, nothing
  can be committed with acks=all, so whoever left the set since then has all that was committed and
  is remembered. With eligible leaders an in-sync set may become empty; without, its last member stays.
* The leader epoch is raised by naming a leader, be it the same one: for a new leader, when a replica
  is taken away (so that its late fetches are refused), and on old levels when the set shrinks.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from barnabas.metadata.features import DIRECTORY_ASSIGNMENT_LEVEL
from barnabas.metadata.image import NO_LEADER, PartitionRegistration
from barnabas.wire import uuids
from barnabas.wire.records.metadata import PartitionChangeRecord

if TYPE_CHECKING:
    from barnabas.metadata.image import BrokerRegistration

RECOVERED: Final = 0
RECOVERING: Final = 1
LEADER_UNCHANGED: Final = -2
NO_EPOCH_BUMP_ON_SHRINK_LEVEL: Final = 12
"""3.6-IV0: a smaller in-sync set alone begins no new leader epoch."""


class Election(Enum):
    ONLINE = auto()
    """Only if the present leader may not lead."""
    PREFERRED = auto()
    """The first replica, if it can."""
    UNCLEAN = auto()
    """Anybody rather than nobody."""


class PartitionChange:
    """A change in the making. `may_lead` says which brokers are in service."""

    def __init__(
        self,
        topic_id: bytes,
        index: int,
        partition: PartitionRegistration,
        *,
        may_lead: Callable[[int], bool],
        min_isr: int,
        elr_enabled: bool,
        level: int,
        election: Election = Election.ONLINE,
    ) -> None:
        self.election = election
        self.isr: list[int] = list(partition.isr)
        self.replicas: list[int] = list(partition.replicas)
        self.adding: list[int] = list(partition.adding_replicas)
        self.removing: list[int] = list(partition.removing_replicas)
        self.recovery_state = partition.leader_recovery_state
        self.unclean_shutdown: int | None = None
        """A broker that may have lost records: it is not eligible any more."""
        self.directories: dict[int, bytes] = {}
        """Directories of replicas that are new or moved."""
        self._topic_id = topic_id
        self._index = index
        self._before = partition
        self._may_lead = may_lead
        self._min_isr = min_isr
        self._elr_enabled = elr_enabled
        self._level = level
        self._elr: list[int] = list(partition.elr)
        self._last_known: list[int] = list(partition.last_known_elr)

    def build(self) -> PartitionChangeRecord | None:
        before = self._before
        record = PartitionChangeRecord(topic_id=self._topic_id, partition_id=self._index)
        self._complete_reassignment()
        self._find_eligible()
        unclean = self._elect(record)
        if unclean or not self._elr_enabled:
            self._elr, self._last_known = [], []
        if (self.isr or self._elr_enabled) and self.isr != list(before.isr):
            record.isr = self.isr
        self._raise_leader_epoch(record)
        self._remember_last_leader(record)
        if self._elr != list(before.elr):
            record.eligible_leader_replicas = self._elr
        if self._last_known != list(before.last_known_elr):
            record.last_known_elr = self._last_known
        self._assign(record)
        if self.recovery_state != before.leader_recovery_state:
            record.leader_recovery_state = self.recovery_state
        return None if record == self._nothing() else record

    def _nothing(self) -> PartitionChangeRecord:
        return PartitionChangeRecord(topic_id=self._topic_id, partition_id=self._index)

    # ---- reassignment

    def _complete_reassignment(self) -> None:
        if not self.adding and not self.removing:
            return
        isr = [each for each in self.isr if each not in self.removing]
        replicas = [each for each in self.replicas if each not in self.removing]
        if not isr or not replicas or any(each not in isr for each in self.adding):
            return
        self.isr, self.replicas = isr, replicas
        self.adding, self.removing = [], []

    def _assign(self, record: PartitionChangeRecord) -> None:
        before = self._before
        if self.replicas != list(before.replicas):
            record.replicas = self.replicas
        if self.removing != list(before.removing_replicas):
            record.removing_replicas = self.removing
        if self.adding != list(before.adding_replicas):
            record.adding_replicas = self.adding
        if self._level < DIRECTORY_ASSIGNMENT_LEVEL:
            return
        if record.replicas is None and not self.directories:
            return
        known = dict(zip(before.replicas, before.directories, strict=False))
        known |= self.directories
        directories = tuple(
            known.get(replica, uuids.UNASSIGNED_DIRECTORY) for replica in self.replicas
        )
        if directories != before.directories:
            record.directories = list(directories)

    # ---- electing

    def _elect(self, record: PartitionChangeRecord) -> bool:
        """Name another leader if there has to be one; True if it may have lost records."""
        leader, unclean = self._leader()
        if leader == self._before.leader:
            return False
        record.leader = leader
        if unclean:
            self.isr = [leader]
            self.recovery_state = RECOVERING
        elif leader != NO_LEADER and leader not in self.isr:
            self.isr = [leader]
            self._elr = [each for each in self._elr if each != leader]
        return unclean

    def _leader(self) -> tuple[int, bool]:
        candidates = [self._before.leader, *self.replicas]
        if self.election is Election.PREFERRED:
            candidates.insert(0, self.replicas[0])
        for each in candidates:
            if each in self.replicas and self._is_valid(each):
                return each, False
        if self._is_last_known_electable():
            return self._before.last_known_elr[0], True
        if self.election is Election.UNCLEAN:
            for each in self.replicas:
                if self._may_lead(each):
                    return each, True
        return NO_LEADER, False

    def _is_valid(self, broker_id: int) -> bool:
        eligible = broker_id in self.isr or (self._elr_enabled and broker_id in self._elr)
        return eligible and self._may_lead(broker_id)

    def _is_last_known_electable(self) -> bool:
        known = self._before.last_known_elr
        return (
            self._elr_enabled
            and not self.isr
            and not self._elr
            and len(known) == 1
            and self._may_lead(known[0])
        )

    # ---- eligible leaders

    def _find_eligible(self) -> None:
        if not self._elr_enabled:
            return
        if len(self.isr) >= min(self._min_isr, len(self.replicas)):
            self._elr, self._last_known = [], []
            return
        eligible = dict.fromkeys([*self._elr, *self._before.isr])
        self._elr = sorted(
            each
            for each in eligible
            if each not in self.isr and each != self.unclean_shutdown and each in self.replicas
        )

    def _remember_last_leader(self, record: PartitionChangeRecord) -> None:
        """When nobody is left in sync, the one who led last is who to wait for."""
        before = self._before.leader
        after = before if record.leader == LEADER_UNCHANGED else record.leader
        if after != NO_LEADER:
            self._last_known = []
        elif self._elr_enabled and record.isr == [] and before != NO_LEADER:
            self._last_known = [before]

    # ---- epochs

    def _raise_leader_epoch(self, record: PartitionChangeRecord) -> None:
        if record.leader != LEADER_UNCHANGED:
            return
        before = self._before
        lost_replica = any(each not in self.replicas for each in before.replicas)
        lost_isr = self._level < NO_EPOCH_BUMP_ON_SHRINK_LEVEL and any(
            each not in self.isr for each in before.isr
        )
        if lost_replica or (lost_isr and record.isr is not None):
            record.leader = before.leader


def has_online_directory(broker: BrokerRegistration, directory: bytes | None) -> bool:
    """Whether a replica in that directory can be served by the broker."""
    if directory is None or directory in (uuids.UNASSIGNED_DIRECTORY, uuids.MIGRATING_DIRECTORY):
        return True
    if directory == uuids.LOST_DIRECTORY:
        return False
    return not broker.directories or directory in broker.directories
