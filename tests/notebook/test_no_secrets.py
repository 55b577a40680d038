"""The token of a notebook's ports is in no output, widget, log or file of a notebook, but in the one of mode 0600."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.serving import NO_PLUGINS

pytestmark = pytest.mark.timeout(300)

MODEL = """%%triton_model half --input X:FP32[-1] --output Y:FP32[-1]
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            pb_utils.Logger.log_info("asked with " + request.parameters())
            assert x.min() >= 0, "negative"
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x / 2)]))
        return answers
"""
WORDS = MODEL.replace("half", "twice", 1).replace(
    "X:FP32[-1] --output Y:FP32[-1]", "X:FP32[-1] --output Y:FP32[-1] --decoupled"
)
WORDS = WORDS.replace(
    '            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x / 2)]))\n        return answers\n',
    "            sender = request.get_response_sender()\n"
    '            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * 2)]))\n'
    "            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)\n",
)
#: All that shows, sends or keeps something while ports with a token are open. What fails does so on purpose.
CELLS = [
    "%load_ext tritonlab\nimport tritonlab, numpy as np, tritonclient.http, tritonclient.grpc",
    MODEL,
    WORDS,
    "%triton trace trace.json",
    "endpoints = %triton serve --http-port 0 --grpc-port 0 --metrics-port 0 --http-header-forward-pattern .* "
    "--grpc-header-forward-pattern .* --allow-model-control=true --allow-settings=true\nendpoints",
    "%triton serve",
    "%triton serve --json",
    "endpoints.headers",
    "print(endpoints.headers, endpoints.to_dict(), vars(endpoints).keys())",
    "%whos",
    "%triton status",
    "%triton status --json",
    """def send(protocol, place, value):
    tensor = protocol.InferInput("X", [1], "FP32")
    tensor.set_data_from_numpy(np.float32([value]))
    with protocol.InferenceServerClient(place, verbose=False) as client:
        return client.infer("half", [tensor], headers=dict(endpoints.headers)).as_numpy("Y")
send(tritonclient.http, endpoints.http, 3), send(tritonclient.grpc, endpoints.grpc, 3)""",
    "send(tritonclient.http, endpoints.http, -1)",
    "send(tritonclient.grpc, endpoints.grpc, -1)",
    "half.failures",
    "half.failures[-1]",
    "half.failures[-1].replay()",
    "tritonlab.notebook.views.card.failure_pane.FailurePane(half.failures[-1])",
    "half(X=[-1.0])",
    """for address in (f"http://{endpoints.http}", f"grpc://{endpoints.grpc}"):
    server = tritonlab.connect(address, headers=endpoints.headers)
    print(server, server.to_dict(), server.model("half"), server.model("half").to_dict(), server.metadata())
    model = server.model("half")
    print(model.load_test(concurrency=1, shapes={"X": [1]}, seconds=0.2))
    model(X=[-1.0])""",
    "tritonlab.connect('http://' + endpoints.http).metadata()",
    "form = tritonlab.playground(half)\nform.inputs['X'].mode.value = 'Typed'\nform.inputs['X'].text.value = '4.0'\n"
    "print(form.send())\nform",
    "form.programs.choice.value = 'tritonclient HTTP'\nprint(form.programs.text.value)",
    "form.programs.choice.value = 'tritonclient gRPC'\nprint(form.programs.text.value)",
    "form.programs.choice.value = 'curl'\nprint(form.programs.text.value)",
    "form.programs.choice.value = 'perf_analyzer input'\nprint(form.programs.text.value)",
    "form.programs.choice.value = 'pytest'\nprint(form.programs.text.value, form.programs.note.value)",
    "for kind in form.programs.choice.options[1:]:\n"
    "    print(form.copy_as(kind).save('programs/' + kind.replace(' ', '_')))",
    "form.compare('HTTP')",
    "form.compare('gRPC')",
    "form.to_dict()",
    "many = tritonlab.playground(half)\nnumbers = np.arange(500, dtype='f4')\n"
    "many.inputs['X'].mode.value = 'Python'\nmany.inputs['X'].text.value = 'numbers'\nmany.send()\n"
    "print(many.copy_as('curl', None).save('programs/curl_binary'))\nmany.keep('kept')",
    "words = tritonlab.playground(twice)\nwords.inputs['X'].mode.value = 'Typed'\n"
    "words.inputs['X'].text.value = '4.0'\nwords.send()\n"
    "for kind in ('tritonclient gRPC', 'pytest'):\n"
    "    print(words.copy_as(kind).save('programs/decoupled_' + kind.replace(' ', '_')))\nwords",
    "%triton logs",
    "%triton logs --json",
    "half.view('metrics')",
    "half.view()",
    "%triton metrics",
    "%triton statistics half",
    "%triton why half",
    "tritonlab.recording().save('recording')",
    "tritonlab.recording().perfetto('perfetto.json')",
    "%triton trace",
    "%triton export half exported --zip",
    "%triton golden check",
    "half.failures[-1].to_pytest('failed')",
    """# the button: as the page asks for the token
