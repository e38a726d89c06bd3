"""kafka-storage.sh: info, format, random-uuid, version-mapping, feature-dependencies."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from barnabas.cli.apache import arguments
from barnabas.cli.apache.subcommands import SubArguments
from barnabas.cli.exits import CommandError

# From which level of metadata.version on a release has these levels of the other features.
FEATURES: dict[str, tuple[tuple[int, int], ...]] = {
    "kraft.version": ((21, 1),),
    "transaction.version": ((24, 2),),
    "group.version": ((22, 1),),
    "eligible.leader.replicas.version": ((26, 1),),
    "share.version": ((28, 1),),
    "streams.version": ((29, 1),),
}


def parser() -> argparse.ArgumentParser:
    found = arguments.Arguments("kafka-storage.sh", "The Kafka storage tool.")
    commands = found.add_subparsers(dest="command", required=True, parser_class=SubArguments)
    info = commands.add_parser("info", help="Get information about the Kafka log directories")
    info.add_argument("--config", "-c", required=True)
    form = commands.add_parser("format", help="Format the Kafka log directories")
    form.add_argument("--config", "-c", required=True)
    form.add_argument("--cluster-id", "-t", required=True)
    form.add_argument("--add-scram", "-S", action="append", default=[])
    form.add_argument("--ignore-formatted", "-g", action="store_true")
    form.add_argument("--release-version", "-r")
    form.add_argument("--feature", "-f", action="append", default=[])
    quorum = form.add_mutually_exclusive_group()
    quorum.add_argument("--standalone", "-s", action="store_true")
    quorum.add_argument("--no-initial-controllers", "-N", action="store_true")
    quorum.add_argument("--initial-controllers", "-I")
    mapping = commands.add_parser("version-mapping", help="Features of a release")
    mapping.add_argument("--release-version", "-r")
    needs = commands.add_parser("feature-dependencies", help="What a feature's level needs")
    needs.add_argument("--feature", "-f", action="append", required=True)
    commands.add_parser("random-uuid", help="Print a random UUID")
    return found


def command(args: Sequence[str]) -> int:
    from barnabas.cli import storage_layout

    given = parser().parse_args(args)
    if given.command == "random-uuid":
        print(storage_layout.new_id())
        return 0
    if given.command == "version-mapping":
        return version_mapping(given.release_version)
    if given.command == "feature-dependencies":
        return feature_dependencies(given.feature)
    config = storage_layout.load_config(given.config)
    if given.command == "info":
        return _info(storage_layout.inspect(storage_layout.directories_of(config)))
    if given.add_scram:
        raise CommandError("--add-scram is not supported by this version of Barnabas.")
    try:
        done = storage_layout.format_directories(
            config,
            given.cluster_id,
            release=given.release_version,
            features=given.feature,
            ignore_formatted=given.ignore_formatted,
            standalone=given.standalone,
            initial_controllers=given.initial_controllers,
            no_initial_controllers=given.no_initial_controllers,
        )
    except CommandError as error:
        print(error, file=sys.stderr)
        return 1
    if not done.formatted:
        print("All of the log directories are already formatted.")
    for directory in done.formatted:
        kind = "metadata" if directory == done.metadata_directory else "data"
        print(
            f"Formatting {kind} directory {directory} with metadata.version {done.metadata_version}."
        )
    return 0


def _info(found: object) -> int:
    from barnabas.cli.storage_layout import Inspection

    assert isinstance(found, Inspection)
    if found.directories:
        print("Found log director" + ("y:" if len(found.directories) == 1 else "ies:"))
        for directory in found.directories:
            print(f"  {directory}")
        print()
    if found.metadata:
        shown = ", ".join(f"{k}={v}" for k, v in sorted(found.metadata.items()))
        print(f"Found metadata: {{{shown}}}\n")
    if found.problems:
        print("Found problem" + (":" if len(found.problems) == 1 else "s:"))
        for problem in found.problems:
            print(f"  {problem}")
        print()
        return 1
    return 0


def version_mapping(release: str | None) -> int:
    from barnabas.metadata import features

    try:
        version = features.metadata_version(release or str(features.LATEST_METADATA_VERSION))
    except ValueError as error:
        raise CommandError(str(error)) from None
    print(f"metadata.version={version.level} ({release or version.name})")
    for name, steps in FEATURES.items():
        print(f"{name}={max((to for since, to in steps if version.level >= since), default=0)}")
    return 0


def feature_dependencies(texts: Sequence[str]) -> int:
    from barnabas.metadata import features

    for text in texts:
        name, separator, level = text.partition("=")
        if not separator or not level.isdecimal():
            raise CommandError(
                f"Invalid feature format: {text}. Expected format: 'feature=version' "
                "(e.g. 'group.version=1')"
            )
        if name == features.METADATA_VERSION:
            try:
                text = f"{text} ({features.metadata_version(level).name})"
            except ValueError:
                raise CommandError(f"Unknown metadata.version {level}") from None
        elif name not in FEATURES:
            raise CommandError(f"Unknown feature: {name}")
        elif int(level) > max(to for _since, to in FEATURES[name]):
            raise CommandError(f"Feature level {level} is not supported for feature {name}")
        if name == features.ELR_VERSION and level != "0":
            needed = features.metadata_version(str(features.ELR_LEVEL))
            print(f"{text} requires:\n    metadata.version={needed.level} ({needed.name})")
        else:
            print(f"{text} has no dependencies.")
    return 0


def main() -> None:
    arguments.run(command, prefix="")


if __name__ == "__main__":
    main()
