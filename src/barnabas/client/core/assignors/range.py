"""Range: of each topic, every member gets consecutive partitions; the first ones one more.

Because members stand in the same order for every topic, partition n of two topics with equally many
partitions goes to the same member: topics that are partitioned alike can be joined. That is why this
is the default although several topics with a remainder make the first members busier.

With racks (KIP-881) a member first takes partitions that have a replica in its own rack, never more
than its share, and the rest is filled as without. Topics with equally many partitions and the same
subscribers are matched together, so that they stay partitioned alike. It only applies where it can
gain something: some member has a rack that some replica is in, and not every partition of the topic
is in all of the racks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from barnabas.client.core.assignors.assignor import (
    Assignment,
    GroupTopics,
    MemberSubscription,
    subscribers,
)
from barnabas.client.core.metadata import TopicPartition


class RangeAssignor:
    name = "range"
    cooperative = False

    def user_data(self, previous: Collection[TopicPartition], generation: int) -> bytes | None:
        return None

    def assign(self, topics: GroupTopics, members: Sequence[MemberSubscription]) -> Assignment:
        divisions = [
            _Division(topic, topics, wanting)
            for topic, wanting in subscribers(topics, members).items()
        ]
        if any(division.racks_matter for division in divisions):
            _match_racks(divisions)
        given: Assignment = {member.member_id: [] for member in members}
        for division in divisions:
            division.fill()
            for member, indexes in division.given.items():
                given[member].extend((division.topic, index) for index in sorted(indexes))
        return given


class _Division:
    """One topic being divided: what is left of it and what every member may still take."""

    def __init__(
        self, topic: str, topics: GroupTopics, members: Sequence[MemberSubscription]
    ) -> None:
        count = topics.counts[topic]
        self.topic = topic
        self.member_racks = {member.member_id: member.rack or None for member in members}
        self.racks = [topics.racks.get((topic, index), frozenset()) for index in range(count)]
        self.left = dict.fromkeys(range(count))
        self.given: dict[str, list[int]] = {member.member_id: [] for member in members}
        self._each, self._one_more = divmod(count, len(members))

    @property
    def racks_matter(self) -> bool:
        everywhere = frozenset().union(*self.racks)
        wanted = {rack for rack in self.member_racks.values() if rack is not None}
        return not wanted.isdisjoint(everywhere) and any(one != everywhere for one in self.racks)

    def room(self, member: str) -> int:
        limit = self._each + (1 if self._one_more > 0 else 0)
        return max(0, limit - len(self.given[member]))

    def near(self, member: str, index: int) -> bool:
        rack = self.member_racks[member]
        return rack is None or rack in self.racks[index]

    def give(self, member: str, indexes: Iterable[int]) -> None:
        taken = self.given[member]
        for index in indexes:
            del self.left[index]
            taken.append(index)
        if len(taken) > self._each:
            self._one_more -= 1

    def fill(self, allowed: Callable[[str, int], bool] | None = None) -> None:
        """Members in order take what they may of what is left, up to their share."""
        for member in self.given:
            if not self.left:
                return
            room = self.room(member)
            if not room:
                continue
            chosen = [i for i in self.left if allowed is None or allowed(member, i)][:room]
            if chosen:
                self.give(member, chosen)


def _match_racks(divisions: Sequence[_Division]) -> None:
    alike: dict[tuple[object, int], list[_Division]] = {}
    for division in divisions:
        key = (tuple(division.member_racks.items()), len(division.racks))
        alike.setdefault(key, []).append(division)
    for together in alike.values():
        if len(together) > 1:
            _match_together(together)
        elif together[0].racks_matter:
            together[0].fill(together[0].near)


def _match_together(divisions: Sequence[_Division]) -> None:
    """Partition n of all these topics to one member that is near to every one of them."""
    candidates = list(divisions[0].given)
    for index in range(len(divisions[0].racks)):
        for member in candidates:
            if all(d.near(member, index) and d.room(member) > 0 for d in divisions):
                for division in divisions:
                    division.give(member, [index])
                if all(division.room(member) == 0 for division in divisions):
                    candidates.remove(member)
                break
