"""kafka-features.sh: feature levels of a cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from barnabas.cli.apache import arguments, subcommands
from barnabas.cli.exits import CommandError

if TYPE_CHECKING:
    from barnabas.client.admin import Admin

WORDS = {"upgrade": "upgraded", "downgrade": "downgraded", "disable": "disabled"}


def parser() -> argparse.ArgumentParser:
    found = subcommands.SubArguments(
        prog="kafka-features", description="This tool manages feature flags in Kafka."
    )
    subcommands.nodes(found, required=False)
    found.add_argument("--command-config", help="Properties for the admin client.")
    verbs = found.add_subparsers(dest="command", required=True)
    describe = verbs.add_parser("describe", help="Describes the current active feature flags.")
    describe.add_argument("--node-id", type=int)
    for name in WORDS:
        verb = verbs.add_parser(name, help=f"{name.capitalize()} one or more feature flags.")
        verb.add_argument("--feature", action="append", default=[])
        verb.add_argument("--dry-run", action="store_true")
        if name != "disable":
            verb.add_argument("--metadata", help="DEPRECATED: the level of the metadata.")
            verb.add_argument("--release-version")
        if name != "upgrade":
            verb.add_argument("--unsafe", action="store_true")
    mapping = verbs.add_parser("version-mapping", help="The features of a metadata version.")
    mapping.add_argument("--release-version")
    needs = verbs.add_parser("feature-dependencies", help="Dependencies of a feature version.")
    needs.add_argument("--feature", action="append", required=True)
    return found


def command(args: Sequence[str]) -> int:
    from barnabas.cli.apache import storage
    from barnabas.client.admin import Admin

    given = parser().parse_args(args)
    if given.command == "version-mapping":
        return storage.version_mapping(given.release_version)
    if given.command == "feature-dependencies":
        return storage.feature_dependencies(given.feature)
    if not given.bootstrap_server and not given.bootstrap_controller:
        raise CommandError(
            "Command line error: You must specify either --bootstrap-controller or "
            "--bootstrap-server.. Type --help for help."
        )
    with Admin(subcommands.node_options(given, given.command_config)) as admin:
        if given.command == "describe":
            _describe(admin, given.node_id)
            return 0
        return _change(admin, given)


def _describe(admin: Admin, node_id: int | None) -> None:
    from barnabas.metadata.features import level_name

    found = admin.describe_features(node_id)
    for f in found.features:
        low, high = level_name(f.name, f.lowest), level_name(f.name, f.highest)
        level = level_name(f.name, f.finalized)
        print(
            f"Feature: {f.name:<42}SupportedMinVersion: {low:<17}SupportedMaxVersion: {high:<17}"
            f"FinalizedVersionLevel: {level:<17}Epoch: {found.epoch}"
        )


def _levels(given: argparse.Namespace) -> dict[str, int]:
    from barnabas.cli.features import wanted_levels
    from barnabas.metadata.features import METADATA_VERSION, metadata_version

    try:
        if given.command == "disable":
            if not given.feature:
                raise CommandError("You must specify at least one feature to disable")
            return dict.fromkeys(given.feature, 0)
        if given.release_version is not None and (given.metadata or given.feature):
            raise CommandError("Can not specify `release-version` with other feature flags.")
        levels = wanted_levels(given.feature, given.release_version)
        if given.metadata is not None:
            print(" `metadata` flag is deprecated and may be removed in a future release.")
            levels[METADATA_VERSION] = metadata_version(given.metadata).level
    except click.ClickException as error:
        raise CommandError(error.format_message()) from None
    except ValueError as error:
        raise CommandError(str(error)) from None
    if not levels:
        raise CommandError(f"You must specify at least one feature to {given.command}")
    return levels


def _change(admin: Admin, given: argparse.Namespace) -> int:
    from barnabas.client.administration.nodes import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE
    from barnabas.client.errors import BrokerError

    levels = _levels(given)
    kind = UPGRADE
    if given.command != "upgrade":
        kind = UNSAFE_DOWNGRADE if given.unsafe else SAFE_DOWNGRADE
    error: BrokerError | None = None
    try:
        admin.update_features(levels, upgrade_type=kind, validate_only=given.dry_run)
    except BrokerError as refused:
        error = refused
    for name in sorted(levels):
        target = "" if given.command == "disable" else f" to {levels[name]}"
        if error is None:
            can = "can be" if given.dry_run else "was"
            print(f"{name} {can} {WORDS[given.command]}{target}.")
        else:
            cannot = "Can not" if given.dry_run else "Could not"
            print(f"{cannot} {given.command} {name}{target}. {arguments.plain(error)}")
    if error is not None:
        print(f"{len(levels)} out of {len(levels)} operation(s) failed.", file=sys.stderr)
        return 1
    return 0


def main() -> None:
    arguments.run(command, prefix="")


if __name__ == "__main__":
    main()
