from __future__ import annotations

from typing import Any

import pytest

from tritonlab.frontends.cli.command_line import CommandLine, Flag, usage
from tritonlab.frontends.cli.flag_values import BOOLEAN, INTEGER, SWITCH, TEXTS, CommandLineError, restricted
from tritonlab.frontends.cli.flags import GROUPS

OWN = {
    "Ports": (
        Flag("http-port", INTEGER, "ports.http", "The port.", default=8000),
        Flag("http-address", TEXTS, "ports.addresses", "Where."),
        Flag("http-store", TEXTS, "ports.addresses", "The same."),
    ),
    "Rest": (Flag("fast", SWITCH, "rest.fast", "Fast."), Flag("pool", BOOLEAN, "", "there is no pool.")),
}


def read(*arguments: str) -> dict[str, dict[str, Any]]:
    return CommandLine(GROUPS, arguments).values


def refusal(*arguments: str) -> str:
    with pytest.raises(CommandLineError) as error:
        CommandLine(GROUPS, arguments)
    return str(error.value)


def test_an_absent_flag_has_its_default() -> None:
    line = CommandLine(OWN, [])
    assert line.values == {"ports": {"http": 8000, "addresses": []}}
    assert (line.inert, line.flags_used) == ([], set())


def test_a_value_follows_or_is_joined_by_an_equals_sign() -> None:
    assert CommandLine(OWN, ["--http-port", "1"]).values["ports"]["http"] == 1
    assert CommandLine(OWN, ["--http-port=2"]).values["ports"]["http"] == 2


def test_a_repeated_flag_replaces_or_adds() -> None:
    arguments = ["--http-port=1", "--http-port=2", "--http-address=a", "--http-store=b", "--http-address", "--c"]
    assert CommandLine(OWN, arguments).values["ports"] == {"http": 2, "addresses": ["a", "b", "--c"]}


def test_one_line_says_nothing_about_the_next() -> None:
    CommandLine(OWN, ["--http-address=a"])
    assert CommandLine(OWN, []).values["ports"]["addresses"] == []


def test_a_switch_takes_no_value() -> None:
    assert CommandLine(OWN, ["--fast"]).values["rest"] == {"fast": True}
    with pytest.raises(CommandLineError, match=r"^option '--fast' doesn't allow an argument$"):
        CommandLine(OWN, ["--fast=1"])


def test_a_flag_without_effect_is_named_once() -> None:
    line = CommandLine(OWN, ["--pool=1", "--pool=0"])
    assert [flag.name for flag in line.inert] == ["pool"]


def test_the_value_of_a_flag_without_effect_is_read_all_the_same() -> None:
    with pytest.raises(CommandLineError, match="invalid value for bool option: deep"):
        CommandLine(OWN, ["--pool=deep"])


def test_help_shows_every_flag_with_its_value_and_default() -> None:
    text = "\n".join(usage(OWN))
    assert "\nPorts:\n  --http-port <integer>\n      The port. Default: 8000." in text
    assert "  --fast\n      Fast.\n  --pool <boolean>\n      No effect here: there is no pool." in text


def test_flags_of_ours_leave_the_beginnings_of_tritonservers_alone() -> None:
    line = CommandLine(GROUPS, ["--allow-m=false"])
    assert line.flags_used == {"allow-metrics"}
    assert CommandLine(GROUPS, ["--allow-model-control=false"]).flags_used == {"allow-model-control"}
    with pytest.raises(CommandLineError, match="unrecognized option"):
        CommandLine(GROUPS, ["--allow-model=false"])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--htp-port=1"], "unrecognized option '--htp-port=1'; did you mean '--http-port'?"),
        (["--wobble"], "unrecognized option '--wobble'"),
        (["-x"], "unrecognized option '-x'"),
        (["--http-port"], "option '--http-port' requires an argument"),
        (["--log-info=1", "x"], "Unexpected argument: x"),
        (["--model"], "option '--model' is ambiguous; possibilities: '--model-store' '--model-repository'"),
    ],
)
def test_a_line_that_cannot_be_read(arguments: list[str], text: str) -> None:
    assert refusal(*arguments).startswith(text)


def test_the_beginning_of_a_name_is_enough() -> None:
    assert read("--http-p=7")["endpoints"]["http_port"] == 7
    assert read("--id=x")["server"]["server_id"] == "x"


@pytest.mark.parametrize(("text", "value"), [("true", True), ("ON", True), ("1", True), ("off", False), ("0", False)])
def test_booleans(text: str, value: bool) -> None:
    assert read(f"--allow-http={text}")["endpoints"]["http"] is value


