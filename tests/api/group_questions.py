"""Questions about groups: finding, joining, committing, describing, leaving and deleting them."""

from __future__ import annotations

from typing import Any

from barnabas.wire.messages import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from tests.api.interview import Interview, versions_of
from tests.api.log_questions import by_topic
from tests.api.topic_questions import UNKNOWN_ID, make_topic

SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x06topics\xff\xff\xff\xff"
ASSIGNMENT = (
    b"\x00\x00\x00\x00\x00\x01\x00\x06topics\x00\x00\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff"
)
MEMBER_ID_IS_REQUIRED_SINCE = 4
STATIC_SINCE = 5


def find(it: Interview) -> None:
    """The topic of offsets is made by the first question; a broker may need a while for it."""
    for group in (*"abcdefgh", "find-me", "topics"):
        request = find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        it.wait(lambda request=request: it.newest(request).coordinators[0].error_code == 0)
    it.know("__consumer_offsets")


def ask_about_groups(it: Interview) -> None:
    make_topic(it, "topics", 2)
    make_topic(it, "others", 2)
    _find(it)
    _commit_and_fetch(it)
    _members(it)
    _delete(it)


def _find(it: Interview) -> None:
    def asked(kind: int, *keys: str) -> Any:
        return find_coordinator.FindCoordinatorRequest(
            key_type=kind, key=keys[0] if keys else "", coordinator_keys=list(keys)
        )

    cls = find_coordinator.FindCoordinatorRequest
    it.every("group", cls, lambda _: asked(0, "find-me"))
    it.every("several", cls, lambda v: asked(0, "find-me", "a", "find-me") if v >= 4 else None)
    it.every("empty name", cls, lambda _: asked(0, ""))
    it.every("none", cls, lambda v: asked(0) if v >= 4 else None)
    it.every("unknown type", cls, lambda v: asked(9, "find-me") if v >= 1 else None)
    it.every("share", cls, lambda v: asked(2, "find-me") if v >= 1 else None)


def commit(
    it: Interview,
    group: str,
    *offsets: tuple[str, int, int, str | None],
    member: str = "",
    generation: int = -1,
    instance: str | None = None,
) -> Any:
    return offset_commit.OffsetCommitRequest(
        group_id=group,
        member_id=member,
        generation_id_or_member_epoch=generation,
        group_instance_id=instance,
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name=topic,
                topic_id=it.ids.get(topic, UNKNOWN_ID),
                partitions=[
                    offset_commit.OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=0,
                        committed_metadata=metadata,
                    )
                    for index, (offset, metadata) in partitions
                ],
            )
            for topic, partitions in by_topic(
                (topic, index, (offset, metadata)) for topic, index, offset, metadata in offsets
            ).items()
        ],
    )


