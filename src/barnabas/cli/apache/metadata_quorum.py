"""kafka-metadata-quorum.sh: the controllers' quorum."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.apache import arguments, subcommands
from barnabas.cli.exits import CommandError

if TYPE_CHECKING:
    from barnabas.client.admin import Admin
    from barnabas.client.administration.quorum import QuorumDescription, QuorumReplica

HEADINGS = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)
ROLES = {"leader": "Leader", "voter": "Follower", "observer": "Observer"}


def parser() -> argparse.ArgumentParser:
    found = subcommands.SubArguments(
        prog="kafka-metadata-quorum",
        description="This tool describes kraft metadata quorum status.",
    )
    subcommands.nodes(found, required=True)
    found.add_argument("--command-config", help="Properties for the admin client.")
    verbs = found.add_subparsers(dest="command", required=True)
    describe = verbs.add_parser("describe", help="Describe the metadata quorum info")
    describe.add_argument("--status", action="store_true")
    describe.add_argument("--replication", action="store_true")
    describe.add_argument("--human-readable", action="store_true")
    add = verbs.add_parser("add-controller", help="Add a controller to the KRaft cluster")
    add.add_argument("--dry-run", action="store_true")
    remove = verbs.add_parser("remove-controller", help="Remove a controller from the cluster")
    remove.add_argument("--controller-id", "-i", type=int, required=True)
    remove.add_argument("--controller-directory-id", "-d", required=True)
    remove.add_argument("--dry-run", action="store_true")
    return found


def command(args: Sequence[str]) -> int:
    from barnabas.client.admin import Admin

    given = parser().parse_args(args)
    voter: Any = None
    config = given.command_config
    if given.command == "describe":
        _check(given)
    elif given.command == "add-controller":
        if config is None:
            raise CommandError(
                "You must supply the configuration file of the controller you are adding when using "
                "add-controller."
            )
        from barnabas.cli.quorum import voter_of

        voter = voter_of(config)
        config = None
    else:
        _check_removal(given)
    with Admin(subcommands.node_options(given, config)) as admin:
        if given.command == "describe":
            found = admin.describe_quorum()
            if given.status:
                _status(found, admin.describe_cluster().cluster_id)
            else:
                _replication(found, given.human_readable)
        elif given.command == "add-controller":
            _add(admin, voter, given.dry_run)
        else:
            _remove(admin, given)
    return 0


def _check(given: argparse.Namespace) -> None:
    if given.status and given.replication:
        raise CommandError(
            "Only one of --status or --replication should be specified with describe sub-command"
        )
    if not given.status and not given.replication:
        raise CommandError(
            "One of --status or --replication must be specified with describe sub-command"
        )
    if given.human_readable and not given.replication:
        raise CommandError("The option --human-readable is only supported along with --replication")


def _check_removal(given: argparse.Namespace) -> None:
    if given.controller_id < 0:
        raise CommandError(f"Invalid negative --controller-id: {given.controller_id}")
    arguments.parse_uuid(given.controller_directory_id, "--controller-directory-id")


def _status(found: QuorumDescription, cluster_id: str | None) -> None:
    from barnabas.cli.quorum import follower_lag

    lag, lag_ms = follower_lag(found)
    rows = {
        "ClusterId": cluster_id,
        "LeaderId": found.leader_id,
        "LeaderEpoch": found.leader_epoch,
        "HighWatermark": found.high_watermark,
        "MaxFollowerLag": lag,
        "MaxFollowerLagTimeMs": lag_ms,
        "CurrentVoters": _members(found, found.voters),
        "CurrentObservers": _members(found, found.observers),
    }
    for name, value in rows.items():
        print(f"{name + ':':<24}{value}")


def _members(found: QuorumDescription, replicas: Sequence[QuorumReplica]) -> str:
    from barnabas.wire.uuids import to_text

    shown = []
    for replica in replicas:
        text = f'{{"id": {replica.node_id}, "directoryId": "{to_text(replica.directory_id)}"'
        endpoints = found.endpoints.get(replica.node_id, ())
        if endpoints:
            listed = ", ".join(f'"{endpoint}"' for endpoint in endpoints)
            text += f', "endpoints": [{listed}]'
        shown.append(text + "}")
    return f"[{', '.join(shown)}]"


def _replication(found: QuorumDescription, human: bool) -> None:
    from barnabas.cli.quorum import in_order
    from barnabas.wire.uuids import to_text

    now_ms = time.time_ns() // 1_000_000
    end = found.leader.log_end_offset if found.leader is not None else found.high_watermark

    def moment(at_ms: int) -> str:
        return f"{now_ms - at_ms} ms ago" if human and at_ms >= 0 else str(at_ms)

    rows = [
        (
            str(replica.node_id),
            to_text(replica.directory_id),
            str(replica.log_end_offset),
            str(end - replica.log_end_offset),
            moment(replica.last_fetch_ms),
            moment(replica.last_caught_up_ms),
            ROLES[role],
        )
        for replica, role in in_order(found)
    ]
    widths = [max(len(row[i]) for row in (HEADINGS, *rows)) for i in range(len(HEADINGS))]
    for row in (HEADINGS, *rows):
        print("".join(f"{text:<{width}}\t" for text, width in zip(row, widths, strict=True)))


def _add(admin: Admin, voter: Any, dry_run: bool) -> None:
    from barnabas.cli.quorum import parse_id

    endpoints = ", ".join(map(str, voter.endpoints))
    if not dry_run:
        admin.add_voter(voter.node_id, parse_id(voter.directory_id), voter.endpoints)
    print(
        f"{'DRY RUN of adding' if dry_run else 'Added'} controller {voter.node_id} with directory id "
        f"{voter.directory_id} and endpoints: {endpoints}"
    )


def _remove(admin: Admin, given: argparse.Namespace) -> None:
    directory = arguments.parse_uuid(given.controller_directory_id, "--controller-directory-id")
    if not given.dry_run:
        admin.remove_voter(given.controller_id, directory)
    print(
        f"{'DRY RUN of removing ' if given.dry_run else 'Removed '} KRaft controller "
        f"{given.controller_id} with directory id {given.controller_directory_id}"
    )


def main() -> None:
    arguments.run(command, prefix="", java_names=True)


if __name__ == "__main__":
    main()
