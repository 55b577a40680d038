"""`make releases`: every kind of model on every release of Triton that can be had as a wheel, beside what pre-flight
predicts; printed as a table, and written where the documentation shows it.

python -m tests.releases [--write docs/FILE.md] [2.51 2.36 ...]
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.release_models import ReleaseModel, models, write_models
from tritonlab import Server, export
from tritonlab.core.status import TritonError
from tritonlab.exchanges.exchange import Exchange
from tritonlab.exchanges.sending import ask
from tritonlab.tools.deploy.environment.built_environment import pack
from tritonlab.tools.deploy.preflight.judge import preflight
from tritonlab.tools.deploy.preflight.trial import try_models
from tritonlab.tools.deploy.verify.differences import NOT_VERIFIED
from tritonlab.tools.deploy.verify.judgement import ModelJudgement
from tritonlab.tools.deploy.verify.judges import judge_python
from tritonlab.tools.deploy.verify.verification import verify
from tritonlab.tools.deploy.verify.wheels import CACHE_VARIABLE, find_wheel, wheels

EQUAL, DIFFERENT, NOT_LOADED = "equal", "differs", "does not load"
#: The Python of the containers up to 2.51.
PYTHON = "3.10"
#: Triton 2.41 waits for minutes before it says that a model.py raised when it was imported.
_LOAD_SECONDS = 40.0
#: How long the notebook's answer is waited for.
_ANSWER_SECONDS = 30.0


@dataclass(frozen=True)
class Cell:
    """A model on a release: what pre-flight predicted, what was found, and how the table shows that."""

    predicted: str
    found: str
    symbol: str
    why: str = ""

    @property
    def is_right(self) -> bool:
        return self.predicted == self.found


def predicted(outcome: str) -> str:
    """Return the kind of a prediction; whether a request fails or is answered otherwise is one."""
    return DIFFERENT if outcome in ("fails", "differs") else outcome


def found(judgement: ModelJudgement) -> str:
    """Return the kind of a verdict; what every model has on a release is not a difference."""
    failing = ("requests", NOT_VERIFIED)  # each request fails there as it fails here
    if all((each.where, each.symbol) == failing or not each.is_serious for each in judgement.findings):
        return EQUAL
    return NOT_LOADED if judgement.symbol == "X" else DIFFERENT


@contextlib.contextmanager
def authored(scratch: Path, names: Collection[str] = (), environment: Path | None = None) -> Iterator[Server]:
    """Run a server of the models, in their notebook's folder, with what the notebook has."""
    notebook = scratch / "notebook"
    rows = chosen(notebook, names, environment)
    write_models(rows, scratch / "source", notebook, environment)
    before = os.getcwd()
    os.environ["RELEASE_RATE"] = "2"
    os.chdir(notebook)
    try:
        with Server(scratch / "source", warm=0) as server:
            yield server
    finally:
        os.chdir(before)
        del os.environ["RELEASE_RATE"]


def answered(server: Server, case: Exchange) -> Exchange:
    """Return a case with the answer that the notebook gets."""
    if case.answers():
        return case
    try:
        found = ask(server.model(case.model), case.again(), _ANSWER_SECONDS)
    except TritonError:  # it does not serve
        return case
    return replace(case, arrivals=found.arrivals, error=found.error) if found.has_answer else case


def chosen(notebook: Path, names: Collection[str], environment: Path | None) -> dict[str, ReleaseModel]:
    """Return the rows of these names, all if there are none, that this Python can write."""
    return {
        name: row
        for name, row in models(notebook, environment).items()
        if (not names or name in names) and (not row.needs or importlib.util.find_spec(row.needs) is not None)
    }


