"""Configuration of topics, brokers, groups and other resources.

Brokers before 2.3 can only replace all settings of a resource at once. For them a change of single
settings is read, changed and written as a whole: two who change one resource at the same moment can
undo each other's change there, and a resource with secret settings, which nobody can read, is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.client.administration.base import AdminBase
from barnabas.client.core.versions import BrokerVersions
from barnabas.client.errors import BrokerError, VersionError, broker_error
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode

UNKNOWN, TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 0, 2, 4, 8, 16, 32
RESOURCE_NAMES = {
    TOPIC: "topic",
    BROKER: "broker",
    BROKER_LOGGER: "broker-logger",
    CLIENT_METRICS: "client-metrics",
    GROUP: "group",
}
SOURCES = {
    -1: "UNKNOWN",
    0: "UNKNOWN",
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
TYPES = {
    0: "UNKNOWN",
    1: "BOOLEAN",
    2: "STRING",
    3: "INT",
    4: "SHORT",
    5: "LONG",
    6: "DOUBLE",
    7: "LIST",
    8: "CLASS",
    9: "PASSWORD",
}
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
OWN_SOURCES = {TOPIC: "DYNAMIC_TOPIC_CONFIG", BROKER: "DYNAMIC_BROKER_CONFIG"}
DOCUMENTATION_SINCE = 3

Resource = tuple[int, str]


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: str = "UNKNOWN"
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source == "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One step of an incremental change: SET, DELETE, APPEND or SUBTRACT."""

    name: str
    value: str | None = None
    operation: int = SET


