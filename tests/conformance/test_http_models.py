"""What an HTTP client sees of the model behind its request: senders, ensembles, and what follows when it goes away."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from .clients import Client
from .models import ADD_SUB, ADD_SUB_CONFIG, CPU, ECHO, SCRIPTED, config, model
from .raw_http import RawHTTP
from .rules import rule
from .scripts import TENSORS, code, marked

ENSEMBLE = """
platform: "ensemble"
input { name: "X" data_type: TYPE_FP32 dims: [ 4 ] }
output [ { name: "SUM" data_type: TYPE_FP32 dims: [ 4 ] }, { name: "ZERO" data_type: TYPE_FP32 dims: [ 4 ] } ]
ensemble_scheduling {
  step {
    model_name: "add_sub"
    model_version: -1
    input_map [ { key: "INPUT0" value: "X" }, { key: "INPUT1" value: "X" } ]
    output_map [ { key: "OUTPUT0" value: "SUM" }, { key: "OUTPUT1" value: "ZERO" } ]
  }
}
"""

PAIR = """
platform: "ensemble"
input [ { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "P" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "Q" data_type: TYPE_FP32 dims: [ -1 ] } ]
ensemble_scheduling {
  step {
    model_name: "echo_pair"
    model_version: -1
    input_map [ { key: "A" value: "X" }, { key: "B" value: "Y" } ]
    output_map [ { key: "A" value: "P" }, { key: "B" value: "Q" } ]
  }
}
"""

MODELS = {
    "echo_pair": model(ECHO, config("A FP32 -1; B FP32 -1", "A FP32 -1; B FP32 -1")),
    "script": model(SCRIPTED, config(*TENSORS)),
    "flow": model(SCRIPTED, config(*TENSORS, "model_transaction_policy { decoupled: true }", CPU)),
    "add_sub": model(ADD_SUB, ADD_SUB_CONFIG),
}

X = {"name": "X", "shape": [4], "datatype": "FP32", "data": [1, 2, 3, 4]}


@pytest.fixture(scope="module")
def ensemble(http: RawHTTP, client: Client) -> RawHTTP:
    """Return the endpoint, with the ensemble `both` loaded."""
    assert client.placed("both", {"config.pbtxt": ENSEMBLE, "1/.keep": ""}) is None
    return http


@rule("5.7.8")
def test_an_ensemble_gives_its_parameters_once_per_output(ensemble: RawHTTP) -> None:
    once = '"sequence_id":5,"sequence_start":false,"sequence_end":false'
    document = {"inputs": [X], "parameters": {"sequence_id": 5}}
    body = ensemble.infer("both", document).body.decode()
    assert f'"model_version":"1","parameters":{{{once},{once}}},"outputs":' in body
    body = ensemble.infer("both", {**document, "outputs": [{"name": "SUM"}]}).body.decode()
    assert f'"model_version":"1","parameters":{{{once}}},"outputs":' in body
    assert ensemble.post("/v2/models/both/generate", {"X": [1, 2, 3, 4]}).body == (
        b'{"SUM":[2.0,4.0,6.0,8.0],"ZERO":[0.0,0.0,0.0,0.0],"model_name":"both","model_version":"1",'
        b'"sequence_end":false,"sequence_id":0,"sequence_start":false}'
    )


@rule("5.7.8")
def test_outputs_without_elements_bring_no_parameters(http: RawHTTP, client: Client) -> None:
    assert client.placed("pair", {"config.pbtxt": PAIR, "1/.keep": ""}) is None
    for sizes, times in (((1, 2), 2), ((1, 0), 1), ((0, 1), 1), ((0, 0), 0)):
        inputs = [
            {"name": name, "shape": [size], "datatype": "FP32", "data": [0] * size}
            for name, size in zip("XY", sizes, strict=True)
        ]
        reply = http.infer("pair", {"inputs": inputs})
        assert (reply.status, reply.body.count(b'"sequence_id":0')) == (200, times), sizes


@rule("6.1.1")
def test_a_name_beyond_ascii_is_found_as_it_is(http: RawHTTP, client: Client) -> None:
    """Only an ensemble can have such a name on Triton: its stub imports nothing from such a path."""
    assert client.placed("größe", {"config.pbtxt": ENSEMBLE, "1/.keep": ""}) is None
    path = "/v2/models/größe".encode().decode("latin-1")
    reply = http.get(path)
    assert (reply.status, reply.document["name"]) == (200, "größe")
    assert http.get(path + "/ready").status == 200
    reply = http.post(path + "/infer", {"inputs": [X]})
    assert (reply.status, reply.document["model_name"]) == (200, "größe")
    assert http.post(path + "/versions/1/generate", {"X": [1, 2, 3, 4]}).document["SUM"] == [2, 4, 6, 8]
    assert http.post(path.replace("models", "repository/models") + "/load").status == 200
    reply = http.get("/v2/models/gr%C3%B6%C3%9Fe")
    assert (reply.status, reply.error) == (404, "Request for unknown model: 'gr%C3%B6%C3%9Fe' is not found")
    reply = http.get("/v2/models/kö".encode().decode("latin-1"))
    assert (reply.status, reply.error) == (404, "Request for unknown model: 'kö' is not found")
    reply = http.get("/v2/models/k\xf6")
    assert (reply.status, reply.error) == (404, "Not Found")
    client.unload("größe")


@rule("3.1.3", "6.3.2")
def test_an_answer_and_its_end_sent_one_after_the_other(http: RawHTTP) -> None:
    reply = run(http, "script", "s = sender()\ns.send(number(1))\ns.send(flags=1)\nreturn [None]")
    assert (reply.status, reply.document["outputs"][0]["data"]) == (200, [1])


@rule("6.6.2")
def test_a_label_file_that_is_missing_fails_the_load(http: RawHTTP, client: Client) -> None:
    client.place(
        "unlabelled",
        model(ADD_SUB, ADD_SUB_CONFIG.replace('name: "OUTPUT0"', 'name: "OUTPUT0" label_filename: "no.txt"')),
    )
    reply = http.post("/v2/repository/models/unlabelled/load")
    assert (reply.status, client.plain(reply.error)) == (
        400,
        "load failed for model 'unlabelled': version 1 is at UNAVAILABLE state: Internal: failed to open text file for "
        "read <repository>/unlabelled/no.txt: No such file or directory;\n",
    )
    client.unload("unlabelled")


SLEEPS = "mark(A, 1)\ntime.sleep(0.3)\nmark(B, request.is_cancelled())\nreturn reply(1)"
STREAMS = """
s = sender()
s.send(number(1))
mark(A, 1)
end = time.monotonic() + 5
while not request.is_cancelled() and time.monotonic() < end:
    time.sleep(0.02)
    s.send(number(2))
