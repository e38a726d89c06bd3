"""Those who cheat, as plans of events made before the traffic starts.

- A *farm* is a phone on which many accounts are run. In sessions of 10 to 40 minutes its keeper
  logs into each of them in turn, swipes a little and moves on.
- A *ring* is a tree of invitations among accounts of one person: few phones, one or two network
  addresses, all within a couple of hours, and several levels deep, since each account may invite
  only a few.

Beside them stand honest look-alikes that a good detector must leave alone: a *shop phone* that
several customers use in the course of a day but few in one hour, and an *influencer* who brings many
friends in an hour, each on a phone and an address of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

FARM_ACCOUNTS = (8, 20)
RING_ACCOUNTS = (8, 14)


@dataclass(slots=True)
class Planned:
    """One event that will happen at `at_ms`."""

    at_ms: int
    kind: str
    fields: dict[str, Any]
    plan: Plan | None = None


@dataclass(slots=True, eq=False)
class Plan:
    """Who cheats how; it counts as done when all of its events were emitted."""

    device_id: str | None = None
    members: list[str] = field(default_factory=list)
    events: list[Planned] = field(default_factory=list)
    open: int = 0

    def add(self, at_ms: int, kind: str, **fields: Any) -> None:
        self.events.append(Planned(at_ms, kind, fields, self))
        self.open += 1


def farm(random: Random, name: str, start_ms: int, span_ms: int, phone: str) -> Plan:
    """A phone with many accounts, in use between `start_ms` and `start_ms + span_ms`."""
    device, address = f"d-{name}", _address(random)
    plan = Plan(device_id=device)
    accounts = [f"u-{name}-{n}" for n in range(random.randint(*FARM_ACCOUNTS))]
    plan.members = accounts
    signups_ms = span_ms // 3
    for account in accounts:
        at_ms = start_ms + random.randrange(max(signups_ms, 1))
        number = f"{phone}{random.randrange(10**6, 10**7)}"
        plan.add(at_ms, "signup", user_id=account, device_id=device, address=address, phone=number)
    for _ in range(random.randint(1, 3)):
        length_ms = min(random.randint(10, 40) * MINUTE_MS, span_ms // 3)
        begin_ms = start_ms + signups_ms + random.randrange(max(1, span_ms // 3))
        for n, account in enumerate(random.sample(accounts, len(accounts))):
            at_ms = begin_ms + n * length_ms // len(accounts)
            plan.add(at_ms, "login", user_id=account, device_id=device, address=address)
            for _ in range(random.randint(0, 3)):
                at_ms += random.randint(500, 5000)
                plan.add(
                    at_ms, "swipe", user_id=account, device_id=device,
                    ad_id=f"a{random.randrange(500)}", direction="right",
                )  # fmt: skip
            cents = random.randint(1, 15)
            plan.add(at_ms, "credit", user_id=account, amount_cents=cents, source="swipe")
    return plan


def ring(random: Random, name: str, start_ms: int, span_ms: int, phone: str) -> Plan:
    """A tree of invitations among accounts of one person."""
    members = [f"u-{name}-{n}" for n in range(random.randint(*RING_ACCOUNTS))]
    devices = [f"d-{name}-{n}" for n in range(random.randint(1, 3))]
    addresses = [_address(random) for _ in range(random.randint(1, 2))]
    plan = Plan(members=members)
    burst_ms = min(random.randint(20, 110) * MINUTE_MS, span_ms)
    begin_ms = start_ms + random.randrange(max(1, span_ms - burst_ms))
    for n, member in enumerate(members):
        at_ms = begin_ms + n * burst_ms // len(members) + random.randrange(5_000)
        device, address = random.choice(devices), random.choice(addresses)
        number = f"{phone}{random.randrange(10**6, 10**7)}"
        plan.add(at_ms, "signup", user_id=member, device_id=device, address=address, phone=number)
        if n:
            inviter = members[max(0, n - random.randint(1, 3))]
            plan.add(
                at_ms + 1000, "invitation", user_id=inviter, invitee_id=member,
                device_id=device, address=address,
            )  # fmt: skip
            plan.add(at_ms + 2000, "credit", user_id=inviter, amount_cents=100, source="invitation")
    return plan


def shop_phone(random: Random, name: str, start_ms: int, span_ms: int, phone: str) -> list[Planned]:
    """Customers try the app on a shop's phone, about one in twenty minutes."""
    device, address = f"d-{name}", _address(random)
    found, at_ms = [], start_ms
    for n in range(12):
        at_ms += random.randint(18, 40) * MINUTE_MS
        if at_ms >= start_ms + span_ms:
            break
        account = f"u-{name}-{n}"
        number = f"{phone}{random.randrange(10**6, 10**7)}"
        who = {"user_id": account, "device_id": device, "address": address}
        found.append(Planned(at_ms, "signup", {**who, "phone": number}))
        found.append(Planned(at_ms + 30_000, "login", who))
    return found


def influencer(random: Random, name: str, start_ms: int, span_ms: int, phone: str) -> list[Planned]:
    """Many friends in an hour, each with a phone and an address of their own."""
    begin_ms = (
        start_ms + random.randrange(max(1, span_ms - HOUR_MS)) if span_ms > HOUR_MS else start_ms
    )
    found = []
    for n in range(random.randint(10, 20)):
        at_ms = begin_ms + random.randrange(min(span_ms, HOUR_MS))
        account, device, address = f"u-{name}-{n}", f"d-{name}-{n}", _address(random)
        number = f"{phone}{random.randrange(10**6, 10**7)}"
        where = {"device_id": device, "address": address}
        found.append(Planned(at_ms, "signup", {"user_id": account, "phone": number, **where}))
        found.append(
            Planned(
                at_ms + 1000, "invitation", {"user_id": f"u-{name}", "invitee_id": account, **where}
            )
        )
    return found


def _address(random: Random) -> str:
    return f"10.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(1, 255)}"
