"""The tasks that users are rewarded for, as a table.

A task is completed when as many different items as its target were seen in its period (ever, or one
UTC day). Counting different items, not events, makes progress independent of order and of copies:
the same install reported twice is one app. The reward is credited once for a user, task and period.
"""

from __future__ import annotations

from dataclasses import dataclass

HOUR_OF_EVENT = "hour"
"""An item that is no field of the event: the UTC hour in which it happened."""

EVER = "ever"


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    kind: str
    item: str
    target: int
    daily: bool
    reward_cents: int
    documentation: str


TASKS: tuple[Task, ...] = (
    Task("verified-phone", "verification", "phone", 1, False, 50, "verify a phone number"),
    Task("three-apps", "install", "app_id", 3, False, 120, "install 3 different apps"),
    Task("regular", "login", HOUR_OF_EVENT, 4, True, 25, "log in in 4 hours of a day"),
    Task("swiper", "swipe", "event_id", 20, True, 10, "swipe 20 times in a day"),
    Task("two-friends", "invitation", "invitee_id", 2, False, 200, "invite 2 friends"),
)
