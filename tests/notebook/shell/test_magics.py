"""The magics in a real IPython shell, with the real server and its stubs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from IPython.utils.text import format_screen

from tests.models import answers
from tests.serving import eventually
from tritonlab import Instrument
from tritonlab.notebook.authoring.config_options import ConfigOptions
from tritonlab.notebook.views.card import hanging

ADD = answers("x + 1")
OPTIONS = "--max-batch-size 8 --input IN:FP32[-1] --output OUT:FP32[-1]"


def test_a_cell_becomes_a_model_and_a_variable(notebook: Any, workspace: Any) -> None:
    result = notebook.run(f"%%triton_model add {OPTIONS}\n{ADD}")
    assert result.success
    assert workspace.report("add").cell == f"In[{notebook.number()}]"
    workspace.load("add")
    assert workspace.report("add").cell == ""  # of no cell
    assert result.text.startswith("add  READY  version 1 · ready in ")
    assert "  send  IN   FP32   [batch ≤ 8, any]" in result.text
    notebook.run("import numpy as np\nanswer = add(IN=np.ones((1, 2), np.float32))")
    assert notebook["answer"]["OUT"].tolist() == [[2, 2]]


@pytest.mark.parametrize("name", ["a/b", "..", ".", "../up", "/abs", "a/../../b", "''", "a\\b/c"])
@pytest.mark.parametrize(
    "cell", ["%%triton_model {} --quiet\nx = 1", "%%triton_config {}\n#", "%%triton_file {} f.py\n#"]
)
def test_a_name_that_is_a_path_is_refused_and_leaves_nothing(
    notebook: Any, workspace: Any, name: str, cell: str
) -> None:
    before = sorted(workspace.repository.parent.rglob("*"))
    result = notebook.run(cell.format(name))
    assert not result.success
    assert "OptionError: " in result.text and "cannot be the name of a model" in result.text
    assert "Traceback" not in result.text
    assert sorted(workspace.repository.parent.rglob("*")) == before
    assert not workspace.report(name)


@pytest.mark.parametrize(
    ("name", "fault"),
    [("'a b!'", "has a space, and"), ("a/b", "is not that of a directory"), ("'x;y$z'", "has '$' and ';', which")],
)
def test_a_name_that_is_refused_has_its_fault_named(notebook: Any, workspace: Any, name: str, fault: str) -> None:
    result = notebook.run(f"%%triton_model {name} {OPTIONS}\n{ADD}")
    assert f"cannot be the name of a model: it {fault}" in result.text
    assert "; use letters from a to z, digits, " in result.text
    assert name.strip("'") not in workspace.names() and not os.listdir(workspace.repository)


def test_every_option_reaches_the_config(notebook: Any, workspace: Any, tmp_path: Path) -> None:
    helper = tmp_path / "my helper.txt"
    helper.write_text("x")
    result = notebook.run(
        "%%triton_model m --max-batch-size 4 --dynamic-batching=150 --preferred-batch-size 2 4 "
        f"--instances 2 --kind cpu --param a=b --param c=d=e --version 3 --quiet --file '{helper}' "
        f"--input 'IN:FP32[-1, 2]' T:STRING[1]? --output OUT:FP32[-1]\n{ADD}"
    )
    assert result.success and result.text == ""
    config = workspace.server.model("m").config()
    assert config["max_batch_size"] == 4
    assert config["dynamic_batching"]["preferred_batch_size"] == [2, 4]
    assert config["dynamic_batching"]["max_queue_delay_microseconds"] == 150
    assert config["instance_group"][0]["count"] == 2
    assert config["parameters"] == {"a": {"string_value": "b"}, "c": {"string_value": "d=e"}}
    assert [(t["name"], t["dims"], t["optional"]) for t in config["input"]] == [
        ("IN", [-1, 2], False),
        ("T", [1], True),
    ]
    assert (workspace.repository / "m" / "3" / "my helper.txt").read_text() == "x"


def test_the_log_shows_where_the_logger_was_called(notebook: Any) -> None:
    logging = "pb_utils.Logger.log_info('fine'); pb_utils.Logger.log_warn('careful'); print('plain')"
    model = ADD.replace("    def execute", f"    def initialize(self, args):\n        {logging}\n\n    def execute", 1)
    notebook.run(f"%%triton_model m {OPTIONS}\n{model}")
    place = f"Cell In[{notebook.number()}], line {2 + model[: model.index('pb_utils.Logger')].count(chr(10))}"
    lines = repr(notebook.run("%triton logs m --lines 3").result).splitlines()  # prints come by another way than logs
    assert set(lines) == {f"m_0  {place}  fine", f"m_0  WARNING  {place}  careful", "m_0  plain"}


def test_the_subcommands(notebook: Any, tmp_path: Path) -> None:
    notebook.run(f"%%triton_model m {OPTIONS}\nprint('hello')\n{ADD}")
    notebook.run("import numpy as np")
    assert re.search(r"\bm +1 +READY", notebook.run("%triton").text)
    assert "m  READY" in notebook.run("%triton status m").text
    assert "hello" in notebook.run("%triton logs m").text
    assert "max_batch_size: 8" in notebook.run("%triton config m").text
    answer = notebook.run("%triton infer m IN=np.zeros((1, 2), 'float32')")
    assert answer.result["OUT"].tolist() == [[1, 1]]
    report = notebook.run(f"%triton export m '{tmp_path}'")
    assert report.success and (tmp_path / "m" / "config.pbtxt").is_file()
    packed = notebook.run(f"%triton export m '{tmp_path}' --zip")
    assert "  m/  (was up to date)" in packed.text and packed.result.path.is_file()
    assert notebook.run("%triton unload m").success
    assert "UNLOADED" in notebook.run("%triton status").text
    assert "Request for unknown model: 'm' has no available versions" in notebook.run("%triton infer m IN=1").text
    assert notebook.run(f"%triton load copy {tmp_path / 'm'}").success is False  # its config says name: "m"
    assert notebook.run("%triton load m").success
    assert f"{'m':<24}   1  READY" in notebook.run("%triton index").text
    assert f"{'m':<24}   1  READY" in notebook.run("%triton index --ready").text
    assert notebook.run("%triton unload m --dependents").success
    assert f"{'m':<24}   1  UNAVAILABLE  unloaded" in notebook.run("%triton index").text
    assert "--overwrite" in notebook.run("%triton help export").text
    page = notebook.run("%triton help unknown-model").result  # a notebook renders it
    assert "**What to do:**" in page._repr_markdown_() and page._repr_html_() is None
    result = notebook.run("%triton help").text
    assert "%triton unload" in result and "%triton playground  open a form" in result
    assert max(map(len, result.splitlines())) < 100  # JupyterLab breaks longer ones within words


def test_a_repository_comes_back_into_the_notebook(notebook: Any, tmp_path: Path) -> None:
    notebook.run(f"%%triton_model m {OPTIONS}\n{ADD}")
    notebook.run("%%triton_file m extra.txt --quiet\ncontent\n")
    notebook.run(f"%triton export m '{tmp_path}/first'")
    notebook.run("%triton unload m")
    assert notebook.run(f"%triton load m '{tmp_path}/first/m'").success
    assert notebook["m"](IN=np.ones((1, 1), np.float32))["OUT"].tolist() == [[2]]
    notebook.run(f"%triton export m '{tmp_path}/second'")
    for path in ("config.pbtxt", "1/model.py", "1/extra.txt"):
        assert (tmp_path / "first" / "m" / path).read_bytes() == (tmp_path / "second" / "m" / path).read_bytes()
    assert notebook.run("%triton edit m").success
    payload = notebook.shell.payload_manager.read_payload()
    notebook.shell.payload_manager.clear_payload()
    texts = [item["text"] for item in payload] or [notebook.shell.rl_next_input]
    assert texts[-1] == f"%%triton_model m\n{ADD}"


def test_an_edited_model_keeps_its_options(notebook: Any) -> None:
    notebook.run(f"%%triton_model m {OPTIONS}\n{ADD}")
    assert notebook.run("%triton edit m").success
    text = [item["text"] for item in notebook.shell.payload_manager.read_payload()] or [notebook.shell.rl_next_input]
    notebook.shell.payload_manager.clear_payload()
    assert notebook.run(text[-1].replace("x + 1", "x + 2")).success
    assert notebook["m"](IN=np.ones((1, 2), np.float32))["OUT"].tolist() == [[3, 3]]


def test_help_says_what_every_option_is_for(notebook: Any) -> None:
    for name in ("triton_model", "triton_config", "triton_file"):
        text = notebook.shell.find_cell_magic(name).__doc__
        assert f"\n  %%{name} [" in text and max(map(len, text.splitlines())) <= 91
    page = format_screen(notebook.shell.find_cell_magic("triton_model").__doc__)  # as `%%triton_model?` does
    assert re.search(r"\n    %%triton_model add_sub --max-batch-size 8 \\ *\n        --input ", page)
    assert "\n  %triton infer [--json] NAME INPUT0=expression, " in notebook.run("%triton help infer").text
    text = notebook.shell.find_cell_magic("triton_model").__doc__
    for option in ("--max-batch-size", "--dynamic-batching", "--input", "--decoupled", "--file"):
        assert option in text
    assert "rows of the largest batch" in text
    assert "%triton unload" in notebook.shell.find_line_magic("triton").__doc__


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("%triton load m /nothing/there", "FileError: No such file or directory: /nothing/there"),
        (
            "%triton export m /dev/null/here",
            "NoRepository: /dev/null is not a directory, so it cannot hold a model repository",
        ),
        ("%%triton_file m notes.txt\nread", "FileError: Is a directory: /dev"),  # the card stands above
    ],
)
def test_a_file_that_cannot_be_gets_one_line(notebook: Any, workspace: Any, line: str, text: str) -> None:
    notebook.run(f"%%triton_model m --quiet {OPTIONS}\n{ADD}")
    if "notes.txt" in line:  # whatever the system says while the model is written
        workspace._written("m")._write = lambda files: Path("/dev").read_bytes()
    result = notebook.run(line)
    assert not result.success
    assert result.text.strip().endswith(text) and "Traceback" not in result.text and ".py" not in result.text


def test_help_has_examples_that_work(notebook: Any) -> None:
    text = notebook.shell.object_inspect_mime("%%triton_model")["text/plain"]
    lines = re.findall(r"^ *(%%triton_model \w(?:.*\\ \n)*.*)$", text, re.MULTILINE)
    assert len(lines) == 5 and "\\ \n" in lines[0]
    for line in lines[:3]:
        result = notebook.run(f"{line}\n{ADD}")
        assert result.success, result.text
    assert "instance_group [ { count: 2 } ]" in notebook.shell.object_inspect_mime("%%triton_config")["text/plain"]


def test_question_mark_shows_what_a_model_takes(notebook: Any) -> None:
    notebook.run(f"%%triton_model add {OPTIONS} --quiet\n{ADD}")
    text = notebook.shell.object_inspect_mime("add")["text/plain"]
    assert "IN: FP32[batch ≤" in re.sub(r"\x1b\[[0-9;]*m", "", text)


LOGGING = """\
import sys, traceback
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        pb_utils.Logger.log_warn("careful")
        try:
            [].pop()
        except IndexError:
            traceback.print_exc()
        return [pb_utils.InferenceResponse([]) for _ in requests]
