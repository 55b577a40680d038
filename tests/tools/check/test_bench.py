"""The time of a check, and the requests that are company for others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.tools.check.bench import Bench, Known, Stopped
from tritonlab.tools.check.generated import Generator, RequestShape
from tritonlab.tools.check.noise import AnswerNoise
from tritonlab.tools.check.relations.company import _are_mixed_up, _batches
from tritonlab.tools.check.sample import ModelAnswer, Sample

CONFIG = parse_pbtxt(
    """
    max_batch_size: 4
    input [{ name: "X" data_type: TYPE_FP32 dims: [-1] }]
    output [{ name: "Y" data_type: TYPE_FP32 dims: [-1] }]
    """,
    "config.pbtxt",
)

RAGGED = 'max_batch_size: 4 input [{ name: "X" data_type: TYPE_FP32 dims: [-1] }]'


#: Answers requests.
Send = Callable[[Sequence[InferenceRequest]], list[ModelAnswer]]


def bench_at(clock: list[float], send: Send = lambda requests: [], **more: Any) -> Bench:
    scratch: Any = SimpleNamespace(name="m", config=CONFIG, ask=send)
    random = np.random.default_rng(0)
    return Bench(scratch, Generator(RequestShape(CONFIG), random, {}), [], random, clock=lambda: clock[0], **more)


def known(value: Sequence[float], words: str = "", error: str = "") -> Known:
    array = np.float32([value])
    answer = ModelAnswer(({"Y": Tensor.from_numpy(array)},) if not error else (), error=error)
    return Known(Sample({"X": Tensor.from_numpy(array)}), answer, words)


def test_no_relation_has_more_time_than_the_check() -> None:
    clock = [0.0]
    bench = bench_at(clock)
    bench.end = 60.0
    bench.limit(10)
    clock[0] = 50.0
    bench.need(20)
    assert bench.left == 10
    bench.limit(30)
    assert bench.left == 10


def test_edge_values_that_are_answered_are_company_but_for_extremes() -> None:
    bench = bench_at([0.0])
    bench.edges = [known([1], "X is NaN"), known([2], "X is the largest number"), known([3], "X is -1", error="no")]
    bench.long = [known([1] * 17, "dimensions of any size are 17")]
    assert [one.words for one in bench.mixed_company()] == ["X is NaN", "dimensions of any size are 17"]
    bench.noise.values["Y"] = 0.1
    assert bench.mixed_company() == []


@pytest.mark.parametrize("is_clocked", [True, False])
def test_an_answer_that_depends_on_the_time_is_noise(is_clocked: bool) -> None:
    """A count of whole seconds is the same in all new processes, until it is asked somewhat later."""
    clock = [0.0]
    sample = known([1]).sample

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    def send(requests: Sequence[InferenceRequest]) -> list[ModelAnswer]:
        seconds = np.int64([[clock[0] - since[0]]])
        return [ModelAnswer(({"Y": requests[0].inputs["X"], "UPTIME": Tensor.from_numpy(seconds)},))]

    since = [0.0]
    bench = bench_at(clock, send, is_clocked=is_clocked, sleep=sleep)
    bench.scratch.fresh = lambda: since.__setitem__(0, clock[0])  # type: ignore[method-assign]
    assert bench.depends_on_time(sample) == is_clocked
    assert bench.noise.free == ({"UPTIME"} if is_clocked else set())
    assert not bench.depends_on_time(sample), "it is noise by now"


def test_new_processes_that_answer_otherwise_than_earlier_ones_are_noise() -> None:
    answers = [known([1]).answer, known([0], error="out of time").answer, known([2]).answer]
    bench = bench_at([0.0], lambda requests: [answers.pop(0)])
    bench.scratch.fresh = lambda: None  # type: ignore[method-assign]
    for is_silent in (True, True, False):
        bench.fresh_answer(known([1]).sample)
        assert bench.noise.is_silent == is_silent and not bench.noise.fails


@pytest.mark.parametrize(("error", "count"), [("", 3), ("too long", 0)])
def test_many_elements_are_tried(error: str, count: int) -> None:
    bench = bench_at([0.0], lambda requests: [ModelAnswer(error=error)])
    bench._sweep_sizes()
    assert (len(bench.long), len(bench.refused), len(bench.edges)) == (count, 3 - count, 3 - count)


def test_a_model_that_refuses_some_sizes_may_refuse_long_ones() -> None:
    bench = bench_at([0.0], lambda requests: [ModelAnswer(error="cannot reshape")])
    bench.refused = [known([1, 2, 3], error="cannot reshape")]
    bench._sweep_sizes()
    assert bench.edges == []


@pytest.mark.parametrize("is_ragged", [True, False])
def test_ragged_inputs_of_all_lengths_are_in_one_batch(is_ragged: bool) -> None:
    text = "allow_ragged_batch: true dims" if is_ragged else "dims"
    bench: Any = SimpleNamespace(
        pool=[known([1] * size) for size in (4, 4, 8, 2)],
        long=[known([1] * 17)],
        shape=RequestShape(parse_pbtxt(RAGGED.replace("dims", text), "config.pbtxt")),
        mixed_company=list,
        random=np.random.default_rng(0),
    )
    lengths = [[one.sample.size[0] for one in batch] for batch in _batches(bench)]
    mixed = [[2, 4, 8, 17], [17, 8, 4, 2], [8, 17, 8]]
    assert all((batch in lengths) == is_ragged for batch in mixed)


@pytest.mark.parametrize(("values", "mixed_up"), [([[0], [1]], False), ([[0, 1, 2, 3], [4, 5, 6, 7]], True)])
def test_answers_are_mixed_up_if_that_is_no_chance(values: list[list[float]], mixed_up: bool) -> None:
    pool = [known(value) for value in values]
    bench: Any = SimpleNamespace(
        pool=pool,
        noise=AnswerNoise(),
        shape=RequestShape(CONFIG),
        together=lambda samples: [one.answer for one in reversed(pool)],
    )
    # two answers of one value each are equal by chance where there are few values
    assert _are_mixed_up(bench) == mixed_up


def test_a_longer_time_limit_ends_with_its_request() -> None:
    def stop() -> None:
        raise Stopped

    bench = bench_at([0.0], poll=stop)
    bench.scratch.timeout = 5.0
    with pytest.raises(Stopped):
        bench.retry(known([1]).sample, ModelAnswer())
    assert bench.scratch.timeout == 5.0
