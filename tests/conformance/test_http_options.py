"""What a server's options change over HTTP: forwarded headers and restricted endpoints (rules 6.14 and 6.1.3)."""

from __future__ import annotations

import json

import pytest

from tritonlab.frontends.http.http_server import HTTPOptions

from .models import PARAMETERS, config, model
from .raw_http import RawHTTP
from .rules import rule

MODELS = {"reports": model(PARAMETERS, config("IN FP32 1 optional", "OUT STRING 1"))}

PATTERN = "(?i)^(x-.*|priority)$"
OPTIONS: tuple[list[str], dict[str, object]] = (
    [f"--http-header-forward-pattern={PATTERN}", "--http-restricted-api=statistics,logging:Key=secret"],
    {},
)
HTTP_OPTIONS = HTTPOptions(
    header_forward_pattern=PATTERN,
    restricted_api={"statistics": ("Key", "secret"), "logging": ("Key", "secret")},
)


def parameters_of(http: RawHTTP, **headers: str) -> str:
    reply = http.infer("reports", {"inputs": [], "parameters": {"own": 1}}, b"", **headers)
    (text,) = reply.document["outputs"][0]["data"]
    return str(text)


@rule("6.14")
def test_matching_headers_become_parameters_named_as_they_were_sent(http: RawHTTP) -> None:
    assert parameters_of(http) == '{"own":1}'
    assert json.loads(parameters_of(http, X_Tenant="a b", x_other="1", Accept="z")) == {
        "own": 1,
        "X-Tenant": "a b",
        "x-other": "1",
    }
    assert http.post("/v2/models/reports/generate", {}, X_Tenant="a").document["OUT"] == "{}"  # not there (measured)


@rule("6.14")
def test_a_reserved_name_is_not_forwarded(http: RawHTTP) -> None:
    reply = http.infer("reports", {"inputs": []}, Priority="1")
    if http.side == "real":  # until 2026-05
        assert reply.status == 200
    else:
        text = "Header 'Priority' is reserved for Triton usage and cannot be forwarded."
        assert (reply.status, reply.error) == (400, text)


@rule("6.1.3")
@pytest.mark.parametrize("path", ["/v2/models/stats", "/v2/models/nobody/stats", "/v2/logging"])
def test_a_restricted_endpoint_wants_its_header(http: RawHTTP, path: str) -> None:
    for headers in ({}, {"Key": "wrong"}, {"Other": "secret"}):
        reply = http.request("GET", path, headers=headers)
        assert (reply.status, reply.kind, reply.error) == (
            403,
            "text/plain",
            "This API is restricted, expecting header 'Key'",
        )
    assert http.request("DELETE", path).status == 403
    assert http.request("GET", path, headers={"kEy": "secret"}).status in (200, 400)
    assert http.get("/v2/models/reports").status == 200
