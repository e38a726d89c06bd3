"""Which batches belong to aborted transactions, and which markers are still needed, while a log is
walked through from an offset on.

A marker is needed as long as there are records before it that it decides about. An abort marker
whose records are still here keeps its entry in the transaction index of the cleaned segment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from barnabas.log.transaction_index import AbortedTransaction, TransactionIndex
from barnabas.record.batch import BatchHeader, Buffer
from barnabas.record.control import ControlType, read_control_records


class CleanedTransactions:
    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_records: set[int] = set()  # producers whose aborted records were met
        self._committed: set[int] = set()
        self.index: TransactionIndex | None = None

    def _advance(self, offset: int) -> None:
        while self._to_come and self._to_come[0].first_offset <= offset:
            aborted = self._to_come.popleft()
            self._aborted[aborted.producer_id] = aborted

    def is_aborted(self, header: BatchHeader) -> bool:
        """Tell of a data batch; are its records part of an aborted transaction?"""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._with_records.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def is_needless_marker(self, header: BatchHeader, buffer: Buffer, start: int) -> bool:
        """Tell of a control batch; is it a marker that no record needs any more?"""
        self._advance(header.last_offset)
        if header.record_count == 0:
            return True
        kind = read_control_records(buffer, header, start)[0].type
        if kind is ControlType.ABORT:
            aborted = self._aborted.pop(header.producer_id, None)
            had_records = header.producer_id in self._with_records
            self._with_records.discard(header.producer_id)
            if aborted is not None and had_records:
                if self.index is not None:
                    self.index.append(aborted)
                return False
            return True
        if kind is ControlType.COMMIT:
            had_records = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not had_records
        return False
