"""An event loop without a selector, sockets or threads: timers on the virtual clock, and tasks.

Every process of a simulation has its own, all of them on one `Scheduler`. A process that ends takes
its loop with it: what was scheduled never runs, its tasks stay where they were. They are kept until
the simulation is over, so that the garbage collector resumes none of them at a moment of its choice.

A loop's clock may run fast or slow, and its wall clock may be wrong and jump.
"""

from __future__ import annotations

import asyncio
import contextlib
import traceback
import warnings
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from barnabas.sim.scheduler import Scheduler

Result = TypeVar("Result")

WALL_START_MS = 1_780_000_000_000
_MILLION = 1_000_000
_FEWEST_TASKS = 64
_SHOWN_CALLS = 5


def describe(error: BaseException | None) -> str:
    """An exception and the calls that led to it."""
    if error is None:
        return "no exception"
    calls = [
        f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)[-_SHOWN_CALLS:]
    ]
    return f"{error!r} in {' > '.join(calls)}" if calls else repr(error)


class VirtualClock:
    """A process's clock. `drift_ppm` is how much too fast it runs; `skew_ms` is the wall's error."""

    def __init__(self, scheduler: Scheduler, *, drift_ppm: int = 0, skew_ms: int = 0) -> None:
        self._scheduler = scheduler
        self._rate = _MILLION + drift_ppm
        self.skew_ms = skew_ms

    def monotonic_ns(self) -> int:
        return self._scheduler.now_ns * self._rate // _MILLION

    def monotonic_ms(self) -> int:
        return self._scheduler.now_ns * self._rate // _MILLION // _MILLION

    def now_ms(self) -> int:
        return WALL_START_MS + self.skew_ms + self.monotonic_ms()

    def true_ns(self, local_ns: int) -> int:
        """The first instant of the simulation at which this clock shows `local_ns`."""
        return -(-local_ns * _MILLION // self._rate)


class VirtualLoop(asyncio.AbstractEventLoop):
    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        clock: VirtualClock,
        failed: Callable[[str], object],
    ) -> None:
        """`failed` is told of every exception that nobody caught."""
        self.name = name
        self.alive = True
        self.clock = clock
        self._scheduler = scheduler
        self._failed = failed
        self._tasks: list[asyncio.Task[Any]] = []
        self._tasks_limit = _FEWEST_TASKS

    # ---- what asyncio and the node ask

    def time(self) -> float:
        return self.clock.monotonic_ns() / 1e9

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._scheduler.soon(self, handle)
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._scheduler.at(self.clock.true_ns(round(when * 1e9)), self, handle)
        return handle

    def after_ns(self, delay_ns: int, callback: Callable[..., object], *args: Any) -> None:
        """For the virtual world itself, which has the simulation's clock."""
        handle = asyncio.Handle(callback, args, self)
        self._scheduler.at(self._scheduler.now_ns + delay_ns, self, handle)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name="task", context=context)
        self._tasks.append(task)
        if len(self._tasks) > self._tasks_limit:
            self.judge_tasks()
            self._tasks = [each for each in self._tasks if not each.done()]
            self._tasks_limit = max(_FEWEST_TASKS, 2 * len(self._tasks))
        return task

    def is_running(self) -> bool:
        return self.alive

    def is_closed(self) -> bool:
        return not self.alive

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.alive:
            return
        text = describe(context.get("exception"))
        self._failed(f"{self.name}: {context.get('message')}: {text}")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        return

    def judge_tasks(self) -> None:
        """An exception that ended a task and that nobody has asked for is a failure."""
        for task in self._tasks:
            if task.done() and not task.cancelled() and task._log_traceback:
                self._failed(f"{self.name}: a task failed: {describe(task.exception())}")

    # ---- its end

    def die(self) -> None:
        """Nothing of this process runs any more."""
        self.alive = False

    def bury(self) -> None:
        """Once the simulation is over: end the tasks that the process left behind."""
        self.alive = False
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine = task.get_coro()
                if isinstance(coroutine, Coroutine):
                    with warnings.catch_warnings(), contextlib.suppress(BaseException):
                        warnings.simplefilter("ignore")
                        coroutine.close()
        self._tasks.clear()
