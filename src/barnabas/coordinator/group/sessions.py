"""Whether members are still alive.

Every heartbeat extends a session by some seconds, thousands of times a second on a busy node, so
extending must not touch the timing wheel. A session is a deadline on the member; its timer stays
where it is, and when it fires too early, it is set once more for what is left. Only a deadline
that moves before the timer (a shorter session timeout) makes a new timer necessary at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.coordinator.group.classic_group import ClassicGroup
    from barnabas.coordinator.group.member import Member, Timer

Schedule = Callable[[int, Callable[[], None]], "Timer"]
Expire = Callable[["ClassicGroup", "Member"], None]


class Sessions:
    __slots__ = ("_expire", "_now_ms", "_schedule")

    def __init__(self, schedule: Schedule, now_ms: Callable[[], int], expire: Expire) -> None:
        self._schedule = schedule
        self._now_ms = now_ms
        self._expire = expire

    def extend(self, group: ClassicGroup, member: Member, timeout_ms: int = 0) -> None:
        """The member is alive: it has its session timeout, or `timeout_ms`, from now on."""
        now_ms = self._now_ms()
        deadline_ms = now_ms + (timeout_ms or member.session_timeout_ms)
        member.session_deadline_ms = deadline_ms
        timer = member.session_timer
        if timer is not None:
            if deadline_ms >= member.session_timer_due_ms:
                return
            timer.cancel()
        self._set(group, member, deadline_ms - now_ms, deadline_ms)

    def end(self, member: Member) -> None:
        timer = member.session_timer
        if timer is not None:
            member.session_timer = None
            timer.cancel()

    def _set(self, group: ClassicGroup, member: Member, delay_ms: int, due_ms: int) -> None:
        member.session_timer_due_ms = due_ms
        member.session_timer = self._schedule(delay_ms, partial(self._fire, group, member))

    def _fire(self, group: ClassicGroup, member: Member) -> None:
        member.session_timer = None
        left_ms = member.session_deadline_ms - self._now_ms()
        if left_ms > 0:
            self._set(group, member, left_ms, member.session_deadline_ms)
        else:
            self._expire(group, member)
