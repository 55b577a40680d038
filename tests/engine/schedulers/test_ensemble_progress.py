"""The decisions of an ensemble, without requests: what runs when, and what the client gets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.ensembles import DECOUPLED, ensemble_text, graph, model_text, step
from tritonlab.core.inference.tensor import Tensor
from tritonlab.engine.schedulers.ensemble_progress import EnsembleProgress, EnsembleWork, Run

MODELS = {
    "echo": model_text(),
    "split": model_text(outputs="OUT OUT2"),
    "join": model_text("A B"),
    "choice": model_text("A? B?"),
    "stream": model_text(more=DECOUPLED),
}
CHAIN = ensemble_text(step("echo", "IN=X", "OUT=Z"), step("echo", "IN=Z", "OUT=Y"))
DIAMOND = ensemble_text(
    step("split", "IN=X", "OUT=P OUT2=Q"),
    step("echo", "IN=P", "OUT=V"),
    step("echo", "IN=Q", "OUT=W"),
    step("join", "A=V B=W", "OUT=Y"),
)
STREAM = ensemble_text(step("stream", "IN=X", "OUT=Z"), step("echo", "IN=Z", "OUT=Y"))


def value(number: float) -> Tensor:
    return Tensor.from_numpy(np.array([number], np.float32))


def numbers(tensors: dict[str, Tensor]) -> dict[str, float]:
    def first(array: NDArray[np.float32]) -> float:
        return float(array[0])

    return {name: first(tensor.numpy()) for name, tensor in tensors.items()}


def begin(text: str, requested: Sequence[str] = (), **inputs: float) -> tuple[EnsembleProgress, EnsembleWork]:
    progress = EnsembleProgress(graph(text, MODELS), requested)
    return progress, progress.start({name: value(number) for name, number in inputs.items()})


def answer(progress: EnsembleProgress, run: Run, final: bool = True, **outputs: float) -> EnsembleWork:
    return progress.responded(run, {name: value(number) for name, number in outputs.items()}, final)


def started(work: EnsembleWork) -> list[tuple[int, dict[str, float]]]:
    return [(run.step.number, numbers(run.inputs)) for run in work.runs]


def test_a_step_follows_what_it_reads() -> None:
    progress, work = begin(CHAIN, X=1)
    assert started(work) == [(0, {"IN": 1})]
    work = answer(progress, work.runs[0], OUT=2)
    assert (started(work), work.responses, work.final) == ([(1, {"IN": 2})], [], False)
    work = answer(progress, work.runs[0], OUT=3)
    assert (started(work), [numbers(r) for r in work.responses], work.final) == ([], [{"Y": 3}], True)


def test_independent_steps_run_at_the_same_time_and_are_waited_for() -> None:
    progress, work = begin(DIAMOND, X=1)
    work = answer(progress, work.runs[0], OUT=2, OUT2=3)
    assert started(work) == [(1, {"IN": 2}), (2, {"IN": 3})]
    first, second = work.runs
    assert started(answer(progress, second, OUT=5)) == []
    assert started(answer(progress, first, OUT=4)) == [(3, {"A": 4, "B": 5})]


def test_a_tensor_is_released_as_soon_as_nobody_will_read_it() -> None:
    progress, work = begin(DIAMOND, X=1)
    round_ = work.runs[0].round
    assert round_.tensors == {"X": None}
    work = answer(progress, work.runs[0], OUT=2, OUT2=3)
    assert round_.tensors == {"X": None, "P": None, "Q": None}
    answer(progress, work.runs[0], OUT=4)
    assert round_.tensors["V"] is not None  # step 3 waits for the other one


def test_only_what_is_wanted_is_run_and_answered() -> None:
    text = ensemble_text(
        step("split", "IN=X", "OUT=P OUT2=Q"),
        step("echo", "IN=P", "OUT=Y1"),
        step("echo", "IN=Q", "OUT=Y2"),
        outputs="Y1 Y2 Q",
    )
    progress, work = begin(text, ["Y2"], X=1)
    work = answer(progress, work.runs[0], OUT=2, OUT2=3)
    assert started(work) == [(2, {"IN": 3})]
    work = answer(progress, work.runs[0], OUT=4)
    assert [numbers(r) for r in work.responses] == [{"Y2": 4}]
    assert work.final


def test_an_output_that_was_not_produced_is_passed_on_as_missing() -> None:
    progress, work = begin(CHAIN, X=1)
    work = answer(progress, work.runs[0])
    assert started(work) == [(1, {})]
    work = answer(progress, work.runs[0])
    assert (work.responses, work.final, work.deadlock) == ([{}], True, ())


def test_a_missing_optional_input_is_not_waited_for_but_a_required_one_is() -> None:
    text = ensemble_text(step("choice", "A=X B=U", "OUT=Y"), inputs="X U?")
    progress, work = begin(text, X=1)
    assert started(work) == [(0, {"A": 1})]
    assert not answer(progress, work.runs[0], OUT=2).deadlock
    _, work = begin(text, U=1)
    assert (started(work), work.final, work.deadlock) == ([], True, ("Y",))


def test_every_response_of_a_decoupled_step_runs_what_follows() -> None:
    progress, work = begin(STREAM, X=1)
    stream = work.runs[0]
    runs = [answer(progress, stream, final=False, OUT=number).runs[0] for number in (1, 2, 3)]
    assert [numbers(run.inputs) for run in runs] == [{"IN": 1}, {"IN": 2}, {"IN": 3}]
    works = [answer(progress, runs[1], OUT=20), answer(progress, runs[0], OUT=10)]
    works += [progress.responded(stream, None, True), answer(progress, runs[2], OUT=30)]
    assert [[numbers(r) for r in work.responses] for work in works] == [[{"Y": 20}], [{"Y": 10}], [], [{"Y": 30}]]
    assert [work.final for work in works] == [False, False, False, True]


def test_a_stream_that_ends_last_ends_without_a_response() -> None:
    progress, work = begin(STREAM, X=1)
    stream = work.runs[0]
    run = answer(progress, stream, final=False, OUT=1).runs[0]
    assert not answer(progress, run, OUT=2).final
    last = progress.responded(stream, None, True)
    assert (last.responses, last.final, last.deadlock) == ([], True, ())


def test_a_stream_without_a_response_is_no_deadlock() -> None:
    progress, work = begin(STREAM, X=1)
    last = progress.responded(work.runs[0], None, True)
    assert (last.responses, last.final, last.deadlock) == ([], True, ())


def test_what_follows_from_one_response_is_joined_with_the_same_one_only() -> None:
    text = ensemble_text(
        step("stream", "IN=X", "OUT=Z"), step("echo", "IN=Z", "OUT=V"), step("join", "A=V B=Z", "OUT=Y")
    )
    progress, work = begin(text, X=1)
    stream = work.runs[0]
    first, second = (answer(progress, stream, final=False, OUT=number).runs[0] for number in (1, 2))
    assert started(answer(progress, second, OUT=20)) == [(2, {"A": 20, "B": 2})]
    assert started(answer(progress, first, OUT=10)) == [(2, {"A": 10, "B": 1})]


def test_outputs_that_share_a_response_are_sent_together() -> None:
    text = ensemble_text(step("stream", "IN=X", "OUT=Z"), step("echo", "IN=Z", "OUT=Y"), outputs="Z Y")
    progress, work = begin(text, X=1)
    work = answer(progress, work.runs[0], OUT=1)
    assert work.responses == []
    work = answer(progress, work.runs[0], OUT=2)
    assert [numbers(r) for r in work.responses] == [{"Z": 1, "Y": 2}]
    assert work.final


@given(st.data())
def test_any_graph_gives_what_its_formula_says_in_whatever_order_the_steps_answer(data: st.DataObject) -> None:
    """Each step adds what it reads; every one that a wanted output depends on runs once, the others never."""
    known = ["X0", "X1"]
    steps, values = [], {"X0": 1.0, "X1": 10.0}
    for number in range(data.draw(st.integers(1, 6), "steps")):
        a, b = (data.draw(st.sampled_from(known), "reads") for _ in range(2))
        name = f"T{number}"
        steps.append(step("join", f"A={a} B={b}", f"OUT={name}"))
        known.append(name)
        values[name] = values[a] + values[b]
    outputs = known[2:]
    wanted = data.draw(st.lists(st.sampled_from(outputs), unique=True), "wanted")
    text = ensemble_text(*steps, inputs="X0 X1", outputs=" ".join(outputs))
    found = graph(text, MODELS)
    progress = EnsembleProgress(found, wanted)
    work = progress.start({"X0": value(1), "X1": value(10)})
    running, runs, responses, finals = list(work.runs), [run.step.number for run in work.runs], [], 0
    while running:
        run = running.pop(data.draw(st.integers(0, len(running) - 1), "next"))
        work = progress.responded(run, {"OUT": value(sum(numbers(run.inputs).values()))}, True)
        running += work.runs
        runs += [each.step.number for each in work.runs]
        responses += work.responses
        finals += work.final
    assert sorted(runs) == sorted(found.needed(wanted or outputs))
    assert finals == 1
    assert [numbers(response) for response in responses] == [{name: values[name] for name in wanted or outputs}]
