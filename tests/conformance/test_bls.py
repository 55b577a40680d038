"""BLS: requests a model makes to other models (rules 4.1, 4.3), the iterator over their responses (1.10) and the memory
preference they carry (1.12). How failures of the called model read (4.2) and cycles of waiting (4.4) are not here.
"""

from __future__ import annotations

import ast
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from .clients import Client
from .models import CPU, SCRIPTED, config, model
from .rules import rule
from .scripts import TENSORS, code, eventually, marked, run, script

BATCHED = (
    "max_batch_size: 4",
    "dynamic_batching { preferred_batch_size: 2 max_queue_delay_microseconds: 5000000 }",
    CPU,
)

#: Makes BLS requests where none may be made, and says how it went.
EARLY = SCRIPTED.replace(
    "        self.args = args\n",
    """        self.seen = [self.init]
        for decoupled in (False, True):
            try:
                self.request().exec(decoupled=decoupled)
            except Exception as error:
                self.seen.append((type(error).__name__, str(error)))

    def __init__(self):
        try:
            self.request().exec()
        except Exception as error:
            self.init = (type(error).__name__, str(error))

    def request(self):
        return pb_utils.InferenceRequest(inputs=[], requested_output_names=[], model_name="callee")
""",
)

MODELS = {
    "early": model(EARLY, config(*TENSORS)),
    "caller": model(SCRIPTED, config(*TENSORS)),
    "callee": model(SCRIPTED, config(*TENSORS)),
    "callee_flow": model(SCRIPTED, config(*TENSORS, "model_transaction_policy { decoupled: true }", CPU)),
    "callee_batch": model(SCRIPTED, config(*TENSORS, *BATCHED)),
    "callee_versions": {
        **model(SCRIPTED, config(*TENSORS, "version_policy { all {} }", CPU)),
        "3/model.py": SCRIPTED,
    },
}


def call(client: Client, body: str, **names: object) -> Any:
    """Return what the caller reports that it saw."""
    return run(client, "caller", body, **names)


FIVE = code("return [number(5)]")
#: Three responses, and the final flag by itself.
THREE = code("s = sender()\nfor n in range(3): s.send(number(n))\ns.send(flags=1)")
THREE_ITEMS = [{"OUT": [0]}, {"OUT": [1]}, {"OUT": [2]}, {}]


# exec


@rule("1.18.1")
def test_it_is_refused_before_execute(client: Client) -> None:
    refusal = ("TritonModelException", "BLS is only supported during the 'execute' function.")
    assert run(client, "early", "return reply(self.seen)") == [refusal] * 3


@rule("4.1.1", "4.3.1")
def test_exec_gives_one_response_or_an_iterator(client: Client) -> None:
    body = (
        "r = request_to('callee', five)\n"
        "return reply([got(r.exec()), [got(x) for x in r.exec(decoupled=True)], [got(x) for x in r.exec(1)]])"
    )
    assert call(client, body, five=FIVE) == [{"OUT": [5]}, [{"OUT": [5]}], [{"OUT": [5]}]]


@rule("4.1.1")
def test_async_exec_gives_the_same(client: Client) -> None:
    body = (
        "import asyncio\n"
        "async def both():\n"
        "    one = await request_to('callee', five).async_exec()\n"
        "    several = await request_to('callee_flow', three).async_exec(decoupled=True)\n"
        "    return [got(one), [got(x) for x in several]]\n"
        "return reply(asyncio.run(both()))"
    )
    assert call(client, body, five=FIVE, three=THREE) == [{"OUT": [5]}, THREE_ITEMS]


@rule("4.1.2")
def test_exec_lets_other_threads_run_while_it_blocks(client: Client, tmp_path: Path) -> None:
    body = (
        "def release():\n"
        "    until(lambda: os.path.exists(called))\n"
        "    mark(go)\n"
        "threading.Thread(target=release).start()\n"
        "return reply(got(request_to('callee', waits).exec()))"
    )
    paths = {"called": str(tmp_path / "called"), "go": str(tmp_path / "go")}
    waits = code("mark(called)\nuntil(lambda: os.path.exists(go))\nreturn [number(1)]", **paths)
    assert call(client, body, waits=waits, **paths) == {"OUT": [1]}


@rule("4.1.2")
def test_requests_of_two_threads_meet_in_the_called_models_batcher(client: Client) -> None:
    body = (
        "seen = []\n"
        "work = lambda: seen.append(got(request_to('callee_batch', size).exec()))\n"
        "threads = [threading.Thread(target=work) for _ in '12']\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n"
        "return reply(seen)"
    )
    size = code("return [R([T('OUT', np.array([[len(requests)]], np.int32))]) for r in requests]")
    assert call(client, body, size=size) == [{"OUT": [[2]]}] * 2


