"""What must work wherever tritonlab is installed: a cell to READY, a request, both protocols, an export that another
server loads, and the extension. `python smoke.py DIRECTORY [STUB_PYTHON ...]` runs in that environment, and
needs nothing of this repository.
"""

from __future__ import annotations

import json
import subprocess
import sys
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
    """report = tritonlab.export(double, "models")
with tritonlab.Server("models") as server:
    exported = server.model("double")(X=np.array([[5, 6]], np.float32))["Y"].tolist()
exported""",
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
    4: "[[10.0, 12.0]]",
    5: "\"[request id: <id_unknown>] unexpected shape for input 'X' for model 'double'. Expected [-1,2], got [1,3].",
    6: "True",
}


def main(directory: str, *stub_pythons: str) -> int:
    """Run all and print what failed. Return the exit status."""
    failed = [*notebook_failures(Path(directory)), *doctor_failures()]
    for python in stub_pythons:
        failed += stub_failures(Path(directory), python)
    print("\n".join(failed) or "passed")
    return int(bool(failed))


def notebook_failures(directory: Path) -> list[str]:
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(directory)}}).execute()
    failed = []
    for number, wanted in ANSWERS.items():
        found = next((text_of(output) for output in notebook.cells[number].outputs if text_of(output)), "nothing")
        if not found.startswith(wanted):
            failed.append(f"cell {number}: {found} instead of {wanted}")
    return failed


def text_of(output: Any) -> str:
    return str(output["data"].get("text/plain", "")) if output.output_type == "execute_result" else ""


def doctor_failures() -> list[str]:
    """Ask `tritonlab doctor`, which also looks whether JupyterLab lists the extension."""
    command = [sys.executable, "-m", "tritonlab", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if not done.stdout.startswith("["):
        return [f"doctor: {done.stderr[-500:]}"]
    rows = json.loads(done.stdout)
    failed = [f"doctor: {row['about']}: {row['text']}" for row in rows if row["state"] == "MISSING"]
    return failed + [f"doctor does not name the {name}" for name in ("extension", "model") if not has(rows, name)]


def has(rows: list[dict[str, Any]], about: str) -> bool:
    return any(row["about"] == about and row["state"] == "ok" for row in rows)


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
    sys.exit(main(*sys.argv[1:]))
