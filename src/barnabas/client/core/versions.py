"""Which version of an API a client and a broker use together: the highest both know.

A broker tells its ranges with ApiVersions. The client's own ranges are those of the message classes;
a caller may cap them, for instance when a topic's id is unknown and the versions that carry only ids
cannot be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.client.errors import VersionError
from barnabas.wire.api_keys import ApiKey


class BrokerVersions:
    """The ranges one broker offers."""

    __slots__ = (
        "address",
        "finalized_features",
        "finalized_features_epoch",
        "ranges",
        "supported_features",
    )

    def __init__(self, address: str, ranges: Mapping[int, tuple[int, int]]) -> None:
        self.address = address
        self.ranges = dict(ranges)
        self.supported_features: dict[str, tuple[int, int]] = {}
        self.finalized_features: dict[str, tuple[int, int]] = {}
        self.finalized_features_epoch = -1

    def offers(self, key: int) -> bool:
        return key in self.ranges

    def choose_for(self, request: Any, highest: int | None = None) -> int:
        """The highest version of a request's API that both know, at most `highest`."""
        low, high = type(request).VERSIONS
        return self.choose(
            type(request).API_KEY, low, high if highest is None else min(high, highest)
        )

    def choose(self, key: int, lowest: int, highest: int) -> int:
        """The highest version in both `lowest..highest` and the broker's range."""
        name = ApiKey(key).name
        offered = self.ranges.get(key)
        if offered is None:
            raise VersionError(self.address, name, "is not offered by this broker")
        low, high = offered
        version = min(high, highest)
        if version < max(low, lowest):
            raise VersionError(
                self.address,
                name,
                f"is offered in versions {low}-{high}, this client needs {lowest}-{highest}",
            )
        return version
