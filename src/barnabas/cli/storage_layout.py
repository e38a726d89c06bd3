"""Formatting data directories and looking at them, behind `storage` and kafka-storage.sh.

Formatting writes `meta.properties` into every log directory and, into the one of the metadata log,
`bootstrap.checkpoint` with the feature levels that a new cluster starts with; with a dynamic quorum
also the first snapshot with its voters. The files are Apache Kafka's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.cli.exits import NOT_FOUND, CommandError

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig

BOOTSTRAP_FILE = "bootstrap.checkpoint"


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
) -> Formatted:
    """Format what is not formatted yet; refuses another cluster's or node's directories."""
    from barnabas.log.disk import RealDisk
    from barnabas.raft.errors import StorageError
    from barnabas.raft.meta_properties import (
        MetaProperties,
        read_meta_properties,
        write_meta_properties,
    )
    from barnabas.wire.uuids import from_text

    levels = _levels(release, features)
    done = Formatted(_version_name(levels), metadata_directory=config.metadata_log_dir)
    disk = RealDisk()
    wanted = directories_of(config)
    for directory in wanted:
        try:
            found = read_meta_properties(disk, directory)
        except StorageError as error:
            raise CommandError(str(error)) from None
        if found is None:
            done.formatted.append(directory)
            continue
        done.already.append(directory)
        for name, here, given in (
            ("cluster.id", found.cluster_id, cluster_id),
            ("node.id", found.node_id, config.node_id),
        ):
            if here != given:
                raise CommandError(
                    f"Invalid {name} in: {directory}/meta.properties. Expected {given}, but read {here}"
                )
    if done.already and not ignore_formatted:
        raise CommandError(
            f"Log directory {done.already[0]} is already formatted. Use --ignore-formatted to ignore "
            "this directory and format the others."
        )
    now_ms = time.time_ns() // 1_000_000
    for directory in done.formatted:
        os.makedirs(directory, exist_ok=True)
        if directory == config.metadata_log_dir:
            disk.write_atomically(f"{directory}/{BOOTSTRAP_FILE}", _bootstrap(levels, now_ms))
        meta = MetaProperties(cluster_id, config.node_id, from_text(new_id()))
        write_meta_properties(disk, directory, meta, now_ms)
    return done


def _levels(release: str | None, features: Sequence[str]) -> dict[str, int]:
    from barnabas.metadata import features as known

    levels = dict(known.DEFAULT_LEVELS)
    try:
        if release is not None:
            levels[known.METADATA_VERSION] = known.metadata_version(release).level
            if levels[known.METADATA_VERSION] < known.ELR_LEVEL:
                levels.pop(known.ELR_VERSION, None)
        for text in features:
            name, separator, level = text.partition("=")
            if not separator or not level.strip().isdecimal():
                raise ValueError(f"Can't parse feature=level string {text}: equals sign not found.")
            low, high = known.SUPPORTED_FEATURES.get(name.strip(), (1, 0))
            if not low <= int(level) <= high:
                supported = ", ".join(
                    f"{n} ({a}-{b})" for n, (a, b) in known.SUPPORTED_FEATURES.items()
                )
                raise ValueError(f"Unsupported feature {text}. Supported: {supported}")
            levels[name.strip()] = int(level)
    except ValueError as error:
        raise CommandError(str(error)) from None
    return levels


def _version_name(levels: Mapping[str, int]) -> str:
    from barnabas.metadata.features import METADATA_VERSION, level_name

    return level_name(METADATA_VERSION, levels[METADATA_VERSION])


def _bootstrap(levels: Mapping[str, int], now_ms: int) -> bytes:
    from barnabas.metadata.features import KRAFT_VERSION, METADATA_VERSION
    from barnabas.raft.snapshot import write_snapshot
    from barnabas.wire.records.metadata import FeatureLevelRecord, encode_metadata_record

    ordered = sorted(levels, key=lambda name: (name != METADATA_VERSION, name))
    records = [
        encode_metadata_record(FeatureLevelRecord(name=name, feature_level=levels[name]), 0)
        for name in ordered
        if name != KRAFT_VERSION and levels[name] > 0
    ]
    return write_snapshot(records, epoch=0, now_ms=now_ms, last_contained_timestamp_ms=0)


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
