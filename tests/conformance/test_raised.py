"""What the author's code raises is in the log, once, with the author's lines (rule 3.5.4)."""

from __future__ import annotations

import itertools
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from .clients import Client
from .lab_client import LabClient
from .models import CPU, SCRIPTED, config, model
from .rules import rule
from .scripts import TENSORS, eventually, run, script
from .test_async_execute import ASYNC_SCRIPTED

DECOUPLED = "model_transaction_policy { decoupled: true }"
FINALIZES = """
    def finalize(self):
        getattr(self, "last", lambda: None)()
"""
MODELS = {
    "raises": model(SCRIPTED, config(*TENSORS)),
    "raises_flow": model(SCRIPTED, config(*TENSORS, DECOUPLED, CPU)),
    "raises_async": model(ASYNC_SCRIPTED, config(*TENSORS)),
    "raises_async_flow": model(ASYNC_SCRIPTED, config(*TENSORS, DECOUPLED, CPU)),
}

UNDECOUPLED = "using_decoupled_model_transaction_policy"

#: One for each exception.
WORDS = (f"word-{number}-" for number in itertools.count())
BOOM = "def boom():\n    raise ValueError(word)\n"


def lines_with(client: Client, word: str) -> list[str]:
    return [line for line in client.log().splitlines() if word in line]


def letters_with(client: Client, word: str) -> list[str]:
    """Return the levels of the records with the word; what was printed has none."""
    if isinstance(client, LabClient):
        found = [r for r in client.server.logs() if word in r.text]
        return ["" if r.stream == "stderr" else r.level[0] for r in found]
    starts = [re.match(r"[IWE](?=\d{4} )", line) for line in lines_with(client, word)]
    return [start[0] if start else "" for start in starts]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("request.model_name()", "'c_python_backend_utils.InferenceRequest' object has no attribute 'model_name'"),
        ("E.INVALID_ARGUMENT", "type object 'c_python_backend_utils.TritonError' has no attribute 'INVALID_ARGUMENT'"),
        ("E.INTERNAL.code", "'c_python_backend_utils.__ErrorCode' object has no attribute 'code'"),
        ("L.log_warning('x')", "type object 'c_python_backend_utils.Logger' has no attribute 'log_warning'"),
    ],
)
@rule("2.5.2")
def test_a_missing_attribute_of_the_module_has_the_name_of_its_class(
    client: Client, expression: str, text: str
) -> None:
    answer = client.infer("raises", script(f"L = pb_utils.Logger\n{expression}"))
    assert f"message: AttributeError: {text}\n\nAt:" in answer.error


CONFIG = """'{"name": "m", "max_batch_size": 4, "input": [], "output": [], "sequence_batching": {}}'"""


@pytest.mark.parametrize(
    ("call", "frames"),
    [
        ("c.set_max_batch_size(1)", ["set_max_batch_size"]),
        ("c.set_dynamic_batching()", ["set_dynamic_batching"]),
        ("c.add_input({'name': 'a', 'x': 1})", ["add_input"]),
        ("c.add_input({'name': 'a'})", ["add_input"]),
        ("c.add_input({})", ["add_input"]),
        ("c.add_output({'name': 'a', 'data_type': 'x'})", ["add_output"]),
        ("c.add_input({'name': 1, 'x': 1})", ["add_input"]),
        ("[c.add_input({'name': 'a', 'data_type': t, 'dims': [1]}) for t in 'xy']", ["add_input"]),
        ("[c.add_output({'name': 'a', 'data_type': 'x', 'dims': [n]}) for n in (1, 2)]", ["add_output"]),
        ("c.set_model_transaction_policy({'x': 1})", ["set_model_transaction_policy"]),
        ("pb_utils.ModelConfig('{')", ["__init__"]),
        ("pb_utils.get_input_tensor_by_name(1, 'x')", ["get_input_tensor_by_name"]),
        ("pb_utils.get_input_config_by_name({'input': [{}]}, 'x')", ["get_input_config_by_name"]),
        ("c.as_dict()['input'].append({})\nc.add_input({'name': 'a', 'data_type': 'x', 'dims': []})", ["add_input"]),
        ("pb_utils.triton_to_numpy_type(np.arange(2))", ["triton_to_numpy_type"]),
        ("pb_utils.numpy_to_triton_type(np.arange(2))", ["numpy_to_triton_type"]),
        ("pb_utils.triton_string_to_numpy('x')", ["triton_string_to_numpy"]),
        ("pb_utils.deserialize_bytes_tensor(b'abc')", ["deserialize_bytes_tensor"]),
        ("pb_utils.using_decoupled_model_transaction_policy({'model_transaction_policy': {}})", [UNDECOUPLED]),
    ],
)
@rule("2.5.2")
def test_a_text_has_the_frames_of_pb_utils(client: Client, call: str, frames: list[str]) -> None:
    answer = client.infer("raises", script(f"c = pb_utils.ModelConfig({CONFIG})\n{call}"))
    found = [line for line in answer.error.splitlines() if "/triton_python_backend_utils.py(" in line]
    assert [line.rpartition(": ")[2] for line in found] == frames