"""


def test_logs_cite_the_lines_of_the_cell(notebook: Any) -> None:
    notebook.run(f"%%triton_model m {OPTIONS} --quiet\n{LOGGING}")
    first = notebook.number()
    notebook.run("m(IN=[[1]])")
    result = notebook.run("%triton logs m")
    assert f"m_0  WARNING  Cell In[{first}], line 7  careful" in result.text
    assert f"Cell In[{first}], line 9, in execute" in result.text
    assert f"Cell In[{first}], line 7</span>  careful" in result.result._repr_html_()
    notebook.run(f"%%triton_model m {OPTIONS} --quiet\n# one line more\n{LOGGING}")
    notebook.run("m(IN=[[1]])")
    text = notebook.run("%triton logs m").text
    assert f"m_0  WARNING  Cell In[{first}], line 7  careful" in text  # of the version before
    assert f"Cell In[{first}], line 9, in execute" in text
    assert f"m_0  WARNING  Cell In[{first + 3}], line 8  careful" in text


def test_models_are_listed_by_number(notebook: Any) -> None:
    for name in ("model_10", "model_2", "model"):
        notebook.run(f"%%triton_model {name} {OPTIONS} --quiet\n{ADD}")
    for line in ("%triton status", "%triton index"):
        assert re.findall(r"^ *(model\S*)", notebook.run(line).text, re.M)[-3:] == ["model", "model_2", "model_10"], (
            line
        )


def test_logs_cite_the_version_of_a_process_that_was_started_after_the_load(notebook: Any) -> None:
    notebook.run(f"%%triton_model m {OPTIONS} --quiet\n{LOGGING}")
    first = notebook.number()
    notebook.run("import os, signal\nos.kill(m.instances()[0]['pid'], signal.SIGKILL)")
    eventually(lambda: notebook["m"].instances()[0]["restarts"] == 1 and notebook["m"].ready())
    printed = notebook.run("_ = m(IN=[[1]])").text
    assert f"Cell In[{first}], line 9, in execute" in printed and "model.py" not in printed
    notebook.run(f"%%triton_model m {OPTIONS} --quiet\n# one line more\n{LOGGING}")
    text = notebook.run("%triton logs m").text
    assert f"Cell In[{first}], line 9, in execute" in text


@pytest.fixture
def loads(workspace: Any) -> Iterator[list[str]]:
    """Return the models that were loaded, in order."""
    found: list[str] = []

    class Loads(Instrument):
        def model_state(self, model: str, version: int, state: str, reason: str, now: int) -> None:
            if state == "LOADING":
                found.append(model)

    listener = Loads()
    workspace.server.instruments.add(listener)
    yield found
    workspace.server.instruments.remove(listener)


def run_all(notebook: Any, *cells: str) -> None:
    for cell in cells:
        assert notebook.run(cell).success


CONFIG = "%%triton_config m\nmax_batch_size: {}\n"
FILE = "%%triton_file m factor.py\nFACTOR = {}\n"
MODEL = "%%triton_model m --input IN:FP32[-1] --output OUT:FP32[-1]\nimport factor\n" + ADD


def test_a_second_run_all_loads_each_model_once(notebook: Any, loads: list[str]) -> None:
    for _ in range(2):
        run_all(notebook, CONFIG.format(4), FILE.format(2), MODEL, "m(IN=[[1]])")
        assert loads == ["m"]
        loads.clear()


@pytest.mark.parametrize(("batch", "factor"), [(2, 2), (4, 7), (2, 7)])
def test_after_an_edit_run_all_loads_what_changed_once(
    notebook: Any, workspace: Any, loads: list[str], batch: int, factor: int
) -> None:
    run_all(notebook, CONFIG.format(4), FILE.format(2), MODEL)
    loads.clear()
    run_all(notebook, CONFIG.format(batch), FILE.format(factor), MODEL)
    assert loads == ["m"] * ((batch != 4) + (factor != 2))  # a cell cannot know that another edited one follows
    assert notebook["m"].config()["max_batch_size"] == batch
    assert workspace.sources.locate(str(notebook["m"].directory / "1" / "model.py"), 1)[1] == 2


def test_a_model_cell_alone_always_loads(notebook: Any, loads: list[str]) -> None:
    run_all(notebook, CONFIG.format(4), FILE.format(2), MODEL, MODEL)
    assert loads == ["m", "m"]
    run_all(notebook, CONFIG.format(2), "1", MODEL)  # what ran between may have written a file that it reads
    assert loads == ["m"] * 4


def test_a_config_cell_loads_again_what_does_not_serve(notebook: Any, loads: list[str]) -> None:
    run_all(notebook, CONFIG.format(4), FILE.format(2), MODEL, "%triton unload m")
    loads.clear()
    run_all(notebook, CONFIG.format(4))
    assert loads == ["m"]
    assert not notebook.run(MODEL.replace("import factor", "import nothing")).success
    loads.clear()
    notebook.run(CONFIG.format(4))  # the model's own cell decides
    assert loads == ["m"]


def test_a_class_of_a_cell_is_a_source_and_keeps_its_lines(notebook: Any, workspace: Any) -> None:
    notebook.run("import triton_python_backend_utils as pb_utils\nFACTOR = 3")
    notebook.run(
        "class Scaler:\n"
        "    def execute(self, requests):\n"
        "        return [self.one(pb_utils.get_input_tensor_by_name(r, 'IN').as_numpy()) for r in requests]\n"
        "    def one(self, data):\n"
        "        assert data.sum() >= 0\n"
        "        return pb_utils.InferenceResponse([pb_utils.Tensor('OUT', data * FACTOR)])\n"
    )
    number = notebook.number()
    notebook.shell.user_ns.update(
        workspace=workspace, options=ConfigOptions.from_keywords(inputs="IN:FP32[1]", outputs="OUT:FP32[1]")
    )
    notebook.run("m = workspace.load('m', Scaler, options=options)")
    assert notebook["m"](IN=[2.0])["OUT"].tolist() == [6]
    result = notebook.run("m(IN=[-1.0])")
    assert f"Cell In[{number}], line 3, in execute()" in result.text
    assert f"Cell In[{number}], line 5, in one()" in result.text


def test_the_extension_can_be_loaded_again(notebook: Any, workspace: Any) -> None:
    from tritonlab.notebook.shell import magics

    magics.register(notebook.shell, lambda: workspace)
    assert notebook.run(f"%%triton_model m {OPTIONS}\n{ADD}").success
    assert len([m for m in notebook.shell.Completer.custom_matchers if "tritonlab" in str(m.matcher_identifier)]) == 1


def test_an_unload_says_what_it_waits_for_and_ends_it(notebook: Any) -> None:
    stuck = ADD.replace("responses = []", "import time; time.sleep(600)")
    notebook.run(f"%%triton_model stuck {OPTIONS}\n{stuck}")
    notebook.run("import numpy as np")
    notebook.run("waiting = stuck.infer(inputs={'IN': np.ones((1, 2), np.float32)}, raise_on_error=False)")
    started = time.monotonic()
    unloaded = notebook.run("%triton unload stuck")
    assert unloaded.success and time.monotonic() - started < 9  # the notebook is not held up for its ten seconds
    text = unloaded.text
    assert "'stuck' version 1, out of service since " in text
    assert " waits for 1 unanswered request of 'stuck_0' (pid " in text
    assert re.search(r"It is killed in \d s; %triton kill stuck ends it now\.", text)
    assert "killed what was left of 'stuck': process " in notebook.run("%triton kill stuck").text
    notebook.run("text = next(waiting).error.message")
    assert notebook["text"] == "Server exited before the request completed"
    again = notebook.run("%triton kill stuck")
    assert "nothing of 'stuck' is left to kill: no old process, and none that holds a request" in again.text


def test_a_model_that_hangs_is_reported_and_killed(notebook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hanging, "USUAL", 0.1)
    notebook.run(f"%%triton_model spins {OPTIONS}\n{ADD.replace('responses = []', 'while True: pass')}")
    notebook.run("waiting = spins.infer(inputs={'IN': [[1.0]]}, raise_on_error=False)")
    eventually(lambda: "1 request has been in flight for 0 s, with spins_0 (process " in notebook.run("%triton").text)
    card = notebook.run("%triton status spins").text
    assert "spins  READY" in card and "Python code cannot be cancelled: %triton kill spins ends it" in card
    killed = notebook.run("%triton kill spins").text
    pattern = r"killed what held 1 unanswered request of 'spins_0' \(pid \d+\); another process takes over$"
    assert re.search(pattern, killed)
    notebook.run("text = next(waiting).error.message")
    assert "Stub process 'spins_0' is not healthy" in notebook["text"]
    eventually(notebook["spins"].ready)
    assert "in flight" not in notebook.run("%triton status spins").text + notebook.run("%triton").text


def test_a_load_test_without_options_measures(notebook: Any) -> None:
    source = ADD.replace("responses = []", "import time; time.sleep(0.01); responses = []")  # most of it is a wait
    notebook.run(f"%%triton_model m {OPTIONS}\n{source}")
    measured = notebook.run("panel = %triton load_test m\npanel")
    assert measured.success and "not started" not in measured.text
    (row,) = notebook["panel"].result.rows
    assert row.level == 1 and row.requests > 10 and not row.failed
    assert notebook["panel"].result.text() in measured.text
    assert notebook.run("%triton load_test m --json").result["rows"][0]["requests"] > 10


def test_an_unload_kills_after_its_time(notebook: Any) -> None:
    stuck = ADD.replace("responses = []", "import time; time.sleep(600)")
    notebook.run(f"%%triton_model stuck {OPTIONS}\n{stuck}")
    notebook.run("import numpy as np")
    notebook.run("waiting = stuck.infer(inputs={'IN': np.ones((1, 2), np.float32)}, raise_on_error=False)")
    assert notebook.run("%triton unload stuck --timeout 0").success
    notebook.run("text = next(waiting).error.message")
    assert notebook["text"] == "Server exited before the request completed"


def test_what_triton_could_not_print_is_warned_of(notebook: Any) -> None:
    source = ADD.replace("        responses = []", "        print('gr\u00fc\u00dfe')\n        responses = []")
    notebook.run(f"%%triton_model m {OPTIONS}\n{source}")
    result = notebook.run("import numpy as np\nanswer = m(IN=np.ones((1, 2), np.float32))").text
    assert "gr\u00fc\u00dfe" in result and "Triton prints ASCII only: print() of 'gr\u00fc\u00dfe'" in result


def test_a_placeholder_in_a_parameter_is_warned_of(notebook: Any, workspace: Any) -> None:
    notebook.run('%%triton_config m\nparameters { key: "dir" value { string_value: "${engine_dir}" } }')
    assert notebook.run(f"%%triton_model m {OPTIONS}\n{ADD}").success
    warnings = [record.text for record in workspace.server.logs("m") if record.level == "WARNING"]
    assert "the parameter 'dir' still has ${engine_dir} of its template: write a value for it" in warnings


def test_an_export_has_the_text_of_the_config_cell(notebook: Any, tmp_path: Path) -> None:
    text = """# What it is for.