mark(B, request.is_cancelled())
s.send(flags=1)
"""


@rule("3.10.1", "6.9.3")
@pytest.mark.parametrize(
    ("path", "name", "body", "cancelled"),
    [
        ("infer", "script", SLEEPS, False),
        ("generate", "script", SLEEPS, False),
        ("generate_stream", "flow", STREAMS, True),
    ],
)
def test_a_client_that_goes_away(
    http: RawHTTP, tmp_path: Path, path: str, name: str, body: str, cancelled: bool
) -> None:
    text = code(body, A=str(tmp_path / "begun"), B=str(tmp_path / "ended"))
    entry = {"name": "CODE", "shape": [1], "datatype": "BYTES", "data": [text]}
    data = json.dumps({"inputs": [entry]} if path == "infer" else {"CODE": text}).encode()
    head = f"POST /v2/models/{name}/{path} HTTP/1.1\r\nHost: {http.address}\r\nContent-Length: {len(data)}\r\n\r\n"
    with closing(http.connect()) as connection:
        connection.sendall(head.encode() + data)
        marked(tmp_path / "begun")
    assert marked(tmp_path / "ended") is cancelled
    assert run(http, name if path == "infer" else "script", "return reply(1)").status == 200


def run(http: RawHTTP, name: str, body: str) -> Any:
    entry = {"name": "CODE", "shape": [1], "datatype": "BYTES", "data": [code(body)]}
    return http.infer(name, {"inputs": [entry]})