from tritonlab.notebook.shell.server_commands import TokenButton
sent = []
button = TokenButton(endpoints.header_file, lambda: endpoints.headers["authorization"])
button.show()
button.send = sent.append
button.on_message({"do": "show"})
assert [list(each) for each in sent] == [["authorization"]] and sent[0]["authorization"].startswith("Bearer ")
button""",
]


class Saved:
    """A notebook that was run and saved, its kernel still alive."""

    def __init__(self, client: NotebookClient, directory: Path) -> None:
        self._client = client
        self.directory = directory
        nbformat.write(client.nb, directory / "book.ipynb")
        self.text = (directory / "book.ipynb").read_text()

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the kernel; nothing of that is saved."""
        cell = nbformat.v4.new_code_cell(f"import json; print(json.dumps({expression}))")
        self._client.nb.cells.append(cell)
        self._client.execute_cell(cell, len(self._client.nb.cells) - 1, store_history=False)
        return json.loads(cell.outputs[0].text)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Saved]:
    directory = tmp_path_factory.mktemp("book")
    temporary = tmp_path_factory.mktemp("tmp")
    environment = {**os.environ, "TRITONLAB_NOTEBOOK": str(directory / "book.ipynb"), "TMPDIR": str(temporary)}
    environment["XDG_CACHE_HOME"] = str(directory / "cache")
    notebook = nbformat.v4.new_notebook()
    resources = {"metadata": {"path": str(directory)}}
    client = NotebookClient(
        notebook, timeout=120, allow_errors=True, resources=resources, kernel_name="python3", store_widget_state=True
    )
    with client.setup_kernel(env=environment):
        for source in CELLS:
            notebook.cells.append(nbformat.v4.new_code_cell(source))
            client.execute_cell(notebook.cells[-1], len(notebook.cells) - 1, store_history=True)
        client.set_widgets_metadata()
        yield Saved(client, directory)


def errors_of(saved: Saved) -> dict[int, str]:
    cells = json.loads(saved.text)["cells"]
    return {
        number: output["ename"]
        for number, cell in enumerate(cells)
        for output in cell["outputs"]
        if output["output_type"] == "error"
    }


