"""The events of the rewards app: one kind, one topic, one JSON schema.

People swipe left or right on ads on their lock screen, see ads, install apps, log in, verify
messages, earn credits and invite friends. What a kind of event must look like is said once, in the
table `KINDS` below; everything else is made from it: the JSON schema that producers are given
(`json_schema`), the table in docs/pipeline.md, the typed columns and the reason why an event is
malformed (`parse.py`), and the events of the generator.

A value is one JSON object in UTF-8. Every kind has the fields of `COMMON`. `event_id` is unique for
what happened: a second record with the same id is a copy (a producer tried again) and counts once.
`event_time_ms` is when it happened on the phone; the record's timestamp is when it was sent. The
two differ for a phone that was offline, and all that is said about lateness (see `lateness.py`)
is said about that difference.

Money is an integer number of cents, since a balance must be right to the cent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

STRING = "string"
INTEGER = "integer"

ID_PATTERN = r"^[A-Za-z0-9_.:-]{1,64}$"
PHONE_PATTERN = r"^\+[1-9][0-9]{6,14}$"
EARLIEST_EVENT_TIME_MS = 1_577_836_800_000  # 2020-01-01; before it the app did not exist


@dataclass(frozen=True, slots=True)
class Field:
    """One member of the JSON object; always required."""

    name: str
    type: str
    documentation: str
    pattern: str | None = None
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    topic: str
    documentation: str
    fields: tuple[Field, ...]

    @property
    def all_fields(self) -> tuple[Field, ...]:
        return COMMON + self.fields


def _id(name: str, documentation: str) -> Field:
    return Field(name, STRING, documentation, pattern=ID_PATTERN)


EVENT_ID = _id("event_id", "unique for what happened; a copy has the same")
USER_ID = _id("user_id", "the account; the record's key")
EVENT_TIME = Field(
    "event_time_ms",
    INTEGER,
    "when it happened, milliseconds since 1970 UTC",
    minimum=EARLIEST_EVENT_TIME_MS,
)
COMMON = (EVENT_ID, USER_ID, EVENT_TIME)

DEVICE_ID = _id("device_id", "the phone")
ADDRESS = Field("address", STRING, "the network address of the phone", pattern=r"^[0-9a-fA-F.:]+$")
PHONE = Field("phone", STRING, "the phone number, as in E.164", pattern=PHONE_PATTERN)
AD_ID = _id("ad_id", "the ad")

KINDS: tuple[Kind, ...] = (
    Kind(
        "signup",
        "signups",
        "an account is made",
        (DEVICE_ID, ADDRESS, PHONE),
    ),
    Kind("login", "logins", "an account logs in on a device", (DEVICE_ID, ADDRESS)),
    Kind(
        "impression",
        "ad-impressions",
        "an ad was on the screen",
        (
            DEVICE_ID,
            AD_ID,
            Field("duration_ms", INTEGER, "for how long", minimum=0, maximum=86_400_000),
        ),
    ),
    Kind(
        "swipe",
        "swipes",
        "an ad on the lock screen was swiped",
        (
            DEVICE_ID,
            AD_ID,
            Field("direction", STRING, "left is no, right is yes", choices=("left", "right")),
        ),
    ),
    Kind(
        "install",
        "installs",
        "an advertised app was installed",
        (DEVICE_ID, _id("app_id", "the app")),
    ),
    Kind(
        "verification",
        "verifications",
        "a message to a phone number was verified",
        (DEVICE_ID, PHONE),
    ),
    Kind(
        "credit",
        "credits",
        "credits were earned or paid out",
        (
            Field(
                "amount_cents",
                INTEGER,
                "positive when earned, negative when paid out",
                minimum=-100_000_000,
                maximum=100_000_000,
            ),
            Field(
                "source",
                STRING,
                "what for",
                choices=("swipe", "impression", "install", "invitation", "payout"),
            ),
        ),
    ),
    Kind(
        "invitation",
        "invitations",
        "an invited friend has made an account; user_id is who invited",
        (
            _id("invitee_id", "the new account"),
            Field("device_id", STRING, "the phone of the new account", pattern=ID_PATTERN),
            Field(
                "address",
                STRING,
                "the network address of the new account",
                pattern=r"^[0-9a-fA-F.:]+$",
            ),
        ),
    ),
)

BY_NAME = {kind.name: kind for kind in KINDS}
BY_TOPIC = {kind.topic: kind for kind in KINDS}
TOPICS = tuple(kind.topic for kind in KINDS)

PHONE_PREFIXES = "phone-prefixes"
"""The reference table: a compacted topic, key `+4930`, value `{"country": ..., "region": ...}`."""

DEAD_LETTERS = "dead-letters"
SWITCHING_ALERTS = "account-switching-alerts"
FRAUD_VERDICTS = "invite-fraud-verdicts"
USER_REGIONS = "user-regions"


def fields_by_name() -> dict[str, Field]:
    """Every field of every kind; a name has one type in all kinds."""
    found: dict[str, Field] = {}
    for kind in KINDS:
        for field in kind.all_fields:
            other = found.setdefault(field.name, field)
            assert other.type == field.type, f"{field.name} has two types"
    return found


def json_schema(kind: Kind) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a kind, for whoever produces or checks events."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": kind.name,
        "description": kind.documentation,
        "type": "object",
        "properties": {field.name: _property(field) for field in kind.all_fields},
        "required": [field.name for field in kind.all_fields],
    }


def _property(field: Field) -> dict[str, Any]:
    found: dict[str, Any] = {"type": field.type, "description": field.documentation}
    if field.pattern is not None:
        found["pattern"] = field.pattern
    if field.choices:
        found["enum"] = list(field.choices)
    if field.minimum is not None:
        found["minimum"] = field.minimum
    if field.maximum is not None:
        found["maximum"] = field.maximum
    return found


def markdown_table() -> str:
    """The kinds as the table of docs/pipeline.md (a test holds the two together)."""
    lines = [
        "| kind | topic | what happened | fields beside the common ones |",
        "| --- | --- | --- | --- |",
    ]
    for kind in KINDS:
        fields = ", ".join(_in_words(field) for field in kind.fields)
        lines.append(f"| {kind.name} | `{kind.topic}` | {kind.documentation} | {fields} |")
    return "\n".join(lines)


def _in_words(field: Field) -> str:
    if field.choices:
        return f"`{field.name}` (one of {', '.join(field.choices)})"
    return f"`{field.name}` ({field.type})"
