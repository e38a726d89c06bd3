"""What nodes log during a simulation: shown in the trace, and judged.

An exception that a node caught and logged because it did not expect it is a failure of the run, unless
it is an OSError, which a simulated disk or network causes.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.sim.loop import describe

if TYPE_CHECKING:
    from barnabas.sim.simulation import Simulation


class LogWatch(logging.Handler):
    def __init__(self, simulation: Simulation) -> None:
        super().__init__(logging.DEBUG if simulation.trace.verbose else logging.WARNING)
        self._simulation = simulation
        self._logger = logging.getLogger("barnabas")
        self._before = (self._logger.level, self._logger.propagate, self._logger.handlers)

    def start(self) -> None:
        self._logger.handlers = [self]
        self._logger.propagate = False
        self._logger.setLevel(self.level)

    def stop(self) -> None:
        level, self._logger.propagate, self._logger.handlers = self._before
        self._logger.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        simulation = self._simulation
        running = simulation.scheduler.running
        place = running.name if running is not None else "world"
        error = record.exc_info[1] if record.exc_info else None
        if simulation.trace.verbose:
            text = f"{record.levelname.lower()}: {record.getMessage()}"
            simulation.trace.line(place, text if error is None else f"{text} ({error!r})")
        if error is not None and not isinstance(error, OSError):
            simulation.fail(f"{place}: {record.getMessage()}: {describe(error)}")