@rule("4.1.3")
def test_a_request_may_be_executed_again(client: Client) -> None:
    body = "r = request_to('callee', five)\nreturn reply([got(r.exec()), got(r.exec())])"
    assert call(client, body, five=FIVE) == [{"OUT": [5]}] * 2


@rule("4.1.4")
def test_outputs_stay_what_they_are_while_later_calls_are_made(client: Client) -> None:
    body = (
        "first = request_to('callee', full % 1).exec()\n"
        "view = np.from_dlpack(first.output_tensors()[0])\n"
        "later = [request_to('callee', full % n).exec() for n in (2, 3)]\n"
        "del later\n"
        "gc.collect()\n"
        "array = first.output_tensors()[0].as_numpy()\n"
        "return reply([view.tolist(), array.tolist(), got(request_to('callee', full % 4).exec())])"
    )
    full = "return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.full(3, %d, np.int32))])]"
    assert call(client, body, full=full) == [[1, 1, 1], [1, 1, 1], {"OUT": [4, 4, 4]}]


# options

UNKNOWN_OUTPUT = "Model callee - Error when running inference: unexpected inference output 'NOPE' for model 'callee'"


@rule("4.3.2")
@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        pytest.param([], {"OUT": [5], "TEXT": [b"x"]}, id="all"),
        pytest.param(["TEXT"], {"TEXT": [b"x"]}, id="one"),
        pytest.param(["TEXT", "OUT"], {"OUT": [5], "TEXT": [b"x"]}, id="both"),
        pytest.param(["NOPE"], UNKNOWN_OUTPUT, id="unknown"),
    ],
)
def test_outputs_are_those_that_were_requested(client: Client, outputs: list[str], expected: object) -> None:
    two = code("return [R([*number(5).output_tensors(), T('TEXT', np.array([b'x']))])]")
    body = "return reply(got(request_to('callee', two, outputs).exec()))"
    assert call(client, body, two=two, outputs=outputs) == expected


@rule("4.2.3")
def test_an_iterator_has_a_failure_as_its_only_item(client: Client) -> None:
    body = "return reply([got(x) for x in request_to('callee', five, ['NOPE']).exec(True)])"
    assert call(client, body, five=FIVE) == [UNKNOWN_OUTPUT]


@rule("4.3.2")
@pytest.mark.parametrize("model", ["callee", "nobody"])
def test_an_input_that_is_there_twice_is_refused(client: Client, model: str) -> None:
    body = (
        "inputs = request_to(model, five).inputs()\n"
        "twice = pb_utils.InferenceRequest('r', inputs=inputs * 2, requested_output_names=[], model_name=model)\n"
        "return reply(got(twice.exec()))"
    )
    error = call(client, body, five=FIVE, model=model)
    if model == "callee":
        start = "Model callee - Error when running inference: "
        assert error == start + "[request id: r] input 'CODE' already exists in request"
    else:
        assert "already exists" not in error  # that there is no such model is found first


@rule("4.3.2")
def test_an_output_that_was_not_produced_is_missing(client: Client) -> None:
    assert call(client, "return reply(got(request_to('callee', five, ['TEXT']).exec()))", five=FIVE) == {}


@rule("4.3.3")
def test_version_minus_one_is_the_highest(client: Client) -> None:
    body = (
        "seen = [got(request_to('callee_versions', answers_version, model_version=v).exec()) for v in (-1, 1, 3)]\n"
        "return reply([seen, got(request_to('callee_versions', answers_version).exec())])"
    )
    answers_version = code("return reply(self.args['model_version'])")
    answers = [{"TEXT": [f"'{version}'".encode()]} for version in (3, 1, 3)]
    assert call(client, body, answers_version=answers_version) == [answers, answers[0]]


@rule("4.3.3", "1.7.8")
def test_a_timeout_reaches_the_called_model_and_does_not_bound_exec(client: Client) -> None:
    body = "return reply(got(request_to('callee', slow, timeout=1000).exec()))"
    slow = code("time.sleep(0.02)\nreturn [number(request.timeout())]")
    assert call(client, body, slow=slow) == {"OUT": [1000]}


@rule("4.3.3", "1.7.8")
@pytest.mark.parametrize("timeout", [1, 11_000_000, 2**31 + 5, 2**32 + 5, 2**63 - 1, 2**63 + 5, 2**64 - 1])
def test_a_timeout_of_any_size_reaches_the_called_model(client: Client, timeout: int) -> None:
    body = f"return reply(got(request_to('callee', reads, timeout={timeout}).exec()))"
    reads = code("return reply(request.timeout())")
    assert call(client, body, reads=reads) == {"TEXT": [str(timeout).encode()]}


