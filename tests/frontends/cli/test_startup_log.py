from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.models import ADD_SUB, ADD_SUB_CONFIG, initializes
from tests.serving import write_model
from tritonlab.frontends.cli.server_options import read_options
from tritonlab.frontends.cli.startup_log import backend_table, model_table, openness, option_table, print_table
from tritonlab.frontends.endpoints import EndpointOptions
from tritonlab.frontends.http.http_server import HTTPOptions
from tritonlab.frontends.shared.access import AccessRules
from tritonlab.frontends.shared.grpc_options import GRPCOptions

BROKEN = initializes("raise RuntimeError('no weights')")


def rows(table: str) -> list[list[str]]:
    """Return the cells of each line of a table but the rules and the head."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_backends_and_models_are_those_of_the_server(tmp_path: Path) -> None:
    write_model(tmp_path, "add_sub", ADD_SUB, ADD_SUB_CONFIG)
    write_model(tmp_path, "broken", BROKEN, ADD_SUB_CONFIG)
    for name, config in (("empty", ADD_SUB_CONFIG), ("unreadable", "no config")):  # Triton lists the first only
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.pbtxt").write_text(config)
    settings = ("python,shm-growth-byte-size=7", "default-max-batch-size=3", "onnxruntime,x=1")
    options = read_options([f"--model-repository={tmp_path}", *(f"--backend-config={each}" for each in settings)])
    core = options.make_server()
    try:
        assert rows(backend_table(core, options.server)) == rows(model_table(core)) == []
        core.load_startup_models()
        [[name, path, config]] = rows(backend_table(core, options.server))
        assert (name, Path(path).name) == ("python", "triton_python_backend_stub.py")
        python_settings = json.loads(config)["cmdline"]  # in the order that 2.51 has
        assert list(python_settings.items()) == [
            ("auto-complete-config", "true"),
            ("backend-directory", "/opt/tritonserver/backends"),
            ("default-max-batch-size", "3"),
            ("shm-growth-byte-size", "7"),
        ]
        table = rows(model_table(core))
        assert table[:2] == [
            ["add_sub", "1", "READY"],
            ["broken", "1", "UNAVAILABLE: Internal: RuntimeError: no weights"],
        ]
        assert table[-1] == ["empty", "-", "Not loaded: No model version was found"]
    finally:
        core.stop()


def test_options_are_tritons_rows(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    arguments = [f"--model-repository={first}", f"--model-repository={second}"]
    arguments += ["--model-control-mode=explicit", "--load-model=*"]
    arguments += ["--model-config-name=h100"]
    arguments += ["--id=me", "--strict-readiness=false", "--rate-limit=execution_count", "--rate-limit-resource=R1:3"]
    arguments += ["--rate-limit-resource=R2:4:1", "--cache-config=local,size=1048576", "--disable-auto-complete-config"]
    options = read_options([*arguments, "--exit-timeout-secs=5"])
    core = options.make_server()
    try:
        found = dict(rows(option_table(core, options.server, options.exit_timeout)))
    finally:
        core.stop()
    assert found.pop("server_version") and found.pop("server_extensions").startswith("classification sequence ")
    assert found == {
        "server_id": "me",
        "model_repository_path[0]": str(first),
        "model_repository_path[1]": str(second),
        "model_control_mode": "MODE_EXPLICIT",
        "startup_models_0": "*",
        "strict_model_config": "1",
        "model_config_name": "h100",
        "rate_limit": "EXEC_COUNT",
        "rate_limit_resource[0]": '{"name":"R1", "count":3 "device":-1}',
        "rate_limit_resource[1]": '{"name":"R2", "count":4 "device":1}',
        "strict_readiness": "0",
        "exit_timeout": "5",
        "cache_enabled": "1",
    }


def test_columns_are_as_wide_as_what_they_hold() -> None:
    assert print_table(["Model", "Version"], [["add_sub", "1"], ["b", "12"]]).splitlines() == [
        "+---------+---------+",
        "| Model   | Version |",
        "+---------+---------+",
        "| add_sub | 1       |",
        "| b       | 12      |",
        "+---------+---------+",
    ]


def test_a_cell_of_several_lines_makes_its_row_higher() -> None:
    assert print_table(["M", "S"], [["a", "x\n\nyy"], ["b", ""]]).splitlines()[3:] == [
        "| a | x  |",
        "|   |    |",
        "|   | yy |",
        "| b |    |",
        "+---+----+",
    ]


def test_without_rows_the_head_stays() -> None:
    assert print_table(["M"], []).splitlines() == ["+---+", "| M |", "+---+", "+---+"]


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