def _commit_and_fetch(it: Interview) -> None:
    it.newest(commit(it, "committed", ("topics", 0, 5, "m"), ("topics", 1, 6, None)))
    it.newest(commit(it, "committed", ("others", 0, 7, "")))
    for version in versions_of(offset_commit.OffsetCommitRequest):

        def ask(question: str, group: str, *offsets: Any, v: int = version, **more: Any) -> None:
            it.ask(question, commit(it, group, *offsets, **more), v)

        group = f"simple-v{version}"
        ask("simple", group, ("topics", 0, 5, "m"), ("topics", 1, 6, None))
        ask("unknown partition", group, ("topics", 9, 5, "m"), ("topics", 0, 7, ""))
        ask("unknown topic", group, ("no-such-topic", 0, 5, "m"), ("topics", 0, 7, ""))
        ask("only unknown", group, ("no-such-topic", 0, 5, "m"))
        ask("long metadata", group, ("topics", 0, 5, "m" * 5000))
        ask("negative offset", group, ("topics", 0, -1, ""))
        ask("unknown member", group, ("topics", 0, 5, ""), member="who", generation=3)
        ask("generation without member", group, ("topics", 0, 5, ""), generation=3)
        ask("no group", "", ("topics", 0, 5, ""))
        ask(
            "new group with member",
            f"none-v{version}",
            ("topics", 0, 5, ""),
            member="who",
            generation=3,
        )
        ask("nothing", group)
        if version >= 7:
            ask(
                "unknown static",
                group,
                ("topics", 0, 5, ""),
                instance="i",
                member="who",
                generation=1,
            )

    def fetching(group: str, topics: list[tuple[str, list[int]]] | None, **more: Any) -> Any:
        return offset_fetch.OffsetFetchRequest(
            group_id=group,
            topics=None
            if topics is None
            else [
                offset_fetch.OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)
                for topic, indexes in topics
            ],
            groups=[_group(it, group, topics)],
            **more,
        )

    cls = offset_fetch.OffsetFetchRequest
    some = [("topics", [0, 1]), ("others", [0, 1])]
    it.every("some", cls, lambda _: fetching("committed", some))
    it.every("stable", cls, lambda _: fetching("committed", some, require_stable=True))
    it.every(
        "unknown topic",
        cls,
        lambda _: fetching("committed", [("no-such-topic", [0]), ("topics", [0])]),
    )
    it.every("unknown partition", cls, lambda _: fetching("committed", [("topics", [9])]))
    it.every("no topics", cls, lambda _: fetching("committed", []))
    it.every("unknown group", cls, lambda _: fetching("no-such-group", [("topics", [0])]))
    it.every("no group", cls, lambda _: fetching("", [("topics", [0])]))
    for version in versions_of(cls):
        if version < 2:
            continue
        for question, group in (("all", "committed"), ("all of none", "no-such-group")):
            answer = it.quietly(fetching(group, None), version)
            for topics in (answer.topics, *(each.topics for each in answer.groups)):
                topics.sort(key=it.name_of)
                for topic in topics:
                    topic.partitions.sort(key=lambda each: each.partition_index)
            it.keep(question, answer, version)
        if version >= 8:
            request = cls(
                groups=[
                    _group(it, "committed", [("topics", [0])]),
                    _group(it, "no-such-group", [("topics", [0])]),
                    _group(it, "committed", [("others", [0])]),
                ]
            )
            it.ask("several", request, version)
        if version >= 9:
            group = _group(it, "committed", [("topics", [0])])
            group.member_id, group.member_epoch = "who", 5
            it.ask("of a member", cls(groups=[group]), version)


def _group(it: Interview, group: str, topics: list[tuple[str, list[int]]] | None) -> Any:
    return offset_fetch.OffsetFetchRequestGroup(
        group_id=group,
        topics=None
        if topics is None
        else [
            offset_fetch.OffsetFetchRequestTopics(
                name=topic, topic_id=it.ids.get(topic, UNKNOWN_ID), partition_indexes=indexes
            )
            for topic, indexes in topics
        ],
    )


def joining(group: str, member: str = "", instance: str | None = None, **more: Any) -> Any:
    fields = {
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer",
        "protocols": [
            join_group.JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION),
            join_group.JoinGroupRequestProtocol(name="roundrobin", metadata=SUBSCRIPTION),
        ],
    }
    return join_group.JoinGroupRequest(
        group_id=group, member_id=member, group_instance_id=instance, **{**fields, **more}
    )


def stable_group(it: Interview, group: str, instance: str | None = None) -> str:
    """A group with one member that has its assignment; gives the member's id."""
    member = ""
    if instance is None:
        member = it.newest(joining(group)).member_id
    joined = it.newest(joining(group, member, instance))
    assert joined.error_code == 0, joined
    it.newest(syncing(group, joined.generation_id, joined.member_id, instance))
    member_id: str = joined.member_id
    return member_id


def syncing(
    group: str, generation: int, member: str, instance: str | None = None, **more: Any
) -> Any:
    fields = {"protocol_type": "consumer", "protocol_name": "range"}
    return sync_group.SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=instance,
        assignments=[
            sync_group.SyncGroupRequestAssignment(member_id=member, assignment=ASSIGNMENT)
        ],
        **{**fields, **more},
    )


def _members(it: Interview) -> None:
    _join(it)
    _sync_and_beat(it)
    _describe(it)
    _leave(it)


