"""kafka-broker-api-versions.sh: what every broker offers."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cli.apache import arguments

# What clients may ask a broker for; the other keys are between nodes.
CLIENT_API_KEYS = (
    *range(4), *range(8, 52), 55, 57, 60, 61, 64, 65, 66, 68, 69, 71, 72, *range(74, 82), *range(83, 93)
)  # fmt: skip


def parser() -> arguments.Arguments:
    found = arguments.Arguments(
        "kafka-broker-api-versions.sh", "Retrieve broker version information."
    )
    found.bootstrap()
    return found


def command(args: Sequence[str]) -> int:
    from barnabas.cli.broker import version_rows
    from barnabas.client.admin import Admin
    from barnabas.wire.api_keys import ApiKey

    given = parser().parse_args(args)
    with Admin(arguments.client_options(given.bootstrap_server, given.command_config)) as admin:
        for node_id, (place, versions) in admin.broker_versions().items():
            node = f"{place} (id: {node_id} rack: {place.rack or 'null'} isFenced: false)"
            if isinstance(versions, Exception):
                print(f"{node} -> ERROR: {versions}\n")
                continue
            lines = {
                key: f"\t{_camel(ApiKey(key).name)}({key}): UNSUPPORTED" for key in CLIENT_API_KEYS
            }
            for row in version_rows(versions.ranges):
                low, high, usable = row["lowest"], row["highest"], row["usable"]
                name = _camel(row["api"])
                span = f"{low} to {high}" if low != high else f"{low}"
                use = f"usable: {usable}" if usable is not None else "unusable"
                lines[row["key"]] = f"\t{name}({row['key']}): {span} [{use}]"
            print(f"{node} -> (\n" + ",\n".join(lines[key] for key in sorted(lines)) + "\n)")
    return 0


def _camel(name: str) -> str:
    return name if "(" in name else "".join(part.capitalize() for part in name.split("_"))


def main() -> None:
    arguments.run(command)


if __name__ == "__main__":
    main()
