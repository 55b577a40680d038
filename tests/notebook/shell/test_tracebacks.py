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


def test_execute_points_into_the_cell_of_the_model(notebook: Any) -> None:
    notebook.run(MODEL)
    model = notebook.number()
    result = notebook.run("import numpy as np\n\nm(IN=-np.ones((1, 1), np.float32))")
    assert not result.success
    lines = result.text.splitlines()
    caller = lines.index(f"Cell In[{notebook.number()}], line 3")
    callee = lines.index(f"Cell In[{model}], line 11, in execute()")
    assert caller < callee
    assert lines[callee + 3].split() == ["--->", "11", "raise", 'ValueError("negative")']
    assert "ValueError: negative" in lines
    assert "m | about to fail" in lines and "    about to fail" not in lines
    assert lines[-1].startswith("A client gets (Internal): Failed to process the request(s) for model 'm_0', message:")
    assert "tritonlab/" not in result.text


def test_a_coroutine_shows_the_frames_of_the_author_only(notebook: Any) -> None:
    notebook.run(MODEL.replace("    def execute", "    async def execute"))
    model = notebook.number()
    result = notebook.run("m(IN=[[-1.0]])")
    frames = re.findall(r"^(?:Cell|File) .*", result.text, re.MULTILINE)
    assert frames == [f"Cell In[{notebook.number()}], line 1", f"Cell In[{model}], line 11, in execute()"]


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


def test_an_answer_that_nobody_looked_at_is_named(notebook: Any) -> None:
    notebook.run(MODEL)
    model = notebook.number()
    call = "pb_utils.InferenceRequest(model_name='m', inputs=request.inputs(), requested_output_names=['OUT']).exec()"
    source = MODEL.replace("%%triton_model m", "%%triton_model caller")
    unseen = f"data = pb_utils.get_output_tensor_by_name({call}, 'OUT').as_numpy()"
    notebook.run(source.replace("if data.sum() < 0:", f"{unseen}\n            if 0:"))
    result = notebook.run("caller(IN=[[-1.0]])")
    assert "AttributeError: 'NoneType' object has no attribute 'as_numpy'" in result.text
    assert f"It had called 'm', which failed: ValueError: negative (Cell In[{model}], line 11)" in result.text
    assert "it had called 'm', which failed: ValueError: negative" in str(notebook["caller"].failures[-1])
    assert "It had called" not in notebook.run("m(IN=[[-1.0]])").text
    # executions are numbered from 1 again after a reload, and this one calls nothing
    notebook.run(source.replace("if data.sum() < 0:", "if 1:"))
    result = notebook.run("caller(IN=[[-1.0]])")
    assert "ValueError: negative" in result.text and "It had called" not in result.text


def test_the_same_from_a_loop_over_the_responses(notebook: Any) -> None:
    notebook.run(MODEL)
    model = notebook.number()
    notebook.run("import numpy as np")
    result = notebook.run("def go():\n    return list(m.infer(inputs={'IN': -np.ones((1, 1), np.float32)}))\ngo()")
    assert f"Cell In[{notebook.number()}], line 2, in go()" in result.text
    assert f"Cell In[{model}], line 11, in execute()" in result.text


def test_an_error_that_the_author_catches_says_where_and_what_to_do(notebook: Any) -> None:
    notebook.run(MODEL)
    model = notebook.number()
    catch = "try:\n    {}\nexcept Exception as error:\n    caught = error"
    notebook.run(catch.format("m(IN=[[-1.0]])"))
    assert notebook["caught"].where == f"Cell In[{model}], line 11"
    notebook.run(catch.format("list(m.infer(inputs={'IN': [1.0]}))"))
    assert (notebook["caught"].where, notebook["caught"].fix) == (
        "input 'IN'",
        "the first dimension is the batch: array[None], or a list within a list, has shape [1, 1]",
    )
    notebook.run(catch.format("m.create_request(inputs={'IN': object()})"))
    assert notebook["caught"].where == "input 'IN'"
    notebook.run(catch.format("m.server.model('mm').config()"))
    assert "did you mean 'm'?" in notebook["caught"].fix


