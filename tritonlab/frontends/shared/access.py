"""The access rules of a server. For HTTP and metrics a door checks each request.

Loading a model runs code, and anyone on the machine, or on a web page that its user reads, can send requests to its
ports. So there are three kinds of rules for both protocols:

1. Clients send a token with every request, because other users may share the machine. A notebook's ports have a token
unless set otherwise; `tritonlab serve` follows tritonserver, which has none. Only liveness is answered without a token,
because it shows only that the port is open, and the empty frame of the page of models.

2. Model control, and trace and log settings, can be switched off.

3. Requests of web pages are refused. Cross-origin requests name their page in `Origin`; a simple POST (`text/plain`)
needs no preflight, but has that header, too. With DNS rebinding, the name of a page of evil.example suddenly resolves
to 127.0.0.1. For the browser its origin is right, but its requests have evil.example in `Host`; an address in `Host`
cannot be rebound. Clients other than browsers send no Origin, and their Host is allowed because it is the address to
which they connect.

gRPC needs no door against pages: its calls are HTTP/2 with trailers from the first byte on, and no browser allows a
page to send either to a port without TLS. A page can send HTTP/1.1, which is not gRPC.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import re
import secrets
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

from ...core.status import InvalidArgumentError, UnsupportedError
from .header_pattern import compile_pattern

ANY = "*"

#: The header, and the key of gRPC metadata, with a client's token.
AUTHORIZATION = "authorization"

#: The parts of the protocols that can be restricted (rule 6.1.3).
CATEGORIES = (
    "health",
    "metadata",
    "inference",
    "shared-memory",
    "model-config",
    "model-repository",
    "statistics",
    "trace",
    "logging",
)

_Address = TypeVar("_Address", ipaddress.IPv4Address, ipaddress.IPv6Address)

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
#: Returns whether a header of this name becomes a parameter of the request (rule 6.14).
Forwarded: TypeAlias = Callable[[str], object]

#: The path that is always answered without a token.
_LIVE = b"/v2/health/live"
_OF_AUTHORIZATION = AUTHORIZATION.encode()
_TOKEN = re.compile(r"[!-~]+")
_NO_TOKEN = (
    "a token is required: send '{}: Bearer <token>' with every request; the token was given out when the ports were "
    "opened"
)
_OTHER = "the token that was sent is not the one that was given out when the ports were opened"


def new_token() -> str:
    """Make a token that cannot be guessed."""
    return secrets.token_hex(24)


@dataclass(frozen=True)
class AccessRules:
    """The access rules. `*` among `origins` or `hosts` stands for all of them.

    `token`: the token that clients must send; "" allows every client that reaches the port. `model_control`: whether
    clients may load and unload models, and so run code here. `settings`: whether they may see and change trace and log
    settings. `origins`: pages that may send requests, as `https://host[:port]`. `hosts`: names under which clients may
    reach the server, besides addresses, `localhost` and the machine's own name. `open_paths`: paths of HTTP that need
    no token, because their answers hold nothing of the server.
    """

    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    token: str = field(default="", repr=False)
    model_control: bool = True
    settings: bool = True
    open_paths: frozenset[bytes] = frozenset()

    def __post_init__(self) -> None:
        if self.token and not _TOKEN.fullmatch(self.token):
            raise InvalidArgumentError("a token must consist of ASCII letters, digits and signs, without spaces")

    def refuses(self, authorizations: Iterable[bytes | str], key: str = "Authorization") -> str:
        """Return why a client with these values of `key` is refused; "" if it is not. Comparing a wrong token takes as
        long as comparing the right one."""
        if not self.token:
            return ""
        sent = [_credentials(value if isinstance(value, bytes) else value.encode()) for value in authorizations]
        if any([hmac.compare_digest(each, self.token.encode()) for each in sent]):
            return ""
        return _OTHER if any(sent) else _NO_TOKEN.format(key)

    def check_model_control(self) -> None:
        """Raise UnsupportedError if clients may not load and unload models."""
        if not self.model_control:
            raise UnsupportedError(_DISABLED.format("Model control", "model-control"))

    def check_settings(self) -> None:
        """Raise UnsupportedError if clients may not see and change trace and log settings."""
        if not self.settings:
            raise UnsupportedError(_DISABLED.format("Access to trace and log settings", "settings"))

    def forwarded(self, pattern: str | None) -> Forwarded | None:
        """Return the rule which headers become parameters: those that match `pattern`, except our token's, which is not
        for models. None if there is no pattern. Raises InvalidArgumentError."""
        if not pattern:
            return None
        found = compile_pattern(pattern).search
        return (lambda name: name.lower() != AUTHORIZATION and found(name)) if self.token else found


#: The form of Triton's text about clients' shared memory.
_DISABLED = "{} over the network is disabled. Start the server with '--allow-{}=true' to enable."


def _credentials(value: bytes) -> bytes:
    """Return the text behind `Bearer`, in capital or small letters (RFC 9110); "" for another scheme."""
    scheme, _, rest = value.strip().partition(b" ")
    return rest.strip() if scheme.lower() == b"bearer" else b""


class DoorAnswer(NamedTuple):
    """The door's answer to a request that it refuses."""

    status: int
    headers: Headers
    body: bytes = b""


