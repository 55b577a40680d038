from __future__ import annotations

import json
import socket

import pytest

from tests.conformance.rules import rule
from tritonlab.core.status import InvalidArgumentError, UnsupportedError
from tritonlab.frontends.shared.access import AccessRules, Door, DoorAnswer, HostName, new_token


def send(rules: AccessRules, method: str = "POST", **headers: str) -> tuple[int, str, dict[str, str]]:
    """Return status, error text or body, and headers of the answer to one request."""
    found = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    door = Door(rules)
    answer = door.ask(method, b"/v2", found) or DoorAnswer(200, door.for_page(found), b"answered")
    body = answer.body.decode()
    about = {name.decode().lower(): value.decode() for name, value in answer.headers}
    return answer.status, json.loads(body)["error"] if body.startswith("{") else body, about


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
        "localhost.:8000",
        "localhost:",
        "[FE80::1%eth0.7]:8000",
        "[::ffff:127.0.0.1]",
    ],
)
def test_what_cannot_be_rebound_is_let_in(host: str) -> None:
    assert send(AccessRules(), host=host)[:2] == (200, "answered")


def test_a_client_that_says_no_host_is_no_browser() -> None:
    assert send(AccessRules())[0] == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "[evil]", "",
     "[::1].evil.example", "[::1]evil.example:8000", "[::1", "::1", "[127.0.0.1]", "[localhost]", "[face.cafe]",
     "[::1%evil.example]", "[::1%25evil.example]", "[fe80::1%evil/example]", "x[::1]", "[::1]:80:80", "[::1]:8o",
     "localhost:8000@evil.example", "user@localhost", "localhost:80:80", "localhost:port", "localhost/x", "localhost?x",
     "localhost#x", "localhost\\.evil.example", "evil.example\t.localhost", "evil.example/.localhost", "localhost..",
     "127.0.0.1.", "localhost,evil.example", "localhost evil.example", "0x7f.1", ".", ".evil.example", "localhost\n",
     "l\u00f6calhost"],
)  # fmt: skip
def test_a_name_that_may_have_been_rebound_is_refused(host: str) -> None:
    status, error, headers = send(AccessRules(), host=host)
    assert (status, headers["content-type"]) == (403, "application/json")
    assert "--allowed-host" in error and f"'{host.encode().decode('latin-1')}'" in error


def test_a_host_that_was_refused_once_stays_refused() -> None:
    door = Door(AccessRules())
    for _ in range(2):
        answer = door.ask("GET", b"/v2", [(b"host", b"evil.example")])
        assert answer is not None and answer.status == 403


def test_hosts_can_be_allowed_by_name_or_all_of_them() -> None:
    assert send(AccessRules(hosts=("Triton.Lan",)), host="triton.lan:8000")[0] == 200
    assert send(AccessRules(hosts=("triton.lan",)), host="other.lan:8000")[0] == 403
    assert send(AccessRules(hosts=("*",)), host="other.lan:8000")[0] == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:9000", "https://localhost:8000"])
def test_a_page_of_another_origin_is_refused(origin: str) -> None:
    status, error, _ = send(AccessRules(), host="localhost:8000", origin=origin)
    assert status == 403
    assert "--allowed-origin" in error and f"'{origin}'" in error


@rule("6.15.7")
def test_a_simple_post_of_a_page_is_refused_too() -> None:
    """`text/plain` needs no preflight: the request itself comes, with its Origin."""
    headers = {"host": "localhost:8000", "content_type": "text/plain", "origin": "https://evil.example"}
    assert send(AccessRules(), **headers)[0] == 403
    assert send(AccessRules(), method="OPTIONS", **headers)[0] == 403


def test_a_page_of_the_server_itself_is_let_in() -> None:
    assert send(AccessRules(), host="localhost:8000", origin="http://localhost:8000")[0] == 200
    # whichever header comes first
    assert send(AccessRules(), origin="http://localhost:8000", host="localhost:8000")[0] == 200


def test_an_allowed_page_may_send_and_read() -> None:
    rules = AccessRules(origins=("https://lab.example/",))
    status, _, headers = send(rules, host="localhost:8000", origin="https://lab.example")
    assert (status, headers["access-control-allow-origin"]) == (200, "https://lab.example")
    assert send(rules, host="localhost:8000", origin="https://evil.example")[0] == 403


def test_an_allowed_page_gets_its_preflight_answered() -> None:
    rules = AccessRules(origins=("https://lab.example",))
    preflight = {"access_control_request_method": "POST", "access_control_request_headers": "content-type"}
    status, _, headers = send(rules, "OPTIONS", host="localhost:8000", origin="https://lab.example", **preflight)
    assert (status, headers["access-control-allow-headers"]) == (200, "content-type")


def test_all_pages_can_be_allowed() -> None:
    status, _, headers = send(AccessRules(origins=("*",)), host="localhost:8000", origin="null")
    assert (status, headers["access-control-allow-origin"]) == (200, "*")


def test_several_origins_must_all_be_allowed() -> None:
    door = Door(AccessRules(origins=("https://lab.example",)))
    answer = door.ask("POST", b"/v2", [(b"origin", b"https://lab.example"), (b"origin", b"https://evil.example")])
    assert answer is not None and answer.status == 403


