"""What the engine of a client takes from the world.

The engine is written once, as callbacks on its hot paths and as coroutines everywhere else. It runs
on a reactor: `AsyncioReactor` over a running asyncio loop for the async clients, `SelectReactor`,
which runs coroutines by itself in whichever thread calls, for the plain ones. Nothing above a reactor
reads a clock, opens a socket or draws a random number.

All of it happens in one thread at a time. User functions are called through `call_user` or
`call_later_outside`, so that the plain clients can give up their lock meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Protocol, TypeVar

from barnabas.seams import Stream

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Connected = Callable[[Stream | None, OSError | None], object]


class Timer(Protocol):
    def cancel(self) -> object: ...


class Future(Protocol[T]):
    """What is not known yet. Awaiting it gives the result or raises the error."""

    def __await__(self) -> Generator[Any, None, T]: ...

    def done(self) -> bool: ...

    def result(self) -> T: ...

    def set_result(self, result: T, /) -> None: ...

    def set_exception(self, error: BaseException, /) -> None: ...

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None: ...

    def cancel(self) -> object: ...


class Reactor(Protocol):
    def now(self) -> float:
        """Seconds of a clock that never goes back."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""

    def random(self) -> float:
        """In [0, 1)."""

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Call back once `now()` has reached `when`."""

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call back in this turn or the next, never before this returns."""

    def future(self) -> Future[Any]: ...

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine beside the others; cancelling the future ends it."""

    async def sleep(self, seconds: float) -> None: ...

    def connect(self, host: str, port: int, timeout_s: float, done: Connected) -> Timer:
        """Resolve the name and connect to one of its addresses; `done` is called exactly once,
        unless the attempt is cancelled. A name that has no address is a `socket.gaierror`."""

    async def call_user(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the user and give its result; await it if it can be awaited here."""

    def call_outside(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function of the user soon, in the order of these calls; it must not raise."""
