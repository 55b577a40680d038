"""The pattern of forwarded headers over HTTP and gRPC (rule 6.14)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

import tritonlab
from tritonlab.frontends.endpoints import EndpointOptions, Endpoints
from tritonlab.frontends.http.http_server import HTTPOptions
from tritonlab.frontends.shared.grpc_options import GRPCOptions

from .grpc_messages import PAIR, Rpc, message, ok, tensor
from .models import PARAMETERS, config, model
from .raw_http import RawHTTP
from .reference import ReferenceServer, missing
from .rules import rule

#: Pattern -> names in which it is found, and in which it is not. All are asked at once: each name begins with the
#: place of its pattern.
FOUND: dict[str, tuple[list[str], list[str]]] = {
    "MY_": (["my_a", "MY_A"], ["your_a"]),
    "(?-i)MY_": (["MY_A"], ["my_a"]),
    "(?-i)m(?i)y_": (["mY_a"], ["My_a"]),
    "(?-i:a)b": (["aB"], ["Ab"]),
    r"a\z": (["a"], ["ab"]),
    r"\Cb\C": (["abc"], ["b"]),
    "(?U)a+$": (["aa"], ["ab"]),
    "(?-i)[[:upper:]]": (["A"], ["a"]),
    "[[:upper:]]": (["A", "a"], ["1"]),
    r"\pN": (["1"], ["a"]),
    r"(?-i)\P{Lu}b": (["ab", "1b"], ["Ab"]),
    r"\Qa.\Eb": (["a.b"], ["aab"]),
    r"\x{61}\142": (["ab"], ["a"]),
    "(?P<n>a)": (["a"], ["b"]),
    "a{,2}b": ([], ["aab"]),
    "\u212a": (["k", "K"], ["c"]),
}
PATTERN = "|".join(f"^x{number}-(?:{pattern})" for number, pattern in enumerate(FOUND))
REFUSED = [r"(?=a)", r"(a)\1", "a*+", r"a\Z", "(?<n>a)", "(?P<a-b>a)", "a{1001}", "[z-a]"]


@contextmanager
def serving(side: str, for_http: str, for_grpc: str, path: Path) -> Iterator[tuple[str, str]]:
    """Start a server with these patterns, and return its addresses of HTTP and gRPC."""
    for name, text in model(PARAMETERS, config("IN FP32 -1 optional", "OUT STRING 1")).items():
        file = path / "models" / "reports" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(text))
    if side == "real":
        flags = [f"--http-header-forward-pattern={for_http}", f"--grpc-header-forward-pattern={for_grpc}"]
        with ReferenceServer(path / "models", path, ["--model-control-mode=none", *flags]) as server:
            yield server.http, server.grpc
        return
    options = EndpointOptions(
        http_port=0,
        grpc_port=0,
        metrics=False,
        http_options=HTTPOptions(header_forward_pattern=for_http),
        grpc_options=GRPCOptions(header_forward_pattern=for_grpc),
    )
    with tritonlab.Server(path / "models") as lab, Endpoints(lab.core, options) as endpoints:
        yield endpoints.http, endpoints.grpc


@pytest.fixture(params=["real", "lab"])
def side(request: pytest.FixtureRequest) -> str:
    if request.param == "real" and (why := missing()) is not None:
        pytest.skip(why)
    return str(request.param)


def by_http(address: str, names: list[str]) -> set[str]:
    reply = RawHTTP("", address).request(
        "POST", "/v2/models/reports/infer", b'{"inputs":[]}', dict.fromkeys(names, "v")
    )
    return set(json.loads(reply.document["outputs"][0]["data"][0]))


def by_grpc(address: str, names: list[str]) -> set[str]:
    with grpc.insecure_channel(address) as channel:
        sent = [(name, "v") for name in names]
        stub = Rpc(channel).stub
        found = ok(stub.ModelInfer(message("reports", [tensor()], [PAIR]), metadata=sent, timeout=20))
        return set(json.loads(found.raw_output_contents[0][4:]))


@rule("6.14")
def test_a_pattern_is_read_as_by_re2_and_ignores_case(side: str, tmp_path: Path) -> None:
    found = {f"x{at}-{name}" for at, (names, _) in enumerate(FOUND.values()) for name in names}
    others = {f"x{at}-{name}" for at, (_, names) in enumerate(FOUND.values()) for name in names}
    with serving(side, PATTERN, PATTERN, tmp_path) as (http, rpc):
        assert by_http(http, sorted(found | others)) == found
        small = {name for name in found | others if name == name.lower()}
        assert by_grpc(rpc, sorted(small)) == found & small


@rule("6.14")
@pytest.mark.parametrize("pattern", REFUSED)
def test_what_re2_does_not_take_is_no_pattern(pattern: str, tmp_path: Path) -> None:
    """tritonlab refuses it, with the same reason as Triton's log."""
    refused = pytest.raises(tritonlab.TritonError, match="is not a regular expression of RE2: ")
    with refused, serving("lab", pattern, pattern, tmp_path):
        pass


@rule("6.14")
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.parametrize("patterns", list(zip(REFUSED[::2], REFUSED[1::2], strict=True)), ids=" ".join)
def test_triton_forwards_nothing_with_what_re2_does_not_take(patterns: tuple[str, str], tmp_path: Path) -> None:
    """It starts, and complains in its log; one server has a pattern for each protocol."""
    with serving("real", *patterns, tmp_path) as (http, rpc):
        assert by_http(http, ["a", "aa", "A"]) == set()
        assert by_grpc(rpc, ["a", "aa"]) == set()
