from __future__ import annotations

import pytest

from tritonlab.frontends.cli.openness import openness
from tritonlab.frontends.endpoints import EndpointOptions
from tritonlab.frontends.grpc.grpc_server import GRPCOptions
from tritonlab.frontends.http.http_server import HTTPOptions
from tritonlab.frontends.shared.access import AccessRules

PLACES = {"GRPC": "127.0.0.1:8001", "HTTP": "127.0.0.1:8000"}
RESTRICTED = {"model-repository": ("key", "value")}


def report(options: EndpointOptions, mode: str = "explicit", **places: str) -> list[str]:
    return [f"{level} {text}" for level, text in openness(options, places or PLACES, mode)]


@pytest.mark.parametrize(
    ("place", "whom"),
    [
        ("127.0.0.1:1", "every user of this machine"),
        ("[::1]:1", "every user of this machine"),
        ("localhost:1", "every user of this machine"),
        ("0.0.0.0:1", "every machine that reaches this one"),
        ("[::]:1", "every machine that reaches this one"),
        ("192.0.2.7:1", "every machine that reaches 192.0.2.7"),
        ("lab.example:1", "every machine that reaches lab.example"),
    ],
)
def test_who_reaches_an_address(place: str, whom: str) -> None:
    assert report(EndpointOptions(), "none", HTTP=place)[0] == f"INFO HTTP at {place} is open to {whom}"


def test_what_clients_need() -> None:
    mutual = GRPCOptions(use_ssl=True, use_ssl_mutual=True)
    options = EndpointOptions(access=AccessRules(token="t"), grpc_options=mutual)
    assert report(options)[:2] == [
        "INFO GRPC at 127.0.0.1:8001 is open to every user of this machine, with the token and a certificate",
        "INFO HTTP at 127.0.0.1:8000 is open to every user of this machine, with the token",
    ]


def controls(options: EndpointOptions, mode: str = "explicit", **places: str) -> list[str]:
    return [line.partition(" may ")[0] for line in report(options, mode, **places) if "Model control" in line]


def test_who_may_run_code() -> None:
    assert controls(EndpointOptions()) == ["WARNING Model control: everyone who reaches GRPC or HTTP"]
    assert controls(EndpointOptions(), HTTP="127.0.0.1:1", Metrics="127.0.0.1:2") == [
        "WARNING Model control: everyone who reaches HTTP"
    ]
    assert controls(EndpointOptions(access=AccessRules(token="t"))) == ["INFO Model control: clients with the token"]
    restricted = EndpointOptions(http_options=HTTPOptions(restricted_api=RESTRICTED))
    assert controls(restricted) == ["WARNING Model control: everyone who reaches GRPC"]


@pytest.mark.parametrize("mode", ["none", "poll"])
def test_where_nobody_may_nothing_is_logged(mode: str) -> None:
    assert controls(EndpointOptions(), mode) == []
    assert controls(EndpointOptions(access=AccessRules(model_control=False))) == []
    both = EndpointOptions(
        http_options=HTTPOptions(restricted_api=RESTRICTED), grpc_options=GRPCOptions(restricted=RESTRICTED)
    )
    assert controls(both) == []


def test_what_is_off_is_not_logged_as_open() -> None:
    closed = EndpointOptions(access=AccessRules(model_control=False, settings=False))
    assert len(report(closed)) == 2
    assert any("Shared memory" in line for line in report(EndpointOptions(client_shm=True)))
