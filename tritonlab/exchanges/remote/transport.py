"""The connection to a server elsewhere: its address, the headers of each request, and TLS.

All sockets of HTTP are opened here, and channels of gRPC have the address and the certificates from here, so that every
caller of a server, also a load test, has the same certificates.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from urllib.parse import urlsplit

from ...core.status import UnavailableError

#: Seconds to find out why a connection failed, and for the answer of a server to a client's certificate.
_FIND_SECONDS, _ALERT_SECONDS = 3.0, 0.5
#: The characters of a header (RFC 9110), so that no value can add a line to a request.
_HEADER_NAME, _HEADER_VALUE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"), re.compile(r"[\t\x20-\x7e\x80-\xff]*")
#: The numbers of OpenSSL for a chain of certificates that ends in an unknown one.
_UNKNOWN_ISSUER = {2, 18, 19, 20, 21}
_NOT_YET_VALID, _EXPIRED, _WRONG_NAME = 9, 10, (62, 64)
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNEXPECTED_EOF_WHILE_READING")


@dataclass(frozen=True)
class Tls:
    """The certificates of a client, as paths of PEM files.

    ca: the authorities, or the server's own certificate, that are trusted in place of the system's
    certificate, key: of the client, where the server requires them
    server_name: the name in the server's certificate, if it is not the host of the address
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""

    @staticmethod
    def from_options(
        ca: str | PathLike[str] | None,
        certificate: str | PathLike[str] | None,
        key: str | PathLike[str] | None,
        server_name: str,
    ) -> Tls:
        """Return the certificates. Raises OSError for a file that cannot be read, ValueError for one without
        certificates or the key."""
        if key is not None and certificate is None:
            raise ValueError("a key without a certificate is of no use: give `certificate`, too")
        found = Tls(_path(ca), _path(certificate), _path(key), server_name)
        found.context()  # now, and not with the first request
        return found

    def context(self) -> ssl.SSLContext:
        """Return a context that checks the server's certificate and its name."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except ssl.SSLError as error:
            raise ValueError(f"{self.ca} is not a PEM file of certificates: {error.reason or error}") from None
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.key)
            except ssl.SSLError as error:
                files = f"{self.certificate} and {self.key or 'the key in it'}"
                raise ValueError(f"{files} are not a certificate and its key: {error.reason or error}") from None
        return context

    def files(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Return the contents of `ca`, `key` and `certificate`, the order of gRPC."""
        ca, certificate, key = (each.read_bytes() if each else None for each in (self.ca, self.certificate, self.key))
        return ca, key or certificate, certificate


def _path(name: str | PathLike[str] | None) -> Path | None:
    return Path(name).expanduser() if name is not None else None


@dataclass(frozen=True)
class Transport:
    """The address of a server, the headers of each request to it, the seconds that a request may take, and TLS, if it
    is used. `shown`: the address to show, if it is another one."""

    address: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 60.0
    tls: Tls | None = None
    shown: str = ""

    def __post_init__(self) -> None:
        for name, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise ValueError(f"the header {name!r} has a character that no header can have")

    @property
    def name(self) -> str:
        return self.shown or self.address

    @cached_property
    def _place(self) -> tuple[str, int]:
        found = urlsplit(f"//{self.address}")
        return found.hostname or "", found.port or (443 if self.tls is not None else 80)

    def connect(self, timeout: float | None = None) -> socket.socket:
        """Open a connection, with TLS if the server has it. Raises OSError."""
        host, port = self._place
        connection = socket.create_connection((host, port), timeout or self.timeout)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls is None:
                return connection
            return self._context.wrap_socket(connection, server_hostname=self.tls.server_name or host)
        except BaseException:
            connection.close()
            raise

    @cached_property
    def _context(self) -> ssl.SSLContext:
        assert self.tls is not None
        return self.tls.context()

    def failure(self, protocol: str, error: BaseException) -> UnavailableError:
        """Return the error for a request over `protocol` that failed because of `error`: the reason and the remedy."""
        reason = self._tls_reason(error) if isinstance(error, ssl.SSLError) else str(error) or type(error).__name__
        return UnavailableError(f"{self.name} does not answer over {protocol}: {reason}")

    def find_reason(self, protocol: str) -> str:
        """Try to connect, and return why no server of this kind is there, with the remedy; "" if that is not known."""
        host, port = self._place
        context = ssl.create_default_context() if self.tls is None else self.tls.context()
        if self.tls is None:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent
        if protocol == "gRPC":
            context.set_alpn_protocols(["h2"])
        name = self.tls.server_name if self.tls is not None else ""
        try:
            connection = socket.create_connection((host, port), _FIND_SECONDS)
        except OSError as error:
            return str(error) or type(error).__name__
        try:
            with connection, context.wrap_socket(connection, server_hostname=name or host) as wrapped:
                if self.tls is None:
                    return _TLS_THERE
                # with TLS 1.3 a client's certificate is refused only now; a server of gRPC speaks first
                wrapped.settimeout(_FIND_SECONDS if protocol == "gRPC" else _ALERT_SECONDS)
                with contextlib.suppress(TimeoutError):
                    if not wrapped.recv(1):
                        return self._client_reason("it closed the connection")
        except ssl.SSLError as error:
            if self.tls is not None:
                return self._tls_reason(error)
            return _TLS_THERE if _is_alert(error) else ""  # the server requires a client's certificate
        except OSError:  # it closed the connection
            return _NO_TLS_THERE if self.tls is not None else ""
        return ""

    def _tls_reason(self, error: ssl.SSLError) -> str:
        """Return the reason of a failed handshake and the remedy; OpenSSL's words for other reasons."""
        assert self.tls is not None
        if isinstance(error, ssl.SSLCertVerificationError):
            return self._certificate_reason(error, self.tls)
        if error.reason in _NOT_TLS:
            return _NO_TLS_THERE
        if _is_alert(error) and re.search("CERTIFICATE|UNKNOWN_CA", error.reason or str(error).upper()):
            return self._client_reason(error.reason or str(error))
        return f"the TLS handshake failed: {error.reason or error}"

    def _client_reason(self, words: str) -> str:
        """Return why a server refuses a client after its own certificate passed."""
        if self.tls is None or self.tls.certificate is None:
            return "it requires a client's certificate: give `certificate` and `key`"
        return f"it refuses the client's certificate {self.tls.certificate}: {words}"

    def _certificate_reason(self, error: ssl.SSLCertVerificationError, tls: Tls) -> str:
        if error.verify_code == _EXPIRED:
            return "its certificate has expired, or the clock of this machine is wrong"
        if error.verify_code == _NOT_YET_VALID:
            return "its certificate is not valid yet, or the clock of this machine is wrong"
        if error.verify_code in _WRONG_NAME:
            name = tls.server_name or self._place[0]
            return f"its certificate is not for '{name}': give a name that is in it as `server_name`"
        if error.verify_code in _UNKNOWN_ISSUER:
            trusted = tls.ca or "the system's authorities"
            return f"its certificate is not from {trusted}: give the certificate of its authority, a PEM file, as `ca`"
        return f"its certificate is refused: {error.verify_message}"


_TLS_THERE = "that port has TLS: write https:// or grpcs://"
_NO_TLS_THERE = "that port has no TLS: write http:// or grpc://, or take the port that has"


def _is_alert(error: ssl.SSLError) -> bool:
    """Return whether the server refused the client, rather than the client the server."""
    return "ALERT" in (error.reason or str(error)).upper()
