"""The exam of `model.check()`: every planted bug of the corpus must be found and described, no right model accused.

python -m tests.tools.check.exam [--seconds 60] [--seeds 10] [--only NAME …] [--right] [--whole] [--notebooks] [--again]
    [--log FILE]

With --log each row is added to a file of JSON lines, and what the file has is not checked again, so that an exam of
hours can be interrupted. The check of a planted bug ends when it is found; with --whole it goes on, and a finding of a
relation that the bug does not break is a false cause. With --again a finding of each bug that `corpus/fixed.py` can
fix is done again: `replay()` must show it, and so must the test that `to_pytest` writes, which must pass with the
fixed model.

Each check runs in a process of its own, on a copy of the corpus, so that one which hangs is a row of the table. The
exit status is 1 if a bug was missed or described wrongly, if it was given a false cause, if a right model was accused,
or if a check failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.tools.check.corpus.fixed import FIXED, write_fixed
from tests.tools.check.corpus.table import LEFT_BLOCKS, RIGHT, RIGHT_MODELS, WRONG, WRONG_MODELS, PlantedBug, RightModel
from tritonlab import Server
from tritonlab.tools.check.check_finding import CheckFinding
from tritonlab.tools.check.check_result import CheckResult

#: What a check may take beside its seconds: the start of its process, the load, the last thing that it tries.
GRACE = 60.0
#: What doing a finding again may take: it starts pytest twice.
AGAIN = 240.0
#: The most requests that a finding may be shrunk to.
SHRUNK_TO = 2
ROOT = Path(__file__).resolve().parents[3]

_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt)\b")

FOUND, NOT_AGAIN, MISSED, MISDESCRIBED, FALSE_CAUSE, CLEAN, ACCUSED, FAILED = (
    "found",
    "not again",
    "missed",
    "misdescribed",
    "false cause",
    "clean",
    "false alarm",
    "failed",
)
PASSES = (FOUND, CLEAN)


@dataclass(frozen=True)
class Finding:
    """A finding of a check, as a row of the exam has it. `again`: what was wrong when it was done again; `counts`:
    whether no other finding explains it."""

    relation: str
    sentence: str
    line: int | None
    requests: int
    again: str = ""
    counts: bool = True

    @classmethod
    def from_check(cls, found: CheckFinding, again: str = "", counts: bool = True) -> Finding:
        return cls(found.relation, found.sentence, found.line, len(found.requests), again, counts)


@dataclass
class Row:
    """One check of one model: the verdict, and why. `seconds`: with the start of its process; `spent`: of the check.
    `sent`: how many requests; `cut`: the relations for which its time was not enough, as on a machine that is busy."""

    model: str
    seed: int
    verdict: str
    seconds: float
    relation: str = ""
    why: str = ""
    findings: list[Finding] = field(default_factory=list)
    sent: int = 0
    cut: list[str] = field(default_factory=list)
    spent: float = 0.0


def every(result: CheckResult) -> list[CheckFinding]:
    """Return the findings of a check, also those that another one explains."""
    return [one for head in result.findings for one in (head, *head.also)]


def fault(bug: PlantedBug, finding: Finding) -> str:
    """Return what is wrong with a finding of the bug's relation; empty if it is described rightly."""
    for pattern in bug.patterns:
        if not re.search(pattern, finding.sentence, re.IGNORECASE):
            return f"the sentence does not name {pattern!r}"
    if finding.line is None and bug.needs_line:
        return "the line is missing"
    if finding.line is not None and finding.line not in bug.line_numbers():
        return f"line {finding.line} is not the defect's, which is {' or '.join(map(str, sorted(bug.line_numbers())))}"
    if finding.requests > SHRUNK_TO:
        return f"{finding.requests} requests, not {SHRUNK_TO} at most"
    return ""


def judge_bug(bug: PlantedBug, findings: Sequence[Finding]) -> tuple[str, str]:
    """Return the verdict on the findings about a model with a planted bug, and why."""
    about = [finding for finding in findings if finding.relation in bug.relations]
    if not about:
        return MISSED, "; ".join(f"{finding.relation}: {finding.sentence}" for finding in findings)
    faults = [fault(bug, finding) for finding in about]
    if strange := [one for one in findings if one.counts and one.relation not in bug.relations]:
        return FALSE_CAUSE, f"{strange[0].relation}: {strange[0].sentence}"
    if "" in faults:
        wrong = [finding.again for finding in about if finding.again]
        return (NOT_AGAIN, wrong[0]) if wrong else (FOUND, about[faults.index("")].sentence)
    return MISDESCRIBED, f"{faults[0]}: {about[0].sentence}"


def judge_right(findings: Sequence[Finding]) -> tuple[str, str]:
    """Return the verdict on the findings about a right model, and why."""
    if not findings:
        return CLEAN, ""
    return ACCUSED, "; ".join(f"{finding.relation}: {finding.sentence}" for finding in findings)


