"""Formatting data directories and looking at them, behind `storage` and kafka-storage.sh.

The work is done by `barnabas.controller.format`; here are the real disk, clock and randomness, and the
words for people.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.cli.exits import NOT_FOUND, CommandError

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig


@dataclass(slots=True)
class Formatted:
    metadata_version: str
    formatted: list[str] = field(default_factory=list)
    already: list[str] = field(default_factory=list)
    metadata_directory: str = ""


def load_config(path: str, overrides: Mapping[str, str] | None = None) -> BrokerConfig:
    from barnabas.cli.connect import read_config_file
    from barnabas.config.broker import BrokerConfig
    from barnabas.config.definition import ConfigError

    try:
        return BrokerConfig({**read_config_file(path), **(overrides or {})})
    except ConfigError as error:
        raise CommandError(f"{path}: {error}") from None


def new_id() -> str:
    from barnabas.wire.uuids import random_uuid, to_text

    return to_text(random_uuid(os.urandom))


def directories_of(config: BrokerConfig) -> list[str]:
    return sorted({*config.log_dirs, config.metadata_log_dir})


def format_directories(
    config: BrokerConfig,
    cluster_id: str,
    *,
    release: str | None = None,
    features: Sequence[str] = (),
    ignore_formatted: bool = False,
    standalone: bool = False,
    initial_controllers: str | None = None,
    no_initial_controllers: bool = False,
) -> Formatted:
    """Format what is not formatted yet; refuses another cluster's or node's directories."""
    from barnabas.controller.format import format_storage
    from barnabas.log.disk import RealDisk
    from barnabas.raft.errors import StorageError

    levels: dict[str, int] = {}
    for text in features:
        name, separator, level = text.partition("=")
        if not separator or not level.strip().isdecimal():
            raise CommandError(f"Can't parse feature=level string {text}: expected NAME=LEVEL.")
        levels[name.strip()] = int(level)
    try:
        done = format_storage(
            RealDisk(),
            config,
            cluster_id=cluster_id,
            randomness=random.SystemRandom(),
            now_ms=time.time_ns() // 1_000_000,
            release_version=release,
            features=levels,
            ignore_formatted=ignore_formatted,
            standalone=standalone,
            initial_controllers=initial_controllers,
            no_initial_controllers=no_initial_controllers,
        )
    except StorageError as error:
        raise CommandError(str(error)) from None
    return Formatted(
        done.metadata_version,
        list(done.directories),
        list(done.already_formatted),
        config.metadata_log_dir,
    )


@dataclass(slots=True)
class Inspection:
    """What is in the directories of a configuration."""

    directories: list[str] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    directory_ids: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def inspect(directories: Sequence[str]) -> Inspection:
    from barnabas.log.disk import RealDisk
    from barnabas.raft.errors import StorageError
    from barnabas.raft.meta_properties import read_meta_properties

    found = Inspection()
    disk = RealDisk()
    for directory in directories:
        if not os.path.isdir(directory):
            kind = "is not a directory" if os.path.exists(directory) else "does not exist"
            found.problems.append(f"{directory} {kind}")
            continue
        found.directories.append(directory)
        try:
            meta = read_meta_properties(disk, directory)
        except StorageError as error:
            found.problems.append(str(error))
            continue
        if meta is None:
            found.problems.append(f"{directory} is not formatted.")
            continue
        settings = meta.settings()
        found.directory_ids[directory] = settings.get("directory.id", "")
        if found.metadata and found.metadata["cluster.id"] != settings["cluster.id"]:
            found.problems.append(f"{directory} belongs to cluster {settings['cluster.id']}")
        else:
            found.metadata = found.metadata or settings
    if not directories:
        raise CommandError("No log directories found in configuration.", NOT_FOUND)
    return found
