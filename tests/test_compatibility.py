"""The compatibility table in the documentation says what the code serves.

To write it anew: BARNABAS_RECORD=1 pytest tests/test_compatibility.py
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

from barnabas.api.registry import CONTROLLER_SERVED, advertised_versions, load_handlers
from barnabas.wire.api_keys import ApiKey

PAGE = Path(__file__).parent.parent / "docs" / "compatibility.md"
START = "<!-- table: start -->\n"
END = "<!-- table: end -->\n"

NOTES = {
    ApiKey.PRODUCE: "transactional batches are refused until there is a transaction coordinator; "
    "versions 0 to 2 are advertised for librdkafka and, as in Kafka, not served",
    ApiKey.FETCH: "from consumers, followers and, on controllers, replicas of the metadata log",
    ApiKey.LIST_OFFSETS: "without tiered storage, as Kafka answers when it is off",
    ApiKey.METADATA: "a topic that is created on demand is in the first answer already",
    ApiKey.FIND_COORDINATOR: "groups; transactions and share groups are refused for good",
    ApiKey.INIT_PRODUCER_ID: "idempotent producers; a transactional id is refused for good; "
    "version 6 is shown only with unstable.api.versions.enable",
    ApiKey.DESCRIBE_GROUPS: "classic groups",
    ApiKey.LIST_GROUPS: "classic groups",
    ApiKey.DESCRIBE_LOG_DIRS: "",
    ApiKey.UPDATE_FEATURES: "metadata.version",
}


def versions_of(handlers: dict[ApiKey, ModuleType], key: ApiKey) -> str:
    if key not in handlers:
        return ""
    shown = advertised_versions(handlers, unstable=False)
    lowest, highest = handlers[key].VERSIONS
    lowest, highest = max(lowest, shown[key][0]), min(highest, shown[key][1])
    return str(lowest) if lowest == highest else f"{lowest}-{highest}"


def table() -> str:
    brokers, controllers = load_handlers(), load_handlers(CONTROLLER_SERVED)
    lines = [
        "| key | API | brokers | controllers | remarks |",
        "| ---: | --- | --- | --- | --- |",
    ]
    for key in sorted(ApiKey):
        on_broker, on_controller = versions_of(brokers, key), versions_of(controllers, key)
        note = NOTES.get(key, "") if on_broker or on_controller else "not served yet"
        lines.append(f"| {int(key)} | {key.name} | {on_broker} | {on_controller} | {note} |")
    return "\n".join(lines) + "\n"


def test_the_page_has_the_table_of_the_code() -> None:
    page = PAGE.read_text()
    before, rest = page.split(START)
    present, after = rest.split(END)
    if os.environ.get("BARNABAS_RECORD"):
        PAGE.write_text(before + START + table() + END + after)
        return
    assert present == table()
