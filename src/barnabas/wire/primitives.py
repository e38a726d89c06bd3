"""Variable-length integers, and the two errors of this layer.

An unsigned varint carries seven bits a byte, lowest first; the top bit says that more follow. Five
bytes are enough for 32 bits and ten for 64: longer ones, and values that do not fit, are refused.
Padded encodings within that length are accepted, as Kafka does. Signed ones are folded (zigzag).

Readers take a position and return the new one. They do not know where the frame ends: they refuse
to run off the buffer, and whoever called them compares the new position with the end.
"""

from __future__ import annotations

Buffer = bytes | bytearray | memoryview


class DecodeError(ValueError):
    """Foreign bytes that are not what they claim to be. Ends the connection they came from."""


class EncodeError(ValueError):
    """A message of ours that the chosen version cannot express."""


VARINT_BYTES: tuple[bytes, ...] = tuple(bytes((value,)) for value in range(128))
"""The encodings of the values that fit in one byte."""


def unsigned_varint(value: int) -> bytes:
    """The shortest encoding of a value below 2**32."""
    if 0 <= value < 128:
        return VARINT_BYTES[value]
    if not 0 <= value <= 0xFFFFFFFF:
        raise EncodeError(f"{value} does not fit an unsigned varint")
    return _encode(value)


def varint(value: int) -> bytes:
    """The folded encoding of a signed 32-bit value."""
    if not -0x80000000 <= value <= 0x7FFFFFFF:
        raise EncodeError(f"{value} does not fit a varint")
    return _encode(value << 1 ^ value >> 31)


def varlong(value: int) -> bytes:
    """The folded encoding of a signed 64-bit value."""
    if not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise EncodeError(f"{value} does not fit a varlong")
    return _encode(value << 1 ^ value >> 63)


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The value at `position` and the position after it."""
    try:
        first = buffer[position]
    except IndexError:
        raise DecodeError("a varint runs past the end") from None
    if first < 128:
        return first, position + 1
    return read_varint_rest(buffer, position + 1, first)


def read_varint_rest(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Finish an unsigned varint whose first byte has been read and says that more follow."""
    return _decode_rest(buffer, position, first, 32)


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """A folded 32-bit value and the position after it."""
    value, position = read_unsigned_varint(buffer, position)
    return value >> 1 ^ -(value & 1), position


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """A folded 64-bit value and the position after it."""
    try:
        value = buffer[position]
    except IndexError:
        raise DecodeError("a varlong runs past the end") from None
    position += 1
    if value > 127:
        value, position = _decode_rest(buffer, position, value, 64)
    return value >> 1 ^ -(value & 1), position


def _decode_rest(buffer: Buffer, position: int, first: int, bits: int) -> tuple[int, int]:
    value = first & 127
    shift = 7
    try:
        while shift < bits:
            byte = buffer[position]
            position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                if value >> bits:
                    raise DecodeError(f"a varint holds more than {bits} bits")
                return value, position
            shift += 7
    except IndexError:
        raise DecodeError("a varint runs past the end") from None
    raise DecodeError(f"a varint has more than {(bits + 6) // 7} bytes")


def _encode(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
