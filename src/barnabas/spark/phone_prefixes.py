"""The reference table of the generator: which region a phone number's prefix stands for.

Longer prefixes win: +4930 is Berlin where +49 is Germany. The first edition has mistakes in it on
purpose; `CORRECTIONS` are what the keeper of the table publishes later, as new records under the
same key, one of them a tombstone.
"""

from __future__ import annotations

MAX_PREFIX_DIGITS = 7

FIRST_EDITION: dict[str, tuple[str, str]] = {
    "+1": ("US", "United States"),
    "+1212": ("US", "New York"),
    "+1312": ("US", "Chicago"),
    "+1415": ("US", "San Francisco"),
    "+1416": ("US", "Ontario"),
    "+33": ("FR", "France"),
    "+331": ("FR", "Paris"),
    "+334": ("FR", "South-east"),
    "+34": ("ES", "Spain"),
    "+3491": ("ES", "Madrid"),
    "+3493": ("ES", "Barcelona"),
    "+420": ("CZ", "Czechia"),
    "+4202": ("CZ", "Prague"),
    "+43": ("AT", "Austria"),
    "+431": ("AT", "Vienna"),
    "+44": ("GB", "United Kingdom"),
    "+4420": ("GB", "London"),
    "+44131": ("GB", "Glasgow"),
    "+44161": ("GB", "Manchester"),
    "+49": ("DE", "Germany"),
    "+4930": ("DE", "Hamburg"),
    "+4989": ("DE", "Munich"),
    "+4940": ("DE", "Hamburg"),
    "+48": ("PL", "Poland"),
    "+4822": ("PL", "Warsaw"),
    "+81": ("JP", "Japan"),
    "+813": ("JP", "Tokyo"),
    "+816": ("JP", "Osaka"),
}

CORRECTIONS: tuple[tuple[str, tuple[str, str] | None], ...] = (
    ("+4930", ("DE", "Berlin")),
    ("+1416", ("CA", "Toronto")),
    ("+44131", ("GB", "Edinburgh")),
    ("+334", None),
    ("+4821", ("PL", "Katowice")),
)

# Where the generator's people live; +4821 is in no table until it is corrected.
LEAVES: tuple[str, ...] = (
    "+1212", "+1312", "+1415", "+1416", "+1713", "+331", "+334", "+336", "+3491", "+3493",
    "+4202", "+431", "+4420", "+44131", "+44161", "+4930", "+4989", "+4940", "+4915", "+4822",
    "+4821", "+813", "+816", "+91",
)  # fmt: skip


def longest_match(phone: str, table: dict[str, tuple[str, str]]) -> tuple[str, str] | None:
    """The entry of the longest prefix of `phone` that the table has."""
    for length in range(MAX_PREFIX_DIGITS + 1, 1, -1):
        found = table.get(phone[:length])
        if found is not None:
            return found
    return None
