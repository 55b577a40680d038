"""What is seen below the cell that runs: what other threads write, and what a model prints while it executes."""

from __future__ import annotations

import contextvars
import gc
import json
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.events import EventManager, available_events

import tritonlab
from tests.models import cell, executes
from tests.serving import eventually
from tritonlab import runtime
from tritonlab.core.observe.instrument import Instruments
from tritonlab.ipc.processes.interpreter import STUB
from tritonlab.ipc.processes.stub_log import UNCHECKED, LogRecord
from tritonlab.notebook.shell.running_cell import MOST, PrintedLines, RunningCell

CELL = contextvars.ContextVar("CELL", default="none")


class Out:
    """A stream that knows the cell of who writes, as ipykernel's does."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str]] = []

    def write(self, text: str) -> None:
        self.written.append((CELL.get(), text))


def test_what_a_thread_writes_is_of_the_cell_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    shell, out, err = SimpleNamespace(events=EventManager(None, available_events)), Out(), Out()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    RunningCell().follow(shell)  # by the extension, loaded before
    CELL.set("first")
    cell = RunningCell()
    cell.follow(shell)
    assert len(shell.events.callbacks["pre_run_cell"]) == 1
    goes, ended = threading.Semaphore(0), threading.Semaphore(0)

    def write() -> None:
        for number in range(3):
            goes.acquire()
            cell.write(f"line {number}", error=number == 2)
            ended.release()

    thread = threading.Thread(target=write)
    thread.start()
    for name in ("", "second", "third"):
        if name:
            CELL.set(name)
            shell.events.trigger("pre_run_cell", None)
        goes.release()
        ended.acquire()
    thread.join()
    assert out.written == [("first", "line 0\n"), ("second", "line 1\n")]
    assert err.written == [("third", "line 2\n")]


def test_threads_write_at_a_time() -> None:
    """A context can be entered by one thread only."""
    cell, together = RunningCell(), threading.Barrier(4)
    failed: list[BaseException] = []

    def write() -> None:
        together.wait()
        try:
            for _ in range(200):
                cell.write("")
        except RuntimeError as error:
            failed.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


TALKS = """%%triton_model talks --input N:INT32[1] --output N:INT32[1]
import sys, traceback
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        print("at the load")

    def execute(self, requests):
        responses = []
        for request in requests:
            n = request.inputs()[0]
            for number in range(n.as_numpy()[0]):
                print("line", number)
            responses.append(pb_utils.InferenceResponse([n]))
        return responses
"""
SAYS = """%%triton_model says
import sys, traceback
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        print("to stderr", file=sys.stderr)
        pb_utils.Logger.log_info("an info")
        pb_utils.Logger.log_warn("a warning")
        pb_utils.Logger.log_verbose("much")
        try:
            1 / 0
        except ZeroDivisionError:
            traceback.print_exc()
        return [pb_utils.InferenceResponse([]) for _ in requests]
