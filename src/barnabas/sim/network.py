"""A network of byte streams between hosts, slow and unreliable as asked.

TCP never loses, doubles or reorders within one connection, so neither does this: what is lost is sent
again and comes late, and what stays lost ends in a reset. Messages are lost, doubled and reordered
across connections, by peers that connect again and repeat themselves.

A link is one direction between two hosts. While it is blocked nothing passes; what is on its way waits
and passes when the link is free again. A host whose process was killed answers with resets; one that
lost its power says nothing until it is back, and then knows nothing of its old connections.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

from barnabas.sim.loop import VirtualLoop
from barnabas.sim.scheduler import Scheduler
from barnabas.sim.stream import Listener, VirtualStream, Wire
from barnabas.sim.trace import Trace

CONNECT_TIMEOUT_NS = 20_000_000_000
FIRST_EPHEMERAL_PORT = 32_768
RETRANSMISSION_NS = 200_000_000

USUAL_DELAY_NS = 600_000
LEAST_DELAY_NS = 50_000


class Link:
    """One direction between two hosts."""

    __slots__ = ("blocked", "loss", "slowness")

    def __init__(self) -> None:
        self.blocked = False
        self.slowness = 1
        self.loss = 0.0


class Host:
    """A machine's place in the network. `boot` counts its starts."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.up = True
        self.boot = 0
        self.listeners: dict[int, Listener] = {}
        self.streams: dict[int, VirtualStream] = {}
        self.next_port = FIRST_EPHEMERAL_PORT


class VirtualNetwork:
    def __init__(
        self, scheduler: Scheduler, loop: VirtualLoop, rng: random.Random, trace: Trace
    ) -> None:
        """`loop` is the network's own: it outlives every process."""
        self.scheduler = scheduler
        self.loop = loop
        self.trace = trace
        self._rng = rng
        self._hosts: dict[str, Host] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._waiting: dict[tuple[str, str], list[Callable[[], object]]] = {}
        self._streams = 0

    def host(self, name: str) -> Host:
        found = self._hosts.get(name)
        if found is None:
            found = self._hosts[name] = Host(name)
        return found

    def knows(self, name: str) -> bool:
        return name in self._hosts

    def link(self, source: str, target: str) -> Link:
        found = self._links.get((source, target))
        if found is None:
            found = self._links[source, target] = Link()
        return found

    def next_stream(self) -> int:
        self._streams += 1
        return self._streams

    # ---- faults

    def block(self, source: str, target: str) -> None:
        self.link(source, target).blocked = True

    def unblock(self, source: str, target: str) -> None:
        self.link(source, target).blocked = False
        for passing in self._waiting.pop((source, target), []):
            self.loop.after_ns(self.delay_ns(source, target), passing)

    def heal(self) -> None:
        """Every link is as new."""
        for (source, target), link in self._links.items():
            link.slowness = 1
            link.loss = 0.0
            if link.blocked:
                self.unblock(source, target)

    def connections(self) -> list[VirtualStream]:
        """The connecting side of every connection between hosts, oldest first."""
        found = [
            stream
            for host in self._hosts.values()
            for stream in host.streams.values()
            if stream.wire.connecting is stream
        ]
        return sorted(found, key=lambda stream: stream.wire.number)

    def kill(self, name: str) -> None:
        """The processes of a host are gone; its system ends their connections."""
        host = self.host(name)
        for stream in list(host.streams.values()):
            stream.abort()
        self._forget(host)

    def cut_power(self, name: str) -> None:
        host = self.host(name)
        for stream in host.streams.values():
            stream.vanish()
        self._forget(host)
        host.up = False

    def start(self, name: str) -> None:
        host = self.host(name)
        host.up = True
        host.boot += 1
        for key in [key for key in self._waiting if key[1] == name]:
            if not self.link(*key).blocked:
                for passing in self._waiting.pop(key):
                    self.loop.after_ns(self.delay_ns(*key), passing)

    def _forget(self, host: Host) -> None:
        host.streams.clear()
        host.listeners.clear()

    # ---- what streams ask

    def delay_ns(self, source: str, target: str) -> int:
        if source == target:
            return self._rng.randrange(LEAST_DELAY_NS)
        rng = self._rng
        link = self.link(source, target)
        delay_ns = LEAST_DELAY_NS + rng.randrange(USUAL_DELAY_NS) * link.slowness
        while link.loss and rng.random() < link.loss:
            delay_ns += RETRANSMISSION_NS
        return delay_ns

    def is_cut_somewhere(self, length: int) -> int:
        """Where a segment of `length` bytes is torn in two; 0: nowhere."""
        return self._rng.randrange(1, length) if length > 1 and self._rng.random() < 0.03 else 0

    def passes(self, source: str, target: str, passing: Callable[[], object]) -> bool:
        """False if nothing passes now; `passing` is then called when something does."""
        link = self._links.get((source, target))
        if (link is not None and link.blocked) or not self.host(target).up:
            self._waiting.setdefault((source, target), []).append(passing)
            return False
        return True

    # ---- connecting

    def connect(
        self,
        loop: VirtualLoop,
        source: str,
        target: str,
        port: int,
        done: Callable[[VirtualStream | None, OSError | None], object],
    ) -> None:
        if not self.knows(target):
            raise OSError(errno.ENOENT, f"{target} has no address")
        origin = self.host(source)
        boot = origin.boot
        origin.next_port += 1
        own_port = origin.next_port
        finished = False

        def finish(stream: VirtualStream | None, error: OSError | None) -> None:
            nonlocal finished
            if not finished:
                finished = True
                done(stream, error)
            elif stream is not None:
                stream.abort()

        def arrive() -> None:
            if not self.passes(source, target, arrive):
                return
            listener = self.host(target).listeners.get(port)
            if listener is None or not listener.has_room():
                self._back(loop, target, source, lambda: finish(None, _refused(target, port)))
                return
            wire = Wire(self, self.next_stream(), (source, own_port), (target, port))
            wire.open(loop, listener.loop)
            self.host(target).streams[wire.number] = wire.accepting
            listener.offer(wire.accepting)
            self._back(loop, target, source, lambda: established(wire))

        def established(wire: Wire) -> None:
            if finished or not loop.alive or origin.boot != boot:
                wire.connecting.abort()
                return
            origin.streams[wire.number] = wire.connecting
            finish(wire.connecting, None)

        self.loop.after_ns(self.delay_ns(source, target), arrive)
        loop.after_ns(CONNECT_TIMEOUT_NS, finish, None, _timed_out(target, port))

    def _back(
        self, loop: VirtualLoop, source: str, target: str, callback: Callable[[], object]
    ) -> None:
        def arrive() -> None:
            if self.passes(source, target, arrive):
                callback()

        self.loop.after_ns(self.delay_ns(source, target), arrive)


def _refused(host: str, port: int) -> OSError:
    return ConnectionRefusedError(errno.ECONNREFUSED, f"{host}:{port} refused the connection")


def _timed_out(host: str, port: int) -> OSError:
    return TimeoutError(errno.ETIMEDOUT, f"{host}:{port} did not answer")
