"""What a BLS call waits for, and calls that wait for themselves, where Triton waits for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .clients import Client
from .models import CPU, SCRIPTED, config, model
from .rules import rule
from .scripts import TENSORS, code, eventually, run

TWO = "instance_group { kind: KIND_CPU count: 2 }"
MODELS = {
    "one": model(SCRIPTED, config(*TENSORS)),
    "other": model(SCRIPTED, config(*TENSORS)),
    "pair": model(SCRIPTED, config(*TENSORS, TWO)),
    "flow": model(SCRIPTED, config(*TENSORS, "model_transaction_policy { decoupled: true }", CPU)),
}
FIVE = code("return [number(5)]")
CALL_FIVE = "return reply(got(request_to(target, five).exec()))"


def call(client: Client, caller: str, body: str = CALL_FIVE, **names: object) -> Any:
    return run(client, caller, body, five=FIVE, **names)


@rule("1.10.2", "4.1.1")
def test_exec_for_an_iterator_returns_with_the_first_response(client: Client, tmp_path: Path) -> None:
    waits = code("until(lambda: os.path.exists(called))\nsender().send(number(1), 1)", called=str(tmp_path / "called"))
    body = (
        "done = []\n"
        "t = threading.Thread(target=lambda: done.append(request_to('flow', waits).exec(decoupled=True)))\n"
        "t.start()\n"
        "time.sleep(0.2)\n"
        "before = len(done)\n"
        "mark(called)\n"
        "t.join(8)\n"
        "return reply([before, [got(r) for r in done[0]]])"
    )
    assert call(client, "one", body, waits=waits, called=str(tmp_path / "called")) == [0, [{"OUT": [1]}]]


@rule("4.4.1")
def test_a_model_with_two_instances_may_call_itself(client: Client) -> None:
    assert call(client, "pair", target="pair") == {"OUT": [5]}


@rule("4.4.1")
def test_a_call_of_a_thread_that_nobody_waits_for_runs_after_execute(client: Client) -> None:
    body = (
        "self.seen = []\n"
        "call = request_to('one', five)\n"
        "def later(seen=self.seen, call=call, got=got):\n"
        "    seen.append(got(call.exec()))\n"
        "threading.Thread(target=later).start()\n"
        "return reply('first')"
    )
    assert call(client, "one", body) == "first"
    assert eventually(lambda: call(client, "one", "return reply(self.seen)")) == [{"OUT": [5]}]


def refusal(*models: str) -> str:
    return (
        f"Model {models[0]} - Error when running inference: The request would wait for itself: {' -> '.join(models)}. "
    )


@rule("4.4.1")
@pytest.mark.parametrize("side", ["lab"], indirect=True)
def test_a_call_that_would_wait_for_itself_is_refused(client: Client) -> None:
    """Triton waits for ever (4.4.1), and everything behind it."""
    assert call(client, "one", target="one").startswith(refusal("one", "one"))
    back = code(CALL_FIVE, target="one", five=FIVE)
    body = "return reply(got(request_to('other', back, outputs=['TEXT']).exec()))"
    assert refusal("one", "other", "one") in call(client, "one", body, back=back)["TEXT"][0].decode()
    assert call(client, "one", target="other") == {"OUT": [5]}


@rule("3.2.2", "3.7.2")
@pytest.mark.parametrize("side", ["lab"], indirect=True)
def test_a_request_that_nothing_can_answer_fails(client: Client) -> None:
    """Triton's client waits for ever."""
    body = "return reply([got(r) for r in request_to(target, lost).exec(decoupled=True)])"
    for target, lost in (("flow", "sender()"), ("other", "sender()\nreturn [None]")):
        (text,) = call(client, "one", body, target=target, lost=code(lost))
        assert "dropped without the final flag" in text
