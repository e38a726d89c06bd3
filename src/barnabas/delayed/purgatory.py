"""Where requests wait that cannot be answered yet.

A :class:`DelayedOperation` waits for a condition (enough bytes to fetch, enough replicas, all
members joined) or for its time to run out. It is watched under any number of keys; whoever changes
what a key stands for calls ``check_and_complete(key)``, and every operation under that key looks at
its condition again.

An operation completes exactly once: by its condition, by its deadline, or because somebody
called ``force_complete()``. At that moment it leaves every watch list and its timer is cancelled,
so no list ever holds a completed operation and nothing has to be purged later. ``on_complete``
runs in all three cases; after a deadline ``on_expiration`` follows it.

Everything runs on one loop; there are no locks. ``on_complete`` may itself watch new operations
or check keys, the same key too.
"""

from collections.abc import Hashable, Iterable

from barnabas.delayed.timer import Timeout, TimingWheel


class DelayedOperation:
    """Subclasses give ``try_complete`` and ``on_complete``, and ``on_expiration`` if they need it.

    ``delay_ms`` is the longest wait; ``None`` waits without a deadline.
    """

    __slots__ = ("_keys", "_purgatory", "_timeout", "completed", "delay_ms")

    def __init__(self, delay_ms: int | None) -> None:
        self.delay_ms = delay_ms
        self.completed = False
        self._timeout: Timeout | None = None
        self._purgatory: Purgatory | None = None
        self._keys: tuple[Hashable, ...] = ()

    def try_complete(self) -> bool:
        """True if the condition holds now; the caller then completes the operation.

        Calling ``force_complete()`` in here and returning its result is allowed as well.
        """
        raise NotImplementedError

    def on_complete(self) -> None:
        """Runs once, whatever completed the operation."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Runs after ``on_complete`` if it was the deadline that completed the operation."""

    def force_complete(self) -> bool:
        """Complete now. False if the operation was completed before."""
        if self.completed:
            return False
        self.completed = True
        timeout = self._timeout
        if timeout is not None:
            timeout.cancel()
            self._timeout = None
        if self._purgatory is not None:
            self._purgatory._forget(self, self._keys)
            self._purgatory = None
            self._keys = ()
        self.on_complete()
        return True

    def _expire(self) -> None:
        purgatory = self._purgatory
        if self.force_complete():
            if purgatory is not None:
                purgatory.expired_total += 1
            self.on_expiration()


class Purgatory:
    """The watch lists for one kind of operation. ``name`` appears in the metrics."""

    __slots__ = ("_operations", "_watchers", "_wheel", "expired_total", "name", "watched")

    def __init__(self, name: str, wheel: TimingWheel) -> None:
        self.name = name
        self.watched = 0
        self.expired_total = 0
        self._wheel = wheel
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._operations: dict[DelayedOperation, None] = {}

    def __len__(self) -> int:
        """How many operations wait. An operation under three keys counts once here and three
        times in ``watched``."""
        return len(self._operations)

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable]
    ) -> bool:
        """True if the operation is complete on return, else it now waits under ``keys``.

        An operation whose delay is 0 or less never waits: it expires here.
        """
        if operation.completed:
            return True
        if operation.try_complete():
            operation.force_complete()
            return True
        delay_ms = operation.delay_ms
        if delay_ms is not None and delay_ms <= 0:
            operation._purgatory = self
            operation._expire()
            return True
        watchers = self._watchers
        keys = tuple(keys)
        if len(keys) > 1:
            keys = tuple(dict.fromkeys(keys))
        operation._keys = keys
        operation._purgatory = self
        self._operations[operation] = None
        for key in keys:
            watching = watchers.get(key)
            if watching is None:
                watchers[key] = {operation: None}
            else:
                watching[operation] = None
        self.watched += len(keys)
        if delay_ms is not None:
            operation._timeout = self._wheel.add(delay_ms, operation._expire)
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Let every operation under ``key`` try again; gives how many completed."""
        watching = self._watchers.get(key)
        if watching is None:
            return 0
        completed = 0
        for operation in tuple(watching):
            if (
                not operation.completed
                and operation.try_complete()
                and (operation.completed or operation.force_complete())
            ):
                completed += 1
        return completed

    def watchers_of(self, key: Hashable) -> tuple[DelayedOperation, ...]:
        """Who waits under ``key``, oldest first."""
        return tuple(self._watchers.get(key, ()))

    def cancel_key(self, key: Hashable) -> tuple[DelayedOperation, ...]:
        """Stop watching ``key``; the operations stay under their other keys and their deadline."""
        watching = self._watchers.pop(key, None)
        if watching is None:
            return ()
        self.watched -= len(watching)
        for operation in watching:
            operation._keys = tuple(other for other in operation._keys if other != key)
        return tuple(watching)

    def force_complete_all(self) -> int:
        """Complete everything that waits, in order of arrival: what a shutdown does."""
        return sum(operation.force_complete() for operation in tuple(self._operations))

    def _forget(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> None:
        if self._operations.pop(operation, self) is self:
            return
        watchers = self._watchers
        for key in keys:
            watching = watchers[key]
            watching.pop(operation, None)
            if not watching:
                del watchers[key]
        self.watched -= len(keys)
