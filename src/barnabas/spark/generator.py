"""Traffic of the rewards app: reproducible from a seed, with known cheaters and known trouble in it.

`Traffic(settings).records()` yields records in the order in which brokers would get them, with the
timestamps they would carry; nothing in here reads a clock. Ordinary people sign up in the course of
it, act by weights, and act more the longer they are there: `skew` 0 spreads events evenly over them,
1 and more gives most events to few. Some live together (a phone or an address shared by a few), some
work together (an address shared by dozens). `cheaters.py` plans who cheats.

Trouble, all of it counted in the truth: phones that were offline send late (most within the allowed
lateness, a few not), producers send copies, and some records are malformed in one of several ways.
A record's timestamp is when it is sent; the events of the future wait in a heap that holds what is
late and what is planned, so its size is bounded by the plans and the longest delay.

The truth (`Traffic.truth`) is complete when the records were all taken.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from barnabas.spark import cheaters
from barnabas.spark.cheaters import Plan, Planned
from barnabas.spark.events import BY_NAME, PHONE_PREFIXES
from barnabas.spark.lateness import ALLOWED_LATENESS_MS
from barnabas.spark.phone_prefixes import CORRECTIONS, FIRST_EDITION, LEAVES
from barnabas.spark.truth import Truth

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

SHARE_LATE = 0.01
SHARE_TOO_LATE = 0.0005
SHARE_COPIES = 0.005
SHARE_MALFORMED = 0.002
SHARE_INVITED = 0.3
PEOPLE_AT_START = 20

ACTIONS = {
    "impression": 42,
    "swipe": 36,
    "login": 9,
    "install": 4,
    "verification": 1,
    "payout": 1,
}


class Record(NamedTuple):
    topic: str
    key: bytes
    value: bytes | None
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Settings:
    """`count` records, of which `rate` are sent in a second of the traffic's own time."""

    seed: int = 0
    count: int = 10_000
    rate: float = 2.0
    skew: float = 0.7
    cheaters: int = 3
    start_ms: int = 1_767_225_600_000  # 2026-01-01

    @property
    def span_ms(self) -> int:
        return int(self.count / self.rate * 1000)


class Person(NamedTuple):
    user_id: str
    device_id: str
    address: str
    phone: str


class _Sent(NamedTuple):
    """What is in the heap: ordered by time of sending, then by a running number."""

    at_ms: int
    number: int
    record: Record
    kind: str
    event: dict[str, Any] | None
    plan: Plan | None


