"""The other end of a virtual stream: a TLS server in the test's hands."""

from __future__ import annotations

import ssl

from tests.client.virtual import VirtualStream


class TlsServer:
    """Decrypts what it got into `got`, and sends what is put into `to_send`."""

    def __init__(self, stream: VirtualStream, context: ssl.SSLContext) -> None:
        self.stream = stream
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.shaken = False
        self.got = bytearray()
        self.goodbye = False
        self.to_send = bytearray()

    def turn(self) -> bytes:
        """Take in everything that was sent; what the server has to say."""
        self.incoming.write(bytes(self.stream.sent))
        self.stream.sent.clear()
        try:
            if not self.shaken:
                self.tls.do_handshake()
                self.shaken = True
            while self.to_send:
                del self.to_send[: self.tls.write(self.to_send)]
            while data := self.tls.read(65_536):
                self.got += data
            self.goodbye = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.goodbye = True
        return self.outgoing.read()
