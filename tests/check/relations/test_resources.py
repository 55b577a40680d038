"""The load under which what a model holds is measured."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tritonlab.check.bench import Known
from tritonlab.check.case import Case
from tritonlab.check.growth import KINDS, Slope
from tritonlab.check.probe import TracedLine
from tritonlab.check.relations import resources
from tritonlab.check.relations.resources import (
    Broken,
    GrownUse,
    Measured,
    RepeatedLoad,
    _bytes,
    _failing,
    _grown,
    _judged,
    _line,
    _still_grown,
)
from tritonlab.check.sample import ModelAnswer, Sample
from tritonlab.core.inference.tensor import Tensor


def test_a_replay_of_errors_asks_with_one_of_them_when_nothing_else_is_known() -> None:
    refused, answered = (Sample({"X": Tensor.from_numpy(np.float32([value]))}) for value in (1, 2))
    bench: Any = SimpleNamespace(pool=[], refused=[Known(refused, ModelAnswer(error="no"))])
    assert RepeatedLoad(bench, "refused", refused).plain is refused
    bench.pool = [Known(answered, ModelAnswer())]
    assert RepeatedLoad(bench, "refused", refused).plain is answered


@pytest.mark.parametrize("answers_again", [True, False])
def test_a_model_that_refuses_for_a_while_is_no_finding(monkeypatch: pytest.MonkeyPatch, answers_again: bool) -> None:
    monkeypatch.setattr(resources, "_PAUSE", 0)
    sample, refused = Sample({}), ModelAnswer(error="too many requests")
    bench: Any = SimpleNamespace(
        need=lambda seconds: None, alone=lambda one: ModelAnswer() if answers_again else refused, notes=[],
        shape=SimpleNamespace(rows=lambda one: 1, most_rows=8),
    )
    load: Any = SimpleNamespace(sent=200, is_varied=lambda one: False)
    found = _failing(bench, Case("resources", "answered", (sample,)), load, Broken(sample, refused))
    assert (found is None) == answers_again
    assert bench.notes == (
        ["After 200 requests the model refuses more for a while: too many requests."] * answers_again
    )


@pytest.mark.parametrize(
    ("amount", "text"),
    [(163, "160 bytes"), (160_063, "160 kB"), (32_421, "32 kB"), (1_640_000, "1.6 MB"), (3.2, "3.2 bytes")],
)
def test_bytes_have_two_digits(amount: float, text: str) -> None:
    assert _bytes(amount) == text


@pytest.mark.parametrize(
    ("grows_by", "is_full", "found"),
    [("any", False, "Each request leaves"), ("new", False, "Each request of new values leaves"), ("new", True, None)],
)
def test_a_cache_is_full_or_leaves_something_for_new_values_only(
    monkeypatch: pytest.MonkeyPatch, grows_by: str, is_full: bool, found: str | None
) -> None:
    def measured(load: RepeatedLoad, seconds: float, until: int = 0) -> Measured:
        requests = np.arange(16) * 100.0
        grows = (load.values != "known" or grows_by == "any") and not (is_full and load.values == "new")
        held = [dict.fromkeys(KINDS, 0.0) | {"memory": each * 500 * grows} for each in requests]
        return Measured(list(requests), held)

    monkeypatch.setattr(resources, "_measured", measured)
    sample = Sample({"X": Tensor.from_numpy(np.float32([1]))})
    bench: Any = SimpleNamespace(
        pool=[Known(sample, ModelAnswer())],
        refused=[],
        need=lambda seconds: None,
        left=60.0,
        scratch=SimpleNamespace(probe=None),
    )
    case = Case("resources", "answered", (sample,), facts={"seconds": 1})
    judgement = _judged(bench, case, True)
    assert (judgement.sentence[: len(found)] if judgement and found else judgement) == found
    assert judgement is None or ("as in a cache" in judgement.sentence) == (grows_by == "new")
    bench.left = 7.0
    judgement = _judged(bench, case, True)
    assert judgement is not None and judgement.sentence.startswith("Each request leaves"), "no time to try it"


@pytest.mark.parametrize(("kind", "slopes", "is_kept"), [("objects", (0.5, 0.24), False), ("memory", (500, 240), True)])
def test_objects_that_become_fewer_are_no_leak(kind: str, slopes: tuple[float, float], is_kept: bool) -> None:
    first, again = (GrownUse(Slope(one, one, one), [], []) for one in slopes)
    assert (kind in _still_grown({kind: first}, {kind: again})) == is_kept


@pytest.mark.parametrize(("count", "is_found"), [(855, False), (3000, True)])
def test_a_few_objects_may_be_a_small_cache(count: int, is_found: bool) -> None:
    requests = list(np.linspace(0, count, 16))
    held = [dict.fromkeys(KINDS, 0.0) | {"objects": 0.68 * each} for each in requests]
    assert ("objects" in _grown(Measured(requests, held), tuple(KINDS))) == is_found


def test_the_line_is_waited_for_while_traces_are_compared() -> None:
    """It is in the answer to a request which takes longer than any other."""
    timeouts: list[float] = []
    line = TracedLine("model.py", 3, "", 100.0)

    def grown(ask: Callable[[], object], requests: int) -> TracedLine:
        timeouts.append(scratch.timeout)
        return line

    probe = SimpleNamespace(trace=lambda ask: None, mark=lambda ask: None, grown=grown)
    scratch = SimpleNamespace(probe=probe, timeout=2.0)
    bench: Any = SimpleNamespace(
        scratch=scratch, say=lambda text: None, need=lambda seconds: None, renew=lambda: None, alone=lambda one: None
    )
    load: Any = SimpleNamespace(send=lambda count: None, plain=Sample({}))
    assert _line(bench, load) is line
    assert (timeouts, scratch.timeout) == ([10.0], 2.0)
