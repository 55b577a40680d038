"""What a cell shows can be read by a program that gets the text of outputs, and nothing else."""

from __future__ import annotations

import importlib
import inspect
import json
import pickle
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from IPython.utils.capture import capture_output

import tritonlab
from tests.models import answers
from tests.notebook.conftest import IDENTITY_OPTIONS, Notebook
from tritonlab.core.explained import Explained
from tritonlab.core.plain_facts import MOST_LINES, few_lines, plain
from tritonlab.notebook.shell.commands import parser_of
from tritonlab.notebook.shell.subcommand import JsonFacts
from tritonlab.notebook.views import widget
from tritonlab.tool_table import magic_commands
from tritonlab.tools.capture.capture_file import CaptureFile

#: What no cell shows and no author catches: the stub's side, the drop-in of NVIDIA's package, parts of the frontends.
LEFT_OUT = ("stub", "tritonserver", "frontends", "ipc", "__main__", "site_packages", "testing", "dynamo", "ray")
#: Errors that others catch before an author sees them, or answer a client with; and ToolMissing, whose text is the
#: remedy and whose module is below that of errors.
INNER = {
    "UnfitFile",
    "ViewEnded",
    "OutOfTime",
    "Stopped",
    "Broken",
    "NotTextModelError",
    "OpenAIError",
    "ToolMissing",
} | {"FileFull", "NotReadable", "TraceFault"}
SEND = "p.send(inputs={'IN': [[1.0, 2.0]]})"

#: How a cell shows an object of a class. The model is `m`, its form `p`; `here` is a directory.
EXAMPLES = {
    "Model": "m",
    "ModelFailures": "m.failures",
    "Why": "m.why()",
    "Tensor": "next(m.infer(inputs={'IN': [[float('nan'), float('inf')]]})).outputs['OUT']",
    "InferenceRequest": "m.create_request(inputs={'IN': [[1.0]]})",
    "InferenceResponse": "next(m.infer(inputs={'IN': [[1.0]]}))",
    "Playground": SEND + "\np",
    "InputRow": "p.inputs['IN']",
    "Exchange": SEND,
    "History": SEND + "\np.history",
    "Comparison": f"p.replay({SEND})",
    "Snippet": "p.copy_as('curl')",
    "GoldenSet": "tritonlab.golden(here)",
    "GoldenReport": "%triton golden check",
    "ExportReport": "tritonlab.export(m, here + '/a')",
    "ExportPlan": "tritonlab.export(m, here + '/b').plan",
    "ExportArchive": "tritonlab.export(m, here + '/c').zip()",
    "Repository": "%triton open {here}/a",
    "OpenedView": "o = %triton open {here}/a\ntritonlab.notebook.views.card.opened_view.OpenedView(o)",
    "RepositoryReport": "opened = %triton open {here}/a\nopened.export(here + '/d')",
    "ImportedNotebook": "tritonlab.import_repository(here + '/a')",
    "Endpoints": "ports",
    "RemoteServer": "tritonlab.connect('http://' + ports.http, headers=ports.headers)",
    "RemoteModel": "tritonlab.connect('http://' + ports.http, headers=ports.headers).model('m')",
    "TokenButton": "tritonlab.notebook.shell.server_commands.TokenButton(ports.header_file, str)",
    "LiveCard": "%triton status m",
    "StatusView": "%triton status",
    "StatusTable": "v = %triton status\nv.table",
    "ModelFacts": "v = %triton status m\nv.facts",
    "LogView": "%triton logs m -n 400",
    "Timeline": "m.view()",
    "Streams": "m.view('streams')",
    "Metrics": "m.view('metrics')",
    "Graph": "m.view('graph')",
    "Memory": "m.view('memory')",
    "LoadPanel": "tritonlab.load_panel(m)",
    "ReplayVerdict": "m.replay([])",
    "CheckResult": "m.check(1, relations=['answers'])",
    "LoadResult": "m.load_test(shapes={'IN': [2]}, seconds=0.2)",
    "Recording": "tritonlab.recording(m.server)",
    "ChromeTrace": "%triton trace {here}/trace.json\n%triton trace",
    "RunningCapture": "c = tritonlab.capture(here + '/a.arrow')\nc.stop()\nc",
    "CaptureReport": "tritonlab.capture(here + '/b.arrow').stop()",
    "Text": "%triton help",
    "MetricsText": "%triton metrics",
    "JsonFacts": "%triton index --json",
    "ShownFailure": "m.failures[-1]",
    "FailurePane": "tritonlab.notebook.views.card.failure_pane.FailurePane(m.failures[-1])",
}
#: Lines of subcommands that need more than the name of a model.
LINES = {
    "artifact": "artifact m note.txt='kept'",
    "infer": "infer m IN=[[1.0, 2.0]]",
    "golden": "golden check",
    "check": "check m --seconds 1 --relations answers",
    "serve": "serve --http-port 0 --grpc-port 0 --metrics-port 0",
    "export": "export m {here}/exported",
    "load_test": "load_test m --concurrency 1 --seconds 0.2 --shape IN:2",
    "open": "open {here}",
    "push": "push m 127.0.0.1:1",
    "trace": "trace {here}/t.json",
    "replay": "replay m {here}/requests",
    "capture": "capture {here}/t.arrow",
}
#: Subcommands about a model that hangs, failed or is paused, which `m` need not be, and about a server elsewhere.
NEED_A_STATE = {"kill", "postmortem", "debug", "watch", "push"}