def test_the_errors_of_a_server_that_no_notebook_writes_to_are_left_alone(notebook: Any) -> None:
    notebook.run(MODEL)
    with pytest.raises(ModelError) as raised:
        ServedModel(notebook["m"].server, "m")(IN=[[-1.0]])
    where = raised.value.where
    assert where is not None and re.search(r'^File ".*/m/1/model.py", line 10$', where) and raised.value.fix is None


@pytest.mark.parametrize(
    ("init", "advice"),
    [
        ("self.config['parameters']['scal']", "the config has no parameter 'scal': did you mean 'scale'?"),
        ("self.config['parameters']['scale'] * 2.0", "a parameter of the config is an object: config['parameters']"),
    ],
)
def test_a_name_that_the_config_of_a_failed_load_does_not_have(notebook: Any, init: str, advice: str) -> None:
    options = "--input IN:FP32[-1] --output OUT:FP32[-1]"
    source = MODEL.partition("\n")[2]
    assert notebook.run(f"%%triton_model m {options} --quiet\n{source}").success  # its config has no parameters
    init = f"    def initialize(self, args):\n        self.config = json.loads(args['model_config'])\n        {init}\n"
    source = "import json\n" + source.replace("    def execute", f"{init}    def execute", 1)
    result = notebook.run(f"%%triton_model m {options} --param scale=2 --quiet\n{source}")
    assert not result.success and f"\nHint: {advice}" in result.text
    assert advice in result.error_in_exec.fix


@pytest.mark.parametrize(
    ("body", "place", "last"),
    [
        ("\n\nimport notthere\n", "line 4", "ModuleNotFoundError: No module named 'notthere'"),
        (
            "class TritonPythonModel:\n    def initialize(self, args):\n        args['no']\n",
            "line 4, in initialize()",
            "KeyError: 'no'",
        ),
        (
            "class TritonPythonModel:\n    @staticmethod\n    def auto_complete_config(config):\n        1 / 0\n",
            "line 5, in auto_complete_config()",
            "ZeroDivisionError: division by zero",
        ),
        ("import sys\nsys.exit(3)\n", "line 3", "SystemExit: 3"),
    ],
)
def test_a_load_that_fails_points_into_the_cell(notebook: Any, body: str, place: str, last: str) -> None:
    result = notebook.run(f"%%triton_model m\n{body}")
    assert not result.success
    assert f"Cell In[{notebook.number()}], {place}" in result.text
    assert last in result.text.splitlines()
    assert "tritonlab/" not in result.text


def test_leading_blank_lines_count(notebook: Any) -> None:
    result = notebook.run("\n\n%%triton_model m\nraise ValueError('x')\n")
    assert f"Cell In[{notebook.number()}], line 4" in result.text
    assert "----> 4 raise ValueError('x')" in result.text


def test_magics_above_the_models_count(notebook: Any) -> None:
    result = notebook.run("\n%%time\n\n%%triton_model m\npass\n\nraise ValueError('x')\n")
    assert f"Cell In[{notebook.number()}], line 7\n" in result.text
    assert "      2 %%time\n" in result.text and "      4 %%triton_model m\n" in result.text
    assert "----> 7 raise ValueError('x')" in result.text


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


def test_a_syntax_error_has_its_arrow_in_the_cell(notebook: Any) -> None:
    result = notebook.run("%%triton_model m\nclass TritonPythonModel:\n    def execute(self, requests)\n        pass\n")
    assert not result.success
    lines = result.text.splitlines()
    start = lines.index(f"  Cell In[{notebook.number()}], line 3")
    assert lines[start + 1] == "    def execute(self, requests)"
    assert lines[start + 2].rstrip().endswith("^")
    assert lines[start + 3] == "SyntaxError: expected ':'"


def test_the_message_of_a_syntax_error_names_lines_of_the_cell(notebook: Any) -> None:
    result = notebook.run("%%triton_model m\nclass TritonPythonModel:\n    def execute(self, requests):\n    pass\n")
    assert f"Cell In[{notebook.number()}], line 4\n" in result.text
    assert "IndentationError: expected an indented block after function definition on line 3\n" in result.text