class Door:
    """The decision from the head of an HTTP request alone: of two requests with the same head, both pass or neither.
    The text of a refusal names the header with which the request would pass."""

    def __init__(self, rules: AccessRules) -> None:
        self._rules = rules
        self._open = rules.open_paths | {_LIVE}
        self._any_host = ANY in rules.hosts
        self._any_origin = ANY in rules.origins
        self._origins = {origin.rstrip("/").lower() for origin in rules.origins}
        self._names = {"localhost", *own_names(), *(name.lower().removesuffix(".") for name in rules.hosts)} - {""}
        #: Host headers that have passed once: clients send the same one with every request
        self._passed: set[bytes] = set()

    def ask(self, method: str, path: bytes, headers: Headers) -> DoorAnswer | None:
        """Return None for a request that may pass, else the answer to it. Names of headers are in lower case."""
        host, origins, authorizations, preflight = b"", [], [], False
        for name, value in headers:
            if name == b"host":
                host = value
                if host not in self._passed and not self._knows(host):
                    return _refusal(
                        403,
                        f"requests for host '{host.decode('latin-1')}' are refused: a web page may stand behind that "
                        "name (DNS rebinding); '--allowed-host=<name>' allows it",
                    )
            elif name == b"origin":
                origins.append(value.decode("latin-1"))
            elif name == _OF_AUTHORIZATION:
                authorizations.append(value)
            elif name == b"access-control-request-method":
                preflight = method == "OPTIONS"
        for origin in origins:
            if not self._is_friend(origin) and origin.lower() != f"http://{host.decode('latin-1').lower()}":
                return _refusal(
                    403,
                    f"requests of web pages of '{origin}' are refused; '--allowed-origin=<origin>' allows them",
                )
        if preflight and origins and self._is_friend(origins[0]):
            return self._preflight(headers)  # which has no token: the browser checks whether it may send one
        if path not in self._open and (text := self._rules.refuses(authorizations)):
            return _refusal(401, text, ((b"www-authenticate", b"Bearer"), *self.for_page(headers)))
        return None

    def for_page(self, headers: Headers) -> Headers:
        """Return the headers with which a browser lets an allowed page read the answer (CORS); none otherwise."""
        if not self._origins:
            return ()
        origin = next((value for name, value in headers if name == b"origin"), None)
        if origin is None or not self._is_friend(origin.decode("latin-1")):
            return ()
        return (
            (b"access-control-allow-origin", b"*" if self._any_origin else origin),
            (b"access-control-expose-headers", b"Inference-Header-Content-Length"),
            (b"vary", b"Origin"),
        )

    def _preflight(self, headers: Headers) -> DoorAnswer:
        wanted = next((value for name, value in headers if name == b"access-control-request-headers"), b"")
        allowed = (
            (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
            (b"access-control-allow-headers", wanted),
            (b"access-control-max-age", b"600"),
            (b"content-length", b"0"),
        )
        return DoorAnswer(200, (*self.for_page(headers), *allowed))

    def _is_friend(self, origin: str) -> bool:
        return self._any_origin or origin.lower() in self._origins

    def _knows(self, header: bytes) -> bool:
        name, is_address = HostName.from_header(header.decode("latin-1"))
        known = self._any_host or is_address or name in self._names or name.endswith(".localhost")
        if known and len(self._passed) < 100:
            self._passed.add(header)
        return known


def _refusal(status: int, text: str, headers: Headers = ()) -> DoorAnswer:
    body = json.dumps({"error": text}).encode()
    about = ((b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()))
    return DoorAnswer(status, (*about, *headers), body)


#: `name[:port]`, `address[:port]` or `[address of IPv6][:port]`, and nothing else. Other parts of a URL, such as a
#: user, do not belong in this header and may hide a name.
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)(?P<zone>%[\w.~-]+)?\]|(?P<name>[\w.-]+))(?::[0-9]*)?", re.ASCII)


class HostName(NamedTuple):
    """The host that a client names. `is_address`: it is a numeric address, which cannot stand for another machine."""

    name: str
    is_address: bool

    @classmethod
    def from_header(cls, header: str) -> HostName:
        """Return the host in a header `Host`, in small letters, without port; with an empty name for anything else."""
        found = _HOST.fullmatch(header)
        if found is None:
            return cls("", False)
        if found["name"] is None:
            six = _address(ipaddress.IPv6Address, found["six"])
            # only a link-local address has the name of an interface
            good = six is not None and (not found["zone"] or six.is_link_local)
            return cls(found["six"].lower() if good else "", good)
        name = found["name"].lower()
        return cls(name.removesuffix("."), False) if _address(ipaddress.IPv4Address, name) is None else cls(name, True)


def _address(kind: type[_Address], text: str) -> _Address | None:
    try:
        return kind(text)
    except ValueError:
        return None


def own_names() -> set[str]:
    """Return this machine's own names."""
    return {socket.gethostname().lower()}