def fault_again(finding: CheckFinding, directory: Path, fixed: Path) -> str:
    """Do a finding again, and its test with the model as it is and fixed; return what is wrong, "" for nothing."""
    if not finding.replay():
        return "replay() does not show it"
    with tempfile.TemporaryDirectory(dir=fixed.parent) as place:
        finding.to_pytest(place)
        for model, wanted in ((directory, 1), (fixed, 0)):
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", place],
                cwd=ROOT,
                capture_output=True,
                text=True,
                env={**os.environ, "TRITONLAB_MODEL": str(model)},
            )
            if done.returncode != wanted:
                how = "passes with the model as it is" if wanted else "fails with the fixed model"
                return f"its test {how}: {error_of(done.stdout)}"
    return ""


def check_here(
    directory: Path,
    name: str,
    needs: Sequence[str],
    arguments: Mapping[str, Any],
    *,
    fixed: str = "",
    whole: bool = False,
) -> dict[str, Any]:
    """Check one model in this process and return what was found, and how much was tried. A planted bug need not be
    looked for any more when it was found, unless `whole`. `fixed`: the directory of the fixed model, with which the
    first finding of its relation is done again."""
    server = Server(directory, model_control_mode="explicit")
    try:
        for needed in needs:
            server.load(needed)
        model, bug = server.load(name), next((bug for bug in WRONG if bug.name == name), None)
        ends = bug is not None and not whole
        result = model.check(**arguments, progress=(lambda doing: not doing.findings) if ends else None)
        if (
            bug is not None
            and ends
            and result.findings
            and judge_bug(bug, [Finding.from_check(one) for one in every(result)])[0] != FOUND
        ):
            result = model.check(**arguments)  # it may have two things to say
        judged = next((one for one in every(result) if bug is not None and one.relation in bug.relations), None)
        again = fault_again(judged, directory / name, Path(fixed)) if fixed and judged is not None else ""
        findings = [
            asdict(Finding.from_check(one, again if one is judged else "", one in result.findings))
            for one in every(result)
        ]
        return {
            "findings": findings,
            "sent": result.requests,
            "cut": [one.relation for one in result.tried if one.cut],
            "spent": result.seconds,
        }
    finally:
        server.stop(timeout=5)


def in_a_process(
    directory: Path,
    entry: PlantedBug | RightModel,
    seconds: float,
    seed: int,
    *,
    fixed: Path | None = None,
    whole: bool = False,
) -> Row:
    """Check one model in a process of its own and judge what it found, also when it is done again if there is a fixed
    one."""
    needs = entry.needs if isinstance(entry, RightModel) else ()
    task = json.dumps(
        {
            "directory": str(directory),
            "name": entry.name,
            "needs": needs,
            "arguments": {"seconds": seconds, "seed": seed, **entry.options},
            "fixed": str(fixed or ""),
            "whole": whole,
        }
    )
    times = 2 if isinstance(entry, PlantedBug) else 1
    start, longest = time.monotonic(), times * seconds + GRACE + AGAIN * (fixed is not None)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.tools.check.exam", "--one", task],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=longest,
            env={**os.environ, "TMPDIR": str(directory.parent)},  # where models leave sockets and files
        )
        failure = "" if done.returncode == 0 else error_of(done.stderr)
        found = {} if failure else json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        failure, found = f"it goes on after {longest:.0f} s", {}
    relation = entry.relation if isinstance(entry, PlantedBug) else ""
    findings = [Finding(**finding) for finding in found.get("findings", ())]
    row = Row(entry.name, seed, FAILED, time.monotonic() - start, relation, failure, findings)
    row.sent, row.cut, row.spent = found.get("sent", 0), found.get("cut", []), found.get("spent", 0.0)
    if not failure and isinstance(entry, PlantedBug):
        row.verdict, row.why = judge_bug(entry, findings)
    elif not failure:
        row.verdict, row.why = judge_right(findings)
    for block in Path("/dev/shm").glob(f"{LEFT_BLOCKS}*"):
        block.unlink(missing_ok=True)
    return row


def error_of(text: str) -> str:
    """Return the line of a traceback that has the exception; its text may go on after it."""
    lines = text.strip().splitlines() or ["no error text"]
    return next((line for line in reversed(lines) if _EXCEPTION.match(line)), lines[-1])


def one(task: str) -> int:
    """Do the check of one model that `in_a_process` starts, and print what was found as the last line."""
    spec = json.loads(task)
    arguments = spec["arguments"]
    example = {entry.name: entry.example for entry in (*WRONG, *RIGHT)}.get(spec["name"])  # it has bytes, JSON has none
    if example is not None:
        arguments["example"] = example
    with contextlib.redirect_stdout(sys.stderr):
        found = check_here(
            Path(spec["directory"]), spec["name"], spec["needs"], arguments, fixed=spec["fixed"], whole=spec["whole"]
        )
    print(json.dumps(found))
    return 0