FIELDS = code(
    "r = request\n"
    "return reply([r.request_id(), r.correlation_id(), r.flags(), r.timeout(), json.loads(r.parameters()),"
    " sorted(r.requested_output_names())])"
)


@rule("4.3.4")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["", 0, 0, 0, {}, ["OUT", "TEXT"]]),
        (
            {"request_id": "r1", "correlation_id": 2**63, "flags": 3, "timeout": 7, "outputs": ["TEXT"]},
            ["r1", 2**63, 3, 7, {}, ["TEXT"]],
        ),
        ({"request_id": "r\0s", "correlation_id": "c\0d"}, ["r", "c", 0, 0, {}, ["OUT", "TEXT"]]),
        ({"parameters": {"s": "x\0y"}}, ["", 0, 0, 0, {"s": "x"}, ["OUT", "TEXT"]]),
        ({"correlation_id": "a name", "flags": 2}, ["", "a name", 2, 0, {}, ["OUT", "TEXT"]]),
        (
            {"parameters": {"s": "v", "i": -5, "b": True, "t": False, "é": "ü"}},
            ["", 0, 0, 0, {"s": "v", "i": -5, "b": True, "t": False, "é": "ü"}, ["OUT", "TEXT"]],
        ),
        (
            {"parameters": {"triton_x": 1, "sequence_id": 5, "priority": 2, "timeout": 3, "binary_data_output": True}},
            [
                "",
                0,
                0,
                0,
                {"triton_x": 1, "sequence_id": 5, "priority": 2, "timeout": 3, "binary_data_output": True},
                ["OUT", "TEXT"],
            ],
        ),
    ],
    ids=["none", "all", "texts with a NUL", "a parameter with a NUL", "text id", "parameters", "reserved parameters"],
)
def test_the_called_model_sees_the_fields_of_the_request(
    client: Client, options: dict[str, object], expected: list[object]
) -> None:
    body = "return reply(got(request_to('callee', code, **options).exec()))"
    (text,) = call(client, body, code=FIELDS, options=options)["TEXT"]
    assert ast.literal_eval(text.decode()) == expected


@rule("4.3.4")
def test_a_parameter_whose_name_has_a_nul_is_refused(client: Client) -> None:
    body = "return reply(request_to('callee', code, parameters={'a\\0b': 1}).exec().error().message())"
    refused = "Model callee - Error when running inference: Unexpected missing key on parameters"
    assert call(client, body, code=FIVE) == refused


@rule("4.3.5", "3.4.5")
@pytest.mark.parametrize("side", ["lab"], indirect=True)
def test_parameters_of_a_response_reach_the_caller(client: Client) -> None:
    """Newer than 2.51 (section 8)."""
    with_parameters = code("return [R(number(1).output_tensors(), parameters={'s': 'v', 'i': -5, 'b': True})]")
    body = "return reply(json.loads(request_to('callee', code).exec().parameters()))"
    assert call(client, body, code=with_parameters) == {"s": "v", "i": -5, "b": True}


@rule("4.3.7", "3.10.1", "3.10.4")
def test_cancelling_the_outer_request_leaves_the_inner_one_alone(client: Client, tmp_path: Path) -> None:
    names = {name: str(tmp_path / name) for name in ("called", "outer", "inner")}
    inner = code(
        "mark(called)\nuntil(lambda: os.path.exists(outer))\nmark(inner, request.is_cancelled())\nreturn [number(5)]",
        **names,
    )
    body = (
        "def watch():\n"
        "    until(request.is_cancelled)\n"
        "    mark(outer)\n"
        "watcher = threading.Thread(target=watch)\n"
        "watcher.start()\n"
        "answer = got(request_to('callee', code).exec())\n"
        "watcher.join()\n"
        "return reply(answer)"
    )
    pending = client.submit("caller", script(body, code=inner, **names))
    marked(tmp_path / "called")
    pending.cancel()
    assert marked(tmp_path / "inner") is False
    assert call(client, "return reply(1)") == 1


# models that are not there

#: Calls the model in every form; says what each gave, and whether the model is ready.
EVERY_FORM = (
    "version = '' if number == -1 else str(number)\n"
    "def request(): return request_to(callee, five, model_version=number)\n"
    "async def wait():\n"
    "    return [await request().async_exec(), list(await request().async_exec(decoupled=True))]\n"
    "one, several = asyncio.run(wait())\n"
    "seen = [got(request().exec()), [got(x) for x in request().exec(True)], got(one), [got(x) for x in several]]\n"
    "return reply([seen, pb_utils.is_model_ready(callee, version)])"
)