def test_a_syntax_error_in_a_helper_file_points_into_its_cell(notebook: Any) -> None:
    notebook.run("%%triton_file m helper.py\nx = 1\ny = = 2\n")
    helper = notebook.number()
    result = notebook.run("%%triton_model m\nimport helper\n")
    assert f"Cell In[{helper}], line 3" in result.text
    assert "SyntaxError: invalid syntax" in result.text


def test_an_exception_in_a_helper_file_points_into_its_cell(notebook: Any) -> None:
    notebook.run("%%triton_file m helper.py\ndef check(args):\n    raise RuntimeError('unchecked')\n")
    helper = notebook.number()
    source = "class TritonPythonModel:\n    def initialize(self, args):\n        helper.check(args)\n"
    result = notebook.run(f"%%triton_model m\nimport helper\n{source}")
    assert f"Cell In[{notebook.number()}], line 5, in initialize()" in result.text
    assert f"Cell In[{helper}], line 3, in check()" in result.text


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


def test_a_clients_mistake_is_short_and_gets_a_hint(notebook: Any) -> None:
    notebook.run(MODEL)
    result = notebook.run("import numpy as np\nm(IN=np.ones((1, 1)))")
    assert not result.success
    assert "----> 2 m(IN=np.ones((1, 1)))" in result.text
    assert "inference input 'IN' data-type is 'FP64', but model 'm' expects 'FP32'" in result.text
    hint = "Hint: convert it: array.astype(numpy.float32).\n"
    assert result.text.endswith(f"{hint}More: %triton help unexpected-data-type\n")
    assert "tritonlab/" not in result.text
    wrong = notebook.run("m(OTHER=1.0)")
    assert "unexpected inference input 'OTHER' for model 'm'" in wrong.text
    assert "Hint: its inputs are IN." in wrong.text


def test_a_config_the_author_wrote_wrong_points_into_its_cell(notebook: Any) -> None:
    result = notebook.run('\n%%triton_config m\nbackend: "python"\nmax_batchsize: 8\n')
    assert not result.success
    assert f"Cell In[{notebook.number()}], line 4:1: " in result.text
    assert "Did you mean max_batch_size?" in result.text
    assert "----> 4 max_batchsize: 8\n        ^" in result.text
    assert "Traceback" not in result.text


