"""A request that asks for the same thing again and again.

Some answers are very much larger than what asks for them: all settings of a topic, all members of a
group, what a client noted beside an offset. Asked for once each, they are no more than what this
broker holds; asked for a hundred thousand times in one request, they would be more than it has memory
for. Clients do not repeat themselves, so a few repeats are answered, as Kafka does, and many are
refused.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from barnabas.wire.errors import ApiError, ErrorCode

MAX_REPEATS: Final = 10


def check_repeats(asked: Sequence[Hashable]) -> None:
    repeats = len(asked) - len(set(asked))
    if repeats > MAX_REPEATS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"The request asks {repeats} times for what it has asked for already.",
        )
