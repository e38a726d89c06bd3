"""`barnabas storage`: format data directories, look at them, make ids."""

from __future__ import annotations

import click

from barnabas.cli import exits
from barnabas.cli.output import Output, format_option


@click.group()
def storage() -> None:
    """Format a data directory, look at one."""


@storage.command(name="random-uuid", epilog="\b\nExamples:\n  barnabas storage random-uuid")
@format_option
def random_uuid(out: Output) -> None:
    """Print a new id, as a cluster needs one."""
    from barnabas.cli.storage_layout import new_id

    made = new_id()
    out.line(made)
    out.data({"uuid": made})


@storage.command(
    name="format",
    epilog="\b\nExamples:\n  barnabas storage format -c server.properties\n"
    "  barnabas storage format -c server.properties -t $(barnabas storage random-uuid)\n"
    "  barnabas storage format -c server.properties -g --release-version 3.9",
)
@click.option(
    "-c",
    "--config",
    "file",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    help="The server.properties that names the directories.",
)
@click.option("-t", "--cluster-id", help="Default: a new one.")
@click.option(
    "-g", "--ignore-formatted", is_flag=True, help="Formatted directories are no failure."
)
@click.option("-r", "--release-version", help="Start with the features of this release.")
@click.option(
    "-f", "--feature", "features", multiple=True, metavar="NAME=LEVEL", help="One feature."
)
@click.option("-s", "--standalone", is_flag=True, help="The quorum begins with this node alone.")
@click.option(
    "-I",
    "--initial-controllers",
    metavar="ID@HOST:PORT:DIRECTORY-ID,...",
    help="The quorum begins with these nodes; each is formatted with the same list.",
)
@click.option(
    "-N",
    "--no-initial-controllers",
    is_flag=True,
    help="This node joins a quorum that others have begun.",
)
@format_option
def format_(
    file: str,
    cluster_id: str | None,
    ignore_formatted: bool,
    release_version: str | None,
    features: tuple[str, ...],
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
    out: Output,
) -> None:
    """Prepare the log directories of a server for their first start."""
    from barnabas.cli import storage_layout

    cluster_id = cluster_id or storage_layout.new_id()
    done = storage_layout.format_directories(
        storage_layout.load_config(file),
        cluster_id,
        release=release_version,
        features=features,
        ignore_formatted=ignore_formatted,
        standalone=standalone,
        initial_controllers=initial_controllers,
        no_initial_controllers=no_initial_controllers,
    )
    for directory in done.formatted:
        out.line(f"formatted {directory} for cluster {cluster_id} ({done.metadata_version})")
    for directory in done.already:
        out.line(f"{directory} is already formatted")
    out.data(
        {
            "cluster_id": cluster_id,
            "metadata_version": done.metadata_version,
            "formatted": done.formatted,
            "already_formatted": done.already,
        }
    )


@storage.command(
    epilog="\b\nExamples:\n  barnabas storage info -c server.properties\n"
    "  barnabas storage info barnabas-data"
)
@click.argument("directories", nargs=-1, type=click.Path())
@click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False),
    help="The server.properties that names the directories.",
)
@format_option
def info(directories: tuple[str, ...], file: str | None, out: Output) -> int:
    """Show to which cluster and node data directories belong."""
    from barnabas.cli import storage_layout

    if (file is None) == (not directories):
        raise click.UsageError("Give either directories or --config.")
    wanted = list(directories)
    if file is not None:
        wanted = storage_layout.directories_of(storage_layout.load_config(file))
    found = storage_layout.inspect(wanted)
    if out.is_text:
        out.properties(
            {
                "cluster": found.metadata.get("cluster.id"),
                "node": found.metadata.get("node.id"),
                "version": found.metadata.get("version"),
            }
        )
        out.line()
        out.show(
            [
                {"directory": d, "directory_id": found.directory_ids.get(d)}
                for d in found.directories
            ]
        )
        from barnabas.cli.main import complain

        for problem in found.problems:
            complain(problem)
    out.data(
        {
            "cluster_id": found.metadata.get("cluster.id"),
            "node_id": _number(found.metadata.get("node.id")),
            "version": _number(found.metadata.get("version")),
            "directories": {d: found.directory_ids.get(d) for d in found.directories},
            "problems": found.problems,
        }
    )
    return exits.FAILED if found.problems else exits.OK


def _number(text: str | None) -> int | str | None:
    """As a number for programs, if it is one: the file may hold anything."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() else text
