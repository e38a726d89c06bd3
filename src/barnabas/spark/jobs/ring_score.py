"""How much a cluster of invitations looks like one person with many accounts.

A cluster is what came from one phone, or from one network address, within a day: edges from who
invited to who was invited. Four things are measured, each between 0 and 1, and weighed:

- `sharing`: the new accounts are on few phones (from an address), or came from few addresses (from
  a phone, where they all share the phone already). Colleagues share an address, but each has a phone.
- `size`: how many new accounts, counted up to 8.
- `burst`: the most that came within one hour, counted up to 6.
- `depth`: the longest chain of invitations inside the cluster, counted up to 3. Friends of one person
  are one level; accounts that may invite only a few each are stacked.

The score is the weighted sum; `verdict` is what follows from it. Everything is a function of the set
of edges: order and copies do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

MIN_INVITEES = 3
FRAUD = 0.6
SUSPICIOUS = 0.45
WEIGHTS = {"sharing": 0.4, "size": 0.2, "burst": 0.2, "depth": 0.2}
BURST_MS = 60 * 60 * 1000
MAX_DEPTH = 64


class Edge(NamedTuple):
    at_ms: int
    inviter: str
    invitee: str
    device_id: str
    address: str


class RingScore(NamedTuple):
    score: float
    verdict: str
    invitees: int
    devices: int
    addresses: int
    burst: int
    depth: int


def score(edges: Iterable[Edge]) -> RingScore:
    first: dict[str, Edge] = {}
    for edge in sorted(set(edges)):
        first.setdefault(edge.invitee, edge)
    found = list(first.values())
    invitees = len(found)
    devices = len({edge.device_id for edge in found})
    addresses = len({edge.address for edge in found})
    burst = _burst(sorted(edge.at_ms for edge in found))
    depth = _depth({edge.invitee: edge.inviter for edge in found})
    measures = {
        "sharing": 1 - devices / invitees if invitees else 0.0,
        "size": _scaled(invitees, 2, 8),
        "burst": _scaled(burst, 2, 6),
        "depth": _scaled(depth, 1, 3),
    }
    total = round(sum(WEIGHTS[name] * value for name, value in measures.items()), 4)
    if invitees < MIN_INVITEES:
        total = 0.0
    verdict = "fraud" if total >= FRAUD else "suspicious" if total >= SUSPICIOUS else "honest"
    return RingScore(total, verdict, invitees, devices, addresses, burst, depth)


def _scaled(value: int, low: int, high: int) -> float:
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _burst(times_ms: list[int]) -> int:
    """The most that lie within an hour."""
    most = begin = 0
    for end, at_ms in enumerate(times_ms):
        while at_ms - times_ms[begin] > BURST_MS:
            begin += 1
        most = max(most, end - begin + 1)
    return most


def _depth(inviter_of: dict[str, str]) -> int:
    """The length of the longest chain; a cycle, which only forged events can make, ends it."""
    depths: dict[str, int] = {}
    for start in inviter_of:
        chain: list[str] = []
        account = start
        while account in inviter_of and account not in depths and len(chain) < MAX_DEPTH:
            if account in chain:
                break
            chain.append(account)
            account = inviter_of[account]
        reached = depths.get(account, 0)
        for member in reversed(chain):
            reached = min(MAX_DEPTH, reached + 1)
            depths[member] = reached
    return max(depths.values(), default=0)
