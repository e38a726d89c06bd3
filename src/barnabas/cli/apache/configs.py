"""kafka-configs.sh: describe and alter settings of topics, brokers, groups and client metrics."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.apache import arguments
from barnabas.cli.exits import CommandError

if TYPE_CHECKING:
    from barnabas.client.admin import Admin

KINDS = {"topics": 2, "brokers": 4, "broker-loggers": 8, "client-metrics": 16, "groups": 32}
OTHERS = ("users", "clients", "ips")
SINGULAR = {
    "topics": "topic",
    "brokers": "broker",
    "broker-loggers": "broker-logger",
    "client-metrics": "client-metric",
    "groups": "group",
}
SHORT = {
    "topic": "topics",
    "broker": "brokers",
    "broker_logger": "broker-loggers",
    "client_metrics": "client-metrics",
    "group": "groups",
    "client": "clients",
    "user": "users",
    "ip": "ips",
}
DEFAULTS = {
    "broker_defaults": "brokers",
    "client_defaults": "clients",
    "user_defaults": "users",
    "ip_defaults": "ips",
}


def parser() -> arguments.Arguments:
    found = arguments.Arguments(
        "kafka-configs.sh",
        "Manipulate and describe entity config for a topic, client, user, broker, ip, "
        "client-metrics or group",
    )
    found.bootstrap(required=False)
    found.value("--bootstrap-controller")
    for name in ("alter", "describe", "all", "entity-default", "force"):
        found.flag(f"--{name}")
    found.value("--entity-type")
    found.value("--entity-name")
    found.value("--add-config", help="k1=v1,k2=[v1,v2],…")
    found.value("--add-config-file")
    found.value("--delete-config", help="k1,k2")
    for name in SHORT:
        found.value("--" + name.replace("_", "-"))
    for name in DEFAULTS:
        found.flag("--" + name.replace("_", "-"))
    return found


def command(args: Sequence[str]) -> int:
    from barnabas.client.admin import Admin

    rules = parser()
    given = rules.parse_args(args)
    if given.alter == given.describe:
        rules.error("Command must include exactly one action: --describe, --alter")
    bootstrap = given.bootstrap_server or given.bootstrap_controller
    if not bootstrap:
        rules.error(
            "One of the required --bootstrap-server or --bootstrap-controller must be given"
        )
    kind, name = _entity(given, rules)
    if kind in OTHERS:
        raise CommandError(f"Settings of {kind} are not supported by this version of Barnabas.")
    with Admin(arguments.client_options(bootstrap, given.command_config)) as admin:
        if given.alter:
            _alter(admin, kind, name, given)
        else:
            _describe(admin, kind, name, given)
    return 0


def _entity(given: argparse.Namespace, rules: arguments.Arguments) -> tuple[str, str | None]:
    """Entity type and name; None for all of that type, the empty name for the default."""
    found: list[tuple[str, str | None]] = []
    if given.entity_type:
        name = "" if given.entity_default else given.entity_name
        found.append((given.entity_type, name))
    for short, kind in SHORT.items():
        if getattr(given, short) is not None:
            found.append((kind, getattr(given, short)))
    for flag, kind in DEFAULTS.items():
        if getattr(given, flag):
            found.append((kind, ""))
    if len(found) != 1:
        rules.error("At least one entity type must be specified")
    kind, name = found[0]
    if kind not in KINDS and kind not in OTHERS:
        rules.error(
            f"Invalid entity type {kind}, the entity type must be one of "
            f"{', '.join([*KINDS, *OTHERS])}"
        )
    if given.alter and name is None:
        rules.error("an entity name must be specified with --alter")
    if given.alter and not (given.add_config or given.add_config_file or given.delete_config):
        rules.error(
            "At least one of --add-config, --add-config-file, or --delete-config "
            "must be specified with --alter"
        )
    return kind, name


def _describe(admin: Admin, kind: str, name: str | None, given: argparse.Namespace) -> None:
    if name is not None:
        if not _exists(admin, kind, name):
            print(f"The {SINGULAR[kind]} '{name}' doesn't exist and doesn't have dynamic config.")
            return
        names = [name]
    elif kind == "topics":
        names = [t.name for t in admin.list_topics()]
    elif kind in ("brokers", "broker-loggers"):
        names = [str(b.node_id) for b in admin.describe_cluster().brokers]
        names += [""] if kind == "brokers" else []
    else:
        names = [n for _kind, n in admin.list_config_resources([KINDS[kind]])]
    for one in names:
        answer = admin.describe_configs([(KINDS[kind], one)], synonyms=True)[(KINDS[kind], one)]
        if isinstance(answer, Exception):
            raise answer
        if kind == "brokers" and one == "":
            print("Default configs for brokers in the cluster are:")
        else:
            label = "All" if given.all or kind == "broker-loggers" else "Dynamic"
            print(f"{label} configs for {SINGULAR[kind]} {one} are:")
        own = {
            "topics": "DYNAMIC_TOPIC_CONFIG",
            "brokers": "DYNAMIC_DEFAULT_BROKER_CONFIG" if one == "" else "DYNAMIC_BROKER_CONFIG",
            "client-metrics": "DYNAMIC_CLIENT_METRICS_CONFIG",
            "groups": "DYNAMIC_GROUP_CONFIG",
        }.get(kind)
        for entry in sorted(answer, key=lambda e: e.name):
            if not given.all and own is not None and entry.source != own:
                continue
            synonyms = ", ".join(f"{s.source}:{s.name}={_null(s.value)}" for s in entry.synonyms)
            print(
                f"  {entry.name}={_null(entry.value)} "
                f"sensitive={'true' if entry.sensitive else 'false'} synonyms={{{synonyms}}}"
            )


def _exists(admin: Admin, kind: str, name: str) -> bool:
    if kind == "topics":
        return not isinstance(admin.describe_topics([name])[name], Exception)
    if kind in ("client-metrics", "groups"):
        if any(found == name for _kind, found in admin.list_config_resources([KINDS[kind]])):
            return True
        return kind == "groups" and any(g.group_id == name for g in admin.list_groups())
    return True


def _null(value: str | None) -> str:
    return "null" if value is None else value


def _alter(admin: Admin, kind: str, name: str | None, given: argparse.Namespace) -> None:
    from barnabas.cli.connect import read_config_file
    from barnabas.client.administration.configs import DELETE, ConfigChange

    added = parse_added(given.add_config or "")
    if given.add_config_file:
        added.update(read_config_file(given.add_config_file))
    removed = [k.strip() for k in (given.delete_config or "").split(",") if k.strip()]
    changes = [ConfigChange(k, v) for k, v in added.items()]
    changes += [ConfigChange(k, None, DELETE) for k in removed]
    place = (KINDS[kind], name or "")
    error = admin.alter_configs({place: changes})[place]
    if error is not None:
        raise error
    if kind == "brokers" and not name:
        print("Completed updating default config for brokers in the cluster.")
    else:
        print(f"Completed updating config for {SINGULAR[kind]} {name}.")


def parse_added(text: str) -> dict[str, str]:
    """`k=v,k2=[a,b]`: brackets hold values with commas."""
    found: dict[str, str] = {}
    depth, part, parts = 0, "", []
    for character in text:
        if character == "," and depth == 0:
            parts.append(part)
            part = ""
            continue
        depth += (character == "[") - (character == "]")
        part += character
    for pair in [*parts, part]:
        if not pair.strip():
            continue
        name, separator, value = pair.partition("=")
        if not separator:
            raise CommandError(
                'Invalid entity config: all configs to be added must be in the format "key=val".'
            )
        value = value.strip()
        if value.startswith("[") and value.endswith("]"):
            value = value[1:-1]
        found[name.strip()] = value
    return found


def main() -> None:
    given = " ".join(sys.argv[1:])
    arguments.run(command, prefix=f"Error while executing config command with args '{given}'\n")


if __name__ == "__main__":
    main()