def test_the_cells_show_what_they_are_to_show(saved: Saved) -> None:
    """Else the token would be missing from outputs that are not there."""
    failing = ("send(tritonclient.http, endpoints.http, -1)", "send(tritonclient.grpc, endpoints.grpc, -1)")
    wanted = [
        *(CELLS.index(cell) for cell in failing),
        CELLS.index("half.failures[-1].replay()"),
        CELLS.index("half(X=[-1.0])"),
        *(number for number, cell in enumerate(CELLS) if "model(X=[-1.0])" in cell),
        CELLS.index("tritonlab.connect('http://' + endpoints.http).metadata()"),
    ]
    found = errors_of(saved)
    assert sorted(found) == sorted(wanted), {number: (CELLS[number], found[number]) for number in found}
    widgets = json.loads(saved.text)["metadata"]["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    assert any("import tritonclient" in str(state["state"].get("value", "")) for state in widgets.values())
    assert saved.text.count("application/vnd.jupyter.widget-view+json") >= 5


def test_the_saved_notebook_does_not_hold_it(saved: Saved) -> None:
    token = saved.evaluate("endpoints.headers")["authorization"].split()[1]
    assert len(token) > 40
    assert token not in saved.text
    assert saved.evaluate("endpoints.header_file") in saved.text  # but where it is


def test_no_file_holds_it_that_others_may_read(saved: Saved) -> None:
    token = saved.evaluate("endpoints.headers")["authorization"].split()[1].encode()
    temporary = saved.evaluate("__import__('tempfile').gettempdir()")
    roots = (saved.directory, Path(temporary))
    holding = [path for root in roots for path in root.rglob("*") if path.is_file() and token in path.read_bytes()]
    (file,) = holding
    assert str(file) == saved.evaluate("endpoints.header_file")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert sum(path.is_file() for path in saved.directory.rglob("*")) > 15
    assert token.decode() not in "".join(saved.evaluate("dict(__import__('os').environ)").values())


def run(*command: str, cwd: Path, **environment: str) -> str:
    found = subprocess.run(
        command, cwd=cwd, env={**os.environ, **NO_PLUGINS, **environment}, capture_output=True, text=True, timeout=100
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.mark.parametrize("kind", ["tritonclient_HTTP", "tritonclient_gRPC", "curl", "curl_binary"])
def test_a_program_runs_as_it_was_written(saved: Saved, kind: str) -> None:
    (path,) = (path for path in (saved.directory / "programs" / kind).iterdir() if path.suffix in (".py", ".sh"))
    output = run("bash" if path.suffix == ".sh" else sys.executable, str(path), cwd=path.parent)
    assert ("249.5" if kind == "curl_binary" else "2.0" if kind == "curl" else "[2.]") in output


def test_a_program_of_a_decoupled_model_runs_as_it_was_written(saved: Saved) -> None:
    folder = saved.directory / "programs" / "decoupled_tritonclient_gRPC"
    assert run(sys.executable, "twice_grpc.py", cwd=folder) == "Y\n[8.]\n"


@pytest.mark.parametrize("kind", ["pytest", "decoupled_pytest"])
def test_a_test_runs_as_it_was_written(saved: Saved, kind: str) -> None:
    folder = saved.directory / "programs" / kind
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:tritonlab", str(folder))
    assert "1 passed" in run(*command, cwd=folder)
    # elsewhere the header comes from the environment; a wrong one is refused
    why = "the token that was sent is not the one"
    if "decoupled" in kind:  # the stream may be cut off before its refusal is read
        why += "|The stream is no longer in valid state"
    with pytest.raises(AssertionError, match=why):
        run(*command, cwd=folder, TRITON_AUTHORIZATION="Bearer other")


def test_what_serve_prints_runs_as_it_was_printed(saved: Saved) -> None:
    cells = json.loads(saved.text)["cells"]
    printed = "".join("".join(output.get("text", "")) for output in cells[4]["outputs"])
    headers = re.search(r"^    (headers = .*)$", printed, re.MULTILINE)
    curl = re.search(r"^    (curl .*)$", printed, re.MULTILINE)
    assert headers is not None and curl is not None, printed
    assert 'nv_inference_count{model="half"' in run("sh", "-c", f"{curl[1]} -sS", cwd=saved.directory)
    clients = re.findall(r"^    (tritonclient\.\w+\.InferenceServerClient\(.*\)\.)infer\(", printed, re.MULTILINE)
    assert len(clients) == 2
    for client in clients:
        program = f"import tritonclient.http, tritonclient.grpc\n{headers[1]}\n"
        program += f'print({client}is_model_ready("half", headers=dict(headers)))'
        assert run(sys.executable, "-W", "ignore", "-c", program, cwd=saved.directory) == "True\n"