@pytest.mark.parametrize(
    ("header", "name", "is_address"),
    [
        ("LocalHost:8000", "localhost", False),
        ("a.", "a", False),
        ("[::1]:8000", "::1", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("1.2.3.4.5", "1.2.3.4.5", False),
        ("", "", False),
        ("a@b", "", False),
    ],
)
def test_the_name_in_a_host_header(header: str, name: str, is_address: bool) -> None:
    assert HostName.from_header(header) == (name, is_address)


def test_an_empty_name_is_never_allowed() -> None:
    assert send(AccessRules(hosts=("", ".")), host="")[0] == 403


def test_an_address_that_the_server_listens_on_may_be_named() -> None:
    assert send(AccessRules(hosts=("::", "triton.lan.")), host="triton.lan:8000")[0] == 200


# -- the token

TOKEN = "s3cret"
GUARDED = AccessRules(token=TOKEN)


@pytest.mark.parametrize("sent", ["Bearer s3cret", "bearer s3cret", "BEARER  s3cret ", " bEaReR s3cret"])
def test_who_sends_the_token_is_let_in(sent: str) -> None:
    assert send(GUARDED, authorization=sent)[:2] == (200, "answered")
    assert GUARDED.refuses([sent]) == GUARDED.refuses([sent.encode()]) == ""


@pytest.mark.parametrize(
    "sent",
    ["", " ", "Bearer", "Bearer ", "s3cret", "Bearer s3cre", "Bearer s3crets", "Bearer S3CRET", "Basic s3cret",
     "Bearers3cret", "token s3cret", "Bearer s3cret s3cret", "Bearer \u00fc"],
)  # fmt: skip
def test_a_refusal_of_another_token_names_what_to_send(sent: str) -> None:
    status, error, headers = send(GUARDED, authorization=sent)
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert "the token" in error and TOKEN not in error
    assert GUARDED.refuses([sent]) == error


def test_a_refusal_without_a_token_names_the_header() -> None:
    status, error, _ = send(GUARDED)
    assert (status, "'Authorization: Bearer <token>'" in error) == (401, True)
    assert "'authorization: Bearer <token>'" in GUARDED.refuses([], "authorization")


def test_one_of_several_tokens_is_enough() -> None:
    assert GUARDED.refuses(["Bearer other", "Bearer s3cret"]) == ""


def test_without_a_token_nobody_needs_one() -> None:
    assert AccessRules().refuses([]) == AccessRules().refuses(["Bearer other"]) == ""


def test_liveness_alone_is_for_everybody() -> None:
    door = Door(GUARDED)
    assert door.ask("GET", b"/v2/health/live", ()) is None
    for path in (b"/v2/health/ready", b"/v2/health/live/", b"/v2", b"/metrics", b"*", b"/v2/health/live?x"):
        answer = door.ask("GET", path, ())
        assert answer is not None and answer.status == 401


def test_a_page_asks_whether_it_may_send_a_token_without_one() -> None:
    rules = AccessRules(origins=("https://lab.example",), token=TOKEN)
    page = {"host": "localhost:8000", "origin": "https://lab.example"}
    preflight = {"access_control_request_method": "POST", "access_control_request_headers": "authorization"}
    status, body, headers = send(rules, "OPTIONS", **page, **preflight)
    assert (status, body, headers["access-control-allow-headers"]) == (200, "", "authorization")
    assert headers["access-control-allow-origin"] == "https://lab.example"
    status, _, headers = send(rules, **page)
    assert (status, headers["access-control-allow-origin"]) == (401, "https://lab.example")
    assert send(rules, **page, authorization=f"Bearer {TOKEN}")[0] == 200
    # nobody else is let in that way
    assert send(rules, "OPTIONS", host="localhost:8000", **preflight)[0] == 401
    assert send(rules, "OPTIONS", host="localhost:8000", origin="http://localhost:8000", **preflight)[0] == 401
    assert send(rules, "GET", **page, **preflight)[0] == 401
    assert send(GUARDED, "OPTIONS", **page, **preflight)[0] == 403


def test_the_token_is_in_no_repr() -> None:
    assert TOKEN not in repr(GUARDED) + str(GUARDED)


@pytest.mark.parametrize("token", ["two words", "line\n", "\u00fc", " "])
def test_a_token_that_no_header_could_hold_is_refused(token: str) -> None:
    with pytest.raises(InvalidArgumentError, match="a token must consist of"):
        AccessRules(token=token)


def test_tokens_that_are_made_differ() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100 and {len(token) for token in tokens} == {48}


def test_the_token_reaches_no_model() -> None:
    """Rule 6.14: other headers do, and without a token of ours this one, too."""
    forwarded = GUARDED.forwarded(".*")
    assert forwarded is not None
    assert forwarded("X-Other") and not forwarded("authorization") and not forwarded("AUTHORIZATION")
    plain = AccessRules().forwarded("^Auth")
    assert plain is not None and plain("Authorization") and not plain("X-Other")
    assert GUARDED.forwarded("") is GUARDED.forwarded(None) is None


def test_what_is_switched_off_says_what_turns_it_on() -> None:
    AccessRules().check_model_control()
    AccessRules().check_settings()
    with pytest.raises(UnsupportedError, match="--allow-model-control=true"):
        AccessRules(model_control=False).check_model_control()
    with pytest.raises(UnsupportedError, match="--allow-settings=true"):
        AccessRules(settings=False).check_settings()