class ConfigAdmin(AdminBase):
    async def describe_configs(
        self,
        resources: Sequence[Resource],
        *,
        keys: Sequence[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
    ) -> dict[Resource, list[ConfigEntry] | BrokerError]:
        """The settings of each resource; a broker answers for its own settings itself."""
        from barnabas.wire.messages import describe_configs as api

        answers: dict[Resource, list[ConfigEntry] | BrokerError] = {}
        for node_id, asked in self._by_node(resources).items():
            version = (await self.cluster.offered(node_id)).choose_for(api.DescribeConfigsRequest())
            request = api.DescribeConfigsRequest(
                resources=[
                    api.DescribeConfigsResource(
                        resource_type=kind,
                        resource_name=name,
                        configuration_keys=None if keys is None else list(keys),
                    )
                    for kind, name in asked
                ],
                include_synonyms=synonyms,
                include_documentation=documentation and version >= DOCUMENTATION_SINCE,
            )
            response = await self._ask(node_id, request, "the description of configs")
            for result in response.results:
                place = (result.resource_type, result.resource_name)
                if result.resource_type == UNKNOWN:
                    # An old broker's answer about a kind that it does not know.
                    place = next((p for p in asked if p[1] == place[1] and p not in answers), place)
                if result.error_code != ErrorCode.NONE:
                    answers[place] = _refusal(result, place)
                else:
                    answers[place] = [_entry(entry) for entry in result.configs]
        return answers

    async def alter_configs(
        self, changes: Mapping[Resource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> dict[Resource, BrokerError | None]:
        """Change single settings and leave the others alone."""
        from barnabas.wire.messages import incremental_alter_configs as api

        steps = {place: list(each) for place, each in changes.items()}
        answers: dict[Resource, BrokerError | None] = {}
        for node_id, asked in self._by_node(steps).items():
            versions = await self.cluster.offered(node_id)
            if not versions.offers(ApiKey.INCREMENTAL_ALTER_CONFIGS):
                old = {place: steps[place] for place in asked}
                answers.update(await self._alter_whole(old, versions, validate_only))
                continue
            request = api.IncrementalAlterConfigsRequest(
                resources=[
                    api.AlterConfigsResource(
                        resource_type=place[0],
                        resource_name=place[1],
                        configs=[
                            api.AlterableConfig(
                                name=c.name, config_operation=c.operation, value=c.value
                            )
                            for c in steps[place]
                        ],
                    )
                    for place in asked
                ],
                validate_only=validate_only,
            )
            response = await self._ask(node_id, request, "the change of configs")
            answers.update(_outcomes(response))
        return answers

    async def _alter_whole(
        self,
        changes: Mapping[Resource, Sequence[ConfigChange]],
        versions: BrokerVersions,
        validate_only: bool,
    ) -> dict[Resource, BrokerError | None]:
        answers: dict[Resource, BrokerError | None] = {}
        configs: dict[Resource, dict[str, str | None]] = {}
        for place, entries in (await self.describe_configs(list(changes))).items():
            if isinstance(entries, BrokerError):
                answers[place] = entries
                continue
            own = [entry for entry in entries if entry.source == OWN_SOURCES.get(place[0])]
            if any(entry.sensitive for entry in own):
                detail = "is not offered by this broker, and to write all settings of a resource"
                detail = f"{detail} anew one would have to know its secret ones"
                raise VersionError(versions.address, "INCREMENTAL_ALTER_CONFIGS", detail)
            values = {entry.name: entry.value for entry in own}
            effective = {entry.name: entry.value for entry in entries}
            for change in changes[place]:
                _apply(change, values, effective)
            configs[place] = values
        if configs:
            answers.update(await self.replace_configs(configs, validate_only=validate_only))
        return answers

    async def replace_configs(
        self, configs: Mapping[Resource, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> dict[Resource, BrokerError | None]:
        """Replace all dynamic settings of each resource (the older AlterConfigs call)."""
        from barnabas.wire.messages import alter_configs as api

        answers: dict[Resource, BrokerError | None] = {}
        for node_id, asked in self._by_node(configs).items():
            request = api.AlterConfigsRequest(
                resources=[
                    api.AlterConfigsResource(
                        resource_type=place[0],
                        resource_name=place[1],
                        configs=[
                            api.AlterableConfig(name=name, value=value)
                            for name, value in configs[place].items()
                        ],
                    )
                    for place in asked
                ],
                validate_only=validate_only,
            )
            response = await self._ask(node_id, request, "the change of configs")
            answers.update(_outcomes(response))
        return answers

    async def list_config_resources(self, kinds: Sequence[int] = ()) -> list[Resource]:
        """The resources that have settings of their own; no kinds means all the broker knows."""
        from barnabas.wire.messages import list_config_resources as api

        request = api.ListConfigResourcesRequest(resource_types=list(kinds))
        if (await self.cluster.offered()).choose_for(request) == 0:
            request.resource_types = []
        response = await self.cluster.request_any(request, what="the list of config resources")
        if response.error_code != ErrorCode.NONE:
            raise broker_error(response.error_code)
        return [(r.resource_type, r.resource_name) for r in response.config_resources]

    def _by_node(self, resources: Iterable[Resource]) -> dict[int | None, list[Resource]]:
        """A broker's own settings and loggers are its own business, the rest is anybody's."""
        grouped: dict[int | None, list[Resource]] = {}
        for kind, name in resources:
            own = kind in (BROKER, BROKER_LOGGER) and name != ""
            node_id = int(name) if own and name.lstrip("-").isdigit() else None
            grouped.setdefault(node_id, []).append((kind, name))
        return grouped

    async def _ask(self, node_id: int | None, request: Any, what: str) -> Any:
        if node_id is None:
            return await self.cluster.request_any(request, what=what)
        return await self.cluster.request_node(node_id, request, what=what)


def _apply(
    change: ConfigChange, values: dict[str, str | None], effective: Mapping[str, str | None]
) -> None:
    """One step as IncrementalAlterConfigs has it: lists begin with what is in force."""
    if change.operation == SET:
        values[change.name] = change.value
    elif change.operation == DELETE:
        values.pop(change.name, None)
    else:
        now = values.get(change.name, effective.get(change.name)) or ""
        items = [item for item in now.split(",") if item]
        named = [item for item in (change.value or "").split(",") if item]
        if change.operation == APPEND:
            items += [item for item in named if item not in items]
        else:
            items = [item for item in items if item not in named]
        values[change.name] = ",".join(items)


def _entry(entry: Any) -> ConfigEntry:
    return ConfigEntry(
        entry.name,
        entry.value,
        SOURCES.get(entry.config_source, "UNKNOWN"),
        entry.read_only,
        entry.is_sensitive,
        tuple(
            ConfigSynonym(s.name, s.value, SOURCES.get(s.source, "UNKNOWN")) for s in entry.synonyms
        ),
        TYPES.get(entry.config_type, "UNKNOWN"),
        entry.documentation or None,
    )


def _refusal(answer: Any, place: Resource) -> BrokerError:
    kind, name = place
    subject = f"{RESOURCE_NAMES.get(kind, str(kind))} {name}".strip()
    return broker_error(answer.error_code, answer.error_message, subject=subject)


def _outcomes(response: Any) -> dict[Resource, BrokerError | None]:
    places = [(a.resource_type, a.resource_name) for a in response.responses]
    return {
        place: None if a.error_code == ErrorCode.NONE else _refusal(a, place)
        for place, a in zip(places, response.responses, strict=True)
    }
