"""Settings as a table.

A `ConfigKey` is one row: what a setting is called, what type it has, what it means, what it may be
and how it may change. A `ConfigDef` is a table of them that turns strings, as they come from a
properties file, a command line or the wire, into typed values.

Two failures exist. A value that cannot be used is a `ConfigError`; it names the setting, the value
and what is allowed, in the words Kafka uses. A name that is not in the table is no error here: the
caller decides (a server file warns, an AlterConfigs request is refused).

The tables are plain Python, built on first use; nothing here reads a file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Final

from barnabas.config.validators import Validator


class ConfigType(IntEnum):
    """The types of settings, numbered as DescribeConfigs numbers them."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class DynamicMode(StrEnum):
    """How a broker setting may change while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Support(StrEnum):
    """What a setting does here.

    NOT_YET is a promise that is not kept so far; NO_EFFECT is a setting that has no meaning in a
    server of one event loop (a number of threads, say) and may stand in a file without harm.
    """

    YES = "yes"
    NOT_YET = "not yet"
    NO_EFFECT = "no effect"


class ConfigError(ValueError):
    """A setting cannot have this value."""

    def __init__(self, message: str, name: str | None = None, value: object = None) -> None:
        super().__init__(message)
        self.message = message
        self.name = name
        self.value = value

    @classmethod
    def invalid(cls, name: str, value: object, reason: str) -> ConfigError:
        return cls(f"Invalid value {value} for configuration {name}: {reason}", name, value)


class Required:
    """The default of a setting that has none and must be given."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = Required()

BOOLEAN, STRING, INT, SHORT = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
)
LONG, DOUBLE, LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
CLASS, PASSWORD = ConfigType.CLASS, ConfigType.PASSWORD
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
READ_ONLY, PER_BROKER, CLUSTER_WIDE = (
    DynamicMode.READ_ONLY,
    DynamicMode.PER_BROKER,
    DynamicMode.CLUSTER_WIDE,
)
NOT_YET, NO_EFFECT = Support.NOT_YET, Support.NO_EFFECT

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
DOUBLE_MAX: Final = 1.7976931348623157e308


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One setting. `default` is a typed value; a list's is a tuple."""

    name: str
    type: ConfigType
    default: Any
    importance: Importance
    documentation: str
    validator: Validator | None = None
    dynamic: DynamicMode = DynamicMode.READ_ONLY
    support: Support = Support.YES
    internal: bool = False

    @property
    def supported(self) -> bool:
        return self.support is not Support.NOT_YET

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def allowed(self) -> str:
        """What values are allowed, for people."""
        return str(self.validator) if self.validator is not None else self.type.name.lower()

    def parse(self, text: object) -> Any:
        """The typed value of a string, checked; a value that is typed already is only checked."""
        value = parse_value(self.name, text, self.type)
        self.check(value)
        return value

    def check(self, value: Any) -> None:
        if self.validator is None:
            return
        reason = self.validator.check(self.name, value)
        if reason is not None:
            shown = "[hidden]" if self.sensitive else format_value(value)
            raise ConfigError.invalid(self.name, shown, reason)


def key(
    name: str,
    type: ConfigType,
    default: Any,
    importance: Importance,
    validator: Validator | None = None,
    *,
    dynamic: DynamicMode = DynamicMode.READ_ONLY,
    support: Support = Support.YES,
    internal: bool = False,
    doc: str,
) -> ConfigKey:
    """One row of a table, in the order in which a row reads best."""
    return ConfigKey(name, type, default, importance, doc, validator, dynamic, support, internal)


_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?")
_BOUNDS = {
    ConfigType.INT: (-(2**31), 2**31 - 1),
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.LONG: (-(2**63), 2**63 - 1),
}


def parse_value(name: str, text: object, type: ConfigType) -> Any:
    """Turns a string into the Python value of its type."""
    if text is None:
        return None
    if not isinstance(text, str):
        return tuple(text) if isinstance(text, list | set | frozenset) else text
    trimmed = text.strip()
    if type is ConfigType.BOOLEAN:
        lowered = trimmed.lower()
        if lowered in ("true", "false"):
            return lowered == "true"
        raise ConfigError.invalid(name, text, "Expected value to be either true or false")
    if type in _BOUNDS:
        lowest, highest = _BOUNDS[type]
        if _WHOLE_NUMBER.fullmatch(trimmed) and lowest <= int(trimmed) <= highest:
            return int(trimmed)
        raise ConfigError.invalid(name, text, f"Not a number of type {type.name}")
    if type is ConfigType.DOUBLE:
        if _DECIMAL.fullmatch(trimmed):
            return float(trimmed.rstrip("dDfF"))
        raise ConfigError.invalid(name, text, "Not a number of type DOUBLE")
    if type is ConfigType.LIST:
        return tuple(part.strip() for part in trimmed.split(",")) if trimmed else ()
    return trimmed


def format_value(value: Any) -> str | None:
    """The string by which tools show a typed value; None stays None."""
    if value is None or isinstance(value, Required):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _format_double(value)
    if isinstance(value, tuple | list):
        return ",".join(str(part) for part in value)
    if isinstance(value, frozenset | set):
        return ",".join(sorted(value))
    return str(value)


def _format_double(value: float) -> str:
    """As Java prints a double: 0.5, 1.0E7, 1.7976931348623157E308."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = repr(value)
        if "e" not in text:
            return text
    for precision in range(1, 18):
        text = f"{value:.{precision}e}"
        if float(text) == value:
            break
    mantissa, exponent = text.split("e")
    return f"{mantissa}E{int(exponent)}"


@dataclass(frozen=True)
class ConfigDef:
    """A table of settings, by name."""

    keys: Mapping[str, ConfigKey]

    @classmethod
    def of(cls, *tables: Iterable[ConfigKey]) -> ConfigDef:
        keys: dict[str, ConfigKey] = {}
        for table in tables:
            for row in table:
                if row.name in keys:
                    raise AssertionError(f"{row.name} is defined twice")
                keys[row.name] = row
        return cls(keys)

    def __contains__(self, name: object) -> bool:
        return name in self.keys

    def __getitem__(self, name: str) -> ConfigKey:
        return self.keys[name]

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self.keys.values())

    def __len__(self) -> int:
        return len(self.keys)

    def get(self, name: str) -> ConfigKey | None:
        return self.keys.get(name)

    def unknown(self, names: Iterable[str]) -> list[str]:
        return sorted(name for name in names if name not in self.keys)

    def parse(self, given: Mapping[str, object]) -> dict[str, Any]:
        """Every setting's value: the given ones parsed and checked, the others by default.

        Names that are not in the table are passed over. A missing setting without a default is a
        `ConfigError`.
        """
        values: dict[str, Any] = {}
        for name, row in self.keys.items():
            if name in given:
                values[name] = row.parse(given[name])
            elif row.default is REQUIRED:
                raise ConfigError(
                    f'Missing required configuration "{name}" which has no default value.', name
                )
            else:
                values[name] = row.default
        return values

    def parse_given(self, given: Mapping[str, object]) -> dict[str, Any]:
        """Only the given settings that are in the table, parsed and checked."""
        return {name: self.keys[name].parse(text) for name, text in given.items() if name in self}
