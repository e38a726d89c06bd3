"""From a coroutine of the engine to a method of a plain client.

The async clients are the real ones. A plain client is made of the same methods, each wrapped by
`blocking`, which runs the coroutine in the caller's thread and keeps its signature and its words.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from barnabas.client.pump import Pump

P = ParamSpec("P")
R = TypeVar("R")
Engine = TypeVar("Engine")
Engine_co = TypeVar("Engine_co", covariant=True)


class Face(Protocol[Engine_co]):
    """A plain client: an engine, and the pump that runs it."""

    @property
    def _pump(self) -> Pump: ...

    @property
    def _engine(self) -> Engine_co: ...


def blocking(
    method: Callable[Concatenate[Engine, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Face[Engine], P], R]:
    @functools.wraps(method)
    def call(self: Face[Engine], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._pump.run(method(self._engine, *args, **kwargs))

    return call


def locked(
    method: Callable[Concatenate[Engine, P], R],
) -> Callable[Concatenate[Face[Engine], P], R]:
    """The same for a method of the engine that waits for nothing."""

    @functools.wraps(method)
    def call(self: Face[Engine], /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._pump.lock:
            return method(self._engine, *args, **kwargs)

    return call
