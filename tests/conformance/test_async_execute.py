"""`async def execute` (section 3.8), and its event loop's end (2.8.3)."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .clients import Client
from .models import CPU, SCRIPTED, config, model
from .rules import rule
from .scripts import TENSORS, code, eventually, marked, run, script

#: As SCRIPTED, with scripts that may await. `self.ending(loop is running)` is called by `finalize`.
ASYNC_SCRIPTED = (
    SCRIPTED.replace("    def execute", "    async def execute")
    .replace('"def script', '"async def script')
    .replace("return scope", "return await scope")
    + """
    def finalize(self):
        with open(self.args["model_repository"] + "/ended.part", "w") as file:
            file.write(repr([self.loop.is_running(), self.thread.is_alive()]))
        import os
        os.rename(file.name, file.name[:-5])
"""
)
#: `execute` is a plain function that returns a coroutine, as decorators make of an `async def`.
WRAPPED = (
    ASYNC_SCRIPTED
    + """

def wrapped(execute):
    return lambda self, requests: execute(self, requests)

TritonPythonModel.execute = wrapped(TritonPythonModel.execute)
"""
)
TWO = "instance_group { kind: KIND_CPU count: 2 }"

MODELS = {
    "async_run": model(ASYNC_SCRIPTED, config(*TENSORS)),
    "async_flow": model(ASYNC_SCRIPTED, config(*TENSORS, "model_transaction_policy { decoupled: true }", CPU)),
    "wrapped_run": model(WRAPPED, config(*TENSORS)),
    "wrapped_flow": model(WRAPPED, config(*TENSORS, "model_transaction_policy { decoupled: true }", CPU)),
    "helper": model(SCRIPTED, config(*TENSORS, TWO)),
}


@rule("3.8.1")
def test_a_coroutine_is_run_to_its_end_and_answers(client: Client) -> None:
    assert run(client, "async_run", "await asyncio.sleep(0)\nreturn reply(5)") == 5


@rule("3.8.1")
def test_what_counts_is_the_coroutine_that_is_returned(client: Client) -> None:
    assert run(client, "wrapped_run", "await asyncio.sleep(0)\nreturn reply(5)") == 5
    answers = client.stream("wrapped_flow", script("await asyncio.sleep(0)\nsender().send(number(7), 1)"))
    assert [a.outputs["OUT"].tolist() for a in answers] == [[7]]


@rule("3.8.1", "3.8.3")
def test_all_calls_run_on_one_loop_in_a_thread_of_its_own(client: Client) -> None:
    body = "return reply([id(asyncio.get_running_loop()), threading.current_thread() is threading.main_thread()])"
    loop, main = run(client, "async_run", body)
    assert run(client, "async_run", body) == [loop, main]
    assert not main


@rule("3.8.1")
def test_calls_of_a_default_model_follow_one_another(client: Client) -> None:
    body = (
        "log = self.__dict__.setdefault('log', [])\n"
        "log.append('in')\n"
        "await asyncio.sleep(0.01)\n"
        "log.append('out')\n"
        "return reply(log)"
    )
    pending = [client.submit("async_run", script(body)) for _ in range(3)]
    longest = max((p.answer.result(60).outputs["TEXT"][0] for p in pending), key=len)
    assert longest == repr(["in", "out"] * 3).encode()


@rule("3.8.1", "4.1.1")
def test_bls_calls_of_a_coroutine_overlap(client: Client, tmp_path: Path) -> None:
    meet = "mark(here)\nuntil(lambda: os.path.exists(there))\nreturn [number(1)]"
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    scripts = [code(meet, here=one, there=other), code(meet, here=other, there=one)]
    body = (
        "calls = [request_to('helper', s).async_exec() for s in scripts]\n"
        "return reply([got(r) for r in await asyncio.gather(*calls)])"
    )
    assert run(client, "async_run", body, scripts=scripts) == [{"OUT": [1]}] * 2


@rule("3.8.1", "3.5.1")
def test_an_exception_of_a_coroutine_is_reported_as_any_other(client: Client) -> None:
    answer = client.infer("async_run", script("await asyncio.sleep(0)\nraise ValueError('late')"))
    text = r"Failed to process the request\(s\) for model 'async_run_0_0', message: ValueError: late\n\nAt:\n"
    assert answer.code == "INTERNAL"
    assert re.fullmatch(text + r"  <string>\(\d+\): script\n", answer.error)


@rule("3.8.2")
def test_coroutines_of_a_decoupled_model_interleave(client: Client) -> None:
    waits = "self.event = asyncio.Event()\nawait self.event.wait()\nsender().send(number(1), 1)"
    sets = (
        "while not hasattr(self, 'event'): await asyncio.sleep(0.002)\n"
        "s = sender()\n"
        "s.send(number(2))\n"
        "self.event.set()\n"
        "s.send(flags=1)"
    )
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda body: client.stream("async_flow", script(body)), [waits, sets])
    assert [a.outputs["OUT"].tolist() for a in first] == [[1]]
    assert [a.outputs["OUT"].tolist() for a in second if a.outputs] == [[2]]


@rule("3.8.2")
def test_an_exception_of_a_decoupled_coroutine_is_only_logged_by_triton_and_answered_here(client: Client) -> None:
    """Better than Triton: its stream waits until somebody else ends it."""
    fails = "self.sender = sender()\nawait asyncio.sleep(0)\nraise ValueError('lost')"
    with ThreadPoolExecutor(1) as pool:
        stream = pool.submit(client.stream, "async_flow", script(fails))
        if client.side == "real":
            eventually(lambda: "ValueError: lost" in client.log())
            ends = "self.sender.send(number(9), 1)\nsender().send(flags=1)"
            assert len(client.stream("async_flow", script(ends))) == 1
        answers = stream.result(20)
    if client.side == "real":
        assert [(a.error, a.outputs["OUT"].tolist()) for a in answers] == [("", [9])]
        return
    (answer,) = answers
    start = "Failed to process the request(s) for model 'async_flow_0_0', message: ValueError: lost\n\nAt:\n  <string>("
    assert answer.error.startswith(start)
    assert answer.final


@rule("2.8.3")
def test_the_loop_has_stopped_when_the_model_finalizes(side: Client) -> None:
    """Triton stops it in a way that an idle loop does not notice."""
    assert side.placed("async_ends", MODELS["async_run"]) is None
    body = "self.loop, self.thread = asyncio.get_running_loop(), threading.current_thread()\nreturn reply(1)"
    assert run(side, "async_ends", body) == 1
    side.unload("async_ends")
    assert marked(side.repository / "async_ends" / "ended") == [side.side == "real"] * 2
