"""A client on a bare socket that sends requests encoded beforehand.

It shows what one small request costs the broker: Produce (version 8, acks=1) with one batch of one
record of 100 bytes. The bytes of all requests are the same but for nothing, so the answers have one
length and can be counted without being parsed; the log's end offset afterwards proves that every
one of them was appended.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time

from crc32c import crc32c

PRODUCE, LIST_OFFSETS = 0, 2
CLIENT_ID = b"bench"


def varint(value: int) -> bytes:
    """Zig-zag variable-length encoding."""
    value = (value << 1) ^ (value >> 63)
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def one_record_batch(value: bytes, timestamp_ms: int) -> bytes:
    body = b"\x00" + varint(0) + varint(0) + varint(-1) + varint(len(value)) + value + varint(0)
    record = varint(len(body)) + body
    after_crc = struct.pack(
        ">hiqqqhii", 0, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1
    )  # attributes, last delta, two timestamps, producer id, epoch, sequence, count
    after_crc += record
    tail = struct.pack(">ibI", 0, 2, crc32c(after_crc)) + after_crc
    return struct.pack(">qi", 0, len(tail)) + tail


def text(data: bytes) -> bytes:
    return struct.pack(">h", len(data)) + data


def frame(api_key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhi", api_key, version, 7) + text(CLIENT_ID)
    return struct.pack(">i", len(header) + len(body)) + header + body


def produce_request(topic: str, partition: int = 0, size: int = 100) -> bytes:
    batch = one_record_batch(b"x" * size, int(time.time() * 1000))
    body = struct.pack(">hhi", -1, 1, 30_000)  # no transaction, acks=1, timeout
    body += struct.pack(">i", 1) + text(topic.encode()) + struct.pack(">i", 1)
    body += struct.pack(">ii", partition, len(batch)) + batch
    return frame(PRODUCE, 8, body)


def connect(bootstrap: str) -> socket.socket:
    host, port = bootstrap.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def read_frame(connection: socket.socket) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
        chunk = connection.recv(65536)
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        data += chunk
    return data


def end_offset(bootstrap: str, topic: str, partition: int = 0) -> int:
    """The high watermark, by ListOffsets version 1."""
    body = struct.pack(">ii", -1, 1) + text(topic.encode())
    body += struct.pack(">iiq", 1, partition, -1)
    with connect(bootstrap) as connection:
        connection.sendall(frame(LIST_OFFSETS, 1, body))
        answer = read_frame(connection)
    return int(struct.unpack(">q", answer[-8:])[0])


def one_in_flight(bootstrap: str, topic: str, seconds: float) -> float:
    """Requests a second on one connection, each sent after the answer to the one before."""
    request = produce_request(topic)
    with connect(bootstrap) as connection:
        connection.sendall(request)
        length = len(read_frame(connection))
        before = end_offset(bootstrap, topic)
        count = 0
        send, receive = connection.sendall, connection.recv
        started = time.perf_counter()
        deadline = started + seconds
        while time.perf_counter() < deadline:
            send(request)
            got = len(receive(65536))
            while got < length:
                got += len(receive(65536))
            count += 1
        elapsed = time.perf_counter() - started
    assert end_offset(bootstrap, topic) == before + count, "the broker refused records"
    return count / elapsed


def pipelined(bootstrap: str, topic: str, seconds: float, window: int = 100) -> float:
    """Requests a second on one connection with up to `window` unanswered ones."""
    request = produce_request(topic)
    half = window // 2
    burst = request * half
    with connect(bootstrap) as connection:
        connection.sendall(request)
        length = len(read_frame(connection))
        before = end_offset(bootstrap, topic)
        send, receive = connection.sendall, connection.recv
        started = time.perf_counter()
        deadline = started + seconds
        send(burst)
        sent, answered = half, 0
        while time.perf_counter() < deadline:
            send(burst)
            sent += half
            while answered < (sent - half) * length:
                answered += len(receive(262_144))
        while answered < sent * length:
            answered += len(receive(262_144))
        elapsed = time.perf_counter() - started
    assert end_offset(bootstrap, topic) == before + sent, "the broker refused records"
    return sent / elapsed


def many_connections(bootstrap: str, topic: str, seconds: float, connections: int) -> float:
    """Requests a second over many connections, each with one request in flight."""
    request = produce_request(topic)
    selector = selectors.DefaultSelector()
    length = 0
    for _ in range(connections):
        connection = connect(bootstrap)
        connection.sendall(request)
        length = len(read_frame(connection))
        selector.register(connection, selectors.EVENT_READ, [0])
    before = end_offset(bootstrap, topic)
    count = 0
    started = time.perf_counter()
    deadline = started + seconds
    for key in selector.get_map().values():
        sent = key.fileobj
        assert isinstance(sent, socket.socket)
        sent.sendall(request)
    open_count = connections
    while open_count:
        stopping = time.perf_counter() > deadline
        for key, _ in selector.select(5.0):
            connection = key.fileobj  # type: ignore[assignment]
            key.data[0] += len(connection.recv(65536))
            if key.data[0] < length:
                continue
            key.data[0] = 0
            count += 1
            if stopping:
                open_count -= 1
                selector.unregister(connection)
                connection.close()
            else:
                connection.sendall(request)
    elapsed = time.perf_counter() - started
    assert end_offset(bootstrap, topic) == before + count, "the broker refused records"
    return count / elapsed
