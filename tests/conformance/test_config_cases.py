"""The configurations of `cases_config.py` and `cases_ensemble.py`, each loaded on both sides."""

from __future__ import annotations

import contextlib
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from . import cases_config as cases
from .cases_config import ConfigCase
from .cases_ensemble import ENSEMBLE_CASES
from .clients import Client, Failure, Files
from .real_client import RealClient
from .reference import ReferenceServer
from .rules import rule

SOURCE = "class TritonPythonModel:\n    def execute(self, requests):\n        pass\n"

LOADED = [
    *cases.FILE_CASES,
    *cases.UNREADABLE_CASES,
    *cases.DYNAMIC_CASES,
    *cases.SEQUENCE_CASES,
    *cases.FINAL_CASES,
    *cases.NO_GPU_CASES,
    *cases.COMPLETION_CASES,
    *cases.UNUSABLE_COMPLETION_CASES,
    *ENSEMBLE_CASES,
]
UNUSABLE = {case.id for case in cases.UNUSABLE_COMPLETION_CASES}


class Loaded(NamedTuple):
    """The result of a load of a case, and the config that was then served; or the error of the client itself."""

    failure: Failure | None
    config: dict[str, object]
    raised: Exception | None = None


def name_of(case: ConfigCase) -> str:
    return f"case_{case.id}"


def files_of(case: ConfigCase) -> Files:
    source = SOURCE
    if case.completion:
        source += "\n    @staticmethod\n    def auto_complete_config(config):\n        d = config.as_dict()\n"
        source += textwrap.indent(case.completion, " " * 8) + "\n        return config\n"
    return {"1/model.py": source, **({} if case.config is None else {"config.pbtxt": case.config})}


def load(side: Client, case: ConfigCase, override: bool) -> Loaded:
    name = name_of(case)
    if override:
        side.place(name, {"1/model.py": SOURCE})
        failure = side.load(name, case.config)
    else:
        failure = side.placed(name, files_of(case))
    served = side.config(name) if failure is None else {}
    side.unload(name)
    assert not isinstance(served, Failure)
    return Loaded(failure, dict(served))


def attempt(side: Client, case: ConfigCase, override: bool) -> Loaded:
    """Load one case. An error of the client becomes its result, so that the other cases are loaded, too."""
    try:
        return load(side, case, override)
    except Exception as error:
        return Loaded(None, {}, error)


def patiently(side: Client, case: ConfigCase) -> Loaded:
    """Load a case that crashes Triton now and then until it does not."""
    for _ in range(5):
        found = attempt(side, case, override=False)
        if not (isinstance(side, RealClient) and side.revive()):
            break
    return found


@pytest.fixture(scope="session")
def outcomes() -> dict[str, dict[str, Loaded]]:
    """Return the results by side, then by case; the first test that needs them loads many at a time (rule 2.2.2)."""
    return {}


def outcome(outcomes: dict[str, dict[str, Loaded]], side: Client, case: ConfigCase) -> Loaded:
    if side.side not in outcomes:
        outcomes[side.side] = all_outcomes(side)
        if isinstance(side, RealClient) and side.revive():
            outcomes[side.side] = all_outcomes(side)
    found = outcomes[side.side][case.id]
    if found.raised is not None:
        raise found.raised
    return found


def all_outcomes(side: Client) -> dict[str, Loaded]:
    refused = [c for c in LOADED if "5.6.11" in c.rules]
    others = [c for c in LOADED if "5.6.11" not in c.rules]
    with apart(side) as lone, ThreadPoolExecutor(1) as one, ThreadPoolExecutor(5) as pool:
        found = [
            (refused, one.map(lambda c: patiently(lone, c), refused)),
            (others, pool.map(lambda c: attempt(side, c, override=False), others)),
            (cases.OVERRIDE_CASES, pool.map(lambda c: attempt(side, c, override=True), cases.OVERRIDE_CASES)),
        ]
        return {case.id: loaded for chosen, outcomes in found for case, loaded in zip(chosen, outcomes, strict=True)}


@contextlib.contextmanager
def apart(side: Client) -> Iterator[Client]:
    """Yield a server for the cases whose refusal of an initial state (rule 5.6.11) crashes Triton now and then while
    it loads other models."""
    if not isinstance(side, RealClient):
        yield side
        return
    folder = side.repository.with_name("apart")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "models").mkdir(parents=True)
    with ReferenceServer(folder / "models", folder) as server:
        client = RealClient(server)
        yield client
        client.close()


def parameters(chosen: Iterable[ConfigCase]) -> list[object]:
    return [pytest.param(case, marks=rule(*case.rules), id=case.id) for case in chosen]


def check(case: ConfigCase, failure: Failure | None) -> None:
    name = name_of(case)
    text = case.text.replace("{m}", name)
    if case.outcome == cases.OK:
        assert failure is None
        return
    assert failure is not None
    if case.outcome == cases.POLL:
        message = f"failed to load '{name}', failed to poll from model repository"
        assert (failure.code, failure.text) == ("INTERNAL", message)
        # Beyond the text ours says where a text cannot be parsed, and an override's end is protobuf's own.
        assert failure.reason.startswith(text)
        return
    code = "Not found" if case.id in UNUSABLE else "Invalid argument"
    middle = f"version 1 is at UNAVAILABLE state: {code}: {text};" if case.outcome == cases.FINAL else text
    assert (failure.code, failure.text) == ("INVALID_ARG", f"load failed for model '{name}': {middle}\n")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", parameters([*LOADED, *cases.OVERRIDE_CASES]))
def test_a_configuration_is_taken_or_refused_in_the_same_words(
    side: Client, outcomes: dict[str, dict[str, Loaded]], case: ConfigCase
) -> None:
    check(case, outcome(outcomes, side, case).failure)


@rule("5.2.1", "5.1.3", "5.1.4")
@pytest.mark.parametrize("case", parameters(c for c in [*LOADED, *cases.OVERRIDE_CASES] if c.outcome == cases.OK))
def test_a_configuration_that_is_taken_is_served_as_the_same_document(
    real: Client, lab: Client, outcomes: dict[str, dict[str, Loaded]], case: ConfigCase
) -> None:
    theirs, ours = (outcome(outcomes, side, case).config for side in (real, lab))
    assert ours == theirs
    assert list(ours) == list(theirs)
