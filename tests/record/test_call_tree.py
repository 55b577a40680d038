from __future__ import annotations

from tests.record.events import RecorderHooks, make_call, make_request
from tritonlab.core.inference.infer_request import InferenceRequest, StepRequest
from tritonlab.core.status import ModelError
from tritonlab.record.call_tree import CALLS, call_tree, rare_facts


def step(parent: InferenceRequest, serial: int, at: int, model: str, number: int) -> StepRequest:
    made = StepRequest(parent, model, 1, make_request(0).inputs, (), lambda *_: None, lambda _: None, number)
    made.serial, made.request_start, made.queue_start = serial, at * 1_000_000, at * 1_000_000
    return made


def test_steps_and_calls_are_below_what_made_them() -> None:
    hooks = RecorderHooks()
    whole = make_request(1, at=0, model="pipe", request_id="q")
    second = make_call(4, "two_0_0", 2, at=5, model="called")
    hooks.execute(step(whole, 2, 1, "one", 0), start=1, end=3, instance="one_0_0")
    hooks.execute(second, start=6, end=7, instance="called_0_0")
    hooks.execute(step(whole, 3, 3, "two", 1), start=4, end=8, instance="two_0_0")
    hooks.execute(whole, start=0, end=9, instance="pipe")

    tree = call_tree(hooks.recording, "pipe", 0)
    assert tree is not None
    assert [(depth, one.model, one.step, one.name) for depth, one in tree.walk()] == [
        (0, "pipe", -1, "q"),
        (1, "one", 0, "q"),
        (1, "two", 1, "q"),
    ]
    assert tree.calls[0].inputs == [("IN", "INT32", (1, 2))]
    assert rare_facts(hooks.recording, "one", 0) == "step 0 of request 1 of an ensemble"
    assert rare_facts(hooks.recording, "called", 0) == "called by two_0_0 in its execution 2"
    assert rare_facts(hooks.recording, "pipe", 0) == ""


def test_what_few_requests_have_is_described() -> None:
    hooks = RecorderHooks()
    hooks.execute(
        make_request(1, correlation_id="late", priority=2),
        make_request(2, correlation_id=7),
        make_request(3),
        start=1,
        end=2,
    )
    facts = [rare_facts(hooks.recording, "add", row) for row in range(3)]
    assert facts == ["of sequence late, priority 2", "of sequence 7", ""]


def test_calls_belong_to_the_execution_that_made_them_and_not_to_one_of_the_same_number() -> None:
    hooks = RecorderHooks()
    during, later = make_call(2, "add_0_0", 1, at=5, model="called"), make_call(3, "add_0_0", 1, at=50, model="called")
    hooks.execute(make_request(1, at=0), make_request(9, at=1), start=4, end=8)
    hooks.execute(during, start=5, end=6, instance="called_0_0")
    hooks.execute(later, start=50, end=51, instance="called_0_0")
    for row in (0, 1):  # nobody knows for which of the two
        tree = call_tree(hooks.recording, "add", row)
        assert tree is not None
        assert [(one.serial, one.model) for one in tree.calls] == [(2, "called")]
        assert tree.count == 2


def test_a_tree_says_what_it_leaves_out_and_why_a_request_failed() -> None:
    hooks = RecorderHooks()
    whole = make_request(1, model="pipe")
    for n in range(CALLS + 5):
        hooks.execute(step(whole, 10 + n, n, "one", 0), start=n, end=n + 1)
    hooks.execute(whole, start=0, end=900, failed=True)
    hooks.respond(whole, at=900, error=ModelError("no"))
    tree = call_tree(hooks.recording, "pipe", 0)
    assert tree is not None
    assert (len(tree.calls), tree.left_out, tree.failure) == (CALLS, 5, "request 1: no")
    assert call_tree(hooks.recording, "pipe", 1) is None
    assert call_tree(hooks.recording, "nothing", -1) is None
