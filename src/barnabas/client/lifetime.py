"""A client that nobody closed, and a client in a process that was forked.

A client that is garbage still has sockets, and some have a thread and records that were accepted or a
place in a group. So it is closed properly when it is collected, and a ResourceWarning says that its
user should have done that. Garbage is collected anywhere, also while locks are held; therefore a plain
client is closed by a thread of its own, for which the end of the program waits a moment.

The engine of a client must not refer to its face, or the face never becomes garbage.

A forked process shares the sockets of its parent: whatever it sends or reads on them, also a farewell,
ruins the parent's connections. In the child every plain client is therefore closed without a word; using
it is an error that says so. Clients for asyncio need no care, because the parent's loop does not run
there.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from barnabas.client.errors import ClientError

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.looping import AsyncioReactor
    from barnabas.client.pump import Pump

logger = logging.getLogger(__name__)

EXIT_WAIT_S: Final = 5.0

Close = Callable[[], Coroutine[Any, Any, object]]

_alive: weakref.WeakSet[Pump] = weakref.WeakSet()
_closing: set[threading.Thread] = set()


def look_after(face: object, pump: Pump, cluster: Cluster, close: Close) -> None:
    """Have a plain client closed by `close`, run by its pump, when its face is garbage."""
    pump.on_fork = cluster.abandon
    _alive.add(pump)
    weakref.finalize(face, _collected, type(face).__name__, pump, close).atexit = False


def look_after_on_loop(
    face: object, reactor: AsyncioReactor, cluster: Cluster, close: Close
) -> None:
    """The same for a client on a loop."""
    name = type(face).__name__
    weakref.finalize(face, _collected_on_loop, name, reactor, cluster, close).atexit = False


def warn_unclosed(client: object, cluster: Cluster | None) -> None:
    """For the finalizer of a client that is its own engine, and so is garbage only with its loop."""
    if cluster is not None and not cluster.closed and cluster.has_connections:
        _warn(type(client).__name__)


def _warn(name: str) -> None:
    close = "await its close()" if name.startswith("Async") else "call its close()"
    warnings.warn(
        f"A {name} was not closed. Use it in a with block, or {close}.",
        ResourceWarning,
        stacklevel=2,
    )


def _collected(name: str, pump: Pump, close: Close) -> None:
    if pump.closed:
        return
    thread = threading.Thread(
        target=_close, args=(pump, close), name="barnabas-closing", daemon=True
    )
    _closing.add(thread)
    try:
        thread.start()
    except RuntimeError:  # the interpreter is ending
        _closing.discard(thread)
    _warn(name)


def _close(pump: Pump, close: Close) -> None:
    try:
        pump.run(close())
    except ClientError as error:
        logger.debug("A client that was collected could not be closed in good order: %s", error)
    finally:
        pump.close()
        _closing.discard(threading.current_thread())


def _collected_on_loop(name: str, reactor: AsyncioReactor, cluster: Cluster, close: Close) -> None:
    if cluster.closed:
        return
    with suppress(RuntimeError):  # the loop is closed
        reactor.loop.call_soon_threadsafe(lambda: reactor.spawn(close()))
    if cluster.has_connections:
        _warn(name)


@atexit.register
def _wait_for_closing() -> None:
    deadline = time.monotonic() + EXIT_WAIT_S
    for thread in list(_closing):
        thread.join(max(deadline - time.monotonic(), 0.0))


def _forked() -> None:
    _closing.clear()
    for pump in list(_alive):
        pump.forked()


os.register_at_fork(after_in_child=_forked)
