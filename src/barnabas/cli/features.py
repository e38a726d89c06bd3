"""`barnabas features`: the levels that the cluster has agreed on, and changing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli import exits
from barnabas.cli.connect import Connect, node_options
from barnabas.cli.output import Output, format_option

if TYPE_CHECKING:
    from barnabas.client.admin import Admin


@click.group()
def features() -> None:
    """Feature levels: what the nodes support, what the cluster uses."""


@features.command(
    epilog="\b\nExamples:\n  barnabas features describe\n  barnabas features describe --node 2"
)
@click.option("--node", type=click.IntRange(min=0), help="Ask this node; any by default.")
@node_options
@format_option
def describe(node: int | None, connect: Connect, out: Output) -> None:
    """Supported ranges and finalized levels."""
    from barnabas.metadata.features import level_name

    with connect.admin() as admin:
        found = admin.describe_features(node)
    rows = [
        {
            "feature": f.name,
            "level": level_name(f.name, f.finalized),
            "lowest": level_name(f.name, f.lowest),
            "highest": level_name(f.name, f.highest),
            "newest": f.finalized >= f.highest,
        }
        for f in found.features
    ]
    levels = [
        {"feature": f.name, "level": f.finalized, "lowest": f.lowest, "highest": f.highest}
        for f in found.features
    ]
    out.line(f"as of metadata offset {found.epoch}")
    out.table(rows, data={"epoch": found.epoch, "features": levels})


def wanted_levels(changes: Sequence[str], release: str | None) -> dict[str, int]:
    """`feature=level` texts, or every feature of a release; metadata.version by name as well."""
    from barnabas.cli.apache.storage import FEATURES
    from barnabas.metadata.features import METADATA_VERSION, metadata_version

    try:
        if release is not None:
            version = metadata_version(release)
            levels = {METADATA_VERSION: version.level}
            for name, steps in FEATURES.items():
                reached = (to for since, to in steps if version.level >= since)
                levels[name] = max(reached, default=0)
            return levels
        levels = {}
        for text in changes:
            name, separator, level = text.partition("=")
            if not separator:
                raise ValueError(f"Can't parse feature=level string {text}: equals sign not found.")
            if name == METADATA_VERSION and not level.isdigit():
                levels[name] = metadata_version(level).level
            elif level.isdigit():
                levels[name] = int(level)
            else:
                raise ValueError(
                    f"Can't parse feature=level string {text}: unable to parse {level} as a short."
                )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return levels


@features.command(
    epilog="\b\nExamples:\n  barnabas features upgrade --release 4.3 --dry-run\n"
    "  barnabas features upgrade group.version=1 share.version=1"
)
@click.argument("changes", nargs=-1, metavar="FEATURE=LEVEL…")
@click.option("--release", metavar="VERSION", help="All features to what this release has.")
@click.option("--dry-run", is_flag=True, help="Only ask whether the cluster would do it.")
@node_options
@format_option
def upgrade(
    changes: tuple[str, ...], release: str | None, dry_run: bool, connect: Connect, out: Output
) -> int:
    """Raise feature levels; all that are named or none."""
    from barnabas.client.administration.nodes import UPGRADE

    levels = _given(changes, release)
    with connect.admin() as admin:
        return _change(admin, levels, UPGRADE, dry_run, "upgrade", out)


@features.command(
    epilog="\b\nExamples:\n  barnabas features downgrade share.version=0 --dry-run\n"
    "  barnabas features downgrade metadata.version=4.2-IV1\n\n"
    "\b\nLevel 0 turns a feature off. --unsafe accepts that metadata is lost."
)
@click.argument("changes", nargs=-1, metavar="FEATURE=LEVEL…")
@click.option("--release", metavar="VERSION", help="All features to what this release has.")
@click.option("--unsafe", is_flag=True, help="Even if metadata gets lost.")
@click.option("--dry-run", is_flag=True, help="Only ask whether the cluster would do it.")
@node_options
@format_option
def downgrade(
    changes: tuple[str, ...],
    release: str | None,
    unsafe: bool,
    dry_run: bool,
    connect: Connect,
    out: Output,
) -> int:
    """Lower feature levels; all that are named or none."""
    from barnabas.client.administration.nodes import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE

    levels = _given(changes, release)
    kind = UNSAFE_DOWNGRADE if unsafe else SAFE_DOWNGRADE
    with connect.admin() as admin:
        return _change(admin, levels, kind, dry_run, "downgrade", out)


def _given(changes: tuple[str, ...], release: str | None) -> dict[str, int]:
    if (release is None) == (not changes):
        raise click.UsageError("Give FEATURE=LEVEL, or --release.")
    return wanted_levels(changes, release)


def _change(
    admin: Admin, levels: dict[str, int], kind: int, dry_run: bool, verb: str, out: Output
) -> int:
    from barnabas.client.administration.nodes import UPGRADE
    from barnabas.metadata.features import level_name

    before = {f.name: f.finalized for f in admin.describe_features().features}
    if kind == UPGRADE:
        levels = {n: level for n, level in levels.items() if level != before.get(n, 0)}
    if not levels:
        out.line("Nothing to change: the features have these levels already.")
        out.data([])
        return exits.OK
    admin.update_features(levels, upgrade_type=kind, validate_only=dry_run)
    rows: list[dict[str, Any]] = [
        {
            "feature": name,
            "from": level_name(name, before.get(name, 0)),
            "to": level_name(name, level),
            "status": f"would {verb}" if dry_run else f"{verb}d",
        }
        for name, level in sorted(levels.items())
    ]
    out.table(rows)
    return exits.OK
