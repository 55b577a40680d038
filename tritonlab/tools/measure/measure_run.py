"""`tritonlab load-test`, `profile`, `tune` and `golden record`: the models of a repository, without a notebook.

Each prints what the call of a notebook shows, or its `to_dict()` as JSON, and can write JUnit's XML. Exit statuses: 0,
1 if something failed or became worse, 2 if a model could not be measured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...core.junit import JUnitTest, junit_xml
from ...core.plain_facts import plain
from ...core.whole_file import write_file
from ...exchanges.golden import GoldenSet, golden_beside
from ...exchanges.sending import asks_of
from ...record.line_profile import LineProfile
from ...record.line_profiling import profile_lines
from ...repository.layout import chosen_models
from ...server.api.model import Model
from ...server.api.request_maker import smallest_shapes
from ...server.api.server import Server
from ..each_model import FAILED, NOTHING, PASSED, judge_each
from ..saved_result import ResultComparison
from .load_testing.load_plan import LoadPlan
from .load_testing.load_result import LoadResult
from .load_testing.load_run import run_load_test
from .load_testing.load_target import LocalTarget
from .load_testing.request_mix import Lane
from .tuning.tune import tune_model
from .tuning.tune_result import TuneResult


def load_test(
    repository: Path,
    models: Sequence[str] = (),
    *,
    baseline: Path | None = None,
    save: Path | None = None,
    tolerance: float = 0.1,
    junit: Path | None = None,
    as_json: bool = False,
    **options: Any,
) -> int:
    """Load-test models of a repository, all of them if `models` is empty, and return the exit status.

    `options`: the ones of `Model.load_test`. `save`, `baseline`: directories with a file for each model, to which
    results go and with which they are compared; a number that is worse by more than the share `tolerance` fails.
    """
    compared: dict[str, ResultComparison] = {}

    def measure(server: Server, model: Model) -> LoadResult:
        found = _load(model, {"shapes": smallest_shapes(model.config()), **options})
        if baseline is not None:
            compared[model.name] = found.compare(baseline / f"{model.name}.json", tolerance)
            if not as_json:
                print(compared[model.name].text(), flush=True)
        if save is not None:
            save.mkdir(parents=True, exist_ok=True)
            found.save(save / f"{model.name}.json")
        return found

    def tests(name: str, result: LoadResult) -> Iterator[JUnitTest]:
        for row in result.rows:
            failure = "\n".join(f"{count} failed: {text}" for text, count in row.errors.items())
            if row.unanswered:
                failure += f"\n{row.unanswered} were not answered"
            yield JUnitTest(f"{result.mode} {row.level:g}", row.seconds, failure.strip())
        if name in compared:
            yield JUnitTest("baseline", failure="" if compared[name].ok else compared[name].text())
        if not result.rows:
            yield JUnitTest("load test", error=result.text())

    def facts(result: LoadResult) -> dict[str, Any]:
        found = compared.get(result.model)
        return result.to_dict() | ({"compared": found.to_dict()} if found is not None else {})

    return _run(repository, models, measure, tests, facts, junit=junit, as_json=as_json)


def profile(
    repository: Path,
    models: Sequence[str] = (),
    *,
    seconds: float = 3.0,
    memory: bool = False,
    junit: Path | None = None,
    as_json: bool = False,
    **options: Any,
) -> int:
    """Profile the lines of models of a repository under load and return the exit status. `options`: the ones of
    `Model.load_test`."""

    def measure(server: Server, model: Model) -> LineProfile:
        load = {"shapes": smallest_shapes(model.config()), "seconds": seconds, "warmup": 0.0, **options}
        # raises the error of a request that the model refuses; the load would only count it
        for _ in model.infer(_requests(model, load)):
            pass
        return profile_lines(model, server.instruments, meanwhile=partial(_load, model, load), memory=memory)

    def tests(name: str, result: LineProfile) -> Iterator[JUnitTest]:
        yield JUnitTest("profile", seconds, error="" if result.count else "no execution was seen")

    def facts(result: LineProfile) -> dict[str, Any]:
        found = result.to_dict()
        for line, one in zip(found["lines"], result.lines, strict=True):
            line["file"] = one.file
        return found

    return _run(repository, models, measure, tests, facts, junit=junit, as_json=as_json)


def tune(
    repository: Path,
    models: Sequence[str] = (),
    *,
    junit: Path | None = None,
    as_json: bool = False,
    **options: Any,
) -> int:
    """Tune models of a repository and return the exit status; the files of the repository stay as they are. `options`:
    the ones of `Model.tune`. A limit of the p99 that no settings keep fails."""

    def measure(server: Server, model: Model) -> TuneResult:
        return tune_model(model, **{"shapes": smallest_shapes(model.config()), **options})

    def tests(name: str, result: TuneResult) -> Iterator[JUnitTest]:
        limit, best = result.p99_ms, result.best
        if best is None:
            yield JUnitTest("tune", result.run.seconds, error=result.text())
            return
        p99 = best.numbers.p99 / 1e6
        text = f"the best p99 is {p99:.3g} ms, and {limit:g} ms were asked for" if limit and p99 > limit else ""
        yield JUnitTest("tune", result.run.seconds, failure=text)

    return _run(repository, models, measure, tests, TuneResult.to_dict, junit=junit, as_json=as_json)


def golden(
    action: str,
    repository: Path,
    models: Sequence[str] = (),
    *,
    count: int = 3,
    seed: int = 0,
    junit: Path | None = None,
    as_json: bool = False,
) -> int:
    """Record golden cases of models beside their repository, where `tritonlab test` finds them, and return the exit
    status.

    Models that have cases already get the present answers to the same requests; the others `count` requests of random
    values.
    """
    assert action == "record"

    def measure(server: Server, model: Model) -> _Recorded:
        kept = GoldenSet(golden_beside(repository), asks_of(server))
        if kept.cases(model.name):
            return _Recorded(model.name, kept.update(model=model.name), is_new=False)
        ask, files = asks_of(server), []
        mix = LoadPlan.from_options({"shapes": smallest_shapes(model.config()), "seed": seed}, model.name)
        requests = mix.requests(LocalTarget(model).inputs, model.version)
        for _ in range(count):
            files.append(kept.add(ask(requests.request(Lane(0)))))
        return _Recorded(model.name, files, is_new=True)

    def tests(name: str, result: _Recorded) -> Iterator[JUnitTest]:
        yield from (JUnitTest(file.stem) for file in result.files)

    return _run(repository, models, measure, tests, _Recorded.to_dict, junit=junit, as_json=as_json)


class _Recorded:
    """The files that were written for one model."""

    def __init__(self, model: str, files: Sequence[Path], is_new: bool) -> None:
        self.model = model
        self.files = list(files)
        self.is_new = is_new

    def text(self) -> str:
        where = f" in {self.files[0].parent}" if self.files else ""
        return f"{self.model}: {len(self.files)} answers {'recorded' if self.is_new else 'changed'}{where}"

    def to_dict(self) -> dict[str, Any]:
        return {"model": self.model, "is_new": self.is_new, "files": list(map(str, self.files))}


def _load(model: Model, options: dict[str, Any]) -> LoadResult:
    result = run_load_test(model.name, model.version, target=LocalTarget(model), options=options)
    assert isinstance(result, LoadResult)
    return result


def _requests(model: Model, options: dict[str, Any]) -> Any:
    plan = LoadPlan.from_options(options, model.name)
    return plan.requests(LocalTarget(model).inputs, model.version).request(Lane(0))


def _run(
    repository: Path,
    models: Sequence[str],
    measure: Callable[[Server, Model], Any],
    tests: Callable[[str, Any], Iterator[JUnitTest]],
    facts: Callable[[Any], dict[str, Any]],
    *,
    junit: Path | None,
    as_json: bool,
) -> int:
    """Measure each model by itself, print and write the results, and return the exit status."""
    try:
        chosen = chosen_models(repository, models)
    except FileNotFoundError as error:
        print(f"tritonlab: {error}", file=sys.stderr)
        return NOTHING
    suites: list[tuple[str, list[JUnitTest]]] = []
    documents = []
    for name, result in judge_each(repository, chosen, measure):
        if isinstance(result, str):
            documents.append({"model": name, "error": result})
            suites.append((name, [JUnitTest("load", error=result)]))
            continue
        if not as_json:
            print(result.text(), flush=True)
        documents.append(facts(result))
        suites.append((name, list(tests(name, result))))
    if as_json:
        print(json.dumps(plain(documents), indent=1))
    if junit is not None:
        junit.parent.mkdir(parents=True, exist_ok=True)
        write_file(junit, junit_xml(suites))
    found = [test for _, each in suites for test in each]
    if any(test.error for test in found):
        return NOTHING
    return FAILED if any(test.failure for test in found) else PASSED
