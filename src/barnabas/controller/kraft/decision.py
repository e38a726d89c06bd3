"""What a manager gets and what it gives.

A manager looks at a `View` and answers with a `Decision`: the records that make it so, and the
response for the one who asked. It changes nothing; replaying the records does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig
    from barnabas.metadata.image import MetadataImage
    from barnabas.seams import Randomness
    from barnabas.wire.message import Message

R = TypeVar("R")

MAX_RECORDS_PER_OPERATION: Final = 10_000


@dataclass(frozen=True, slots=True)
class View:
    """Everything that a decision may depend on."""

    image: MetadataImage
    config: BrokerConfig
    """This node's settings, with what was set at run time."""
    static_config: BrokerConfig
    node_id: int
    cluster_id: str
    next_offset: int
    randomness: Randomness
    now_ms: int


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    records: Sequence[Message]
    response: R


def check_size(records: Sequence[Message]) -> None:
    """What one request may change is bounded; records of one request are one batch."""
    if len(records) > MAX_RECORDS_PER_OPERATION:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
        )