ENSEMBLE = """%%triton_config whole
platform: "ensemble"
max_batch_size: 8
input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }
ensemble_scheduling { step [
  {
    model_name: "m"
    model_version: -1
    input_map { key: "IN" value: "IN" }
    output_map { key: "OUT" value: "between" }
  },
  {
    model_name: "m2"
    model_version: -1
    input_map { key: "IN" value: "between" }
    output_map { key: "OUT" value: "OUT" }
  }
] }
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "hint"),
    [
        ('key: "IN" value: "between"', 'key: "in" value: "between"', 16, "did you mean 'IN'? Its inputs are IN."),
        ('key: "OUT" value: "OUT"', 'key: "OUTT" value: "OUT"', 17, "did you mean 'OUT'? Its outputs are OUT."),
        ('value: "between" }\n  },', 'value: "betwen" }\n  },', 16, ""),
        (
            '"m2"\n    model_version: -1\n    input_map { key: "IN"',
            "'m2'\n    model_version: -1\n    input_map { key: 'in'",
            16,
            "did you mean 'IN'?",
        ),
    ],
)
def test_the_misspelt_tensor_of_an_ensemble_points_at_its_step(
    notebook: Any, old: str, new: str, line: int, hint: str
) -> None:
    for name in ("m", "m2"):
        notebook.run(MODEL.replace("_model m ", f"_model {name} --quiet "))
    result = notebook.run(ENSEMBLE.replace(old, new, 1))
    assert not result.success
    assert f"Cell In[{notebook.number()}], line {line}" in result.text and f"> {line} " in result.text
    assert hint in result.text
    assert result.error_in_exec.where == f"Cell In[{notebook.number()}], line {line}"


def test_a_config_the_server_refuses_after_the_model_spoke(notebook: Any) -> None:
    result = notebook.run("%%triton_model m --input IN:FP32[0]\nclass TritonPythonModel:\n    pass\n")
    assert not result.success
    assert "model input 'IN' dimension must be integer >= 1, or -1 to indicate a variable-size dimension" in result.text
    assert "Traceback" not in result.text


def test_a_dead_stub_says_what_killed_it(notebook: Any) -> None:
    source = MODEL.replace('raise ValueError("negative")', "__import__('os')._exit(9)")
    notebook.run(source)
    result = notebook.run("m(IN=[[-1.0]])")
    assert not result.success
    assert "Stub process 'm_0' is not healthy." in result.text
    assert "about to fail" in result.text


def test_a_failed_reload_shows_its_own_lines_and_the_old_model_keeps_its(notebook: Any) -> None:
    notebook.run(MODEL)
    good = notebook.number()
    notebook.run(MODEL.replace("import triton", "\n\n\nraise ValueError('first')\nimport triton", 1))
    assert f"Cell In[{good}], line 11, in execute()" in notebook.run("m(IN=[[-1.0]])").text


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


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("m.load_test(nope=1)", "UnknownOption: load_test() has no option 'nope': it takes arrivals, "),
        ("m.tune(p99=20)", "UnknownOption: tune() has no option 'p99': did you mean 'p99_ms'?"),
        ("tritonlab.reset(nope=1)", "UnknownOption: reset() has no option 'nope': it takes timeout, server_id, "),
        ("tritonlab.load('m', batch=1)", "UnknownOption: load() has no option 'batch': it takes max_batch_size, "),
        ("tritonlab.serve(http_prot=1)", "UnknownOption: serve() has no option 'http_prot': did you mean 'http_port'?"),
        ("m.view(nope=1)", "UnknownOption: view() has no option 'nope': it takes kind"),
        ("m.load_test(seconds=2)", "UnknownOption: load_test() has no option 'seconds': did you mean 'duration'?"),
        ("m.tune(seconds=2)", "UnknownOption: tune() has no option 'seconds': did you mean 'budget_s'?"),
        ("m.infer(inputs={}, timout=3)", "a request has no field 'timout': did you mean 'timeout'?"),
        ("m.what_if(instance=2)", "UnknownOption: what_if() has no option 'instance': did you mean 'instances'?"),
        ("tritonlab.Options(simulated_gpu=1)", "UnknownOption: Options() has no option 'simulated_gpu': did you mean "),
        (
            "tritonlab.Server('.', simulated_gpu=1)",
            "UnknownOption: Server() has no option 'simulated_gpu': did you mean",
        ),
        ("tritonlab.export(m, 'd', alon=1)", "UnknownOption: export() has no option 'alon': did you mean 'alone'?"),
        ("m(IN=[[1]])['OUTT']", "NoSuchOutput: the response has no output 'OUTT': did you mean 'OUT'?"),
        (
            "next(m.infer(inputs={'IN': [[1.0]]})).outputs[0]",
            "NoSuchOutput: the response has no output 0: it has 'OUT'",
        ),
        ("m.failures[99]", "NoSuchFailure: "),
        ("m.view('timelin')", "InvalidArgumentError: view 'timelin' does not exist: did you mean 'timeline'?"),
        ("%triton view timelin", "UsageError: there is no model and no view 'timelin': did you mean 'timeline'?"),
        ("%triton view m timelin", "InvalidArgumentError: view 'timelin' does not exist: did you mean 'timeline'?"),
        ("tritonlab.view('/dev/null')", "RecordingError: /dev/null is not a recording of tritonlab: "),
        (
            "%triton infer m IN=[absent]",
            "ExpressionError: 'IN=[absent]': NameError: name 'absent' is not defined: import ",
        ),
    ],
)
def test_an_option_that_does_not_exist_shows_no_frames_of_ours(notebook: Any, line: str, text: str) -> None:
    notebook.run(MODEL)
    notebook.run("import tritonlab")
    result = notebook.run(line)
    assert not result.success
    assert text in result.text
    assert "File " not in result.text
    assert "model.py" not in result.text
    assert notebook.run('assert m.state == "READY"').success


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
