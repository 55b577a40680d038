"""What an author sees when something goes wrong: a real IPython shell, the real server and its stubs."""

from __future__ import annotations

import linecache
import os
import re
import traceback
from pathlib import Path
from typing import Any

import pytest

from tritonlab.core.status import Frame, ModelError, RemoteException
from tritonlab.notebook.shell.tracebacks import as_exception
from tritonlab.server.api.model import Model as ServedModel

MODEL = """\
%%triton_model m --max-batch-size 8 --input IN:FP32[-1] --output OUT:FP32[-1]
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            data = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            if data.sum() < 0:
                print("about to fail")
                raise ValueError("negative")
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", data)]))
        return answers
"""


@pytest.mark.parametrize(
    ("waits", "frame"),
    [
        # nobody waits for its error: Python prints it, in the cell's own lines
        (
            "thread = threading.Thread(target=self.fail); thread.start(); thread.join()",
            "m |   Cell In[{n}], line 6, in fail",
        ),
        ("concurrent.futures.ThreadPoolExecutor().submit(self.fail).result()", "Cell In[{n}], line 6, in fail()"),
    ],
)
def test_an_error_in_a_thread_points_into_the_cell(notebook: Any, waits: str, frame: str) -> None:
    source = MODEL.replace("import t", "import concurrent.futures, threading, t", 1)
    source = source.replace("    def execute", '    def fail(self):\n        raise KeyError("lost")\n\n    def execute')
    notebook.run(source.replace('raise ValueError("negative")', waits))
    number = notebook.number()
    result = notebook.run("m(IN=[[-1.0]])")
    assert frame.format(n=number) in result.text.splitlines() and "KeyError: 'lost'" in result.text
    assert "model.py" not in result.text and "tritonlab/" not in result.text


def test_blank_lines_at_the_end_of_a_cell_move_no_line(notebook: Any) -> None:
    text = notebook.run("%%triton_model m\nimport nowhere_at_all\n\n\n").text  # IPython's history has none of them
    assert f"Cell In[{notebook.number()}], line 2\n" in text and "----> 2 import nowhere_at_all\n" in text


def test_the_errors_of_a_server_that_no_notebook_writes_to_are_left_alone(notebook: Any) -> None:
    notebook.run(MODEL)
    with pytest.raises(ModelError) as raised:
        ServedModel(notebook["m"].server, "m")(IN=[[-1.0]])
    where = raised.value.where
    assert where is not None and re.search(r'^File ".*/m/1/model.py", line 10$', where) and raised.value.fix is None


def test_the_exceptions_of_a_group_have_their_own_tracebacks(notebook: Any) -> None:
    source = """\
async def fail(value):
    {}[value]

class TritonPythonModel:
    async def execute(self, requests):
        async with asyncio.TaskGroup() as group:
            group.create_task(fail("a"))
            group.create_task(fail("b"))
"""
    notebook.run(f"%%triton_model m --input IN:FP32[1] --output OUT:FP32[1]\nimport asyncio\n{source}")
    model = notebook.number()
    text = notebook.run("m(IN=[1.0])").text
    assert "ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)" in text.splitlines()
    first, second = text.split("\nException 2 of the ExceptionGroup above:\n")
    assert "\nException 1 of the ExceptionGroup above:\n" in first
    for part, key in ((first, "a"), (second, "b")):
        assert f"Cell In[{model}], line 4, in fail()" in part and f"KeyError: '{key}'" in part.splitlines()


def test_causes_are_chained_and_libraries_included(notebook: Any) -> None:
    source = """\
import json

class TritonPythonModel:
    def initialize(self, args):
        try:
            json.loads("{")
        except ValueError as error:
            raise RuntimeError("no settings") from error
"""
    text = notebook.run(f"%%triton_model m\n{source}").text
    assert "json/decoder.py" in text
    assert "JSONDecodeError" in text
    assert "The above exception was the direct cause of the following exception:" in text
    assert text.index("JSONDecodeError") < text.index("RuntimeError: no settings")


@pytest.mark.rule("1.1.2", "1.4.1", "1.4.3")
@pytest.mark.parametrize(
    ("old", "new", "advice"),
    [
        ("class T", "def f() -> pb_utils.Tensor: ...\nclass T", "on a Triton server too, Tensor is there only once"),
        (
            "import t",
            "from triton_python_backend_utils import Tensor\nimport t",
            "on a Triton server too, Tensor is there",
        ),
        ('"OUT", data', '"OUT", [1]', "Tensor(name, array) takes a numpy array"),
        ('"OUT", data', '"OUT", data.astype(str)', "text goes as objects"),
        ("pb_utils.Tensor(", "pb_utils.Tensr(", "did you mean 'Tensor'?"),
        (
            'get_input_tensor_by_name(request, "IN")',
            'get_input_tensor_by_name(request, "in")',
            "the config has no input 'in': did you mean 'IN'?",
        ),
        (
            "import t",
            "import helper\nimport t",
            "%pip install brings one that others wrote, %%triton_file MODEL helper",
        ),
        ("import t", "from .helper import f\nimport t", "%%triton_file MODEL helper.py writes a module beside"),
        ("import t", "%matplotlib inline\nimport t", "model.py is plain Python: %matplotlib belongs in a cell of its"),
        ("import t", "!pip install x\nimport t", "model.py is plain Python: !pip belongs in a cell of its own."),
        ("answers = []", "answers = [input()]", "nobody can type into a model's process: breakpoint() there lets you"),
        ("self, requests", "requests", "write def execute(self, requests)."),
        ("return answers", "return answers[0]", "return a list with one pb_utils.InferenceResponse for each request"),
        (
            "class TritonPythonModel:",
            "class TritonPythonModel:\n    def __init__(self, a): pass",
            "write def __init__(self);",
        ),
    ],
)
def test_what_a_newcomer_gets_wrong_has_a_hint(notebook: Any, old: str, new: str, advice: str) -> None:
    result = notebook.run(MODEL.replace(old, new, 1))
    if result.success:
        result = notebook.run("m(IN=[[1.0]])")
    assert f"\nHint: {advice}" in result.text


