"""The golden set: requests whose answers are kept beside the notebook, sent again after every reload.

A case is the file `<notebook>.golden/<model>/<name>.json`, which reads well in a diff, with a `.npz` beside it for
large tensors. The model may be one of this process or of a server elsewhere.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import time
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.foreign_file import read_arrays, read_json
from ..core.inference.data_type import DataType
from ..core.inference.infer_request import InferenceRequest, RequestSpec
from ..core.inference.infer_response import InferenceResponse
from ..core.inference.tensor import Tensor
from ..core.plain_facts import few_lines
from ..core.process_bound import ProcessBound
from ..core.quoting import xml_document
from ..core.status import TritonError
from ..core.whole_file import write_file
from ..ipc.processes.out_of_memory import memory_left
from .comparison import Comparison, compare
from .outcome import Arrival, Outcome

#: The most elements that the JSON holds; tensors with more go into the `.npz`.
_MOST_INLINE = 64

#: Sends a request to the model that it names, and waits.
Ask = Callable[[InferenceRequest], Outcome]

#: Variables that name the notebook of a kernel: `tritonlab test` sets the one, Jupyter the other.
NOTEBOOK_VARIABLE = "TRITONLAB_NOTEBOOK"
_JUPYTER = "JPY_SESSION_NAME"


def golden_directory() -> Path:
    """Return `<notebook>.golden` beside the notebook of this kernel, or `notebook.golden` here if nobody says which
    notebook it is.
    """
    name = os.environ.get(NOTEBOOK_VARIABLE) or os.environ.get(_JUPYTER) or ""
    if not name.endswith(".ipynb"):
        return Path("notebook.golden")
    notebook = Path(name)
    # Jupyter names a path on its server, which may be another machine
    return (notebook if notebook.parent.is_dir() else Path(notebook.name)).with_suffix(".golden")


def golden_beside(repository: Path) -> Path:
    """Return `<repository>.golden`, where the golden set of a model repository lies."""
    whole = Path(os.path.abspath(repository))  # `.` has no name
    return whole.parent / f"{whole.name}.golden"


@dataclass(frozen=True)
class GoldenCase:
    """A request to a model and the answer it has to give: the outputs of each response, or an error. `source`: where
    the request is from, empty for one that somebody has kept. `unanswered`: why the model's own answer is not
    known."""

    model: str
    name: str
    inputs: Mapping[str, Tensor]
    fields: Mapping[str, Any]
    answers: Sequence[Mapping[str, Tensor]] = ()
    error: str = ""
    source: str = ""
    unanswered: str = ""

    def request(self) -> InferenceRequest:
        return InferenceRequest(self.model, dict(self.inputs), **self.fields)


@dataclass(frozen=True)
class GoldenResult:
    """The result of one case. `problem`: why it could not be sent."""

    case: GoldenCase
    seconds: float
    comparison: Comparison | None = None
    problem: str = ""

    @property
    def passed(self) -> bool:
        return self.comparison is not None and self.comparison.same

    def __str__(self) -> str:
        found = self.problem or str(self.comparison)
        return f"{self.case.model}/{self.case.name}: {found}"


@dataclass(frozen=True)
class GoldenReport:
    """The results of all cases. `left`: how many were not sent, for want of time."""

    results: tuple[GoldenResult, ...]
    left: int = 0

    @property
    def passed(self) -> bool:
        return not self.left and all(result.passed for result in self.results)

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        return verdict_of(self.to_dict()).partition("\n")[0]

    def __str__(self) -> str:
        """Return the verdict, and the differences of the first case that failed."""
        return verdict_of(self.to_dict())

    def __repr__(self) -> str:
        return few_lines(str(self))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "passed": self.passed,
            "left": self.left,
            "results": [
                {
                    "model": result.case.model,
                    "name": result.case.name,
                    "passed": result.passed,
                    "seconds": result.seconds,
                    "text": "" if result.passed else str(result),
                }
                for result in self.results
            ],
        }


class GoldenSet(ProcessBound):
    """The cases in a directory. `ask` sends their requests, unless a call names another way; `why_not_real` returns why
    the answers of a model are not its own, such as those of a stand-in, otherwise "". Cases keep it as `unanswered`."""

    elsewhere = "call tritonlab.golden(DIRECTORY) in the other process, too"

    def __init__(
        self,
        directory: str | Path | None = None,
        ask: Ask | None = None,
        why_not_real: Callable[[str], str] = lambda model: "",
    ) -> None:
        self.directory = Path(directory) if directory is not None else golden_directory()
        self._ask = ask
        self._why_not_real = why_not_real

    def cases(self, model: str | None = None) -> list[GoldenCase]:
        """Return the cases of a model, or of all models, sorted by name. A file that cannot be read is left out, with
        a warning.
        """
        cases, faults = self._read(model)
        for fault in faults:
            warnings.warn(f"{fault.problem}; it was left out", stacklevel=2)
        return cases

    def _read(self, model: str | None) -> tuple[list[GoldenCase], list[GoldenResult]]:
        """Return the cases, and the results of files that hold none."""
        cases, faults = [], []
        for path in sorted(self.directory.glob(f"{model or '*'}/*.json")):
            try:
                cases.append(read_case(path))
            except ValueError as error:
                faults.append(GoldenResult(GoldenCase(path.parent.name, path.stem, {}, {}), 0, problem=str(error)))
        return cases, faults

    def add(self, outcome: Outcome, name: str = "", *, error: bool = False) -> Path:
        """Keep a request with its answers and return the file. Without a `name` the case gets a number. `error`:
        whether an error may be the answer that is expected from now on.

        Raises ValueError for a request without an answer, or with an error that is not expected, FileExistsError for a
        name that is taken.
        """
        if outcome.error is not None and not error:
            text = outcome.error.message.strip().partition("\n")[0]
            raise ValueError(f"nothing was kept: the answer is an error: {text}; error=True (--error) expects it")
        case = self._case_of(outcome, name or self._free_name(outcome.request.model_name))
        path = self.directory / case.model / f"{case.name}.json"
        if not re.fullmatch(r"[\w.-]+", case.name):
            raise ValueError(f"'{case.name}' cannot be the name of a file")
        if path.exists():
            raise FileExistsError(f"{path} exists; golden update renews its answer")
        return write_case(case, self.directory)

    def _case_of(self, outcome: Outcome, name: str) -> GoldenCase:
        return replace(case_of(outcome, name), unanswered=self._why_not_real(outcome.request.model_name))

    def check(self, ask: Ask | None = None, model: str | None = None, seconds: float | None = None) -> GoldenReport:
        """Send the cases again and compare. `ask`: another way to send, such as `RemoteModel.send` of another server.
        `seconds`: after so long no further case is sent. A file that cannot be read has not passed.
        """
        send = ask or self._ask
        if send is None:
            raise ValueError(
                "there is no server to send the cases to: give check() or update() a function that sends a request"
            )
        cases, faults = self._read(model)
        report = _checked(cases, send, seconds)
        return GoldenReport((*report.results, *faults), report.left)

    def update(self, ask: Ask | None = None, model: str | None = None) -> list[Path]:
        """Send the cases again and keep the answers that differ. Returns their files. Raises ValueError for a case that
        cannot be sent.
        """
        report = self.check(ask, model)
        changed = [result for result in report.results if not result.passed]
        for result in changed:
            if result.comparison is None:
                raise ValueError(str(result))
        return [
            write_case(self._case_of(result.comparison.outcomes[1], result.case.name), self.directory)
            for result in changed
            if result.comparison is not None
        ]

    def _free_name(self, model: str) -> str:
        taken = {path.stem for path in (self.directory / model).glob("*.json")}
        return next(name for n in range(1, len(taken) + 2) if (name := f"{n:03d}") not in taken)

    def to_dict(self) -> dict[str, Any]:
        """Return the directory and the files in it as JSON values."""
        return {"directory": str(self.directory), "cases": sorted(map(str, self.directory.glob("*/*.json")))}

    def __repr__(self) -> str:
        return f"<GoldenSet {self.directory} [{len(list(self.directory.glob('*/*.json')))} cases]>"


def _checked(cases: Sequence[GoldenCase], ask: Ask, seconds: float | None) -> GoldenReport:
    started, results = time.monotonic(), []
    for case in cases:
        begun = time.monotonic()
        if seconds is not None and begun - started > seconds:
            break
        try:
            found = ask(case.request())
        except TritonError as error:
            results.append(GoldenResult(case, time.monotonic() - begun, problem=str(error)))
            continue
        results.append(GoldenResult(case, time.monotonic() - begun, compare(_expected(case), found)))
    return GoldenReport(tuple(results), len(cases) - len(results))


def case_of(outcome: Outcome, name: str, source: str = "") -> GoldenCase:
    """Return a request and its answers as a case. Raises ValueError for a request without an answer."""
    answers = [response.outputs for response in outcome.answers()]
    if not answers and outcome.error is None:
        raise ValueError("a request without an answer cannot be kept")
    request = outcome.request
    error = outcome.error.message.strip() if outcome.error is not None else ""
    return GoldenCase(
        model=request.model_name,
        name=name,
        inputs=request.inputs,
        fields=non_default_fields(request),
        answers=answers,
        error=error,
        source=source,
    )


def _expected(case: GoldenCase) -> Outcome:
    arrivals = tuple(Arrival(InferenceResponse(outputs=dict(outputs)), 0) for outputs in case.answers)
    return Outcome(case.request(), arrivals, TritonError(case.error) if case.error else None)


def verdict_of(report: Mapping[str, Any]) -> str:
    """Return one line about what `GoldenReport.to_dict` gave, and below it the differences of the first case that
    failed.
    """
    results, left = report["results"], report["left"]
    bad = [result for result in results if not result["passed"]]
    if not results and not left:
        return "golden: nothing is kept"
    text = f"golden: {len(results) - len(bad)} of {len(results) + left} answers are the same"
    text += f", {left} not sent: out of time" if left else ""
    if not bad:
        return text
    names = ", ".join(f"{result['model']}/{result['name']}" for result in bad[:5])
    return f"{text}; different: {names}\n{bad[0]['text']}"


def junit_xml(suites: Sequence[tuple[str, Mapping[str, Any] | str]]) -> bytes:
    """Return JUnit's XML of several results of `GoldenReport.to_dict`, by name; a text in the place of one is the
    error of that whole suite.
    """
    root = ElementTree.Element("testsuites")
    for name, report in suites:
        results = [] if isinstance(report, str) else report["results"]
        suite = ElementTree.SubElement(root, "testsuite", name=name, tests=str(len(results)), errors="0")
        suite.set("failures", str(sum(not result["passed"] for result in results)))
        if isinstance(report, str):
            suite.set("tests", "1")
            suite.set("errors", "1")
            case = ElementTree.SubElement(suite, "testcase", classname=name, name="run")
            ElementTree.SubElement(case, "error", message=report.splitlines()[-1]).text = report
        for result in results:
            attributes = {"classname": result["model"], "name": result["name"], "time": f"{result['seconds']:.6f}"}
            case = ElementTree.SubElement(suite, "testcase", attributes)
            if not result["passed"]:
                text = result["text"]
                ElementTree.SubElement(case, "failure", message=text.splitlines()[0]).text = text
    return xml_document(root)


def write_case(case: GoldenCase, directory: Path) -> Path:
    """Write the JSON file of a case into the model's folder and return its path; a `.npz` that would hold the same is
    left as it is.
    """
    folder = directory / case.model
    folder.mkdir(parents=True, exist_ok=True)
    large: dict[str, NDArray[Any]] = {}
    document: dict[str, Any] = {
        "model": case.model,
        "request": {**case.fields, "inputs": _tensors(case.inputs, "input", large)},
        "answers": [_tensors(outputs, f"output.{n}", large) for n, outputs in enumerate(case.answers)],
        **{name: value for name in ("error", "source", "unanswered") if (value := getattr(case, name))},
    }
    path, beside = folder / f"{case.name}.json", folder / f"{case.name}.npz"
    if not large:
        beside.unlink(missing_ok=True)
    elif not (beside.exists() and _holds(beside, large)):
        file = io.BytesIO()
        np.savez_compressed(file, **dict[str, Any](large))
        write_file(beside, file.getvalue())
    write_file(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return path


def read_case(path: Path) -> GoldenCase:
    """Read the case in a JSON file. Raises ValueError for a file that holds none."""
    beside = path.with_suffix(".npz")
    try:
        document = read_json(path)
        large = read_arrays(beside, memory_left() // 2) if beside.exists() else {}
        request = document["request"]
        return GoldenCase(
            model=document["model"],
            name=path.stem,
            inputs=_read_tensors(request["inputs"], "input", large),
            fields={field: request[field] for field in RequestSpec.SETTINGS if field in request},
            answers=[_read_tensors(outputs, f"output.{n}", large) for n, outputs in enumerate(document["answers"])],
            **{name: document.get(name, "") for name in ("error", "source", "unanswered")},
        )
    except Exception as error:  # whatever a value of a wrong kind leads to
        raise ValueError(f"{path} is not a golden case: {type(error).__name__}: {error}") from None


def non_default_fields(request: RequestSpec) -> dict[str, Any]:
    """Return what a request says besides its inputs, without the fields that have their default values."""
    found = {field: value for field, value in request.settings().items() if value}
    return {field: list(value) if field == "requested_outputs" else value for field, value in found.items()}


def _tensors(tensors: Mapping[str, Tensor], prefix: str, large: dict[str, NDArray[Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, tensor in tensors.items():
        entry: dict[str, Any] = {"datatype": tensor.datatype.name, "shape": list(tensor.shape)}
        if int(np.prod(tensor.shape)) > _MOST_INLINE or tensor.byte_size > 64 * _MOST_INLINE:
            large[f"{prefix}.{name}"] = tensor.data
        elif tensor.datatype is DataType.BYTES:
            entry["values"] = [_text(element) for element in tensor.numpy().flat]
        else:
            # BF16 as its bits; str of a number of numpy is the shortest text that is the same number
            flat = tensor.data.reshape(-1)
            entry["values"] = [float(str(v)) if flat.dtype.kind == "f" else v.item() for v in flat]
        found[name] = entry
    return found


def _read_tensors(entries: Mapping[str, Any], prefix: str, large: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: _read_tensor(entry, large.get(f"{prefix}.{name}")) for name, entry in entries.items()}


def _read_tensor(entry: Mapping[str, Any], data: Any) -> Tensor:
    datatype, shape = DataType[entry["datatype"]], tuple(entry["shape"])
    if min(shape, default=0) < 0:
        raise ValueError(f"the shape {list(shape)} has a negative dimension")
    if data is not None:
        return Tensor(datatype, shape, data if datatype is DataType.BYTES else data.reshape(shape))
    if datatype is DataType.BYTES:
        elements = np.empty(len(entry["values"]), dtype=np.object_)
        elements[:] = [_bytes(value) for value in entry["values"]]
        return Tensor.from_numpy(elements.reshape(shape))
    return Tensor(datatype, shape, np.array(entry["values"], datatype.numpy).reshape(shape))


def _text(element: bytes) -> str | dict[str, str]:
    try:
        return element.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(element).decode()}


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"], validate=True)


def _holds(path: Path, arrays: Mapping[str, NDArray[Any]]) -> bool:
    try:
        stored = read_arrays(path, memory_left() // 2)
    except (OSError, ValueError):
        return False
    return stored.keys() == arrays.keys() and all(
        stored[name].dtype == array.dtype and stored[name].tobytes() == array.tobytes()
        for name, array in arrays.items()
    )
