"""Certificates that openssl makes, and a proxy with TLS in front of a server without it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from pathlib import Path

_REQUEST = """
[req]
distinguished_name=d
prompt=no
[d]
CN={name}
[x]
subjectAltName={names}
basicConstraints=CA:{ca}
"""


class CertificateAuthority:
    """An authority, and the certificates that it issues, as PEM files in a directory."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder, self.name = folder, name
        folder.mkdir(exist_ok=True)
        self.certificate, self.key = self._request(name, "DNS:nobody", is_authority=True)
        self._sign(name, self.certificate, "-signkey", self.key)

    def issue(self, name: str, names: str, days: int = 2) -> tuple[Path, Path]:
        """Return the files of a new certificate for `names`, as `DNS:localhost,IP:127.0.0.1`, and of its key."""
        certificate, key = self._request(name, names, is_authority=False)
        self._sign(name, certificate, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial", "-days", days)
        return certificate, key

    def _request(self, name: str, names: str, is_authority: bool) -> tuple[Path, Path]:
        text = _REQUEST.format(name=name, names=names, ca=str(is_authority).upper())
        (self.folder / f"{name}.cnf").write_text(text)
        key = self.folder / f"{name}.key"
        self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
        self._openssl("req", "-new", "-key", key, "-config", f"{name}.cnf", "-out", f"{name}.csr")
        return self.folder / f"{name}.pem", key

    def _sign(self, name: str, certificate: Path, *by: object) -> None:
        extensions = ("-extfile", f"{name}.cnf", "-extensions", "x")
        self._openssl("x509", "-req", "-in", f"{name}.csr", *by, "-out", certificate, *extensions)

    def _openssl(self, *words: object) -> None:
        subprocess.run(["openssl", *map(str, words)], cwd=self.folder, check=True, capture_output=True, timeout=30)


class TlsProxy:
    """A port with TLS that leads to one without. `clients`: the authority whose certificates clients must have."""

    def __init__(self, upstream: str, certificate: tuple[Path, Path], clients: Path | None = None) -> None:
        host, _, port = upstream.rpartition(":")
        self._upstream = host, int(port)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*certificate)
        self._context.set_alpn_protocols(["h2", "http/1.1"])
        if clients is not None:
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(clients)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.settimeout(10)
            client = self._context.wrap_socket(connection, server_side=True)
            client.settimeout(None)
            with client, socket.create_connection(self._upstream) as server:
                threading.Thread(target=_pump, args=(server, client), daemon=True).start()
                _pump(client, server)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError, ValueError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
