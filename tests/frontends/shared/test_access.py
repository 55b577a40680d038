from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from tests.conformance.rules import rule
from tritonlab.frontends.shared.access import AccessRules, host_name


async def application(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"answered"})


def ask(rules: AccessRules, method: str = "POST", **headers: str) -> tuple[int, str, dict[str, str]]:
    """Status, error text or body, and headers of the answer to one request."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    found = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": "/v2", "headers": found}
    asyncio.run(rules.guard(application)(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent[1:]).decode()
    answer = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], json.loads(body)["error"] if body.startswith("{") else body, answer


@pytest.mark.parametrize(
    "host",
    [
        "localhost:8000",
        "LOCALHOST",
        "lab.localhost:8000",
        "127.0.0.1:8000",
        "127.1.2.3",
        "[::1]:8000",
        "192.168.1.7:8000",
        f"{socket.gethostname()}:8000",
    ],
)
def test_what_cannot_be_rebound_is_let_in(host: str) -> None:
    assert ask(AccessRules(), host=host)[:2] == (200, "answered")


def test_a_client_that_says_no_host_is_no_browser() -> None:
    assert ask(AccessRules())[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "[evil]", ""]
)
def test_a_name_that_may_have_been_rebound_is_refused(host: str) -> None:
    status, error, headers = ask(AccessRules(), host=host)
    assert (status, headers["content-type"]) == (403, "application/json")
    assert "--allowed-host" in error and f"'{host}'" in error


def test_a_host_that_was_refused_once_stays_refused() -> None:
    app = AccessRules().guard(application)
    for _ in range(2):
        sent: list[Any] = []

        async def send(message: Any, sent: list[Any] = sent) -> None:
            sent.append(message)

        asyncio.run(app({"type": "http", "headers": [(b"host", b"evil.example")]}, None, send))  # type: ignore[arg-type]
        assert sent[0]["status"] == 403


def test_hosts_can_be_allowed_by_name_or_all_of_them() -> None:
    assert ask(AccessRules(hosts=("Triton.Lan",)), host="triton.lan:8000")[0] == 200
    assert ask(AccessRules(hosts=("triton.lan",)), host="other.lan:8000")[0] == 403
    assert ask(AccessRules(hosts=("*",)), host="other.lan:8000")[0] == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:9000", "https://localhost:8000"])
def test_a_page_of_another_origin_is_refused(origin: str) -> None:
    status, error, _ = ask(AccessRules(), host="localhost:8000", origin=origin)
    assert status == 403
    assert "--allowed-origin" in error and f"'{origin}'" in error


@rule("6.15.7")
def test_a_simple_post_of_a_page_is_refused_too() -> None:
    """`text/plain` needs no preflight: the request itself comes, with its Origin."""
    headers = {"host": "localhost:8000", "content_type": "text/plain", "origin": "https://evil.example"}
    assert ask(AccessRules(), **headers)[0] == 403
    assert ask(AccessRules(), method="OPTIONS", **headers)[0] == 403


def test_what_the_server_showed_itself_may_ask() -> None:
    assert ask(AccessRules(), host="localhost:8000", origin="http://localhost:8000")[0] == 200
    # whichever header comes first


assert ask(AccessRules(), origin="http://localhost:8000", host="localhost:8000")[0] == 200


def test_an_allowed_page_may_ask_and_read() -> None:
    rules = AccessRules(origins=("https://lab.example/",))
    status, _, headers = ask(rules, host="localhost:8000", origin="https://lab.example")
    assert (status, headers["access-control-allow-origin"]) == (200, "https://lab.example")
    assert ask(rules, host="localhost:8000", origin="https://evil.example")[0] == 403


def test_an_allowed_page_gets_its_preflight_answered() -> None:
    rules = AccessRules(origins=("https://lab.example",))
    preflight = {"access_control_request_method": "POST", "access_control_request_headers": "content-type"}
    status, _, headers = ask(rules, "OPTIONS", host="localhost:8000", origin="https://lab.example", **preflight)
    assert (status, headers["access-control-allow-headers"]) == (200, "content-type")


def test_all_pages_can_be_allowed() -> None:
    status, _, headers = ask(AccessRules(origins=("*",)), host="localhost:8000", origin="null")
    assert (status, headers["access-control-allow-origin"]) == (200, "*")


def test_several_origins_must_all_be_allowed() -> None:
    app = AccessRules(origins=("https://lab.example",)).guard(application)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"origin", b"https://lab.example"), (b"origin", b"https://evil.example")]
    asyncio.run(app({"type": "http", "method": "POST", "headers": headers}, None, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 403


@pytest.mark.parametrize(
    ("header", "name"), [("localhost:8000", "localhost"), ("[::1]:8000", "::1"), ("[::1]", "::1"), ("a", "a"), ("", "")]
)
def test_the_name_in_a_host_header(header: str, name: str) -> None:
    assert host_name(header) == name