def _join(it: Interview) -> None:
    for version in versions_of(join_group.JoinGroupRequest):
        group = f"joined-v{version}"
        member = ""
        if version >= MEMBER_ID_IS_REQUIRED_SINCE:
            member = it.ask("first", joining(group), version).member_id
        joined = it.ask("joined", joining(group, member), version)
        it.quietly(syncing(group, joined.generation_id, joined.member_id), 5)
        it.ask("the leader again", joining(group, joined.member_id), version)
        it.ask("unknown member", joining(group, "who"), version)
        it.ask("no protocols", joining(group, joined.member_id, protocols=[]), version)
        other = [join_group.JoinGroupRequestProtocol(name="other", metadata=b"")]
        if version < MEMBER_ID_IS_REQUIRED_SINCE:
            it.ask("other protocols", joining(group, "", protocols=other), version)
        it.ask("other type", joining(group, joined.member_id, protocol_type="connect"), version)
        it.ask("no type", joining(f"none-v{version}", "", protocol_type=""), version)
        it.ask("no group", joining(""), version)
        it.ask("short session", joining(f"none-v{version}", session_timeout_ms=1), version)
        it.ask("long session", joining(f"none-v{version}", session_timeout_ms=2**31 - 1), version)
        it.ask("unknown group with member", joining(f"none-v{version}", "who"), version)
        if version >= STATIC_SINCE:
            group = f"static-v{version}"
            joined = it.ask("static", joining(group, "", "i"), version)
            it.quietly(syncing(group, joined.generation_id, joined.member_id, "i"), 5)
            again = it.ask("static again", joining(group, "", "i"), version)
            it.ask("static, fenced", joining(group, joined.member_id, "i"), version)
            it.ask("static, unknown", joining(group, again.member_id, "j"), version)


def _sync_and_beat(it: Interview) -> None:
    for version in versions_of(sync_group.SyncGroupRequest):
        group = f"synced-v{version}"
        member = it.newest(joining(group)).member_id
        generation = it.newest(joining(group, member)).generation_id
        it.ask("leader", syncing(group, generation, member), version)
        it.ask("again", syncing(group, generation, member), version)
        it.ask("old generation", syncing(group, generation - 1, member), version)
        it.ask("unknown member", syncing(group, generation, "who"), version)
        it.ask("unknown group", syncing("no-such-group", generation, member), version)
        it.ask("no group", syncing("", generation, member), version)
        if version >= 5:
            it.ask("other type", syncing(group, generation, member, protocol_type="x"), version)
            it.ask("other name", syncing(group, generation, member, protocol_name="x"), version)
            it.ask("no type", syncing(group, generation, member, protocol_type=None), version)
    static = stable_group(it, "beaten-static", "i")
    for version in versions_of(heartbeat.HeartbeatRequest):
        group = f"beaten-v{version}"
        member = stable_group(it, group)

        def ask(question: str, group: str, generation: int, member: str, v: int = version) -> None:
            request = heartbeat.HeartbeatRequest(
                group_id=group, generation_id=generation, member_id=member
            )
            it.ask(question, request, v)

        ask("stable", group, 1, member)
        ask("old generation", group, 0, member)
        ask("unknown member", group, 1, "who")
        ask("unknown group", "no-such-group", 1, member)
        ask("no group", "", 1, member)
        if version >= 3:
            request = heartbeat.HeartbeatRequest(
                group_id="beaten-static", generation_id=1, member_id=static, group_instance_id="i"
            )
            it.ask("static", request, version)
            request.member_id = "who"
            it.ask("static, fenced", request, version)
            request.group_instance_id = "j"
            it.ask("static, unknown", request, version)


