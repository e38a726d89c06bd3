"""ApiVersions (18): what this node serves.

The list is made from the handlers themselves, so code and promise cannot differ. A version of this very
request that the node does not know is answered in version 0 by the pipeline, so that old and new peers
can always find a common one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.API_VERSIONS
VERSIONS = (0, 4)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_VERSION_WITH_SOFTWARE = 3
_FIRST_VERSION_WITH_LOWEST_ZERO = 4


def handle(node: Node, context: Context, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if context.api_version >= _FIRST_VERSION_WITH_SOFTWARE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    supported = [
        SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
        for name, (lowest, highest) in node.supported_features().items()
        # Before version 4 a lowest level of 0 could not be understood by clients.
        if lowest > 0 or context.api_version >= _FIRST_VERSION_WITH_LOWEST_ZERO
    ]
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, (lowest, highest) in node.advertised_versions().items()
        ],
        supported_features=supported,
        finalized_features_epoch=node.metadata.image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in node.finalized_levels().items()
            if level > 0
        ],
    )


def error_response(
    request: ApiVersionsRequest, code: ErrorCode, version: int
) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=code)
