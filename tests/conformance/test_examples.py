"""The models of the notebooks, exported from the notebook and answering the same on both sides.

Each `%%triton_model` cell is run as it is committed, in a shell; what `tritonlab.export` writes then goes into both
repositories. What those servers cannot run says why in NOT_HERE.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from numpy.typing import NDArray
from traitlets.config import Config

import tritonlab
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.notebook.shell import magics

from .clients import Client, Failure, Files
from .rules import rule

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
MAGICS = ("%%triton_model ", "%%triton_config ", "%%triton_file ")

#: The reference server's Python has numpy and nothing else.
NOT_HERE = {
    **dict.fromkeys(("add_sub_torch", "classify", "embed", "encode", "write"), "PyTorch"),
    "add_sub_jax": "JAX",
    "preprocess": "Pillow",
    "which_photo": "weights that its notebook trains",
    "pipeline": "the two above",
}
#: Notebooks with an export and a comparison of their own, about an engine or a repository beside the Python models,
#: about models that are wrong, one whose models need the GPUs that it simulates, and one with a network of PyTorch that
#: it trains. `make test` runs them.
ELSEWHERE = (
    "00_quickstart",
    "62_whole_pipeline",
    "63_opening_a_repository",
    "65_ensembles",
    "78_checking_a_model",
    "79_replaying_requests",
    "82_gpus",
    "92_deploying",
    "95_openai",
)


def cells() -> list[tuple[str, str]]:
    """Yield (model, cell) of every cell that writes a part of a model."""
    found = []
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        sources = [cell.source for cell in notebook.cells if cell.source.startswith(MAGICS)]
        if path.stem not in ELSEWHERE:
            found += [(source.split()[1], source) for source in sources]
    return found


def export_models(target: Path) -> None:
    """Write the model directories that the notebooks export into a model repository."""
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))  # type: ignore[no-untyped-call]
    with (
        tempfile.TemporaryDirectory() as repository,
        tritonlab.Server(repository, model_control_mode="explicit") as server,
    ):
        workspace = Workspace(server, Path(repository))
        magics.register(shell, lambda: workspace)
        for name, cell in cells():
            if name not in NOT_HERE:
                shell.run_cell(cell).raise_error()  # type: ignore[no-untyped-call]
        for name in dict.fromkeys(name for name, _ in cells() if name not in NOT_HERE):
            tritonlab.export(server.model(name), target)
        workspace.close()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Files]:
    """Return the model directories that the notebooks export, by name."""
    target = tmp_path_factory.mktemp("exported")
    export_models(target)
    return {path.name: _files(path) for path in target.iterdir()}


def _files(directory: Path) -> Files:
    return {str(f.relative_to(directory)): f.read_bytes() for f in directory.rglob("*") if f.is_file()}


@pytest.fixture(scope="module")
def client(side: Client, exported: dict[str, Files]) -> Iterator[Client]:
    """Return a side that serves what was exported."""
    failed = {name: failure for name, failure in side.load_all(exported).items() if failure is not None}
    assert not failed, failed
    yield side
    for name in exported:
        side.unload(name)


def outputs(client: Client, model: str, **inputs: Any) -> dict[str, Any]:
    answer = client.infer(model, inputs)
    assert answer.error == ""
    return {name: array.tolist() for name, array in answer.outputs.items()}


def i32(values: list[Any]) -> NDArray[np.int32]:
    return np.array(values, dtype=np.int32)


def f32(values: list[Any]) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)


def text(*values: str) -> Any:
    return np.array([value.encode() for value in values], dtype=np.object_)


def test_every_model_is_here_or_has_a_reason(exported: dict[str, Files]) -> None:
    assert {name for name, _ in cells()} == set(exported) | set(NOT_HERE)


def test_add_sub(client: Client) -> None:
    a, b = f32([[1, 2, 3, 4]]), f32([[4, 3, 2, 1]])
    assert outputs(client, "add_sub", INPUT0=a, INPUT1=b) == {"OUTPUT0": [[5.0] * 4], "OUTPUT1": [[-3.0, -1, 1, 3]]}


@rule("3.5.1")
def test_an_exception_of_the_model(client: Client) -> None:
    answer = client.infer("divide", {"A": i32([7]), "B": i32([0])})
    assert answer.error.startswith(
        "Failed to process the request(s) for model 'divide_0', message: ZeroDivisionError: "
        "integer division or modulo by zero\n\nAt:\n"
    )
    assert outputs(client, "divide", A=i32([7]), B=i32([2])) == {"C": [3]}


@rule("2.4.3")
def test_auto_complete_config(client: Client, exported: dict[str, Files]) -> None:
    """The exported config is complete; the model alone is enough, too."""
    points = f32([[[0, 0], [2, 0], [2, 2], [0, 2]]])
    assert outputs(client, "centre", POINTS=points) == {"CENTRE": [[1.0, 1.0]]}
    alone = {"1/model.py": exported["centre"]["1/model.py"]}
    assert client.placed("centre_alone", alone) is None
    assert outputs(client, "centre_alone", POINTS=points) == {"CENTRE": [[1.0, 1.0]]}
    config = client.config("centre_alone")
    assert not isinstance(config, Failure)
    assert (config["max_batch_size"], config["input"][0]["dims"]) == (8, [-1, 2])
    assert "dynamic_batching" in config
    client.unload("centre_alone")


def test_parameters(client: Client) -> None:
    assert outputs(client, "threshold", X=f32([[0.2, 0.7]])) == {"ABOVE": [[False, True]]}


@rule("2.3.2")
def test_instances_and_their_kind(client: Client) -> None:
    pending = [client.submit("whoami", {"X": np.zeros((1, 1), np.float32)}) for _ in range(20)]
    answers = [p.answer.result(20).outputs for p in pending]
    assert {answer["INSTANCE"][0, 0] for answer in answers} == {b"whoami_0_0", b"whoami_0_1"}
    assert {answer["DEVICE"][0, 0] for answer in answers} == {b"cpu"}


@rule("4.1.1")
def test_bls(client: Client) -> None:
    a, b = f32([1, 2]), f32([3, 4])
    assert outputs(client, "calculator", OPERATION=text("add"), A=a, B=b) == {"RESULT": [4.0, 6.0]}
    assert outputs(client, "calculator", OPERATION=text("multiply"), A=a, B=b) == {"RESULT": [3.0, 8.0]}
    unknown = client.infer("calculator", {"OPERATION": text("divide_by_two"), "A": a, "B": b})
    refused = "Failed for execute the inference request. Model 'divide_by_two' is not ready."
    assert unknown.error == f"Model divide_by_two - Error when running inference: {refused}"


@rule("4.1.1", "3.8.1")
def test_async_bls(client: Client) -> None:
    answer = client.infer("both", {"A": f32([1, 2]), "B": f32([3, 4])})
    assert answer.error == ""
    assert answer.outputs["SUM"].tolist() == [4.0, 6.0]
    assert answer.outputs["PRODUCT"].tolist() == [3.0, 8.0]
    (add_start, add_end), (multiply_start, multiply_end) = answer.outputs["TIMES"].tolist()
    assert max(add_start, multiply_start) < min(add_end, multiply_end)


@rule("3.7.1")
def test_repeat(client: Client) -> None:
    answers = client.stream("repeat", {"IN": i32([4, 2, 0, 1])})
    assert [answer.final for answer in answers] == [False] * 4 + [True]
    assert [int(answer.outputs["OUT"][0]) for answer in answers[:-1]] == [4, 2, 0, 1]
    assert [int(answer.outputs["INDEX"][0]) for answer in answers[:-1]] == [0, 1, 2, 3]


@rule("3.7.1")
def test_square(client: Client) -> None:
    answers = client.stream("square", {"IN": i32([3])})
    assert [int(answer.outputs["OUT"][0]) for answer in answers[:-1]] == [3, 3, 3]
    assert answers[-1].final and not answers[-1].outputs


@rule("1.10.4")
def test_decoupled_bls(client: Client) -> None:
    assert outputs(client, "total", IN=i32([4, 2, 0, 1])) == {"TOTAL": [7], "PARTS": [4]}


@rule("1.14.8")
def test_custom_metrics_and_logs(client: Client) -> None:
    texts = text("short", "quite a long one", "")[:, None]
    assert outputs(client, "classify_length", TEXT=texts) == {"LONG": [[False], [True], [False]]}
    page = client.metrics().splitlines()
    assert 'texts_total{length="short",model="classify_length"} 2' in page
    assert 'text_length_bucket{model="classify_length",le="10"} 2' in page
    assert 'text_length_sum{model="classify_length"} 21' in page
    assert client.logged("request '' has an empty text")


@rule("3.9.1", "3.9.2")
def test_rescheduling(client: Client) -> None:
    answers = client.stream("countdown", {"FROM": i32([[3]])})
    assert [int(answer.outputs["LEFT"][0, 0]) for answer in answers] == [2, 1, 0]
    assert [answer.final for answer in answers] == [False, False, True]