@rule("3.5.4")
@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("raises", "boom()"),
        ("raises", "list(boom() for _ in [1])"),
        ("raises", "raise SystemExit(word)"),
        ("raises_flow", "sender().send(flags=1)\nboom()"),
        ("raises_async", "await asyncio.sleep(0)\nboom()"),
        ("raises_async_flow", "sender().send(flags=1)\nawait asyncio.sleep(0)\nboom()"),
        ("raises_async_flow", "sender().send(flags=1)\nboom()"),
    ],
)
def test_an_exception_of_execute_is_an_error_of_the_log(client: Client, name: str, body: str) -> None:
    word = next(WORDS)
    answers = client.stream(name, script(BOOM + body, word=word)) if "flow" in name else []
    if not answers:
        assert word in client.infer(name, script(BOOM + body, word=word)).error
    eventually(lambda: letters_with(client, word))
    run_after(client, name)
    assert letters_with(client, word) == ["E"]
    if isinstance(client, LabClient):
        (record,) = [r for r in client.server.logs() if word in r.text]
        # Triton's text does not have it of a generator or coroutine, which ended before the text was made
        assert f"/{name}/1/model.py" in record.text
        assert record.file.endswith(f"/{name}/1/model.py")
        assert record.line > 0


def run_after(client: Client, name: str) -> None:
    """Send another request, so that what the last one logs late is there."""
    if "flow" in name:
        assert len(client.stream(name, script("sender().send(number(1), 1)"))) == 1
    else:
        assert run(client, name, "return reply(1)") == 1


@rule("3.5.4")
@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("raises", "t = threading.Thread(target=boom)\nt.start()\nt.join()"),
        ("raises", "import _thread\n_thread.start_new_thread(boom, ())"),
        ("raises", "class Dies:\n    def __del__(self): boom()\nd = Dies()\ndel d"),
        (
            "raises",
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(1) as pool:\n"
            "    pool.submit(time.sleep, 0.02).add_done_callback(lambda f: boom())",
        ),
        (
            "raises",
            "import multiprocessing\np = multiprocessing.get_context('fork').Process(target=boom)\np.start()\np.join()",
        ),
        ("raises_async", "asyncio.get_running_loop().call_soon(boom)\nawait asyncio.sleep(0.02)"),
    ],
)
def test_what_nobody_waits_for_is_printed_as_python_prints_it(client: Client, name: str, body: str) -> None:
    word = next(WORDS)
    assert run(client, name, BOOM + body + "\nreturn reply(1)", word=word) == 1
    eventually(lambda: lines_with(client, word))
    run_after(client, name)
    assert lines_with(client, word) == [f"ValueError: {word}"]
    assert letters_with(client, word) == [""]


@rule("3.5.4")
def test_a_task_that_raises_and_is_never_awaited(client: Client) -> None:
    body = (
        "async def lost():\n    raise ValueError(word)\n"
        "asyncio.create_task(lost())\n"
        "await asyncio.sleep(0.02)\n"
        "gc.collect()\n"
        "return reply(1)"
    )
    assert run(client, "raises_async", body, word="word-lost") == 1
    eventually(lambda: "ValueError: word-lost" in lines_with(client, "word-lost"))
    assert len(lines_with(client, "Task exception was never retrieved")) == 1


