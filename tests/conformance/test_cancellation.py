"""Cancelled requests (section 3.10): who notices, what is dropped, and what runs all the same."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from .clients import Client, Pending
from .grpc_client import GRPCClient
from .models import CPU, SCRIPTED, config, model
from .rules import rule
from .scripts import TENSORS, batched, code, eventually, marked, run, script

MODELS = {
    "direct": model(SCRIPTED, config(*TENSORS)),
    "direct_flow": model(SCRIPTED, config(*TENSORS, "model_transaction_policy { decoupled: true }", CPU)),
    "queueing": model(SCRIPTED, config(*TENSORS, "max_batch_size: 1 dynamic_batching {}", CPU)),
}


def is_waiting(client: Client, name: str, count: int) -> bool:
    """Return whether so many requests wait for an execution of the model."""
    labels = f'{{model="{name}",version="1"}}'
    return f"nv_inference_pending_request_count{labels} {count}" in client.metrics().splitlines()


WATCH = (
    "mark(started)\n"
    "until(is_cancelled)\n"
    "seen = [request.is_cancelled(), sender().is_cancelled(), request.is_cancelled()]\n"
    "mark(ended, seen)\n"
)


@rule("3.10.1", "3.10.3", "3.10.4", "1.7.11")
@pytest.mark.parametrize("is_cancelled", ["request.is_cancelled", "sender().is_cancelled"])
def test_a_model_sees_that_its_client_is_gone_and_answers_into_the_void(
    client: Client, tmp_path: Path, is_cancelled: str
) -> None:
    paths = {"started": str(tmp_path / "started"), "ended": str(tmp_path / "ended")}
    body = f"is_cancelled = {is_cancelled}\n{WATCH}return [R(error=E('given up', E.CANCELLED))]"
    pending = client.submit("direct", script(body, **paths))
    marked(tmp_path / "started")
    pending.cancel()
    assert marked(tmp_path / "ended") == [True, True, True]
    # in the kernel there is no client library that would speak first
    words = "Locally cancelled by application!" if isinstance(client, GRPCClient) else "given up"
    answer = pending.answer.result(60)
    assert (answer.code, answer.error) == ("CANCELLED", words)
    assert run(client, "direct", "return reply(request.is_cancelled())") is False


@rule("3.10.3")
def test_a_cancelled_request_that_nobody_checks_runs_to_its_end(client: Client, tmp_path: Path) -> None:
    paths = {name: str(tmp_path / name) for name in ("started", "go", "ended")}
    body = "mark(started)\nuntil(lambda: os.path.exists(go))\nmark(ended, 'all of it')\nreturn [number(1)]"
    pending = client.submit("direct", script(body, **paths))
    marked(tmp_path / "started")
    pending.cancel()
    (tmp_path / "go").touch()
    assert marked(tmp_path / "ended") == "all of it"


def blocked(client: Client, name: str, directory: Path, count: int) -> list[Pending]:
    """Send a request that executes until `<directory>/go` is there, and `count` that wait behind it and mark their
    run."""
    holds = "mark(started)\nuntil(lambda: os.path.exists(go))\nreturn [number(0)]"
    texts = [code(holds, started=str(directory / "started"), go=str(directory / "go"))]
    texts += [code("mark(ran)\nreturn [number(1)]", ran=str(directory / f"ran{n}")) for n in range(count)]
    pending = []
    for number, text in enumerate(texts):
        inputs = script(text)
        pending.append(client.submit(name, batched(inputs) if name == "queueing" else inputs))
        if number == 0:
            marked(directory / "started")
        else:
            eventually(partial(is_waiting, client, name, number))
    return pending


@rule("3.10.2")
def test_a_queue_drops_what_was_cancelled_in_it(client: Client, tmp_path: Path) -> None:
    pending = blocked(client, "queueing", tmp_path, 5)
    pending[-1].cancel()
    time.sleep(0.1)  # nothing shows when Triton has noticed
    (tmp_path / "go").touch()
    answers = [p.answer.result(60) for p in pending]
    assert [a.code for a in answers] == [""] * 5 + ["CANCELLED"]
    assert client.infer("queueing", batched(script("return [number(1)]"))).error == ""  # its turn was after theirs
    assert [(tmp_path / f"ran{n}").exists() for n in range(5)] == [True] * 4 + [False]


@rule("3.10.2")
def test_without_a_queue_a_cancelled_request_runs_when_its_turn_comes(client: Client, tmp_path: Path) -> None:
    pending = blocked(client, "direct", tmp_path, 2)
    pending[1].cancel()
    (tmp_path / "go").touch()
    assert pending[2].answer.result(60).error == ""
    marked(tmp_path / "ran0")
