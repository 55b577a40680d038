"""Signal handlers of a model, which may raise at any moment, in real stubs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.serving import DECOUPLED, SCRIPTED, SCRIPTED_CONFIG, Lab, Script

#: `interrupted(call)` does `call` again and again, with a signal at its first line of ours, at its second and so on,
#: whose handler raises. It gives how often that was, and what went wrong. `call` gives what is wrong with its answer.
INTERRUPTED = (
    SCRIPTED
    + """
import json

OURS = os.path.join("_pb_stub", "")


class Alarm(Exception):
    pass


def ring(number, frame):
    raise Alarm("the alarm")


def interrupted(call):
    signal.signal(signal.SIGUSR1, ring)
    wrong, place = [], 0
    while True:
        place += 1
        left = place

        def trace(frame, event, argument):
            nonlocal left
            # what is raised in a destructor is lost, and here the handler runs in the author's frame
            if OURS not in frame.f_code.co_filename or "__del__" in (frame.f_code.co_name, frame.f_back.f_code.co_name):
                return None
            if event == "line":
                left -= 1
                if left == 0:
                    signal.raise_signal(signal.SIGUSR1)
            return trace

        try:
            sys.settrace(trace)
            try:
                wrong.append(call())
            finally:
                sys.settrace(None)
            if left <= 0:
                wrong.append("no alarm at line %d" % place)
        except Alarm:
            pass
        wrong.append(call())
        if left > 0:
            return [place - 1, [each for each in wrong if each]]


def exec_other(decoupled=False, model="callee"):
    x = np.arange(3000, dtype=np.float32)
    code = np.array([b"return [answer(OUT=tensor(request, 'X').as_numpy() + 1)]"], dtype=object)
    inputs = [pb_utils.Tensor("CODE", code), pb_utils.Tensor("X", x)]
    request = pb_utils.InferenceRequest(model_name=model, requested_output_names=["OUT"], inputs=inputs)
    found = list(request.exec(True)) if decoupled else [request.exec()]
    if found[0].has_error():
        return found[0].error().message()
    return "" if (found[0].output_tensors()[0].as_numpy() == x + 1).all() else "another answer"


def say(value):
    return [answer(TEXT=np.array([json.dumps(value)], dtype=object))]
"""
)


@pytest.fixture(scope="module")
def model(lab: Lab) -> Script:
    lab.load("callee", SCRIPTED, SCRIPTED_CONFIG)
    return Script(lab.load("interrupted", INTERRUPTED, SCRIPTED_CONFIG))


CALLS = {
    "exec": "exec_other()",
    "iterator": "exec_other(True)",
    "log": "pb_utils.Logger.log_info('line')",
    "metric": "self.metric.increment(1)",
    "family": "'' if pb_utils.MetricFamily('family', 'x', pb_utils.MetricFamily.GAUGE) else 'none'",
    "cancelled": "'cancelled' if request.is_cancelled() else ''",
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_handler_that_raises_anywhere(model: Script, call: str) -> None:
    pid = model.pid
    code = f"""
    self.family = pb_utils.MetricFamily("alarms", "x", pb_utils.MetricFamily.COUNTER)
    self.metric = self.family.Metric()
    return say(interrupted(lambda: {call}))
    """
    count, wrong = json.loads(model(code)["TEXT"][0])
    assert wrong == []
    assert count > 10
    assert model.pid == pid


def test_a_handler_that_raises_while_responses_are_sent(lab: Lab) -> None:
    model = Script(lab.load("interrupted_flow", INTERRUPTED, SCRIPTED_CONFIG + DECOUPLED))
    code = """
    sender, numbers = request.get_response_sender(), iter(range(100000))
    place, _ = interrupted(lambda: sender.send(answer(OUT=np.float32([next(numbers)]))))
    sender.send(answer(OUT=np.float32([-place])))
    sender.send(flags=1)
    """
    responses = model.responses(code)
    values: list[Any] = [response.outputs["OUT"].numpy()[0] for response in responses if response.outputs]
    place = -values.pop()
    assert place > 20
    assert values == sorted(set(values)), "in order, none twice"
    assert len(values) >= place


def test_a_handler_that_logs_while_something_is_logged(model: Script) -> None:
    code = """
    signal.signal(signal.SIGUSR1, lambda number, frame: pb_utils.Logger.log_info("from a handler"))
    def trace(frame, event, argument):
        if OURS in frame.f_code.co_filename:
            signal.raise_signal(signal.SIGUSR1)
        return trace
    sys.settrace(trace)
    try:
        pb_utils.Logger.log_info("a line")
    finally:
        sys.settrace(None)
    return [answer(OUT=np.float32([5]))]
    """
    np.testing.assert_array_equal(model(code)["OUT"], [5])
