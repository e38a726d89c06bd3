"""Hosts on this machine: network namespaces on one bridge, and cuts between any two of them.

    hosts = Hosts(3); hosts.address(1); hosts.command(1)   # what to put before a command
    hosts.cut(1, 2)          # nothing from 1 reaches 2; the other way still works
    hosts.heal()
    hosts.close()

A one-way cut is a wrong hardware address: the sender keeps sending and nobody takes it, so both
ends see silence, as with a broken switch, and never an error. The machine itself, where clients
run, is host 0. `missing()` tells why a machine does not allow any of this.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable

NOBODY = "02:00:00:00:00:fe"


def _ip(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=check)


def missing() -> str | None:
    """Why network namespaces cannot be used here, or None when they can."""
    if shutil.which("ip") is None:
        return "network namespaces need the ip command (iproute2)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        Hosts(1).close()
    except (subprocess.CalledProcessError, OSError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        return f"this machine allows no network namespaces: {reason.strip()}"
    return None


class Hosts:
    """Namespaces 1 to `count`, each with one address; host 0 is this machine."""

    def __init__(self, count: int) -> None:
        # Addresses for tests of networks (RFC 2544), a net of their own for each process.
        self._net = f"198.{18 + os.getpid() % 2}.{os.getpid() // 2 % 256}"
        self._name = f"bn{os.getpid() % 100_000}"
        self._ids = range(1, count + 1)
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        bridge = self._name
        _ip("link", "add", bridge, "type", "bridge")
        _ip("address", "add", f"{self.address(0)}/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for host in self._ids:
            space, end = self._space(host), f"{bridge}v{host}"
            _ip("netns", "add", space)
            _ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", end, "master", bridge, "up")
            _ip("-n", space, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", space, "link", "set", device, "up")

    def _space(self, host: int) -> str:
        return f"{self._name}-{host}"

    def address(self, host: int) -> str:
        return f"{self._net}.{host or 254}"

    def command(self, host: int) -> list[str]:
        """What runs a command on that host; the process keeps its id."""
        return ["ip", "netns", "exec", self._space(host)]

    def cut(self, sender: int, receiver: int) -> None:
        """Nothing that `sender` sends reaches `receiver`."""
        self._neighbour(sender, "replace", receiver, "lladdr", NOBODY, "nud", "permanent")

    def separate(self, some: Iterable[int], others: Iterable[int]) -> None:
        """Nothing passes between the two sides, in either direction."""
        others = list(others)
        for one in some:
            for other in others:
                self.cut(one, other)
                self.cut(other, one)

    def heal(self) -> None:
        hosts = (0, *self._ids)
        for sender in hosts:
            for receiver in hosts:
                if sender != receiver:
                    self._neighbour(sender, "del", receiver, check=False)

    def _neighbour(self, host: int, verb: str, other: int, *more: str, check: bool = True) -> None:
        space = ("-n", self._space(host)) if host else ()
        device = "eth0" if host else self._name
        _ip(*space, "neigh", verb, self.address(other), *more, "dev", device, check=check)

    def close(self) -> None:
        for host in self._ids:
            _ip("netns", "del", self._space(host), check=False)
            _ip("link", "del", f"{self._name}v{host}", check=False)
        _ip("link", "del", self._name, check=False)
