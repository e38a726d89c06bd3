"""Certificates for tests, made by the `openssl` command: an authority and what it signed."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

PASSWORD = "of the key"


def missing() -> str | None:
    return None if shutil.which("openssl") else "no openssl command to make certificates with"


@dataclass(frozen=True)
class Certificates:
    """PEM files. `server` is for localhost and 127.0.0.1, `elsewhere` for another host."""

    directory: Path

    def path(self, name: str) -> str:
        return str(self.directory / name)

    @property
    def authority(self) -> str:
        return self.path("ca.pem")

    @property
    def stranger(self) -> str:
        """An authority that signed nothing."""
        return self.path("stranger.pem")

    def certificate(self, name: str) -> str:
        return self.path(f"{name}.pem")

    def key(self, name: str) -> str:
        return self.path(f"{name}.key")

    def both(self, name: str) -> str:
        """One file with the key and the certificate."""
        place = self.directory / f"{name}-both.pem"
        if not place.exists():
            key, certificate = Path(self.key(name)), Path(self.certificate(name))
            place.write_text(key.read_text() + certificate.read_text())
        return str(place)

    def server_context(self, name: str = "server", *, ask: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate(name), self.key(name))
        if ask:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.authority)
        return context


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)


def make(directory: Path) -> Certificates:
    made = Certificates(directory)
    for name in ("ca", "stranger"):
        openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "30", "-subj", f"/CN={name}", "-addext", "keyUsage=keyCertSign"),
            *("-keyout", made.key(name), "-out", made.certificate(name)),
        )
    names = {
        "server": "DNS:localhost,IP:127.0.0.1",
        "elsewhere": "DNS:elsewhere.example",
        "client": "DNS:client.example",
    }
    for name, alternatives in names.items():
        request = made.path(f"{name}.csr")
        openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-subj", f"/CN={name}", "-addext", f"subjectAltName={alternatives}"),
            *("-keyout", made.key(name), "-out", request),
        )
        openssl(
            *("x509", "-req", "-in", request, "-CA", made.authority, "-CAkey", made.key("ca")),
            *("-copy_extensions", "copy", "-days", "30", "-out", made.certificate(name)),
        )
    openssl(
        *("pkcs8", "-topk8", "-in", made.key("client"), "-out", made.key("locked")),
        *("-passout", f"pass:{PASSWORD}"),
    )
    shutil.copy(made.certificate("client"), made.certificate("locked"))
    return made
