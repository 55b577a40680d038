"""The load under which what a model holds is measured."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tritonlab.check.bench import Known, OutOfTime
from tritonlab.check.case import Case
from tritonlab.check.growth import KINDS
from tritonlab.check.relations import resources
from tritonlab.check.relations.resources import Broken, Measured, RepeatedLoad, _bytes, _failing, judge, search
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


SAMPLE = Sample({})
CASE = Case("resources", "answered", (SAMPLE,), facts={"seconds": 1.0})


def measured(points: int, per_request: float) -> Measured:
    requests = [16.0 * number for number in range(points)]
    return Measured(requests, [dict.fromkeys(KINDS, 0.0) | {"memory": 1e6 + per_request * sent} for sent in requests])


def bench_of(monkeypatch: pytest.MonkeyPatch, *measurements: Measured) -> Any:
    """Return a bench whose measurements have these results, one after the other, and then have no more time."""
    left = iter(measurements)
    monkeypatch.setattr(resources, "_measured", lambda *arguments, **options: next(left, measured(3, 0)))
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
    bench.scratch.probe, bench.renew, bench.renew_after_time = SimpleNamespace(), has_no_time, lambda: None
    found = judge(bench, CASE, True)
    assert found is not None and found.place is None and "64 kB of memory" in found.sentence


def test_a_measurement_that_was_cut_short_is_not_one_without_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [*search(bench_of(monkeypatch, EVEN, EVEN, EVEN, EVEN))] == []
    for cut in ([EVEN, measured(7, 64_000)], [measured(3, 0), measured(7, 0), EVEN, EVEN], [EVEN, EVEN, EVEN]):
        with pytest.raises(OutOfTime):
            list(search(bench_of(monkeypatch, *cut)))