def modules() -> Iterator[Any]:
    for found in pkgutil.walk_packages(tritonlab.__path__, "tritonlab."):
        if found.name.split(".")[1] not in LEFT_OUT:
            yield importlib.import_module(found.name)


def classes() -> list[type[Any]]:
    """Return every class of the package, each once, by name."""
    found = {
        kind
        for module in modules()
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__
    }
    return sorted(found, key=lambda kind: kind.__name__)


def has_own_form(kind: type[Any]) -> bool:
    """Return whether objects of the class have a form of their own in a cell."""
    rich = ("_repr_html_", "_repr_mimebundle_", "_ipython_display_", "to_dict")
    return not issubclass(kind, BaseException) and any(hasattr(kind, name) for name in rich)


KINDS = [kind for kind in classes() if has_own_form(kind)]
ERRORS = [kind for kind in classes() if issubclass(kind, Exception) and not kind.__name__.startswith("_")]


@pytest.fixture
def book(notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    """Return a notebook with a model that prints and has answered."""
    monkeypatch.setenv("TRITONLAB_NOTEBOOK", str(tmp_path / "book.ipynb"))
    monkeypatch.setattr(widget, "in_kernel", lambda: True)
    notebook.shell.user_ns.update(here=str(tmp_path), tritonlab=tritonlab, Path=Path)
    talk = answers("x", first="print('\\n'.join('abc'))\nassert x[0, 0] != -1")
    assert notebook.run(f"%%triton_model m {IDENTITY_OPTIONS} --quiet\n{talk}").success
    notebook.run("p = tritonlab.notebook.views.playground.playground.Playground(m)\nm(IN=[[1.0]])")
    yield notebook
    notebook.run("%triton stop")
    notebook.run("%triton capture --stop")


def bundles(book: Notebook, cell: str) -> tuple[Any, list[dict[str, Any]]]:
    """Return the result of a cell, and what it displays, as mime bundles."""
    with capture_output() as captured:
        result = book.shell.run_cell(cell)
        assert result.success, captured.stderr
        own = hasattr(result.result, "_ipython_display_")  # it was displayed by now
        formatted, _ = ({}, None) if own else book.shell.display_formatter.format(result.result)
    # views of other cells are renewed at the end of this one
    new = [output.data for output in captured.outputs if not output.update]
    return result.result, [*([formatted] if formatted else []), *new]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_class_that_a_cell_shows_has_a_dict(kind: type[Any]) -> None:
    assert callable(getattr(kind, "to_dict", None)), "a program cannot read it: write to_dict, and an example here"


def test_every_object_states_its_facts(book: Notebook) -> None:
    book.run("ports = %triton serve --http-port 0 --grpc-port 0 --metrics-port 0")
    book.run("for _ in range(30): m(IN=[[1.0]])")  # prints more than a program reads
    assert not book.run("m(IN=[[-1.0]])").success
    for name, cell in EXAMPLES.items():
        found, displayed = bundles(book, cell)
        assert type(found).__name__ == name
        document = json.dumps(found if isinstance(found, dict) else found.to_dict(), allow_nan=False)
        assert document != "{}" and document == json.dumps(plain(json.loads(document))), name
        try:
            pickle.loads(pickle.dumps(found))
        except TypeError as error:
            assert "belongs to its process and cannot be copied or pickled: " in str(error), name
        assert displayed and any(bundle["text/plain"] for bundle in displayed), name
        for bundle in displayed:
            text = bundle["text/plain"]
            assert "image/png" not in bundle, name
            assert "VBox(" not in text and " object at 0x" not in text, name
            assert len(text.split("\n")) <= MOST_LINES, name


def test_what_programs_read_of_a_form(book: Notebook) -> None:
    book.run(SEND)
    _, (still, live) = bundles(book, "p")
    assert "Playground of m" in still["text/plain"] and "[1., 2.]" in still["text/plain"]
    assert live["text/plain"] == "" and "application/vnd.jupyter.widget-view+json" in live
    facts = book["p"].to_dict()
    assert facts["inputs"]["IN"]["datatype"] == "FP32" and facts["last"]["state"] == "answered"
    assert facts["last"]["responses"][0]["outputs"]["OUT"]["values"] == [[1.0, 2.0]]


def test_every_subcommand_has_json(book: Notebook, tmp_path: Path) -> None:
    CaptureFile(tmp_path / "requests", {}).close()
    for name, command in sorted(magic_commands().items(), key=lambda item: item[0] == "unload"):
        assert "--json" in parser_of(command).format_help()
        takes_name = any("name" in argument.names for argument in command.arguments)
        line = LINES.get(name, f"{name} m" if takes_name else name).format(here=tmp_path)
        if name in NEED_A_STATE:
            result = book.run(f"%triton {line} --json")
            outcome: Any = result.error_in_exec or result.result  # an error is for programs, too
            assert isinstance(outcome, Explained | JsonFacts) and json.dumps(plain(outcome)), name
        else:
            found, displayed = bundles(book, f"%triton {line} --json")
            assert len(displayed) == 1 and set(displayed[0]) == {"text/plain"}, name
            assert json.loads(displayed[0]["text/plain"]) == found
            assert "\n" not in displayed[0]["text/plain"]


def test_json_has_the_facts(book: Notebook, tmp_path: Path) -> None:
    def result_of(line: str) -> Any:
        return json.loads(repr(book.run(f"%triton {line}").result))

    assert result_of("infer m IN=[[1.0, 2.0]] --json")["responses"][0]["outputs"]["OUT"]["values"] == [[1.0, 2.0]]
    assert result_of("infer --json m IN=[[1.0, 2.0]]")["responses"][0]["final"] is True
    assert result_of("status m --json")["inputs"][0]["shape"] == "[batch ≤ 8, any]"
    assert result_of("logs m --json -n 2")["lines"][-1]["model"] == "m"
    assert {"name": "nv_inference_count", "labels": {"model": "m", "version": "1"}, "value": 3} in result_of(
        "metrics m --json"
    )["metrics"]
    assert result_of("load m --json")["state"] == "READY"
    assert result_of("config m --json")["max_batch_size"] == 8
    assert result_of(f"export m {tmp_path}/x --json --zip")["path"].endswith(".zip")
    assert result_of("unload m --json")["draining"] == []
    assert "unload" in result_of("help --json")["commands"] and "--json" in book.run("%triton help").result.text
    assert not book.run("%%triton_model m\nimport nowhere").success
    failed = result_of("status m --json")
    assert failed["state"] == "FAILED" and failed["error"]["where"].endswith("line 2")


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_tells_where_and_what_to_do(kind: type[Any]) -> None:
    by_instance = ("ConfigError", "ConfigTextError")  # their constructor gets the code
    assert kind.__name__ in INNER or issubclass(kind, Explained)
    assert kind.__name__ in INNER or hasattr(kind, "code") or kind.__name__ in by_instance


REMOTE = "tritonlab.connect('http://' + ports.http, headers=ports.headers).model('m')"


def test_errors_carry_facts(book: Notebook, tmp_path: Path) -> None:
    assert book.run("ports = %triton serve --http-port 0 --grpc-port 0 --metrics-port 0").success
    cases: list[tuple[str, str, str, str | None, str | None]] = [
        ("%%triton_model b\nclass M\n    pass", "ModelLoadError", "INVALID_ARG", "Cell In[{n}], line 2", None),
        ("%%triton_config m\nmax_batch_size: 8\ninput { name: 'IN' data_type: TYPE_FLOAT32 }", "ConfigTextError",
         "INVALID_ARG", "Cell In[{n}], line 3:31", "TYPE_FP32"),
        ("%%triton_config m\nmax_batch_sise: 8", "ConfigTextError", "INVALID_ARG", "Cell In[{n}], line 2:1",
         "Did you mean max_batch_size?"),
        ("m(IN=[1.0])", "InvalidArgumentError", "INVALID_ARG", "input 'IN'", "[1, 1]"),
        ("m(INN=[1.0])", "InvalidArgumentError", "INVALID_ARG", "input 'INN'", "did you mean 'IN'?"),
        (f"{REMOTE}(IN=[1.0])", "InvalidArgumentError", "INVALID_ARG", "input 'IN'", "[1, 1]"),
        (f"{REMOTE}(INN=[[1.0]])", "InvalidArgumentError", "INVALID_ARG", "input 'INN'",
         "did you mean 'IN'?"),
        ("%triton infer mm IN=1", "NotFoundError", "NOT_FOUND", None, "did you mean 'm'?"),
        ("tritonlab.export(m, here)\n_ = Path(here, 'm/1/model.py').write_text('#')\ntritonlab.export(m, here)",
         "ExportConflict", "ALREADY_EXISTS", "{here}/m", "overwrite=True"),
        ("%%triton_model b --input X\n1", "OptionError", "INVALID_ARG", "X", "write NAME:TYPE[DIMS]"),
        ("%triton load c", "FileError", "INVALID_ARG", None, "run a %%triton_model c cell first"),
        ("%triton expotr m", "LineError", "INVALID_ARG", "the line of the magic", "did you mean 'export'?"),
        ("p.inputs['IN'].mode.value = 'Typed'\np.inputs['IN'].text.value = 'x'\np.send()",
         "ValueProblem", "INVALID_ARG", "IN", None),
    ]  # fmt: skip
    for cell, error, code, where, fix in cases:
        result = book.run(cell)
        found: Any = result.error_in_exec or result.error_before_exec
        assert type(found).__name__ == error
        facts = found.to_dict()
        json.dumps(facts)
        assert (facts["code"], facts["error"]) == (code, error) and facts["text"] in str(found)
        assert facts["where"] == (where.format(n=book.number(), here=tmp_path) if where else None)
        assert (facts["fix"] is None) if fix is None else (fix in facts["fix"])


def test_an_exception_of_the_author_names_the_line(book: Notebook) -> None:
    book.run(f"%%triton_model m {IDENTITY_OPTIONS} --quiet\n{answers('x + missing')}")
    number = book.number()
    result = book.run("m(IN=[[1.0]])")
    assert result.error_in_exec.where == f"Cell In[{number}], line 11"
    assert result.error_in_exec.code.name == "INTERNAL"


def test_texts_are_short_and_values_are_json() -> None:
    assert few_lines("a\nb\nc", 3) == "a\nb\nc" and few_lines("a\nb\nc\nd", 3) == "a\nb\n… and 2 more lines"
    assert plain({"a": (float("nan"), float("-inf"), b"x", b"\xff"), 1: Path("/tmp")}) == {
        "a": ["NaN", "-Infinity", "x", {"base64": "/w=="}],
        "1": "/tmp",
    }
    assert plain(np.array([[0.1, np.nan]], np.float32)) == [[0.1, "NaN"]] and plain(np.float16(0.1)) == 0.1
    assert plain(np.zeros((2, 0), np.float32)) == [[], []]