def is_refused_as_not_ready(client: Client, callee: str, number: int = -1) -> None:
    text = (
        f"Model {callee} - Error when running inference: Failed for execute the inference request. "
        f"Model '{callee}' is not ready."
    )
    seen = call(client, EVERY_FORM, five=FIVE, callee=callee, number=number)
    assert seen == [[text, [text], text, [text]], False]


#: What becomes of a model before it is called: the config of its load, its source, and whether it is unloaded.
NOT_SERVING = {
    "absent": (None, "", False),
    "unreadable": ("nonsense: 1", SCRIPTED, False),
    "failed": (config(*TENSORS), "1 / 0", False),
    "unloaded": (config(*TENSORS), SCRIPTED, True),
    "unloaded_flow": (config(*TENSORS, "model_transaction_policy { decoupled: true }", CPU), SCRIPTED, True),
}


@rule("4.2.1", "4.2.3", "1.15.7")
@pytest.mark.parametrize("callee", NOT_SERVING)
def test_a_model_that_does_not_serve_is_not_ready(client: Client, callee: str) -> None:
    text, source, unload = NOT_SERVING[callee]
    if text is not None:
        failure = client.placed(callee, model(source, text))
        assert (failure is None) is unload
    if unload:
        client.unload(callee)
        eventually(lambda: not client.ready(callee))
    is_refused_as_not_ready(client, callee)


@rule("4.2.1", "4.3.3")
@pytest.mark.parametrize("number", [0, 2, 7])
def test_a_version_that_does_not_serve_is_not_ready(client: Client, number: int) -> None:
    is_refused_as_not_ready(client, "callee_versions", number)


@rule("4.2.1", "4.4.3")
def test_a_version_that_another_took_the_place_of_is_not_ready(client: Client) -> None:
    assert client.placed("replaced", model(SCRIPTED, config(*TENSORS))) is None
    client.place("replaced", {**model(SCRIPTED, config(*TENSORS)), "2/model.py": SCRIPTED})
    assert client.load("replaced") is None
    eventually(lambda: not client.ready("replaced", 1))
    is_refused_as_not_ready(client, "replaced", 1)
    client.unload("replaced")


@rule("4.2.1")
def test_a_model_that_loads_is_not_ready(client: Client, tmp_path: Path) -> None:
    loading, go = str(tmp_path / "loading"), str(tmp_path / "go")
    waits = f"import os, time\nopen({loading!r}, 'w').close()\nwhile not os.path.exists({go!r}): time.sleep(0.01)\n"
    client.place("loads", model(waits + SCRIPTED, config(*TENSORS)))
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(client.load, "loads")
        try:
            eventually(lambda: os.path.exists(loading))
            is_refused_as_not_ready(client, "loads")
        finally:
            (tmp_path / "go").touch()
        assert load.result() is None
    client.unload("loads")


@rule("4.4.3", "4.2.1")
def test_a_call_loads_nothing(client: Client) -> None:
    client.place("lying_there", MODELS["callee"])
    is_refused_as_not_ready(client, "lying_there")
    assert [e for e in client.index() if e["name"] == "lying_there"] == [{"name": "lying_there"}]


# the iterator


@rule("1.10.4", "1.10.2", "3.7.5")
@pytest.mark.parametrize(
    ("callee", "items"),
    [
        (THREE, THREE_ITEMS),
        (code("s = sender()\ns.send(number(0))\ns.send(number(1), 1)"), [{"OUT": [0]}, {"OUT": [1]}]),
        (code("sender().send(flags=1)"), [{}]),
        (code("sender().send(R(error=E('e')), 1)"), ["e"]),
    ],
    ids=["final by itself", "final on the last", "final only", "an error"],
)
def test_an_iterator_yields_each_response_and_an_empty_one_for_a_final_by_itself(
    client: Client, callee: str, items: list[object]
) -> None:
    body = "return reply([got(x) for x in request_to('callee_flow', code).exec(decoupled=True)])"
    assert call(client, body, code=callee) == items


@rule("1.10.2", "3.7.3")
@pytest.mark.parametrize("side", ["lab"], indirect=True)
def test_an_iterator_goes_on_after_an_error(client: Client) -> None:
    """Triton's `next` never returns again (measured on 2.51), and all later calls of the caller wait with it."""
    callee = "s = sender()\ns.send(number(0))\ns.send(R(error=E('e')))\ns.send(number(1), 1)"
    body = "return reply([got(x) for x in request_to('callee_flow', code).exec(decoupled=True)])"
    assert call(client, body, code=code(callee)) == [{"OUT": [0]}, "e", {"OUT": [1]}]