def notebook_models(target: Path) -> list[RightModel]:
    """Export the models of the notebooks into a model repository and return them: they are right as well."""
    from tests.conformance.test_examples import export_models  # heavy, and no child needs it

    export_models(target)
    names = sorted(path.name for path in target.iterdir())
    found = []
    for name in names:
        text = "".join(file.read_text() for file in (target / name).rglob("*") if file.suffix in (".py", ".pbtxt"))
        needs = tuple(other for other in names if other != name and f'"{other}"' in text)
        found.append(RightModel(name, needs=needs, options={"side_effects": True}))
    return found


def check_all(
    entries: Iterable[tuple[Path, PlantedBug | RightModel, int]],
    seconds: float,
    width: int,
    *,
    fixed: Mapping[str, Path] | None = None,
    log: Path | None = None,
    whole: bool = False,
) -> Iterator[Row]:
    """Check the models one after the other, print a row for each check, and yield it. `fixed`: the directories of
    fixed models, by name. `log`: the file with rows of an earlier exam, to which those of this one are added."""
    known = {(row.model, row.seed): row for row in read_log(log)}
    for directory, entry, seed in entries:
        row = known.get((entry.name, seed))
        if row is None:
            fixed_one = (fixed or {}).get(entry.name)
            row = in_a_process(directory, entry, seconds, seed, fixed=fixed_one, whole=whole)
            if log is not None:
                with log.open("a") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
        print(
            f"{row.model:{width}} {row.relation:10} {row.seed:4} {row.spent:6.1f} s {row.sent:6} requests "
            f"{sum(one.counts for one in row.findings)} findings"
            f"{f', {len(row.cut)} cut' if row.cut else '':7}  {row.verdict:12} {row.why}",
            flush=True,
        )
        yield row


def read_log(log: Path | None) -> list[Row]:
    """Return the rows of a file of JSON lines; none if it is not there."""
    if log is None or not log.exists():
        return []
    rows = [Row(**json.loads(line)) for line in log.read_text().splitlines()]
    for row in rows:
        row.findings = [Finding(**finding) for finding in row.findings]  # type: ignore[arg-type]
    return rows


def summary(rows: Sequence[Row]) -> str:
    """Return the counts of all verdicts in one line."""
    counts = {
        verdict: sum(row.verdict == verdict for row in rows) for verdict in dict.fromkeys(r.verdict for r in rows)
    }
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "nothing was checked"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the exam. Return 0 if all was found and nobody accused."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.check.exam", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each check may take")
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds each right model is checked with")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them")
    parser.add_argument("--wrong-seeds", type=int, default=1, help="how many seeds each planted bug is looked for with")
    parser.add_argument("--only", nargs="+", default=(), help="names of models")
    parser.add_argument("--right", action="store_true", help="only the right models")
    parser.add_argument("--whole", action="store_true", help="go on when a bug is found, and look for false causes")
    parser.add_argument("--notebooks", action="store_true", help="check the models of the notebooks too")
    parser.add_argument("--again", action="store_true", help="only bugs that can be fixed: their findings again, too")
    parser.add_argument("--log", type=Path, help="add the rows to this file, and check no more what it has")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.one:
        return one(options.one)
    known = {entry.name for entry in (*WRONG, *RIGHT)}
    if not options.notebooks and (unknown := set(options.only) - known):
        parser.error(f"the corpus has no {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as scratch:
        wrong, right = (
            Path(shutil.copytree(models, Path(scratch) / models.name, ignore=shutil.ignore_patterns("__pycache__")))
            for models in (WRONG_MODELS, RIGHT_MODELS)
        )
        tasks: list[tuple[Path, PlantedBug | RightModel, int]] = [
            (wrong, bug, seed) for bug in WRONG for seed in range(0 if options.right else options.wrong_seeds)
        ]
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        tasks += [(right, model, seed) for seed in seeds for model in RIGHT]
        if options.notebooks:
            place = Path(scratch) / "notebooks"
            found = notebook_models(place)
            tasks += [(place, model, seed) for seed in seeds for model in found]
        tasks = [task for task in tasks if not options.only or task[1].name in options.only]
        fixed: dict[str, Path] = {}
        if options.again:
            tasks = [task for task in tasks if task[1].name in FIXED]
            fixed = {task[1].name: Path(scratch) / "fixed" / task[1].name for task in tasks}
            for name in fixed:
                write_fixed(name, wrong, Path(scratch) / "fixed")
        width = max((len(entry.name) for _, entry, _ in tasks), default=0)
        rows = list(check_all(tasks, options.seconds, width, fixed=fixed, log=options.log, whole=options.whole))
    print(f"{summary(rows)}; the longest check took {max((row.spent for row in rows), default=0.0):.1f} s")
    return 0 if rows and all(row.verdict in PASSES for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
