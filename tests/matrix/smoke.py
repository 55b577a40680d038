"""The features that must work wherever tritonlab is installed: a cell to READY, a request, both protocols, an export
that another server loads, and the extension in the pages of JupyterLab and Notebook.

`python smoke.py [--install WHEEL] DIRECTORY [STUB_PYTHON ...]` runs in that environment, and needs nothing of this
repository. `--install`: the notebook's first cell installs the wheel, and there is no notebook half, as on Colab.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

CELLS = [
    "%load_ext tritonlab",
    """%%triton_model double --max-batch-size 4 --dynamic-batching 100 --input X:FP32[2] --output Y:FP32[2]
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        tensors = [pb_utils.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", 2 * tensor)]) for tensor in tensors]""",
    """import numpy as np
double(X=[[1, 2]])["Y"].tolist()""",
    """import tritonlab
endpoints = tritonlab.serve()
import tritonclient.http, tritonclient.grpc
answers = []
for module, address in ((tritonclient.http, endpoints.http), (tritonclient.grpc, endpoints.grpc)):
    client = module.InferenceServerClient(address)
    tensor = module.InferInput("X", [1, 2], "FP32")
    tensor.set_data_from_numpy(np.array([[3, 4]], np.float32))
    answers.append(client.infer("double", [tensor], headers=endpoints.headers).as_numpy("Y").tolist())
answers""",
    """report = tritonlab.export(double, "models", deploy="docker", env="requirements")
with tritonlab.Server("models") as server:
    exported = server.model("double")(X=np.array([[5, 6]], np.float32))["Y"].tolist()
lock = (report.repository.parent / "requirements.lock").read_text()
exported, (report.repository.parent / "deploy/Dockerfile").is_file(), "tritonlab==" in lock, "\\nnumpy==1." in lock""",
    """try:
    double(X=[[1, 2, 3]])
except tritonlab.TritonError as error:
    refused = str(error)
refused""",
    "double.view().to_dict()['batches'] != []",
]
ANSWERS = {
    2: "[[2.0, 4.0]]",
    3: "[[[6.0, 8.0]], [[6.0, 8.0]]]",
    4: "([[10.0, 12.0]], True, False, True)",
    5: "\"[request id: <id_unknown>] unexpected shape for input 'X' for model 'double'. Expected [-1,2], got [1,3].",
    6: "True",
}


def main() -> int:
    """Run all and print what failed. Return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--install", metavar="WHEEL")
    parser.add_argument("directory", type=Path)
    parser.add_argument("stub_pythons", nargs="*")
    options = parser.parse_args()
    failed = notebook_failures(options.directory, options.install)
    if options.install:
        failed += doctor_failures("model")
    else:
        failed += [*doctor_failures("model", "extension"), *page_failures(options.directory)]
    for python in options.stub_pythons:
        failed += stub_failures(options.directory, python)
    print("\n".join(failed) or "passed")
    return int(bool(failed))


def notebook_failures(directory: Path, wheel: str | None) -> list[str]:
    sources = [f"%pip install -q {wheel} tritonclient[http]", *CELLS] if wheel else CELLS
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(directory)}}).execute()
    failed = []
    for number, wanted in ANSWERS.items():
        cell = notebook.cells[number - len(CELLS)]
        found = next((text_of(output) for output in cell.outputs if text_of(output)), "nothing")
        if not found.startswith(wanted):
            failed.append(f"cell {number}: {found} instead of {wanted}")
    return failed


def text_of(output: Any) -> str:
    return str(output["data"].get("text/plain", "")) if output.output_type == "execute_result" else ""


def doctor_failures(*wanted: str) -> list[str]:
    """Ask `tritonlab doctor`, which also looks whether JupyterLab lists the extension."""
    command = [sys.executable, "-m", "tritonlab", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if not done.stdout.startswith("["):
        return [f"doctor: {done.stderr[-500:]}"]
    rows = json.loads(done.stdout)
    failed = [f"doctor: {row['about']}: {row['text']}" for row in rows if row["state"] == "MISSING"]
    return failed + [f"doctor does not name the {name}" for name in wanted if not has(rows, name)]


def has(rows: list[dict[str, Any]], about: str) -> bool:
    return any(row["about"] == about and row["state"] == "ok" for row in rows)


def page_failures(directory: Path) -> list[str]:
    """Ask a Jupyter server whether the pages that it sends bring the extension."""
    pages = ["lab", *(["tree"] if importlib.util.find_spec("notebook") else [])]
    failed = []
    with jupyter_server(directory) as url:
        for name in pages:
            with urllib.request.urlopen(f"{url}/{name}?token=smoke", timeout=60) as response:
                page = response.read().decode()
            found = re.search(r'<script id="jupyter-config-data"[^>]*>(.*?)</script>', page, re.DOTALL)
            extensions = json.loads(found[1])["federated_extensions"] if found else []
            if "tritonlab" not in [extension["name"] for extension in extensions]:
                failed.append(f"the page /{name} does not bring the extension")
    return failed


@contextlib.contextmanager
def jupyter_server(directory: Path) -> Iterator[str]:
    """Start a Jupyter server on a free port and yield its address once it answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyter_server", f"--ServerApp.port={port}", "--IdentityProvider.token=smoke"]
    with (directory / "jupyter.log").open("w") as log:
        server = subprocess.Popen([*command, "--allow-root", "--no-browser"], cwd=directory, stdout=log, stderr=log)
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
                break
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def stub_failures(directory: Path, python: str) -> list[str]:
    """Export the model for a stub of another Python, and call it there."""
    repository = directory / "models"
    write = [sys.executable, "-m", "tritonlab", "stub", "--force", "--python", python, str(repository / "double")]
    program = (
        "import numpy as np, sys, tritonlab\n"
        "with tritonlab.Server(sys.argv[1]) as server:\n"
        "    print(server.model('double')(X=np.array([[7, 8]], np.float32))['Y'].tolist())\n"
    )
    for command in (write, [sys.executable, "-c", program, str(repository)]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return [] if done.stdout.strip() == "[[14.0, 16.0]]" else [f"stub of {python}: {done.stdout}{done.stderr[-500:]}"]


if __name__ == "__main__":
    sys.exit(main())