@rule("1.10.2")
def test_next_blocks_and_the_end_says_so(client: Client, tmp_path: Path) -> None:
    waits = code(
        "s = sender()\ns.send(number(0))\nuntil(lambda: os.path.exists(first))\ns.send(number(1), 1)",
        first=str(tmp_path / "first"),
    )
    body = (
        "responses = request_to('callee_flow', code).exec(decoupled=True)\n"
        "seen = [got(next(responses))]\n"
        "mark(first)\n"
        "seen.append(got(next(responses)))\n"
        "for _ in range(2):\n"
        "    try: next(responses)\n"
        "    except StopIteration as end: seen.append(end.args)\n"
        "return reply(seen)"
    )
    end = ("Iteration is done for the responses.",)
    seen = call(client, body, code=waits, first=str(tmp_path / "first"))
    assert seen == [{"OUT": [0]}, {"OUT": [1]}, end, end]


@rule("1.10.3")
def test_an_exhausted_iterator_replays(client: Client) -> None:
    body = (
        "responses = request_to('callee_flow', code).exec(decoupled=True)\n"
        "return reply([[got(x) for x in responses] for _ in range(3)])"
    )
    assert call(client, body, code=THREE) == [THREE_ITEMS] * 3


@rule("1.10.3")
def test_a_replay_starts_once_the_final_was_taken_and_not_in_its_middle(client: Client) -> None:
    body = (
        "responses = request_to('callee_flow', code).exec(decoupled=True)\n"
        "seen = [got(next(responses)), got(next(iter(responses)))]\n"
        "seen.append([got(x) for x in responses])\n"
        "seen.append(got(next(iter(responses))))\n"
        "seen.append([got(x) for x in iter(responses)])\n"
        "return reply(seen)"
    )
    zero, one, two, empty = THREE_ITEMS
    assert call(client, body, code=THREE) == [zero, one, [two, empty], zero, [one, two, empty]]


@rule("1.10.5")
def test_a_dropped_iterator_lets_the_called_model_go_on(client: Client, tmp_path: Path) -> None:
    names = {"dropped": str(tmp_path / "dropped"), "sent": str(tmp_path / "sent")}
    goes_on = code(
        "s = sender()\n"
        "s.send(number(0))\n"
        "until(lambda: os.path.exists(dropped))\n"
        "for n in range(20): s.send(number(n))\n"
        "s.send(flags=1)\n"
        "mark(sent)",
        **names,
    )
    body = (
        "responses = request_to('callee_flow', code).exec(decoupled=True)\n"
        "seen = [got(next(responses))]\n"
        "del responses\n"
        "gc.collect()\n"
        "mark(dropped)\n"
        "until(lambda: os.path.exists(sent))\n"
        "return reply([seen, [got(x) for x in request_to('callee_flow', three).exec(True)]])"
    )
    assert call(client, body, code=goes_on, three=THREE, **names) == [[{"OUT": [0]}], THREE_ITEMS]


@rule("1.10.1")
def test_an_iterator_is_its_own_iterator_and_is_called_as_in_triton(client: Client) -> None:
    body = (
        "responses = request_to('callee_flow', code).exec(True)\n"
        "seen = [iter(responses) is responses, type(responses).__name__, type(responses).__module__]\n"
        "return reply([seen, len(list(responses))])"  # one that is not read to its end keeps Triton from unloading
    )
    assert call(client, body, code=THREE) == [[True, "ResponseIterator", "c_python_backend_utils"], 4]


# preferred memory


def preferring(client: Client, kind: str) -> Any:
    body = (
        "memory = pb_utils.PreferredMemory(getattr(pb_utils, 'TRITONSERVER_MEMORY_' + kind), 0)\n"
        "response = request_to('callee', five, preferred_memory=memory).exec()\n"
        "return reply([got(response), [t.is_cpu() for t in response.output_tensors()]])"
    )
    return call(client, body, five=FIVE, kind=kind)


@rule("1.12.2")
def test_outputs_come_to_host_memory_on_request(client: Client) -> None:
    assert preferring(client, "CPU") == [{"OUT": [5]}, [True]]


@rule("1.12.2")
@pytest.mark.parametrize("side", ["lab"], indirect=True)
def test_a_preference_for_a_gpu_that_is_not_there_is_ignored(client: Client) -> None:
    """Triton's GPU build answers an error of its allocator (measured on 2.51)."""
    assert preferring(client, "GPU") == [{"OUT": [5]}, [True]]