@rule("2.8.2", "3.5.4")
def test_an_exception_of_finalize_is_information(side: Client) -> None:
    assert side.placed("raises_last", model(SCRIPTED + FINALIZES, config(*TENSORS))) is None
    assert run(side, "raises_last", BOOM + "self.last = boom\nreturn reply(1)", word="word-last") == 1
    side.unload("raises_last")
    eventually(lambda: letters_with(side, "word-last"))
    assert letters_with(side, "word-last") == ["I"]
    assert side.log().count("word-last") == 1


@rule("3.5.4", "3.8.2")
@pytest.mark.parametrize("side", ["lab"], indirect=True)
def test_a_coroutine_that_ends_with_its_cancelled_request_is_no_error(client: Client) -> None:
    """2.51 logs whatever a coroutine ends with."""
    gives_up = (
        "while not requests[0].is_cancelled(): await asyncio.sleep(0.005)\n"
        "print('has given up')\n"
        "raise asyncio.CancelledError('word-gone')"
    )
    pending = client.submit("raises_async_flow", script(gives_up))
    pending.cancel()
    eventually(lambda: "has given up" in client.log())
    run_after(client, "raises_async_flow")
    assert "word-gone" not in client.log()
    (answer,) = client.stream("raises_async_flow", script("raise asyncio.CancelledError('word-away')"))
    assert "message: CancelledError: word-away" in answer.error
    assert letters_with(client, "word-away") == ["E"]


@rule("3.8.2")
@pytest.mark.parametrize("side", ["lab"], indirect=True)
@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt"])
def test_a_coroutine_that_wants_to_end_the_process_ends_alone(client: Client, kind: str) -> None:
    """2.51's loop ends with it, and the model answers nobody any more."""
    other = "self.before = asyncio.Event()\nawait asyncio.sleep(0.05)\nsender().send(number(2), 1)"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.stream, "raises_async_flow", script(other))
        (answer,) = client.stream("raises_async_flow", script(f"await asyncio.sleep(0)\nraise {kind}('word-{kind}')"))
        assert f"message: {kind}: word-{kind}" in answer.error
        assert [a.outputs["OUT"].tolist() for a in waiting.result(60)] == [[2]]
    assert letters_with(client, f"word-{kind}") == ["E"]


@rule("3.5.5")
@pytest.mark.parametrize("side", ["lab"], indirect=True)
def test_texts_of_any_size_are_cut_before_they_travel(client: Client) -> None:
    """2.51 hands 30 MB on to the client and to the log."""
    size, most = 30 << 20, 1 << 20
    mark = f" … [{size - most} characters left out]"
    big = "x" * most + mark
    answer = client.infer("raises", script(f"raise ValueError('x' * {size})"))
    failed = "Failed to process the request(s) for model 'raises_0_0', message: ValueError: "
    assert answer.error.startswith(f"{failed}{big}\n")
    assert client.infer("raises", script(f"return [R(error=E('x' * {size}))]")).error == big
    assert run(client, "raises", f"pb_utils.Logger.log_warn('x' * {size})\nreturn reply(1)") == 1
    assert client.logged(big)
    assert run(client, "raises", f"print('y' * {size})\nreturn reply(1)") == 1
    assert "y" * 65536 + f" … [{size - 65536} bytes cut]" in client.log().splitlines()


@rule("2.5.2", "3.5.1")
def test_frames_on_both_sides_of_pb_utils_are_reported(client: Client) -> None:
    """Triton also names its own frame between them."""
    body = (
        "class Odd:\n    def __str__(self): raise ValueError('no text')\n"
        "def tensor(): return T('TEXT', np.array([Odd()], dtype=object))\n"
        "tensor()"
    )
    error = client.infer("raises", script(body)).error
    frames = [line.split(": ")[1] for line in error.partition("At:\n")[2].splitlines() if "_utils.py" not in line]
    assert frames == ["__str__", "tensor", "script", "execute"]
