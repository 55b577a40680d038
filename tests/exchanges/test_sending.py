"""Requests of the playground, through the real server and its stubs."""

from __future__ import annotations

import numpy as np

from tests.models import answers, streams
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.metrics.infer_stats import ExecuteTimes
from tritonlab.exchanges.exchange import Exchange, PhaseTimes
from tritonlab.exchanges.sending import RequestWatch, Sending
from tritonlab.notebook.authoring.config_options import ConfigOptions
from tritonlab.notebook.authoring.workspace import Workspace

NEGATIVE = 'if x[0, 0] < 0: raise ValueError("negative")'
SOURCE = answers("x * len(requests)", first=NEGATIVE)
STREAM = streams("np.array([[n]], np.float32)", over="range(2)")


def options(**more: object) -> ConfigOptions:
    return ConfigOptions.from_keywords(max_batch_size=8, inputs="IN:FP32[1]", outputs="OUT:FP32[1]", **more)


def sent(workspace: Workspace, values: list[object]) -> list[Exchange]:
    model = workspace.server.model("m")
    sending = Sending(model, [model.create_request(inputs={"IN": value}) for value in values])
    sending.start()
    assert sending.wait(30)
    return sending.outcomes()


def test_one_request_has_its_outputs_and_its_times(workspace: Workspace) -> None:
    workspace.load("m", SOURCE, options=options())
    listeners = list(workspace.server.instruments)
    (outcome,) = sent(workspace, [np.ones((1, 1), np.float32)])
    assert outcome.error is None
    assert outcome.outputs["OUT"].numpy().tolist() == [[1]]
    assert outcome.split is not None
    parts = outcome.split.queue + outcome.split.compute_input + outcome.split.compute_infer
    assert 0 < parts <= outcome.total_ns
    assert list(workspace.server.instruments) == listeners


def test_many_are_in_flight_together(workspace: Workspace) -> None:
    workspace.load("m", SOURCE, options=options(dynamic_batching=20_000, preferred_batch_size=8))
    outcomes = sent(workspace, [np.ones((1, 1), np.float32)] * 8)
    assert {outcome.batch_size for outcome in outcomes} == {8}
    assert [outcome.outputs["OUT"].numpy().tolist() for outcome in outcomes] == [[[8]]] * 8


def test_each_has_the_lines_that_were_printed_for_it(workspace: Workspace) -> None:
    printing = answers("x", first=f'print("data", x[0, 0])\n{NEGATIVE}')
    workspace.load("m", printing, options=options())
    outcomes = sent(workspace, [np.full((1, 1), n, np.float32) for n in (1, -2)])
    assert [[record.text for record in outcome.printed] for outcome in outcomes] == [["data 1.0"], ["data -2.0"]]


def test_the_first_has_what_is_wrong_with_the_outputs(workspace: Workspace) -> None:
    workspace.load("m", answers("x", writes="TUO"), options=options())
    (record,) = sent(workspace, [np.ones((1, 1), np.float32)])[0].printed[:1]
    assert record.text == "Triton checks no outputs: 'TUO' is not an output of the config and was dropped."


def test_refused_and_failed_requests_have_the_clients_error(workspace: Workspace) -> None:
    workspace.load("m", SOURCE, options=options())
    refused, failed = sent(workspace, [np.ones((1, 1)), -np.ones((1, 1), np.float32)])
    assert refused.error is not None and "data-type is 'FP64'" in refused.error.message
    assert refused.arrivals == ()
    assert failed.error is not None and "ValueError: negative" in failed.error.message


def test_every_response_of_a_stream_is_seen(workspace: Workspace) -> None:
    workspace.load("m", STREAM, options=options(decoupled=True))
    (outcome,) = sent(workspace, [np.ones((1, 1), np.float32)])
    responses = [arrival.response for arrival in outcome.arrivals]
    assert [(r.final, r.empty) for r in responses] == [(False, False), (False, False), (True, True)]
    times = [arrival.after_ns for arrival in outcome.arrivals]
    assert times == sorted(times)
    assert outcome.outputs["OUT"].numpy().tolist() == [[1]]


def test_the_watch_splits_the_time_of_its_requests_only() -> None:
    mine, foreign = InferenceRequest("m", {}), InferenceRequest("m", {})
    mine.queue_start = foreign.queue_start = 100
    changes = []
    watch = RequestWatch([mine], lambda: changes.append(1))
    watch.batch_formed("m", 1, [mine, foreign], 2, "full", 150)
    watch.execute_started("m_0", 7, [mine, foreign], 160)
    watch.execute_finished("m_1", 7, ExecuteTimes(1, 1, 1), 165)
    watch.execute_finished("m_0", 7, ExecuteTimes(1, 2, 3), 170)
    outcome = watch.outcome(mine, None)
    assert outcome.split == PhaseTimes(queue=60, compute_input=1, compute_infer=2, compute_output=3)
    assert outcome.batch_size == 2
    assert changes == []