def _describe(it: Interview) -> None:
    stable_group(it, "described")
    stable_group(it, "described-static", "i")
    pending = "described-pending"
    it.newest(joining(pending))
    cls = describe_groups.DescribeGroupsRequest
    for question, groups in {
        "stable": ["described"],
        "static": ["described-static"],
        "empty, with offsets": ["committed"],
        "pending": [pending],
        "unknown": ["no-such-group"],
        "no name": [""],
        "several": ["described", "no-such-group", "described"],
        "none": [],
    }.items():
        it.every(question, cls, lambda _, groups=groups: cls(groups=groups))
    it.every(
        "operations",
        cls,
        lambda _: cls(groups=["described", "no-such-group"], include_authorized_operations=True),
    )
    listing = list_groups.ListGroupsRequest
    for version in versions_of(listing):
        cases: dict[str, Any] = {"all": listing()}
        if version >= 4:
            cases |= {
                "stable": listing(states_filter=["Stable"]),
                "lower case": listing(states_filter=["stable", "EMPTY"]),
                "unknown state": listing(states_filter=["Sleepy"]),
            }
        if version >= 5:
            cases |= {
                "classic": listing(types_filter=["classic"]),
                "upper case": listing(types_filter=["CLASSIC"]),
                "consumer": listing(types_filter=["consumer"]),
                "unknown type": listing(types_filter=["odd"]),
                "both": listing(states_filter=["Empty"], types_filter=["Classic"]),
            }
        for question, request in cases.items():
            answer = it.quietly(request, version)
            answer.groups = sorted(
                (each for each in answer.groups if each.group_id.startswith(("described", "comm"))),
                key=lambda each: each.group_id,
            )
            it.keep(question, answer, version)


def _leave(it: Interview) -> None:
    def leaving(group: str, *members: tuple[str, str | None]) -> Any:
        return leave_group.LeaveGroupRequest(
            group_id=group,
            member_id=members[0][0] if members else "",
            members=[
                leave_group.MemberIdentity(member_id=member, group_instance_id=instance)
                for member, instance in members
            ],
        )

    for version in versions_of(leave_group.LeaveGroupRequest):
        group = f"left-v{version}"
        member = stable_group(it, group)
        it.ask("unknown member", leaving(group, ("who", None)), version)
        it.ask("unknown group", leaving("no-such-group", (member, None)), version)
        it.ask("no group", leaving("", (member, None)), version)
        it.ask("member", leaving(group, (member, None)), version)
        it.ask("again", leaving(group, (member, None)), version)
        if version >= 3:
            group = f"left-static-v{version}"
            member = stable_group(it, group, "i")
            it.ask("static, fenced", leaving(group, ("who", "i")), version)
            it.ask("static, unknown", leaving(group, ("", "j"), ("who", None)), version)
            it.ask("nobody", leaving(group), version)
            it.ask("static by instance", leaving(group, ("", "i")), version)


def _delete(it: Interview) -> None:
    def gone(group: str, *wanted: tuple[str, int]) -> Any:
        return offset_delete.OffsetDeleteRequest(
            group_id=group,
            topics=[
                offset_delete.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[
                        offset_delete.OffsetDeleteRequestPartition(partition_index=index)
                        for index, _ in partitions
                    ],
                )
                for topic, partitions in by_topic((*each, None) for each in wanted).items()
            ],
        )

    it.newest(commit(it, "forgetful", ("topics", 0, 5, "m"), ("topics", 1, 6, None)))
    member = stable_group(it, "subscribed")
    it.newest(
        commit(
            it,
            "subscribed",
            ("topics", 0, 5, ""),
            ("others", 0, 5, ""),
            member=member,
            generation=1,
        )
    )
    it.ask("some", gone("forgetful", ("topics", 0)), 0)
    it.ask("not committed", gone("forgetful", ("others", 0)), 0)
    it.ask("unknown", gone("forgetful", ("no-such-topic", 0), ("topics", 9), ("topics", 1)), 0)
    it.ask("unknown group", gone("no-such-group", ("topics", 0)), 0)
    it.ask("no group", gone("", ("topics", 0)), 0)
    it.ask("subscribed", gone("subscribed", ("topics", 0), ("others", 0)), 0)
    it.ask("nothing", gone("committed"), 0)
    cls = delete_groups.DeleteGroupsRequest
    it.newest(cls(groups_names=[""]))
    for version in versions_of(cls):
        group = f"dead-v{version}"
        it.newest(commit(it, group, ("topics", 0, 5, "m")))
        it.ask("empty", cls(groups_names=[group]), version)
        it.ask("again", cls(groups_names=[group]), version)
        it.ask("stable", cls(groups_names=["described"]), version)
        it.ask("no name", cls(groups_names=[""]), version)
        it.newest(commit(it, group, ("topics", 0, 5, "m")))
        answer = it.quietly(cls(groups_names=["described", group, "no-such-group", group]), version)
        answer.results.sort(key=lambda each: each.group_id)
        it.keep("several", answer, version)
        it.ask("none", cls(groups_names=[]), version)
