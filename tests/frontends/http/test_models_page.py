"""The page of all models and its OpenAPI document, which an option opens, behind the rules of other paths."""

from __future__ import annotations

import gzip
import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.models import ADD_SUB, ADD_SUB_CONFIG
from tests.serving import Lab
from tritonlab.frontends.http.http_server import HTTPOptions, HTTPServer
from tritonlab.frontends.http.models_page import FRAME
from tritonlab.frontends.shared.access import AccessRules
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager

#: npm's rapidoc 9.3.8, dist/rapidoc-min.js; `make models-page` writes it.
RAPIDOC = "affbd173a65e870e18f392cca963113bcdafb6e50e88cd2f6a834a65b22db94d"
TOKEN = {"Authorization": "Bearer s3cret"}


@contextmanager
def served(lab: Lab, options: HTTPOptions) -> Iterator[str]:
    server = HTTPServer(lab.server.core, SharedMemoryManager(), options)
    try:
        yield f"http://127.0.0.1:{server.start('127.0.0.1', 0)}"
    finally:
        server.stop()


def get(url: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as reply:
            return reply.status, reply.read(), dict(reply.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read(), {}


def test_there_is_none_by_default(lab: Lab) -> None:
    with served(lab, HTTPOptions()) as url:
        assert {get(url + path)[0] for path in (*FRAME, "/openapi.json")} == {404}


def test_models_that_are_ready_are_in_the_document(lab: Lab) -> None:
    with served(lab, HTTPOptions(models_page=True)) as url:
        lab.load("add_sub", ADD_SUB, ADD_SUB_CONFIG)
        status, body, headers = get(url + "/openapi.json")
        assert (status, headers["Content-Type"]) == (200, "application/json")
        assert "/v2/models/add_sub/infer" in json.loads(body)["paths"]
        lab.server.unload("add_sub")
        assert "/v2/models/add_sub/infer" not in json.loads(get(url + "/openapi.json")[1])["paths"]


def test_the_frame_needs_no_token_and_the_document_does(lab: Lab) -> None:
    with served(lab, HTTPOptions(models_page=True, access=AccessRules(token="s3cret"))) as url:
        for path in FRAME:
            status, _, headers = get(url + path)
            assert (status, "default-src 'self'" in headers["Content-Security-Policy"]) == (200, True)
        assert get(url + "/openapi.json")[0] == get(url + "/v2")[0] == get(url + "/x")[0] == 401
        assert get(url + "/", Host="evil.example")[0] == 403
        document = json.loads(get(url + "/openapi.json", **TOKEN)[1])
        assert document["paths"]["/v2"]["get"]["security"] == [{"token": []}]


def test_a_restricted_part_restricts_the_document(lab: Lab) -> None:
    options = HTTPOptions(models_page=True, restricted_api={"model-config": ("X-Key", "k")})
    with served(lab, options) as url:
        status, body, _ = get(url + "/openapi.json")
        assert (status, json.loads(body)) == (403, {"error": "This API is restricted, expecting header 'X-Key'"})
        schemes = json.loads(get(url + "/openapi.json", **{"X-Key": "k"})[1])["components"]["securitySchemes"]
        assert schemes == {"model-config": {"type": "apiKey", "in": "header", "name": "X-Key"}}


def test_rapidoc_is_the_published_one(lab: Lab) -> None:
    with served(lab, HTTPOptions(models_page=True)) as url:
        _, packed, headers = get(url + "/rapidoc-min.js")
        assert headers["Content-Encoding"] == "gzip"
        assert hashlib.sha256(gzip.decompress(packed)).hexdigest() == RAPIDOC


@pytest.mark.parametrize("name", ["models_page.html", "models_page.js", "models_page.css"])
def test_the_frame_names_no_other_host(lab: Lab, name: str) -> None:
    path = next(path for path, (file, _) in FRAME.items() if file == name)
    with served(lab, HTTPOptions(models_page=True)) as url:
        assert b"//" not in get(url + path)[1].replace(b"\n// ", b"").removeprefix(b"// ")