#: What Triton says, too: tests/conformance/test_serve.py.
REFUSED = {
    "--allow-http=yes": 'Bad option: "--allow-http".\ninvalid value for bool option: yes',
    "--http-port=abc": "Invalid option value. Got abc",
    "--http-port=": "Invalid option value. Got ",
    "--model-config-name=": 'Bad option: "--model-config-name".\nError: empty argument for --model-config-name',
    "--log-verbose=99999999999": "Provided option value is out of bound. Got 99999999999",
    "--metrics-interval-ms=x": "Invalid option value. Got x",
    "--metrics-interval-ms=nan": "Invalid option value. Got nan",
    "--metrics-interval-ms=inf": "Invalid option value. Got inf",
    "--exit-timeout-secs=٣": "Invalid option value. Got ٣",
    "--min-supported-compute-capability=1e999": "Provided option value is out of bound. Got 1e999",
    "--cuda-memory-pool-byte-size=0:99999999999999999999": "Provided option value is out of bound. "
    "Got 99999999999999999999",
    "--model-control-mode=now": 'Bad option: "--model-control-mode".\ninvalid argument for --model-control-mode',
    "--log-format=x": 'Bad option: "--log-format".\ninvalid argument for --log-format',
    "--log-format=iso8601": 'Bad option: "--log-format".\ninvalid argument for --log-format',
    "--trace-level=X": 'Bad option: "--trace-level".\ninvalid value for trace level option: x',
    "--rate-limit=x": 'Bad option: "--rate-limit".\ninvalid argument for --rate-limit',
    "--backend-config=python": "--backend-config option format is '<backend name>,<setting>=<value>'. Got python",
    "--backend-config=python,k": "--backend-config option format is '<backend name>,<setting>=<value>'. Got python,k",
    "--backend-config=python,k=": "--backend-config option format is '<backend name>,<setting>=<value>'. Got python,k=",
    "--backend-config=,k=v": "No backend specified. --backend-config option format is "
    "<backend name>,<setting>=<value> or <setting>=<value>. Got ,k=v",
    "--cache-config=local": "No cache specified. --cache-config option format is <cache name>,<setting>=<value>. "
    "Got local",
    "--cache-config=local,size": "--cache-config option format is '<cache name>,<setting>=<value>'. Got local,size",
    "--host-policy=a": "--host-policy option format is '<policy name>,<setting>=<value>'. Got a",
    "--metrics-config=a,b=c": "--metrics-config option format is <setting>=<value>. Got a,b=c",
    "--cuda-memory-pool-byte-size=1": "Cannot parse pair option due to incorrect number of inputs."
    "--<pair option> argument requires format <first>:<second>. Found: 1",
    "--rate-limit-resource=R": 'Bad option: "--rate-limit-resource".\n--rate-limit-resource option format is '
    "'<resource_name>:<count>:<device>' or '<resource_name>:<count>'. Got R",
    "--rate-limit-resource=R:x": "Invalid option value. Got x",
    "--trace-config=level": "--trace-config option format is '<trace mode>,<setting>=<value>'. Got level",
    "--trace-config=,a=b": "No trace mode specified. --trace-config option format is "
    "<trace mode>,<setting>=<value> or <setting>=<value>. Got ,a=b",
    "--trace-config=level=FOO": 'Bad option: "--trace-config level".\ninvalid value for trace level option: foo',
    "--trace-config=rate=x": "Invalid option value. Got x",
    "--trace-config=mode=x": 'Bad option: "--trace-config mode".\ninvalid value for trace mode option: x. '
    'Available options are "triton" and "opentelemetry"',
    "--http-restricted-api=foo:k=v": "unknown restricted api 'foo' ",
    "--http-restricted-api=health,k=v": "--http-restricted-api option format is "
    "'<config name>:<setting>=<value>'. Got health,k=v",
    "--grpc-restricted-protocol=foo:k=v": "unknown restricted protocol 'foo' ",
}


@pytest.mark.parametrize("argument", REFUSED)
def test_values_that_cannot_be_read(argument: str) -> None:
    assert refusal(argument) == REFUSED[argument]


@pytest.mark.parametrize("text", ["8000x", "0x10", "5.5", "1_0"])
def test_numbers_that_triton_reads_in_part(text: str) -> None:
    """Rule 6.15.2."""
    assert refusal(f"--http-port={text}") == f"Invalid option value. Got {text}"


@pytest.mark.parametrize(
    ("argument", "part", "field", "value"),
    [
        ("--backend-config=python,k=v=w", "backend", "settings", [("python", "k", "v=w")]),
        ("--backend-config=k=v", "backend", "settings", [("", "k", "v")]),
        ("--cache-config=local,size=1048576", "cache", "settings", [("local", "size", "1048576")]),
        ("--rate-limit-resource=R1:3", "resources", "resources", [("R1", 3, -1)]),
        ("--rate-limit-resource=R1:3:0", "resources", "resources", [("R1", 3, 0)]),
        ("--rate-limit=EXECUTION_COUNT", "server", "rate_limit", "execution_count"),
        ("--metrics-config=summary_quantiles=0.5:0.05,0.9:0.01", "metrics", "settings", None),
        ("--trace-config=level=timestamps", "trace", "settings", [("", "level", "timestamps")]),
        ("--trace-config=triton,file=/x", "trace", "settings", [("triton", "file", "/x")]),
        (
            "--http-restricted-api=health,model-repository:key=a=b",
            "http",
            "restricted_api",
            [(("health", "model-repository"), "key", "a=b")],
        ),
    ],
)
def test_values_of_several_parts(argument: str, part: str, field: str, value: Any) -> None:
    if value is None:
        value = [("summary_quantiles", "0.5:0.05,0.9:0.01")]
    assert read(argument)[part][field] == value


def test_a_category_is_restricted_once() -> None:
    assert restricted("api", [(("health",), "k", "v"), (("trace", "logging"), "k2", "w")]) == {
        "health": ("k", "v"),
        "trace": ("k2", "w"),
        "logging": ("k2", "w"),
    }
    with pytest.raises(CommandLineError, match=r"^restricted api 'health' can not be specified in multiple config gr"):
        restricted("api", [(("health",), "k", "v"), (("health",), "k2", "v")])


def test_every_name_is_there_once_and_every_place_has_a_part() -> None:
    flags = [flag for group in GROUPS.values() for flag in group]
    assert len({flag.name for flag in flags}) == len(flags)
    assert all(not flag.place or flag.place.count(".") == 1 for flag in flags)
    assert all(flag.about.endswith(".") for flag in flags)
