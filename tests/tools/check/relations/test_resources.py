"""The load under which what a model holds is measured."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tritonlab.core.inference.tensor import Tensor
from tritonlab.tools.check.bench import Known, OutOfTime
from tritonlab.tools.check.case import Case
from tritonlab.tools.check.growth import KINDS, Slope
from tritonlab.tools.check.probe import TracedLine
from tritonlab.tools.check.relations import resources
from tritonlab.tools.check.relations.resources import (
    Broken,
    GrownUse,
    Measured,
    RepeatedLoad,
    _bytes,
    _find_growth,
    _judge,
    _judge_broken,
    _keep_growth,
    _line,
    judge,
    search,
)
from tritonlab.tools.check.sample import ModelAnswer, Sample


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
        need=lambda seconds: None,
        alone=lambda one: ModelAnswer() if answers_again else refused,
        notes=[],
        shape=SimpleNamespace(rows=lambda one: 1, most_rows=8),
    )
    load: Any = SimpleNamespace(sent=200, is_varied=lambda one: False)
    found = _judge_broken(bench, Case("resources", "answered", (sample,)), load, Broken(sample, refused))
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


SAMPLE = Sample({})
CASE = Case("resources", "answered", (SAMPLE,), facts={"seconds": 1.0})


def measured(points: int, per_request: float) -> Measured:
    requests = [16.0 * number for number in range(points)]
    return Measured(requests, [dict.fromkeys(KINDS, 0.0) | {"memory": 1e6 + per_request * sent} for sent in requests])


def bench_of(monkeypatch: pytest.MonkeyPatch, *measurements: Measured) -> Any:
    """Return a bench whose measurements have these results, one after the other, and then have no more time."""
    left = iter(measurements)
    monkeypatch.setattr(resources, "_measure_growth", lambda *arguments, **options: next(left, measured(3, 0)))
    scratch = SimpleNamespace(
        config=SimpleNamespace(HasField=lambda name: True), is_ensemble=False, start=lambda **options: None, probe=None
    )
    known = Known(SAMPLE, ModelAnswer())
    nothing: Any = lambda *arguments: None  # noqa: E731
    return SimpleNamespace(
        scratch=scratch, sequences=False, pool=[known], refused=[], deadline=10.0, left=10.0, say=nothing,
        limit=nothing, need=nothing,
    )  # fmt: skip


LEAK, EVEN = measured(16, 64_000), measured(16, 0)


@pytest.mark.parametrize("last", [LEAK, measured(4, 64_000)], ids=["whole", "out of time"])
def test_growth_that_was_seen_twice_is_not_refuted_by_want_of_time(
    monkeypatch: pytest.MonkeyPatch, last: Measured
) -> None:
    found = judge(bench_of(monkeypatch, EVEN, LEAK, last), CASE, True)
    assert found is not None and found.sentence.startswith("Each request leaves 64 kB of memory behind")
    assert judge(bench_of(monkeypatch, EVEN, LEAK, EVEN), CASE, True) is None


def test_growth_is_reported_without_its_line_where_there_is_no_time_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def has_no_time() -> None:
        raise OutOfTime

    bench = bench_of(monkeypatch, EVEN, LEAK, LEAK)
    bench.scratch.probe, bench.scratch.timeout = SimpleNamespace(), 2.0
    bench.renew, bench.renew_after_time = has_no_time, lambda: None
    found = judge(bench, CASE, True)
    assert found is not None and found.place is None and "64 kB of memory" in found.sentence


def test_a_measurement_that_was_cut_short_is_not_one_without_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [*search(bench_of(monkeypatch, EVEN, EVEN, EVEN, EVEN))] == []
    for cut in ([EVEN, measured(7, 64_000)], [measured(3, 0), measured(7, 0), EVEN, EVEN], [EVEN, EVEN, EVEN]):
        with pytest.raises(OutOfTime):
            list(search(bench_of(monkeypatch, *cut)))


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

    monkeypatch.setattr(resources, "_measure_growth", measured)
    sample = Sample({"X": Tensor.from_numpy(np.float32([1]))})
    bench: Any = SimpleNamespace(
        pool=[Known(sample, ModelAnswer())],
        refused=[],
        need=lambda seconds: None,
        left=60.0,
        scratch=SimpleNamespace(probe=None),
    )
    case = Case("resources", "answered", (sample,), facts={"seconds": 1})
    judgement = _judge(bench, case, True)
    assert (judgement.sentence[: len(found)] if judgement and found else judgement) == found
    assert judgement is None or ("as in a cache" in judgement.sentence) == (grows_by == "new")
    bench.left = 7.0
    judgement = _judge(bench, case, True)
    assert judgement is not None and judgement.sentence.startswith("Each request leaves"), "no time to try it"


@pytest.mark.parametrize(("kind", "slopes", "is_kept"), [("objects", (0.5, 0.24), False), ("memory", (500, 240), True)])
def test_objects_that_become_fewer_are_no_leak(kind: str, slopes: tuple[float, float], is_kept: bool) -> None:
    first, again = (GrownUse(Slope(one, one, one), [], []) for one in slopes)
    assert (kind in _keep_growth({kind: first}, {kind: again})) == is_kept


@pytest.mark.parametrize(("count", "is_found"), [(855, False), (3000, True)])
def test_a_few_objects_may_be_a_small_cache(count: int, is_found: bool) -> None:
    requests = list(np.linspace(0, count, 16))
    held = [dict.fromkeys(KINDS, 0.0) | {"objects": 0.68 * each} for each in requests]
    assert ("objects" in _find_growth(Measured(requests, held), tuple(KINDS))) == is_found


def test_the_line_is_waited_for_while_traces_are_compared() -> None:
    """It is in the answer to a request which takes longer than any other."""
    timeouts: list[float] = []
    line = TracedLine("model.py", 3, "", 100.0)

    def grown(send: Callable[[], object], requests: int) -> TracedLine:
        timeouts.append(scratch.timeout)
        return line

    probe = SimpleNamespace(do=lambda command, send: None, grown=grown)
    scratch = SimpleNamespace(probe=probe, timeout=2.0)
    bench: Any = SimpleNamespace(
        scratch=scratch,
        say=lambda text: None,
        need=lambda seconds: None,
        renew=lambda: None,
        renew_after_time=lambda: None,
        alone=lambda one: None,
    )
    load: Any = SimpleNamespace(send=lambda count: None, plain=Sample({}))
    assert _line(bench, load) is line
    assert (timeouts, scratch.timeout) == ([10.0], 2.0)
