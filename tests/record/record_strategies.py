"""Records that hypothesis makes up: `(timestamp_ms, key, value, headers)`."""

from __future__ import annotations

from hypothesis import strategies as st

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
OPTIONAL_BYTES = st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=300)
NAMES = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), max_size=12)
HEADERS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=20)), max_size=3).map(tuple)


def records_of(timestamps: st.SearchStrategy[int], *, least: int = 0):  # type: ignore[no-untyped-def]
    record = st.tuples(timestamps, OPTIONAL_BYTES, OPTIONAL_BYTES, HEADERS)
    return st.lists(record, min_size=least, max_size=12)


ANY_RECORDS = records_of(INT64)
RECORDS = records_of(st.integers(0, 1 << 45), least=1)
