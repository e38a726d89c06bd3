"""When the controller last heard of each broker.

This is soft state of the active controller: it is in no record, and a new active controller begins
with a full session for each broker that is in service, of which it has not heard itself. Only a
contact that it did see keeps another incarnation of the broker from registering.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from barnabas.metadata.image import BrokerRegistration, MetadataImage

UNKNOWN: Final = -1
EVERYTHING: Final = 2**63 - 1


@dataclass(slots=True)
class _Contact:
    epoch: int
    last_ms: int
    heard: bool
    metadata_offset: int = UNKNOWN
    shutdown_offset: int = UNKNOWN
    registered_offset: int = UNKNOWN


class Heartbeats:
    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._contacts: dict[int, _Contact] = {}

    def begin(self, brokers: Iterable[BrokerRegistration], now_ms: int) -> None:
        """A new active controller: sessions of those in service start now."""
        self._contacts = {
            each.broker_id: _Contact(each.epoch, now_ms, heard=False)
            for each in brokers
            if not each.fenced
        }

    def registered(self, broker_id: int, epoch: int, offset: int, now_ms: int) -> None:
        """Registered by a record at this offset, which the broker has to have seen."""
        self._contacts[broker_id] = _Contact(epoch, now_ms, heard=True, registered_offset=offset)

    def touch(self, broker_id: int, epoch: int, metadata_offset: int, now_ms: int) -> None:
        found = self._contacts.get(broker_id)
        if found is None or found.epoch != epoch:
            found = self._contacts[broker_id] = _Contact(epoch, now_ms, heard=True)
        found.last_ms, found.heard = now_ms, True
        found.metadata_offset = max(found.metadata_offset, metadata_offset)

    def remove(self, broker_id: int) -> None:
        self._contacts.pop(broker_id, None)

    def has_session(self, broker_id: int, epoch: int, now_ms: int) -> bool:
        found = self._contacts.get(broker_id)
        return (
            found is not None
            and found.heard
            and found.epoch == epoch
            and now_ms - found.last_ms < self._session_timeout_ms
        )

    def excuse(self, unheard_ms: int, now_ms: int) -> None:
        """A time in which this controller could not have heard of anybody counts for nobody."""
        for contact in self._contacts.values():
            contact.last_ms = min(now_ms, contact.last_ms + unheard_ms)

    def expired(self, image: MetadataImage, now_ms: int) -> list[int]:
        """Brokers in service that were not heard of for a whole session."""
        return [
            broker_id
            for broker_id, found in self._contacts.items()
            if now_ms - found.last_ms >= self._session_timeout_ms
            and (broker := image.brokers.get(broker_id)) is not None
            and not broker.fenced
        ]

    def registered_offset(self, broker: BrokerRegistration) -> int:
        found = self._contacts.get(broker.broker_id)
        known = UNKNOWN if found is None or found.epoch != broker.epoch else found.registered_offset
        return max(known, broker.epoch)

    # ---- controlled shutdown

    def shutting_down(self, broker_id: int, offset: int) -> None:
        """The changes that take the broker's partitions away end at this offset."""
        found = self._contacts.get(broker_id)
        if found is not None:
            found.shutdown_offset = max(found.shutdown_offset, offset)

    def may_shut_down(self, image: MetadataImage, broker_id: int) -> bool:
        """Whether all others in service know that the broker leads nothing any more."""
        found = self._contacts.get(broker_id)
        wanted = UNKNOWN if found is None else found.shutdown_offset
        others = [
            contact.metadata_offset
            for other_id, contact in self._contacts.items()
            if other_id != broker_id
            and (broker := image.brokers.get(other_id)) is not None
            and broker.active
        ]
        return wanted <= min(others, default=EVERYTHING)
