"""What a configuration asks for and this server cannot do.

Two answers exist. What would make the node something else than what was asked for is refused: a
plaintext port where TLS was wanted. All else is told in a warning, one sentence a setting, and the
node starts: files written for Apache Kafka are accepted as they are. A setting that only repeats
what holds anyway is passed over in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.config.broker import broker_key
from barnabas.config.definition import ConfigError, ConfigKey, Support

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig

_SERVED_PROTOCOL = "PLAINTEXT"
FIXED_SO_FAR = frozenset(("listeners", "listener.security.protocol.map"))
"""What Kafka can change while it runs and this server cannot yet: refused, since it would be awaited."""


def check_supported(config: BrokerConfig) -> None:
    """Raises a `ConfigError` where the node could only be something else than what was asked."""
    for listener in config.listeners:
        if listener.protocol != _SERVED_PROTOCOL:
            raise ConfigError.invalid(
                "listeners",
                ",".join(str(each) for each in config.listeners),
                f"listener {listener.name} has the security protocol {listener.protocol}, which is "
                f"not supported yet; use {_SERVED_PROTOCOL}",
            )


def warnings(config: BrokerConfig) -> list[str]:
    """A sentence for each given setting that does nothing here."""
    said = [_unknown(name) for name in config.unknown_settings()]
    said += [_not_yet(name) for name in config.unsupported_settings()]
    said += [_no_effect(name) for name in config.settings_without_effect()]
    return said


def dynamic_warnings(
    rows: Mapping[str, ConfigKey] | None, before: Mapping[str, str], after: Mapping[str, str]
) -> list[str]:
    """The same for settings that were changed at run time; `rows` None are those of brokers."""
    said = []
    for name in sorted(name for name in after if after[name] != before.get(name)):
        row = broker_key(name) if rows is None else rows.get(name)
        if row is None:
            said.append(_unknown(name))
        elif row.support is Support.NOT_YET:
            said.append(_not_yet(name))
        elif row.support is Support.NO_EFFECT:
            said.append(_no_effect(name))
    return said


def _unknown(name: str) -> str:
    return f"unknown setting {name} is ignored"


def _not_yet(name: str) -> str:
    return f"setting {name} is not supported yet and is ignored"


def _no_effect(name: str) -> str:
    return f"setting {name} has no effect: this server has nothing that it could change"
