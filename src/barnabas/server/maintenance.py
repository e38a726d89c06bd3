"""What a node does from time to time: retention, flushing, checkpoints, compaction, forgetting.

Each job starts its next wait when it has started its work; the slow parts run in the background and a
job that is still busy skips a turn by itself. A job that looks at every log goes in steps, and others
have their turn in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
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
        first_ms = config.log_initial_task_delay_ms
        self._every(
            "retention",
            config.log_retention_check_interval_ms,
            lambda: logs.retention_steps(clock.now_ms()),
            first_ms=first_ms,
        )
        self._every("removal of deleted files", 1_000, lambda: logs.remove_doomed(clock.now_ms()))
        self._every(
            "flush",
            min(config.log_flush_scheduler_interval_ms, 1_000),
            lambda: logs.flush_dirty(clock.now_ms()),
        )
        # One job writes all three checkpoints.
        self._every(
            "checkpoints",
            min(
                config.log_flush_offset_checkpoint_interval_ms,
                config.log_flush_start_offset_checkpoint_interval_ms,
                config.replica_high_watermark_checkpoint_interval_ms,
            ),
            logs.checkpoint,
            first_ms=first_ms,
        )
        self._every(
            "forgetting producers",
            config.producer_id_expiration_check_interval_ms,
            lambda: logs.expire_producers(clock.now_ms()),
        )
        self._every(
            "in-sync replicas",
            max(1, config.replica_lag_time_max_ms // 2),
            lambda: self._node.replicas.tick(logs.now_ms()),
        )
        if config.log_cleaner_enable:
            logs.cleaner.schedule = self._node.network.wheel.add
            logs.cleaner.on_progress = lambda: self._soon("compaction")
            self._every(
                "compaction",
                lambda: self._node.config.log_cleaner_backoff_ms,
                lambda: logs.clean_once(clock.now_ms()),
            )

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _soon(self, name: str) -> None:
        """Do a job without waiting for its turn."""
        timer = self._timers.get(name)
        if timer is not None and timer.callback is not None:
            run = timer.callback
            timer.cancel()
            self._timers[name] = self._node.network.wheel.add(0, run)

    def _every(
        self,
        name: str,
        interval_ms: int | Callable[[], int],
        job: Callable[[], object],
        *,
        first_ms: int | None = None,
    ) -> None:
        add = self._node.network.wheel.add

        def run() -> None:
            wait_ms = interval_ms if isinstance(interval_ms, int) else interval_ms()
            steps: object = None
            try:
                steps = job()
            except Exception:
                logger.exception("%s failed; it is tried again in %d ms", name, wait_ms)
            if isinstance(steps, Iterator):
                step(steps, wait_ms)
            elif name in self._timers:
                self._timers[name] = add(wait_ms, run)

        def step(steps: Iterator[object], wait_ms: int) -> None:
            more = False
            try:
                more = next(steps, steps) is not steps
            except Exception:
                logger.exception("%s failed; it is tried again in %d ms", name, wait_ms)
            if name in self._timers:
                self._timers[name] = (
                    add(1, lambda: step(steps, wait_ms)) if more else add(wait_ms, run)
                )

        if first_ms is None:
            first_ms = interval_ms if isinstance(interval_ms, int) else interval_ms()
        self._timers[name] = add(first_ms, run)