"""

ODD = cell(
    "odd --input N:INT32[1] --output SUM:FP32[1]",
    executes(
        'tensors = [pb_utils.Tensor("SUM", np.zeros(1)), pb_utils.Tensor("SMU", np.zeros(1))]\n'
        "return [pb_utils.InferenceResponse(tensors) for _ in requests]"
    ),
)


def of(model: str, text: str, **fields: Any) -> LogRecord:
    facts: dict[str, Any] = {"stream": "stdout", "level": "INFO", "serials": (1,), **fields}
    return LogRecord(0, model, 1, f"{model}_0_0", text=text, **facts)


@pytest.fixture
def printed() -> Any:
    """Return what listens, and the shell that it follows, in a cell that has begun."""
    shell = SimpleNamespace(events=EventManager(None, available_events))
    printed = PrintedLines(RunningCell(), lambda record: str)
    printed.follow(shell)
    instruments = Instruments()
    instruments.replace(printed)
    shell.events.trigger("pre_run_cell", None)
    return SimpleNamespace(say=instruments.log, events=shell.events, shell=shell, instruments=instruments)


def test_it_comes_before_what_the_cell_says_about_the_answer(notebook: Any) -> None:
    loaded = notebook.run(TALKS)
    assert "talks | at the load" not in loaded.text  # it is on the card
    result = notebook.run("for n in (2, 0, 1):\n    print(talks(N=[n]))")
    assert [line for line in result.text.splitlines() if "array" not in line] == [
        "talks | line 0",
        "talks | line 1",
        "talks | line 0",
    ]
    assert [line[:7] for line in result.text.splitlines()] == [
        "talks |",
        "talks |",
        "{'N': a",
        "{'N': a",
        "talks |",
        "{'N': a",
    ]
    assert notebook.run("print('nothing new')").text == "nothing new\n"


def test_of_many_lines_the_first_and_their_number(notebook: Any) -> None:
    notebook.run(TALKS)
    lines = notebook.run(f"_ = talks(N=[{MOST + 1200}])").text.splitlines()
    assert lines == [*(f"talks | line {n}" for n in range(MOST)), "talks | … 1,200 more lines: %triton logs talks"]
    assert notebook.run("_ = talks(N=[1])").text == "talks | line 0\n"


def test_levels_and_places(notebook: Any) -> None:
    notebook.run(SAYS)
    text = notebook.run("_ = list(says.infer())").text
    lines = [line for line in text.splitlines() if line.startswith("says | ")]
    assert "says | to stderr" in lines
    assert {"says | an info", "says | WARNING a warning"} < set(lines) and "much" not in text
    assert f"says |   Cell In[{notebook.number() - 1}], line 12, in execute" in lines
    assert "says | ZeroDivisionError: division by zero" in lines  # perhaps before the warning, which goes another way


def test_outputs_that_triton_does_not_check_are_warned_of_once(notebook: Any) -> None:
    notebook.run(ODD)
    lines = [line for line in notebook.run("_ = odd(N=[1])").text.splitlines() if line.startswith("odd | ")]
    assert lines == [
        "odd | WARNING Triton checks no outputs: 'SMU' is not an output of the config and was dropped.",
        "odd | WARNING Triton checks no outputs: 'SUM' is FP64 where the config says FP32.",
    ]
    assert notebook.run("_ = odd(N=[1])").text == ""


def test_a_model_that_python_alone_loads_after_a_reset_is_followed(notebook: Any) -> None:
    tritonlab.load_ipython_extension(notebook.shell)
    source = TALKS.partition("\n")[2]
    call = (
        f"talks = tritonlab.load('talks', {source!r}, inputs=['N:INT32[1]'], outputs=['N:INT32[1]'])\n_ = talks(N=[1])"
    )
    try:
        for cell in (f"import tritonlab\n{call}", f"tritonlab.reset()\n{call}"):
            assert notebook.run(cell).text == "talks | line 0\n"
        core = weakref.ref(tritonlab.default_server().core)
        notebook.run("tritonlab.reset()\ndel talks")
        eventually(lambda: gc.collect() >= 0 and core() is None)  # with all that it has recorded
    finally:
        runtime.show_in(None)
        tritonlab.reset()


def test_a_failure_that_no_client_gets_is_printed(notebook: Any) -> None:
    notebook.run(
        TALKS.replace("--output N:INT32[1]", "--output N:INT32[1] --decoupled").replace(
            "return responses",
            """for request, response in zip(requests, responses):
            request.get_response_sender().send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        raise ValueError("too late")""",
        )
    )
    text = notebook.run("_ = list(talks.infer(inputs={'N': [0]}))\nwhile not talks.failures: pass").text
    (line,) = (line for line in text.splitlines() if line.startswith("talks | "))
    assert line.startswith("talks | ERROR Failed to process the request(s)") and line.endswith("ValueError: too late")
    assert text.endswith(f"  Cell In[{notebook.number() - 1}], line 18: execute\n")


def test_a_traceback_does_not_repeat_what_stands_above_it(notebook: Any) -> None:
    notebook.run(TALKS.replace("responses.append", "raise ValueError"))
    result = notebook.run("talks(N=[2])").text
    assert "talks | line 0" in result and "last output" not in result
    # no cell showed what is printed during a load
    assert "last output" in notebook.run(TALKS.replace('print("at the load")', 'print("at the load"); 1 / 0')).text


def test_what_no_cell_waits_for_is_only_in_the_log(notebook: Any) -> None:
    notebook.run(TALKS)
    talks = notebook["talks"]
    assert notebook.run("answers = talks.infer(inputs={'N': [1]})\nlist(answers)").text.startswith("talks | line 0\n")
    before = len(talks.logs())
    talks(N=[3])
    assert [record.text for record in talks.logs()[before:]] == ["line 0", "line 1", "line 2"]
    assert notebook.run("pass").text == ""


def test_a_cell_that_runs_another_one_goes_on_showing_its_own_lines(notebook: Any) -> None:
    notebook.run(TALKS)
    inner = "from IPython import get_ipython\nget_ipython().run_cell({!r})\n_ = talks(N=[1])"
    assert notebook.run(inner.format("_ = talks(N=[2])")).text.splitlines() == [
        "talks | line 0",
        "talks | line 1",
        "talks | line 0",
    ]
    assert notebook.run(inner.format("")).text == "talks | line 0\n"  # IPython says of an empty cell only that it ended
    lines = notebook.run(f"_ = talks(N=[{MOST + 3}])\n{inner.format('_ = talks(N=[1])')}").text.splitlines()
    assert lines[MOST:] == ["talks | line 0", "talks | … 4 more lines: %triton logs talks"]
    before = notebook.run("pass").text
    notebook["talks"](N=[1])
    assert before + notebook.run("pass").text == ""


def test_a_progress_bar_is_its_last_state_and_colours_end_with_their_line(
    printed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    printed.say(of("m", " 10%\r 55%\r100% done"))
    printed.say(of("m", "all\r"))
    printed.say(of("m", "\x1b[31mred"))
    assert capsys.readouterr().out == "m | 100% done\nm | all\nm | \x1b[31mred\x1b[0m\n"


def test_only_lines_about_requests_are_printed(printed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    printed.say(of("m", "of a request"))
    printed.say(of("m", "x" * 5000))
    printed.say(of("m", "of a load", serials=()))
    printed.say(of("m", "raised", stream="server", level="ERROR"))
    printed.say(of("m", "warned", stream="stderr", level="WARNING"))
    printed.say(of("m", f'  File "{STUB.parent}/_pb_stub/process/main_loop.py", line 80 in run', stream="stderr"))
    printed.say(of("m", "bad", stream="log", level="ERROR"))
    printed.say(of("m", f"{UNCHECKED}odd", stream="server", level="WARNING"))
    found = capsys.readouterr()
    assert found.out == f"m | of a request\nm | {'x' * 2000} …\n"
    assert found.err == f"m | warned\nm | ERROR bad\nm | WARNING {UNCHECKED}odd\n"


def test_the_rest_is_counted_for_each_model(printed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(MOST):
        printed.say(of("m", str(number)))
    for model in ("a", "b", "b"):
        printed.say(of(model, "more"))
    printed.events.trigger("post_run_cell", None)
    printed.say(of("m", "no cell runs"))
    assert capsys.readouterr().out.splitlines()[MOST:] == [
        "a | … 1 more line: %triton logs a",
        "b | … 2 more lines: %triton logs b",
    ]


def test_a_closed_stream_is_no_error(printed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def write(self, text: str) -> None:
            raise ValueError("I/O operation on closed file")

    with monkeypatch.context() as patched:
        patched.setattr("sys.stdout", Closed())
        printed.say(of("m", "lost"))
        patched.setattr("sys.stdout", None)
        printed.say(of("m", "lost"))
    assert len(list(printed.instruments)) == 1


def test_one_listens_however_often_the_extension_is_loaded(printed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    other = PrintedLines(RunningCell(), lambda record: str)
    other.follow(printed.shell)
    for _ in range(2):
        printed.instruments.replace(other)
    printed.events.trigger("pre_run_cell", None)
    assert list(printed.instruments) == [other]
    printed.instruments.log(of("m", "once"))
    assert capsys.readouterr().out == "m | once\n"
    assert len(printed.events.callbacks["pre_run_cell"]) == len(printed.events.callbacks["post_run_cell"]) == 1


def test_json_for_programs_stands_alone(notebook: Any) -> None:
    notebook.run(TALKS)
    result = notebook.run("%triton infer talks N=[2] --json")
    assert "talks |" not in result.text
    (response,) = json.loads(repr(result.result))["responses"]
    assert response["outputs"]["N"]["values"] == [2]
    assert notebook.run("_ = talks(N=[1])").text == "talks | line 0\n"
