"""Names and texts that are not UTF-8: of requests over HTTP, and in a config.pbtxt."""

from __future__ import annotations

import pytest

from .clients import Client, Files
from .models import ECHO, config, model
from .raw_http import RawHTTP
from .rules import rule

MODELS = {"plain": model(ECHO, config("IN FP32 1", "IN FP32 1"))}
TENSOR = b'{"name":"IN","shape":[1],"datatype":"FP32","data":[1]}'
CONFIG = config("IN FP32 -1", "IN FP32 -1").encode()
POLL_FAILED = "failed to load 'latin', failed to poll from model repository"


@rule("6.3.1")
@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"inputs":[%b]}' % TENSOR.replace(b"IN", b"\xff"), b"unexpected inference input '\xff' for model 'plain'"),
        (
            b'{"inputs":[%b],"outputs":[{"name":"\xff"}]}' % TENSOR,
            b"unexpected inference output '\xff' for model 'plain'",
        ),
        (b'{"inputs":[%b]}' % TENSOR.replace(b"FP32", b"\xff"), b"invalid datatype for input IN"),
    ],
    ids=["input", "output", "datatype"],
)
def test_a_name_in_a_request(http: RawHTTP, body: bytes, text: bytes) -> None:
    reply = http.post("/v2/models/plain/infer", body)
    assert (reply.status, reply.body) == (400, b'{"error":"%b"}' % text)


@rule("2.5.3")
def test_a_comment_in_a_config_may_be_in_any_encoding(side: Client) -> None:
    files: Files = {**model(ECHO), "config.pbtxt": "# größer\n".encode("latin-1") + CONFIG}
    assert side.placed("latin", files) is None
    side.unload("latin")


@rule("2.5.3")
@pytest.mark.parametrize("old", [b'"IN"', b'backend: "python"'], ids=["tensor", "model"])
@pytest.mark.parametrize("name", [b'"\xff"', b'"\\377"'], ids=["raw", "escaped"])
def test_a_name_in_a_config_is_refused(side: Client, old: bytes, name: bytes) -> None:
    """The texts differ: Triton reads the name and then misses it, and prints it as it is."""
    new = name if old == b'"IN"' else b"name: " + name + b"\n" + old
    failure = side.placed("latin", {**model(ECHO), "config.pbtxt": CONFIG.replace(old, new)})
    assert failure is not None
    if side.side == "lab":
        assert (failure.code, failure.text) == ("INTERNAL", POLL_FAILED)
        assert (
            "is not UTF-8; save the file as UTF-8" if name == b'"\xff"' else "can't decode byte 0xff"
        ) in failure.reason