def table_of(
    scratch: Path, releases: Sequence[str], names: Collection[str] = (), environment: Path | None = None
) -> dict[str, dict[str, Cell]]:
    """Return the cells by model and release. `names`: the rows, all if there are none."""
    notebook = scratch / "notebook"
    rows = chosen(notebook, names, environment)
    with authored(scratch, names, environment) as server:
        loaded = [server.model(name) for name in rows]
        export(loaded, scratch / "models", alone=True)
        predictions = {  # a trial is the same for each release
            (model.name, release): preflight(model, release, trial=trial).outcome
            for model in loaded
            for trial in [try_models([model], ()).get(model.name)]
            for release in releases
        }
        cases = [answered(server, case) for name, row in rows.items() for case in row.cases(name)]
    print(f"{len(rows)} models, {len(cases)} requests", flush=True)
    say = lambda text: print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)  # noqa: E731
    verdict = verify(
        scratch / "models",
        triton=releases,
        requests=cases,
        hide=[notebook],
        python=PYTHON,
        load_seconds=_LOAD_SECONDS,
        say=say,
    )
    cells: dict[str, dict[str, Cell]] = {name: {} for name in rows}
    for release in verdict.releases:
        if not release.verified:
            print(f"{release.release}: {release.problem}")
        for each in release.models:
            why = "; ".join(str(finding) for finding in each.findings if not finding.known)
            guess = predicted(predictions[each.name, release.release])
            cells[each.name][release.release] = Cell(guess, found(each), each.symbol, why)
    return cells


def text_of(cells: dict[str, dict[str, Cell]], releases: Sequence[str]) -> str:
    """Return the table in Markdown, with what was predicted wrongly below it."""
    lines = [f"| model | {' | '.join(releases)} |", f"|---|{'---|' * len(releases)}"]
    wrong = []
    for name, row in cells.items():
        marks = []
        for release in releases:
            cell = row.get(release)
            if cell is None:
                marks.append("not verified")
                continue
            symbol = "=" if cell.found == EQUAL else "X" if cell.found == NOT_LOADED else "D"
            marks.append(symbol if cell.is_right else f"**{symbol}** ({cell.predicted} was predicted)")
            if not cell.is_right:
                wrong.append(f"- {name} on {release}: {cell.predicted} was predicted, {cell.found} found. {cell.why}")
        lines.append(f"| {name} | {' | '.join(marks)} |")
    count = sum(len(row) for row in cells.values())
    lines += ["", f"Predicted rightly: {count - len(wrong)} of {count}."]
    return "\n".join([*lines, *wrong]) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Make the table, print it, and return 1 if a release was not verified, or a prediction was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.releases")
    parser.add_argument("releases", nargs="*", default=[*wheels()], help="all that can be had")
    parser.add_argument("--write", type=Path, help="a Markdown file for the documentation")
    parser.add_argument("--only", action="append", default=[], help="a model")
    options = parser.parse_args(arguments)
    os.environ.setdefault(CACHE_VARIABLE, str(Path("build/cache").absolute()))
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        cancel = threading.Event()
        try:
            python = judge_python(find_wheel("2.51"), version=PYTHON, lock="", say=print, cancel=cancel)
            environment = None if python.fixed else pack(python.prefix, scratch / "env.tar.gz", cancel)
        except LookupError as error:
            sys.exit(f"{error}: the table needs Python {PYTHON}, as the containers have")
        cells = table_of(scratch, options.releases, options.only, environment)
    text = text_of(cells, options.releases)
    print(text)
    if options.write is not None:
        options.write.write_text(f"{_HEAD.format(date=time.strftime('%-d %B %Y'))}\n{text}")
    whole = all(len(row) == len(options.releases) for row in cells.values())
    return 0 if whole and all(cell.is_right for row in cells.values() for cell in row.values()) else 1


_HEAD = """# Models on releases of Triton

Run by `make releases` on {date}: each model was exported, loaded in the release's own server (from its wheel, with
Python 3.10 and numpy 1, as its container has) with the author's machine hidden, and asked.

`=` answers as the notebook does, but for what every model has on that release; `D` answers otherwise, or fails; `X`
does not load. Pre-flight had predicted the same, unless a cell names another prediction.
"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
