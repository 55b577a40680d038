"""The golden set: requests with their answers, kept next to the notebook and sent again after every reload.

A case is an exchange in the file `<notebook>.golden/<model>/<name>.json`. The model may be in this process or on
another server.
"""

from __future__ import annotations

import glob
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core.inference.infer_request import InferenceRequest
from ..core.junit import JUnitTest
from ..core.junit import junit_xml as write_junit
from ..core.plain_facts import few_lines
from ..core.process_bound import ProcessBound
from ..core.status import TritonError
from .comparison import Comparison, compare
from .exchange import Exchange
from .exchange_file import read_exchange, write_exchange

#: Sends a request to the model that it names, and waits.
Ask = Callable[[InferenceRequest], Exchange]

#: Variables with the path of a kernel's notebook: `tritonlab test` sets the first, Jupyter the second.
NOTEBOOK_VARIABLE = "TRITONLAB_NOTEBOOK"
_JUPYTER = "JPY_SESSION_NAME"


def golden_directory() -> Path:
    """Return `<notebook>.golden` next to this kernel's notebook, or `notebook.golden` here if that is not known."""
    name = os.environ.get(NOTEBOOK_VARIABLE) or os.environ.get(_JUPYTER) or ""
    if not name.endswith(".ipynb"):
        return Path("notebook.golden")
    notebook = Path(name)
    # Jupyter names a path on its server, which may be another machine
    return (notebook if notebook.parent.is_dir() else Path(notebook.name)).with_suffix(".golden")


def golden_beside(repository: Path) -> Path:
    """Return `<repository>.golden`, the directory of a model repository's golden set."""
    whole = Path(os.path.abspath(repository))  # `.` has no name
    return whole.parent / f"{whole.name}.golden"


@dataclass(frozen=True)
class GoldenResult:
    """The result of one case. `problem`: why it could not be sent."""

    case: Exchange
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
    """The results of all cases, without which nothing has passed. `left`: how many were not sent for lack of time."""

    results: tuple[GoldenResult, ...]
    left: int = 0

    @property
    def passed(self) -> bool:
        return bool(self.results) and not self.left and all(result.passed for result in self.results)

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
    the answers of a model are not its own, for example a stand-in's, otherwise "". Cases keep this reason as
    `unanswered`."""

    _elsewhere = "call tritonlab.golden(DIRECTORY) in the other process, too"

    def __init__(
        self,
        directory: str | Path | None = None,
        ask: Ask | None = None,
        why_not_real: Callable[[str], str] = lambda model: "",
    ) -> None:
        self.directory = Path(directory) if directory is not None else golden_directory()
        self._ask = ask
        self._why_not_real = why_not_real

    def cases(self, model: str | None = None) -> list[Exchange]:
        """Return the cases of one model or all, sorted by name. An unreadable file is left out, with a warning."""
        cases, faults = self._read(model)
        for fault in faults:
            warnings.warn(f"{fault.problem}; it was left out", stacklevel=2)
        return cases

    def _read(self, model: str | None) -> tuple[list[Exchange], list[GoldenResult]]:
        """Return the cases, and the results of files without a case."""
        cases, faults = [], []
        for path in sorted(self.directory.glob(f"{glob.escape(model) if model else '*'}/*.json")):
            try:
                cases.append(read_exchange(path))
            except ValueError as error:
                case = Exchange(InferenceRequest(path.parent.name, {}), name=path.stem)
                faults.append(GoldenResult(case, 0, problem=str(error)))
        return cases, faults

    def add(self, exchange: Exchange, name: str = "", *, error: bool = False) -> Path:
        """Keep a request with its answers and return the file. Without a `name` the case gets a number. `error`:
        whether an error may be the expected answer from now on.

        Raises ValueError for a request without an answer, or with an error that is not expected, FileExistsError for a
        name that is taken.
        """
        if exchange.error is not None and not error:
            text = exchange.error_text.partition("\n")[0]
            raise ValueError(f"nothing was kept: the answer is an error: {text}; error=True (--error) expects it")
        name = name or self._free_name(exchange.model)
        path = self.directory / exchange.model / f"{name}.json"
        if not re.fullmatch(r"[\w.-]+", name):
            raise ValueError(f"'{name}' cannot be the name of a file")
        if path.exists():
            raise FileExistsError(f"{path} exists; golden update renews its answer")
        return self._write(exchange, name)

    def _write(self, exchange: Exchange, name: str) -> Path:
        if not exchange.has_answer:
            raise ValueError("a request without an answer cannot be kept")
        why = self._why_not_real(exchange.model)
        return write_exchange(replace(exchange, name=name, source="", unanswered=why), self.directory)

    def check(self, ask: Ask | None = None, model: str | None = None, seconds: float | None = None) -> GoldenReport:
        """Send the cases again and compare. `ask`: another way to send, such as `RemoteModel.send` of another server.
        `seconds`: the time after which no further case is sent. An unreadable file has not passed.
        """
        send = ask or self._ask
        if send is None:
            raise ValueError(
                "there is no server to send the cases to: give check() or update() a function that sends a request"
            )
        cases, faults = self._read(model)
        report = check_cases(cases, send, seconds)
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
            self._write(result.comparison.outcomes[1], result.case.name)
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


def check_cases(cases: Sequence[Exchange], ask: Ask, seconds: float | None = None) -> GoldenReport:
    """Send requests again, one after the other, and compare. `seconds`: the time after which no further one is sent."""
    started, results = time.monotonic(), []
    for case in cases:
        begun = time.monotonic()
        if seconds is not None and begun - started > seconds:
            break
        try:
            found = ask(case.again())
        except TritonError as error:
            results.append(GoldenResult(case, time.monotonic() - begun, problem=str(error)))
            continue
        results.append(GoldenResult(case, time.monotonic() - begun, compare(case, found)))
    return GoldenReport(tuple(results), len(cases) - len(results))


def verdict_of(report: Mapping[str, Any]) -> str:
    """Return one line about a result of `GoldenReport.to_dict`, and the differences of its first failed case."""
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
    """Return JUnit's XML of several results of `GoldenReport.to_dict`, by name; a text instead of a result is the error
    of the whole suite.
    """
    return write_junit([(name, list(_tests(report))) for name, report in suites])


def _tests(report: Mapping[str, Any] | str) -> Iterator[JUnitTest]:
    if isinstance(report, str):
        yield JUnitTest("run", error=report, message=report.splitlines()[-1])
        return
    for result in report["results"]:
        failure = "" if result["passed"] else result["text"]
        yield JUnitTest(result["name"], result["seconds"], failure, classname=result["model"])
