"""What a node does from time to time: retention, flushing, checkpoints, compaction, forgetting.

Each job starts its next wait when it has started its work; the slow parts run in the background and a
job that is still busy skips a turn by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.delayed.timer import Timeout
    from barnabas.server.node import Node

logger = logging.getLogger(__name__)


class Maintenance:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._timers: dict[str, Timeout] = {}

    def start(self) -> None:
        config, logs, clock = self._node.config, self._node.logs, self._node.clock
        self._every(
            "retention",
            config.log_retention_check_interval_ms,
            lambda: logs.run_retention(clock.now_ms()),
        )
        self._every("removal of deleted files", 1_000, lambda: logs.remove_doomed(clock.now_ms()))
        self._every(
            "flush",
            min(config.log_flush_scheduler_interval_ms, 1_000),
            lambda: logs.flush_dirty(clock.now_ms()),
        )
        self._every("checkpoints", config.log_flush_offset_checkpoint_interval_ms, logs.checkpoint)
        self._every(
            "forgetting producers",
            config.producer_id_expiration_check_interval_ms,
            lambda: logs.expire_producers(clock.now_ms()),
        )
        if config.log_cleaner_enable:
            self._every(
                "compaction",
                config.log_cleaner_backoff_ms,
                lambda: logs.clean_once(clock.now_ms()),
            )

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _every(self, name: str, interval_ms: int, job: Callable[[], object]) -> None:
        def run() -> None:
            try:
                job()
            except Exception:
                logger.exception("%s failed; it is tried again in %d ms", name, interval_ms)
            if name in self._timers:
                self._timers[name] = self._node.network.wheel.add(interval_ms, run)

        self._timers[name] = self._node.network.wheel.add(interval_ms, run)