def test_an_interrupt_shows_where_the_model_was(notebook: Any) -> None:
    notebook.run(
        "%%triton_model m --input IN:FP32[1] --output OUT:FP32[1]\nimport os, signal, time\nclass TritonPythonModel:\n"
        "    def execute(self, requests):\n"
        f"        os.kill({os.getpid()}, signal.SIGINT)\n"
        "        for _ in range(1000): requests[0].is_cancelled() or time.sleep(0.01)"
    )
    model = notebook.number()
    result = notebook.run("m(IN=[1.0])")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    pattern = r"----> 1 m\(IN=\[1.0\]\)\n\nRequestInterrupted: \nrequest \d+ of model 'm' waits for \d.\d s: m_0"
    assert re.search(pattern, result.text)
    assert f"Cell In[{model}], line 6, in execute\n    for _ in" in result.text
    assert "\nHint: the request was cancelled" in result.text and "%triton kill m ends it." in result.text
    assert "tritonlab" not in result.text


LOADS = """%%triton_model m
import os, signal, time
class TritonPythonModel:
    def initialize(self, args):
        os.kill(KERNEL, signal.SIGINT)
        time.sleep(600)
"""


@pytest.mark.parametrize("before", ["", "%%triton_model m\nclass TritonPythonModel:\n    def execute(self, r): pass"])
def test_an_interrupted_load_shows_where_the_model_was(notebook: Any, before: str) -> None:
    if before:
        notebook.run(before)
    result = notebook.run(LOADS.replace("KERNEL", str(os.getpid())))
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    lines = result.text.splitlines()
    # the stub gets its question at once, and may still be in the line that sends the signal
    assert re.search(rf"^Cell In\[{notebook.number()}\], line [56], in initialize\(\)$", result.text, re.MULTILINE)
    assert "KeyboardInterrupt: the load of 'm_0' was interrupted here" in lines
    assert "tritonlab/" not in result.text
    assert ("keeps serving" in result.text) == bool(before)


def test_an_interrupted_load_names_the_package_that_is_imported(
    notebook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is imported in advance, in a process that has no model yet."""
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "endless.py").write_text(f"import os, time\nos.kill({os.getpid()}, 2)\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    result = notebook.run("%%triton_model m\nimport endless\nclass TritonPythonModel:\n    pass\n")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert re.search(
        r"LoadInterrupted: the load of 'm_\w+' was interrupted during the import of 'endless'\.", result.text
    )
    assert "tritonlab/" not in result.text


SOURCE = "def execute():\n    inner()\ndef inner():\n    raise Custom('no')\n"


@pytest.fixture(autouse=True)
def source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linecache.cache, "<m>", (len(SOURCE), None, SOURCE.splitlines(keepends=True), "<m>"))


def test_it_prints_as_python_would_have_printed_it() -> None:
    cause = RemoteException("KeyError", "'k'", frames=(Frame("<m>", 4, "inner"),))
    remote = RemoteException(
        "pkg.Custom",
        "no",
        frames=(Frame("<m>", 2, "execute"), Frame("<m>", 4, "inner")),
        cause=cause,
        notes=("a note",),
    )
    assert "".join(traceback.format_exception(as_exception(remote))) == (
        "Traceback (most recent call last):\n"
        '  File "<m>", line 4, in inner\n'
        "    raise Custom('no')\n"
        "KeyError: 'k'\n"
        "\nThe above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        '  File "<m>", line 2, in execute\n'
        "    inner()\n"
        '  File "<m>", line 4, in inner\n'
        "    raise Custom('no')\n"
        "pkg.Custom: no\n"
        "a note\n"
    )


def test_context_and_cause_are_distinguished() -> None:
    inner = RemoteException("KeyError", "'k'")
    assert as_exception(RemoteException("E", "", cause=inner, is_context=True)).__cause__ is None
    assert as_exception(RemoteException("E", "", cause=inner)).__cause__ is not None


def test_a_syntax_error_is_one() -> None:
    detail = {"msg": "bad", "filename": "<m>", "lineno": 2, "offset": 5, "text": "    inner()\n"}
    error = as_exception(RemoteException("IndentationError", "bad (m, line 2)", detail=detail))
    assert isinstance(error, IndentationError)
    assert (error.filename, error.lineno, error.offset) == ("<m>", 2, 5)


def test_a_line_far_down_and_a_line_of_zero_are_possible() -> None:
    for line in (100_000, 0):
        assert as_exception(RemoteException("E", "", frames=(Frame("<m>", line, "f"),))).__traceback__ is not None


def test_a_recursion_has_few_frames() -> None:
    turn = (Frame("<m>", 2, "execute"), Frame("<m>", 4, "inner"))
    error = as_exception(RemoteException("RecursionError", "too deep", frames=(Frame("<m>", 1, "first"), *turn * 400)))
    frames = [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    assert frames == [("first", 1), *[("execute", 2), ("inner", 4)] * 3]
    assert error.__notes__ == ["794 more frames repeat those above"]
    few = as_exception(RemoteException("E", "", frames=turn * 3, notes=("a note",)))
    assert len(traceback.extract_tb(few.__traceback__)) == 6
    assert few.__notes__ == ["a note"]
