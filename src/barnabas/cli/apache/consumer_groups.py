"""kafka-consumer-groups.sh: list, describe, reset and delete consumer groups."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.apache import arguments
from barnabas.cli.exits import CommandError

if TYPE_CHECKING:
    from barnabas.client.admin import Admin
    from barnabas.client.administration.groups import GroupDescription

ACTIONS = ("list", "describe", "delete", "reset_offsets", "delete_offsets", "validate_regex")
TARGETS = (
    "to_offset",
    "to_datetime",
    "by_duration",
    "to_earliest",
    "to_latest",
    "shift_by",
    "from_file",
    "to_current",
)
TopicPartition = tuple[str, int]


def parser() -> arguments.Arguments:
    found = arguments.Arguments(
        "kafka-consumer-groups.sh",
        "List all consumer groups, describe a consumer group, delete consumer group info, or reset "
        "consumer group offsets.",
    )
    found.bootstrap(required=False)
    for action in ("list", "describe", "delete", "reset-offsets", "delete-offsets"):
        found.flag(f"--{action}")
    found.value("--validate-regex")
    found.values("--group")
    found.flag("--all-groups")
    found.values("--topic", help="topic, topic:0,1 or topic:0-3")
    found.flag("--all-topics")
    found.value("--timeout", type=int, default=30_000)
    for name in ("dry-run", "execute", "export", "members", "offsets", "verbose"):
        found.flag(f"--{name}")
    found.value("--state", nargs="?", const="")
    found.value("--type", nargs="?", const="")
    found.value("--to-offset", type=int)
    found.value("--shift-by", type=int)
    found.value("--to-datetime")
    found.value("--by-duration")
    found.value("--from-file", nargs="?", const="")
    for name in ("to-earliest", "to-latest", "to-current"):
        found.flag(f"--{name}")
    return found


def command(args: Sequence[str]) -> int:
    from barnabas.client.admin import Admin

    rules = parser()
    given = rules.parse_args(args)
    chosen = [a for a in ACTIONS if getattr(given, a) not in (False, None)]
    if len(chosen) != 1:
        rules.error(
            "Command must include exactly one action: --list, --describe, --delete, "
            "--reset-offsets, --delete-offsets, --validate-regex."
        )
    if given.validate_regex is not None:
        return _validate_regex(given.validate_regex)
    if not given.bootstrap_server:
        rules.error('Missing required argument "[bootstrap-server]"')
    if not given.list and not given.group and not given.all_groups:
        rules.error(
            f"Option [{chosen[0].replace('_', '-')}] takes one of these options: [group], [all-groups]"
        )
    options = arguments.client_options(given.bootstrap_server, given.command_config)
    options.setdefault("default.api.timeout.ms", given.timeout)
    with Admin(options) as admin:
        try:
            return _dispatch(admin, given, rules)
        except Exception as error:
            from barnabas.cli.exits import code_for

            if code_for(error) is None or isinstance(error, CommandError):
                raise
            _failed(arguments.plain(error))
            return 0


def _validate_regex(text: str) -> int:
    import re

    try:
        re.compile(text)
    except re.error as error:
        print(f"The regular expression `{text}` is invalid: {error}.")
    else:
        print(f"The regular expression `{text}` is valid.")
    return 0


def _failed(reason: str) -> None:
    """Apache says so on standard output and exits with 0; scripts look at the words."""
    print(f"\nError: Executing consumer group command failed due to {reason}")


def _dispatch(admin: Admin, given: argparse.Namespace, rules: arguments.Arguments) -> int:
    if given.list:
        _list(admin, given)
        return 0
    groups = [g.group_id for g in admin.list_groups()] if given.all_groups else given.group
    if given.describe:
        return _describe(admin, groups, given)
    if given.reset_offsets:
        return _reset(admin, groups, given, rules)
    if given.delete_offsets:
        return _delete_offsets(admin, groups[0], given)
    return _delete(admin, groups)


def _list(admin: Admin, given: argparse.Namespace) -> None:
    with_state, with_type = given.state is not None, given.type is not None
    states = [_state(s) for s in (given.state or "").split(",") if s.strip()]
    types = [t.strip().capitalize() for t in (given.type or "").split(",") if t.strip()]
    found = [
        g
        for g in admin.list_groups(states=states, types=types)
        if g.protocol_type in ("", "consumer")
    ]
    if not with_state and not with_type:
        for group in found:
            print(group.group_id)
        return
    width = max([25, *(len(g.group_id) for g in found)])
    head = f"{'GROUP':<{width}}"
    head += f" {'TYPE':<20}" if with_type else ""
    head += f" {'STATE':<20}" if with_state else ""
    print(head)
    for group in found:
        line = f"{group.group_id:<{width}}"
        line += f" {group.type.capitalize():<20}" if with_type else ""
        line += f" {group.state:<20}" if with_state else ""
        print(line)


def _state(text: str) -> str:
    names = (
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
        "Empty",
        "Assigning",
        "Reconciling",
    )
    plain = text.strip().lower().replace("_", "")
    for name in names:
        if name.lower() == plain:
            return name
    raise CommandError(f"Invalid state list '{text}'. Valid states are: {', '.join(names)}.")


def _describe(admin: Admin, groups: Sequence[str], given: argparse.Namespace) -> int:
    from barnabas.cli.group import describe_existing

    if sum([given.members, given.offsets, given.state is not None]) > 1:
        raise CommandError(
            "Option [describe] takes at most one of these options: [members], [offsets], [state]"
        )
    for name, answer in describe_existing(admin, groups).items():
        if isinstance(answer, Exception):
            missing = "GROUP_ID_NOT_FOUND" in str(answer)
            reason = arguments.as_java(answer)
            _failed(f"{reason.split(': ')[0]}: Group {name} not found." if missing else reason)
            continue
        if not answer.members:
            if answer.state != "Dead":
                print(f"\nConsumer group '{name}' has no active members.", file=sys.stderr)
        elif answer.state in ("PreparingRebalance", "CompletingRebalance"):
            print(f"\nWarning: Consumer group '{name}' is rebalancing.", file=sys.stderr)
        if given.members:
            _print_members(answer, given.verbose)
        elif given.state is not None:
            _print_state(admin, answer, given.verbose)
        else:
            _print_offsets(admin, answer, given.verbose)
    return 0


def _print_offsets(admin: Admin, group: GroupDescription, verbose: bool) -> None:
    from barnabas.cli.group import lag_rows

    rows = lag_rows(admin, group)
    epochs = (
        {
            p: c.leader_epoch if c.leader_epoch >= 0 else None
            for p, c in admin.group_offsets(group.group_id).items()
        }
        if verbose
        else {}
    )
    table = [
        [
            group.group_id,
            row["topic"],
            row["partition"],
            *([epochs.get((row["topic"], row["partition"]))] if verbose else []),
            row["current_offset"],
            row["end_offset"],
            row["lag"],
            row["member_id"],
            row["host"],
            row["client_id"],
        ]
        for row in rows
    ]
    heads = [
        "GROUP",
        "TOPIC",
        "PARTITION",
        *(["LEADER-EPOCH"] if verbose else []),
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    ]
    widths = [15, 15, 10, *([15] if verbose else []), 15, 15, 15, 15, 15, 0]
    print_table(heads, widths, table, trailing=False)


def _print_members(group: GroupDescription, verbose: bool) -> None:
    static = any(m.instance_id for m in group.members)
    heads = [
        "GROUP",
        "CONSUMER-ID",
        *(["GROUP-INSTANCE-ID"] if static else []),
        "HOST",
        "CLIENT-ID",
        "#PARTITIONS",
    ]
    widths = [15, 15, *([17] if static else []), 15, 15, 15 if verbose else 16]
    if verbose:
        heads += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        widths += [15, 20, 15, 20]
    table = []
    for member in group.members:
        row = [
            group.group_id,
            member.member_id,
            *([member.instance_id] if static else []),
            member.host,
            member.client_id,
            sum(len(p) for p in member.assignment.values()),
        ]
        if verbose:
            row += [
                member.epoch,
                _assignment(member.assignment),
                None,
                _assignment(member.target_assignment or {}),
            ]
        table.append(row)
    print_table(heads, widths, table)


def _assignment(assignment: Mapping[str, Sequence[int]]) -> str | None:
    return (
        ";".join(
            f"{topic}:{','.join(map(str, sorted(indexes)))}"
            for topic, indexes in sorted(assignment.items())
        )
        or None
    )


def _print_state(admin: Admin, group: GroupDescription, verbose: bool) -> None:
    place = admin.cluster.metadata.brokers.get(group.coordinator_id)
    coordinator = f"{place}  ({group.coordinator_id})"
    heads = [
        "GROUP",
        "COORDINATOR (ID)",
        "ASSIGNMENT-STRATEGY",
        "STATE",
        *(["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"] if verbose else []),
        "#MEMBERS",
    ]
    widths = [15, 25, 20, 20, *([15, 25] if verbose else []), 0]
    row = [
        group.group_id,
        coordinator,
        group.assignor or None,
        group.state,
        *([group.epoch, group.target_epoch] if verbose else []),
        len(group.members),
    ]
    print_table(heads, widths, [row], trailing=False)


def print_table(
    heads: Sequence[str],
    widths: Sequence[int],
    rows: Sequence[Sequence[Any]],
    *,
    trailing: bool = True,
) -> None:
    """Columns of at least these widths, one blank apart, after an empty line; the last grows not."""
    texts = [["-" if v is None else str(v) for v in row] for row in rows]
    last = len(widths) - 1
    wide = [w if i == last else max([w, *(len(r[i]) for r in texts)]) for i, w in enumerate(widths)]
    print()
    for row in [list(heads), *texts]:
        line = " ".join(text.ljust(width) for text, width in zip(row, wide, strict=True))
        print(line if trailing else line.rstrip())


# -- offsets


def _reset(
    admin: Admin, groups: Sequence[str], given: argparse.Namespace, rules: arguments.Arguments
) -> int:
    chosen = [t for t in TARGETS if getattr(given, t) not in (False, None)]
    if len(chosen) != 1:
        rules.error(
            "Option '[reset-offsets]' requires exactly one of the following scenarios: "
            + ", ".join(f"[{t.replace('_', '-')}]" for t in TARGETS)
        )
    if not given.topic and not given.all_topics and given.from_file is None:
        rules.error("One of the reset scopes should be defined: --all-topics, --topic.")
    if given.dry_run and given.execute:
        rules.error("Option [reset-offsets] only accepts one of [execute], [dry-run]")
    if not given.execute and not given.dry_run:
        print(
            "WARN: No action will be performed as the --execute option is missing. In version 5.0, "
            "this command will require either --dry-run or --execute to be specified. You should "
            "add the --dry-run option explicitly if you are scripting this command and want to keep "
            "the current default behavior without prompting.",
            file=sys.stderr,
        )
    results: list[tuple[str, TopicPartition, int]] = []
    for group in groups:
        state = _state_of(admin, group)
        if state not in ("Empty", "Dead"):
            print(
                f"\nError: Assignments can only be reset if the group '{group}' is inactive, but the "
                f"current state is {state}."
            )
            continue
        after = _prepare(admin, group, given, chosen[0])
        if given.execute and after:
            for error in admin.alter_group_offsets(group, after).values():
                if error is not None:
                    raise error
        results += [(group, place, offset) for place, offset in after.items()]
    if given.export:
        for group, (topic, partition), offset in results:
            front = f"{group}," if len(groups) > 1 else ""
            print(f"{front}{topic},{partition},{offset}")
        print()
    else:
        rows = [[g, topic, partition, offset] for g, (topic, partition), offset in results]
        print_table(
            ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], [15, 15, 10, 0], rows, trailing=False
        )
    return 0


def _state_of(admin: Admin, group: str) -> str:
    from barnabas.client.errors import ClientError, NotFoundError

    answer = admin.describe_groups([group])[group]
    if isinstance(answer, NotFoundError):
        return "Dead"
    if isinstance(answer, ClientError):
        raise answer
    return answer.state


def _prepare(
    admin: Admin, group: str, given: argparse.Namespace, target: str
) -> dict[TopicPartition, int]:
    from barnabas.cli.group import clamp, held_offsets, offsets_at
    from barnabas.cli.moments import parse_duration_ms, parse_moment_ms

    committed = {p: c.offset for p, c in admin.group_offsets(group).items()}
    if target == "from_file" and not given.topic and not given.all_topics:
        wanted = _from_file(given.from_file, group)
        return _within(wanted, held_offsets(admin, wanted))
    if given.all_topics:
        places = sorted(committed)
    elif given.topic:
        places = partitions_of(admin, given.topic)
    else:
        places = []
    held = held_offsets(admin, places)
    now_ms = time.time_ns() // 1_000_000
    try:
        if target in ("to_datetime", "by_duration"):
            moment = (
                parse_moment_ms(given.to_datetime, now_ms)
                if target == "to_datetime"
                else now_ms - parse_duration_ms(given.by_duration)
            )
            at = offsets_at(admin, places, moment)
            for topic, partition in (p for p in places if at[p] is None):
                print(
                    f"\nWarn: Partition {partition} from topic {topic} is empty. Falling back to "
                    "latest known offset."
                )
            return {p: held[p].end if (o := at[p]) is None else o for p in places}
    except ValueError as error:
        _failed(str(error))
        raise SystemExit(0) from None
    if target == "shift_by":
        missing = [p for p in places if p not in committed]
        if missing:
            raise CommandError(
                "Cannot shift offset for partition "
                f"{missing[0][0]}-{missing[0][1]} since there is no current committed offset"
            )
        return _within({p: committed[p] + given.shift_by for p in places}, held)
    if target == "to_offset":
        return _within(dict.fromkeys(places, given.to_offset), held)
    if target == "to_current":
        return {p: clamp(committed.get(p, held[p].end), held[p]) for p in places}
    return {p: held[p].start if target == "to_earliest" else held[p].end for p in places}


def _within(wanted: dict[TopicPartition, int], held: Any) -> dict[TopicPartition, int]:
    """Offsets that exist; those that had to be changed are named on standard error."""
    from barnabas.cli.group import clamp

    found = {}
    for place, offset in wanted.items():
        found[place] = clamp(offset, held[place])
        if found[place] != offset:
            side = "higher than latest" if found[place] < offset else "lower than earliest"
            print(
                f"WARN New offset ({offset}) is {side} offset for topic partition "
                f"{place[0]}-{place[1]}. Value will be set to {found[place]}",
                file=sys.stderr,
            )
    return found


def _from_file(path: str, group: str) -> dict[TopicPartition, int]:
    """Lines `topic,partition,offset`, or with the group in front."""
    wanted: dict[TopicPartition, int] = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            fields = [f.strip() for f in line.split(",")]
            if fields == [""]:
                continue
            if len(fields) == 4:
                if fields[0] != group:
                    continue
                fields = fields[1:]
            try:
                topic, partition, offset = fields
                wanted[(topic, int(partition))] = int(offset)
            except ValueError:
                raise CommandError(
                    f"{path}, line {number}: expected topic,partition,offset"
                ) from None
    return wanted


def partitions_of(admin: Admin, texts: Sequence[str]) -> list[TopicPartition]:
    """`topic`, `topic:0,1` or `topic:0-3`; several topics may be separated by blanks or flags."""
    places: list[TopicPartition] = []
    for text in texts:
        topic, separator, numbers = text.partition(":")
        if not separator:
            found = admin.find_topics([topic])[topic]
            places += [(topic, index) for index in sorted(found.partitions)]
            continue
        for part in numbers.split(","):
            low, dash, high = part.partition("-")
            try:
                indexes = range(int(low), int(high) + 1) if dash else [int(low)]
            except ValueError:
                raise CommandError(f"Invalid partitions in {text}") from None
            places += [(topic, index) for index in indexes]
    return places


def _delete(admin: Admin, groups: Sequence[str]) -> int:
    answers = admin.delete_groups(groups)
    done = [g for g, error in answers.items() if error is None]
    failed = {g: error for g, error in answers.items() if error is not None}
    if not failed:
        names = ", ".join(f"'{g}'" for g in done)
        print(f"Deletion of requested consumer groups ({names}) was successful.")
        return 0
    print("\nError: Deletion of some consumer groups failed:")
    for group, error in failed.items():
        print(f"* Group '{group}' could not be deleted due to: {arguments.as_java(error)}")
    if done:
        names = ", ".join(f"'{g}'" for g in done)
        print(f"\nThese consumer groups were deleted successfully: {names}")
    return 0


def _delete_offsets(admin: Admin, group: str, given: argparse.Namespace) -> int:
    from barnabas.client.errors import ClientError

    if not given.topic:
        raise CommandError("Option [delete-offsets] takes the following option: [topic]")
    places: list[TopicPartition] = []
    rows: list[list[Any]] = []
    for text in given.topic:
        try:
            places += partitions_of(admin, [text])
        except ClientError as error:
            rows.append([text.partition(":")[0], None, f"Error: {arguments.as_java(error)}"])
    try:
        answers: dict[TopicPartition, Any] = dict(admin.delete_group_offsets(group, places))
    except ClientError as error:
        answers = dict.fromkeys(places, error)
        print(f"\nError: {arguments.plain(error)}")
    else:
        if any(error is not None for error in answers.values()):
            print("\nError: Encountered some partition-level error, see the follow-up details.")
        else:
            print(f"Request succeeded for deleting offsets from group {group}.")
    rows += [
        [t, p, "Successful" if error is None else f"Error: {arguments.as_java(error)}"]
        for (t, p), error in sorted(answers.items())
    ]
    print_table(["TOPIC", "PARTITION", "STATUS"], [15, 10, 15], rows)
    return 0


def main() -> None:
    arguments.run(command)


if __name__ == "__main__":
    main()
