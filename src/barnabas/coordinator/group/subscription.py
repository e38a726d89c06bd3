"""The topics in a consumer's protocol metadata.

What members of a group tell each other is opaque to the coordinator, with one exception: in a
group of type "consumer" the metadata begins with a version and the list of subscribed topics, and
offsets of a topic that somebody is subscribed to must not expire or be deleted. Members write
these bytes, so every length is checked, and anything else than a subscription is simply "not
known".
"""

from __future__ import annotations

_VERSION_BYTES = 2
_COUNT_BYTES = 4
_LENGTH_BYTES = 2


def topics_of_subscription(metadata: bytes) -> list[str] | None:
    """The topics, or None if these bytes are not a subscription."""
    end = len(metadata)
    position = _VERSION_BYTES + _COUNT_BYTES
    if end < position or int.from_bytes(metadata[:_VERSION_BYTES], "big", signed=True) < 0:
        return None
    count = int.from_bytes(metadata[_VERSION_BYTES:position], "big", signed=True)
    if count < 0 or count * _LENGTH_BYTES > end - position:
        return None
    topics = []
    for _ in range(count):
        start = position + _LENGTH_BYTES
        if start > end:
            return None
        length = int.from_bytes(metadata[position:start], "big", signed=True)
        position = start + length
        if length < 0 or position > end:
            return None
        try:
            topics.append(metadata[start:position].decode())
        except UnicodeDecodeError:
            return None
    return topics
