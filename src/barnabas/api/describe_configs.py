"""DescribeConfigs (32): settings, their values and where these come from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.api.broker_loggers import logger_levels
from barnabas.api.repeats import check_repeats
from barnabas.config.describe import (
    BrokerSources,
    ConfigSource,
    Described,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from barnabas.controller.topic_names import topic_name_error
from barnabas.metadata.image import ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

# Topics that have the same settings of their own, as most have, share what is shown of them.
Shown = dict[tuple[frozenset[tuple[str, str]], frozenset[str]], list[DescribeConfigsResourceResult]]

KEY = ApiKey.DESCRIBE_CONFIGS
VERSIONS = (1, 4)


def handle(
    node: Node, context: Context, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    check_repeats([(each.resource_type, each.resource_name) for each in request.resources])
    image = node.metadata.image
    sources = BrokerSources.of(
        node.static_config,
        image.config(ResourceType.BROKER, ""),
        image.config(ResourceType.BROKER, str(node.node_id)),
    )
    shown: Shown = {}
    return DescribeConfigsResponse(
        results=[_result(node, request, resource, sources, shown) for resource in request.resources]
    )


def _result(
    node: Node,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    sources: BrokerSources,
    shown: Shown,
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    try:
        settings = _settings(node, resource, sources)
    except ApiError as error:
        result.error_code = error.code
        result.error_message = error.message or error.code.message
        return result
    names = frozenset(resource.configuration_keys or ())
    if resource.resource_type == ResourceType.TOPIC:
        own = node.metadata.image.config(ResourceType.TOPIC, resource.resource_name)
        key = (frozenset(own.items()), names)
        if key not in shown:
            shown[key] = _shown(request, settings, names)
        result.configs = shown[key]
    else:
        result.configs = _shown(request, settings, names)
    return result


def _shown(
    request: DescribeConfigsRequest, settings: Iterable[Described], names: frozenset[str]
) -> list[DescribeConfigsResourceResult]:
    return [
        DescribeConfigsResourceResult(
            name=each.name,
            value=each.value,
            read_only=each.read_only,
            config_source=each.source,
            is_sensitive=each.sensitive,
            synonyms=[
                DescribeConfigsSynonym(name=name, value=value, source=source)
                for name, value, source in each.synonyms
            ]
            if request.include_synonyms
            else [],
            config_type=0 if each.type is None else each.type,
            documentation=each.documentation if request.include_documentation else None,
        )
        for each in settings
        if not names or each.name in names
    ]


def _settings(
    node: Node, resource: DescribeConfigsResource, sources: BrokerSources
) -> Iterable[Described]:
    image = node.metadata.image
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            problem = topic_name_error(name)
            if problem is not None:
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
            if name not in image.topics:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return describe_topic(image.config(ResourceType.TOPIC, name), node.config, sources)
        case ResourceType.BROKER:
            if name == "":
                return describe_all_brokers(sources)
            if name != str(node.node_id):
                _check_number(name)
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"Unexpected broker id, expected {node.node_id} or empty string, "
                    f"but received {name}",
                )
            return describe_broker(node.config, sources)
        case ResourceType.GROUP:
            if name == "":
                raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return describe_group(image.config(ResourceType.GROUP, name), node.config, sources)
        case ResourceType.CLIENT_METRICS:
            if name == "":
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
                )
            return describe_client_metrics(image.config(ResourceType.CLIENT_METRICS, name))
        case ResourceType.BROKER_LOGGER:
            if name == "":
                raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            _check_number(name)
            if int(name) != node.node_id:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"Unexpected broker id, expected {node.node_id} but received {name}",
                )
            return _loggers()
    raise ApiError(ErrorCode.INVALID_REQUEST)


def _check_number(name: str) -> None:
    if not name.removeprefix("-").isdecimal():
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )


def _loggers() -> Iterable[Described]:
    for name, level in logger_levels():
        yield Described(
            name=name,
            value=level,
            source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            synonyms=(),
            read_only=False,
            sensitive=False,
            type=None,
            documentation=None,
        )


def error_response(
    request: DescribeConfigsRequest, code: ErrorCode, version: int
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=code,
                error_message=code.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )
