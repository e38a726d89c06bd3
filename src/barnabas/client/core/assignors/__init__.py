"""How the leader of a group divides partitions among members: one file for each assignor.

`assignors(strategy)` reads the option `partition.assignment.strategy`.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.client.core.assignors.assignor import Assignor
from barnabas.client.core.assignors.cooperative_sticky import CooperativeStickyAssignor
from barnabas.client.core.assignors.range import RangeAssignor
from barnabas.client.core.assignors.round_robin import RoundRobinAssignor
from barnabas.client.core.assignors.sticky import StickyAssignor
from barnabas.client.errors import OptionError

_JAVA_PACKAGE = "org.apache.kafka.clients.consumer."
_JAVA_NAMES: dict[str, str] = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
ASSIGNORS: dict[str, Assignor] = {
    assignor.name: assignor
    for assignor in (
        RangeAssignor(),
        RoundRobinAssignor(),
        StickyAssignor(),
        CooperativeStickyAssignor(),
    )
}


def assignors(strategy: object) -> list[Assignor]:
    """Assignors in order of preference: names, Java's class names, or objects of one's own.

    Several names may stand in one text with commas between them.
    """
    if isinstance(strategy, str):
        items: Iterable[object] = strategy.split(",")
    elif isinstance(strategy, Iterable):
        items = strategy
    else:
        items = [strategy]
    chosen = [_assignor(item) for item in items]
    names = [assignor.name for assignor in chosen]
    if not chosen:
        raise OptionError(
            "partition.assignment.strategy is empty.",
            next_step=f"Name at least one of {', '.join(ASSIGNORS)}.",
        )
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"partition.assignment.strategy names {name!r} twice.")
    return chosen


def _assignor(item: object) -> Assignor:
    if isinstance(item, str):
        name = item.strip()
        found = ASSIGNORS.get(_JAVA_NAMES.get(name.removeprefix(_JAVA_PACKAGE), name))
        if found is not None:
            return found
    elif isinstance(item, Assignor) and not isinstance(item, type):
        return item
    raise OptionError(
        f"partition.assignment.strategy={item!r} is no assignor.",
        next_step=f"Use {', '.join(ASSIGNORS)}, or an object with name, cooperative, user_data "
        "and assign.",
    )