class Traffic:
    def __init__(self, settings: Settings) -> None:
        if settings.count < 1 or settings.rate <= 0 or settings.skew < 0 or settings.cheaters < 0:
            raise ValueError("count and rate must be above 0, skew and cheaters not below 0")
        self.settings = settings
        self.truth = Truth()
        self._random = Random(f"{settings.seed}-traffic")
        self._people: list[Person] = []
        self._population = max(PEOPLE_AT_START, settings.count // 60)
        self._balances: dict[str, int] = {}
        self._heap: list[_Sent] = []
        self._number = 0
        self._events = 0

    def records(self) -> Iterator[Record]:
        """Exactly `count` records."""
        settings = self.settings
        self._publish_reference()
        planned = self._plans()
        position = 0
        now_ms = float(settings.start_ms)
        for _ in range(PEOPLE_AT_START):
            self._sign_up(settings.start_ms)
        emitted = 0
        while emitted < settings.count:
            now_ms += self._random.expovariate(settings.rate) * 1000
            while position < len(planned) and planned[position].at_ms <= now_ms:
                self._happen(planned[position])
                position += 1
            self._act(int(now_ms))
            while self._heap and self._heap[0].at_ms <= now_ms and emitted < settings.count:
                yield self._emit(heapq.heappop(self._heap))
                emitted += 1

    # What people do

    def _act(self, now_ms: int) -> None:
        random = self._random
        grown = (now_ms - self.settings.start_ms) / (0.8 * self.settings.span_ms)
        if len(self._people) < self._population * min(1.0, grown):
            self._sign_up(now_ms)
            return
        # Those who came first act most.
        rank = int(len(self._people) * random.random() ** (1 + self.settings.skew))
        person = self._people[rank]
        action = random.choices(*_WEIGHTED)[0]
        if action == "payout":
            self._pay_out(person, now_ms)
            return
        self._happen(Planned(now_ms, action, self._fields(action, person)))
        cents = self._earned(action)
        if cents:
            self._balances[person.user_id] = self._balances.get(person.user_id, 0) + cents
            fields = {"user_id": person.user_id, "amount_cents": cents, "source": action}
            self._happen(Planned(now_ms + 50, "credit", fields))

    def _fields(self, action: str, person: Person) -> dict[str, Any]:
        random = self._random
        found: dict[str, Any] = {"user_id": person.user_id, "device_id": person.device_id}
        if action == "login":
            found["address"] = person.address
        elif action == "verification":
            found["phone"] = person.phone
        elif action == "install":
            found["app_id"] = f"app{int(40 * random.random() ** 2)}"
        elif action == "impression":
            found["ad_id"] = f"a{random.randrange(500)}"
            found["duration_ms"] = int(random.expovariate(1 / 3000))
        else:
            found["ad_id"] = f"a{random.randrange(500)}"
            found["direction"] = "left" if random.random() < 0.7 else "right"
        return found

    def _earned(self, action: str) -> int:
        if action == "install":
            return self._random.randint(20, 90)
        if action in ("swipe", "impression") and self._random.random() < 0.1:
            return self._random.randint(1, 9)
        return 0

    def _pay_out(self, person: Person, now_ms: int) -> None:
        have = self._balances.get(person.user_id, 0)
        if have < 50:
            return
        cents = self._random.randint(50, have)
        self._balances[person.user_id] = have - cents
        fields = {"user_id": person.user_id, "amount_cents": -cents, "source": "payout"}
        self._happen(Planned(now_ms, "credit", fields))

    def _sign_up(self, now_ms: int) -> None:
        random, number = self._random, len(self._people)
        device, address = f"d{number}", f"10.1.{number >> 8 & 255}.{number & 255}"
        if number % 10 == 9 and random.random() < 0.8:  # a family: a third account at most
            other = self._people[number - random.randint(1, 2)]
            device, address = other.device_id, other.address
        elif number % 7 == 3:  # an office: one address for many
            address = f"192.168.{number % 5}.1"
        phone = f"{random.choice(LEAVES)}{random.randrange(10**6, 10**7)}"
        person = Person(f"u{number}", device, address, phone)
        fields = {
            "user_id": person.user_id,
            "device_id": device,
            "address": address,
            "phone": phone,
        }
        self._happen(Planned(now_ms, "signup", fields))
        if self._people and random.random() < SHARE_INVITED:
            inviter = random.choice(self._people)
            invitation = {
                "user_id": inviter.user_id,
                "invitee_id": person.user_id,
                "device_id": device,
                "address": address,
            }
            self._happen(Planned(now_ms + 500, "invitation", invitation))
            self._balances[inviter.user_id] = self._balances.get(inviter.user_id, 0) + 100
            reward = {"user_id": inviter.user_id, "amount_cents": 100, "source": "invitation"}
            self._happen(Planned(now_ms + 900, "credit", reward))
        self._people.append(person)

    # Who cheats, and the reference table

    def _plans(self) -> list[Planned]:
        settings = self.settings
        random = Random(f"{settings.seed}-cheaters")
        start_ms = settings.start_ms + settings.span_ms // 20
        span_ms = int(settings.span_ms * 0.7)
        found: list[Planned] = []
        for n in range(settings.cheaters):
            for make, name in ((cheaters.farm, "farm"), (cheaters.ring, "ring")):
                plan = make(random, f"{name}{n}", start_ms, span_ms, random.choice(LEAVES))
                found.extend(plan.events)
            for look_alike, name in (
                (cheaters.shop_phone, "shop"),
                (cheaters.influencer, "star"),
            ):
                found.extend(
                    look_alike(random, f"{name}{n}", start_ms, span_ms, random.choice(LEAVES))
                )
        found.sort(key=lambda planned: planned.at_ms)
        return found

    def _publish_reference(self) -> None:
        settings = self.settings
        for prefix, entry in FIRST_EDITION.items():
            self._publish(prefix, entry, settings.start_ms - 1)
        for n, (prefix, corrected) in enumerate(CORRECTIONS):
            at_ms = settings.start_ms + settings.span_ms * (n + 3) // 12
            self._publish(prefix, corrected, at_ms)

    def _publish(self, prefix: str, entry: tuple[str, str] | None, at_ms: int) -> None:
        value = None
        if entry is not None:
            value = _json({"country": entry[0], "region": entry[1]})
        record = Record(PHONE_PREFIXES, prefix.encode(), value, at_ms)
        event = {"prefix": prefix, "region": None if entry is None else entry[1]}
        self._push(record, PHONE_PREFIXES, event, None)

    # From what happens to what is sent

    def _happen(self, planned: Planned) -> None:
        random = self._random
        self._events += 1
        event = {
            "event_id": f"e{self.settings.seed}-{self._events}",
            "event_time_ms": planned.at_ms,
            **planned.fields,
        }
        delay_ms = 50 + int(random.expovariate(1 / 400))
        chance = random.random()
        if planned.plan is None and chance < SHARE_TOO_LATE:
            delay_ms = random.randint(2 * HOUR_MS, 5 * HOUR_MS)
        elif chance < SHARE_LATE:
            delay_ms = random.randint(MINUTE_MS, 45 * MINUTE_MS)
        sent_ms = planned.at_ms + delay_ms
        key = event["user_id"].encode()
        record = Record(BY_NAME[planned.kind].topic, key, _json(event), sent_ms)
        self._push(record, planned.kind, event, planned.plan)
        if random.random() < SHARE_COPIES:
            copied_ms = sent_ms + random.randint(100, 10 * MINUTE_MS)
            self._push(record._replace(timestamp_ms=copied_ms), "copy", None, None)
        if random.random() < SHARE_MALFORMED:
            broken = _broken(random, {**event, "event_id": f"x{self._events}"})
            self._push(record._replace(value=broken), "malformed", None, None)

    def _push(
        self, record: Record, kind: str, event: dict[str, Any] | None, plan: Plan | None
    ) -> None:
        self._number += 1
        sent = _Sent(record.timestamp_ms, self._number, record, kind, event, plan)
        heapq.heappush(self._heap, sent)

    def _emit(self, sent: _Sent) -> Record:
        truth, record = self.truth, sent.record
        truth.records[record.topic] += 1
        if sent.kind == PHONE_PREFIXES:
            assert sent.event is not None
            truth.observe_reference(sent.event["prefix"], sent.event["region"], record.timestamp_ms)
        elif sent.kind == "copy":
            truth.copies += 1
        elif sent.kind == "malformed":
            truth.malformed += 1
        else:
            assert sent.event is not None
            delay_ms = record.timestamp_ms - sent.event["event_time_ms"]
            truth.observe(sent.kind, sent.event, delay_ms > ALLOWED_LATENESS_MS)
        if sent.plan is not None:
            self._fulfil(sent.plan)
        return record

    def _fulfil(self, plan: Plan) -> None:
        plan.open -= 1
        if plan.open:
            return
        if plan.device_id is not None:
            self.truth.switching_devices.add(plan.device_id)
        else:
            self.truth.rings.append(plan.members)


_WEIGHTED = (list(ACTIONS), list(ACTIONS.values()))


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _broken(random: Random, event: dict[str, Any]) -> bytes:
    """An event that no parser should take, in one of the ways seen in the wild."""
    way = random.randrange(5)
    if way == 0:
        return _json(event)[: random.randint(1, 40)]
    if way == 1:
        del event["user_id"]
        return _json(event)
    if way == 2:
        event["event_time_ms"] = "yesterday"
        return _json(event)
    if way == 3:
        return b"\xff\xfe" + _json(event)
    event["event_id"] = "not an id !"
    return _json(event)
