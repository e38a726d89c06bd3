"""The compatibility table in the documentation says what the code serves.

To write it anew: BARNABAS_RECORD=1 pytest tests/test_compatibility.py
"""

from __future__ import annotations

import os
from pathlib import Path

from barnabas.api.registry import advertised_versions, load_handlers
from barnabas.wire.api_keys import ApiKey

PAGE = Path(__file__).parent.parent / "docs" / "compatibility.md"
START = "<!-- table: start -->\n"
END = "<!-- table: end -->\n"

NOTES = {
    ApiKey.PRODUCE: "transactional batches are refused until there is a transaction coordinator; "
    "versions 0 to 2 are advertised for librdkafka and, as in Kafka, not served",
    ApiKey.FETCH: "from consumers; a peer that claims to be a replica is refused",
    ApiKey.LIST_OFFSETS: "without tiered storage, as Kafka answers when it is off",
    ApiKey.METADATA: "a topic that is created on demand is in the first answer already",
    ApiKey.FIND_COORDINATOR: "groups; transactions and share groups are refused for good",
    ApiKey.INIT_PRODUCER_ID: "idempotent producers; a transactional id is refused for good; "
    "version 6 is shown only with unstable.api.versions.enable",
    ApiKey.DESCRIBE_GROUPS: "classic groups",
    ApiKey.LIST_GROUPS: "classic groups",
    ApiKey.DESCRIBE_LOG_DIRS: "",
    ApiKey.DESCRIBE_CONFIGS: "no broker loggers",
    ApiKey.DESCRIBE_QUORUM: "a quorum of one voter",
    ApiKey.CREATE_TOPICS: "one broker, so one replica",
    ApiKey.UPDATE_FEATURES: "metadata.version",
}


def table() -> str:
    handlers = load_handlers()
    shown = advertised_versions(handlers, unstable=False)
    lines = ["| key | API | versions | remarks |", "| ---: | --- | --- | --- |"]
    for key in sorted(ApiKey):
        if key in handlers:
            lowest, highest = handlers[key].VERSIONS
            lowest, highest = max(lowest, shown[key][0]), min(highest, shown[key][1])
            versions = str(lowest) if lowest == highest else f"{lowest}-{highest}"
            note = NOTES.get(key, "")
        else:
            versions, note = "", "not served yet"
        lines.append(f"| {int(key)} | {key.name} | {versions} | {note} |")
    return "\n".join(lines) + "\n"


def test_the_page_has_the_table_of_the_code() -> None:
    page = PAGE.read_text()
    before, rest = page.split(START)
    present, after = rest.split(END)
    if os.environ.get("BARNABAS_RECORD"):
        PAGE.write_text(before + START + table() + END + after)
        return
    assert present == table()