name: "m"
backend: "python"
max_batch_size: 4   # enough
input [ { name: "IN", data_type: TYPE_FP32, dims: [ -1 ] } ]
output [ { name: "OUT", data_type: TYPE_FP32, dims: [ -1 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""
    notebook.run(f"%%triton_config m\n{text}")
    notebook.run(f"%%triton_model m\n{ADD}")
    assert notebook.run(f"%triton export m '{tmp_path}'").success
    assert (tmp_path / "m" / "config.pbtxt").read_text() == text
    notebook.run(f"%%triton_model m --decoupled\n{ADD}")
    assert notebook.run(f"%triton export m '{tmp_path}' --overwrite").success
    added = "# added by tritonlab\nmodel_transaction_policy {\n  decoupled: true\n}\n"
    assert (tmp_path / "m" / "config.pbtxt").read_text() == text + added


def test_a_check_returns_its_result(notebook: Any) -> None:
    notebook.run(f"%%triton_model add {OPTIONS} --quiet\n{ADD}")
    result = notebook.run("found = %triton check add --seconds 3 --seed 4 --relations answers")
    assert result.success, result.text
    assert "\r" not in result.text  # the progress is a line of a terminal, or a view of a notebook
    found = notebook["found"]
    assert (found.ok, found.checked, found.seed) == (True, True, 4)
    assert [one.relation for one in found.tried] == ["answers"]
    wrong = notebook.run("%triton check add --relations compny")
    assert not wrong.success and "'compny' is not a relation; there are answers, " in wrong.text
