from __future__ import annotations

import pytest

from tritonlab.engine.calls.wait_graph import Instance, InstanceWait, UnansweredCall, circle_of, stuck_instances


def queued(instance: str, *any_of: str, alone: bool = True) -> tuple[Instance, InstanceWait]:
    """Return the wait of `instance` for a call that one of `any_of` must take; an instance is its model's name and a
    number.
    """
    return instance, InstanceWait(instance[0], [UnansweredCall(any_of=any_of)], alone)


def with_(instance: str, *executing: str, alone: bool = True) -> tuple[Instance, InstanceWait]:
    """Return the wait of `instance` for calls, each of which one of `executing` executes."""
    return instance, InstanceWait(instance[0], [UnansweredCall(executing=e) for e in executing], alone)


def models(caller: str, waits: list[tuple[Instance, InstanceWait]]) -> str:
    found = circle_of(caller, dict(waits))
    return " ".join(found.models) if found else ""


#: who waits for what, the caller, the models on its circle
CASES = {
    "nobody else waits": ([queued("a0", "b0")], "a0", ""),
    "the call is in execution": ([with_("a0", "b0")], "a0", ""),
    "a model without instances": ([queued("a0")], "a0", ""),
    "itself": ([queued("a0", "a0")], "a0", "a a"),
    "itself, another instance is free": ([queued("a0", "a0", "a1")], "a0", ""),
    "itself, the other instance waits for another model": (
        [queued("a0", "a0", "a1"), with_("a1", "b0")],
        "a0",
        "",
    ),
    "all instances call their own model": ([queued("a0", "a0", "a1"), queued("a1", "a0", "a1")], "a1", "a a"),
    "back to the first": ([with_("a0", "b0"), queued("b0", "a0")], "b0", "a b a"),
    "back to the first, which has a second instance": ([with_("a0", "b0"), queued("b0", "a0", "a1")], "b0", ""),
    "back from one of two instances": ([with_("a0", "b0"), queued("b0", "a0")], "b0", "a b a"),
    "back from a model whose other instance is idle, still queued": (
        [queued("a0", "b0", "b1"), queued("b0", "a0")],
        "b0",
        "",
    ),
    "three": ([with_("a0", "b0"), with_("b0", "c0"), queued("c0", "a0")], "c0", "a b c a"),
    "three, from outside the circle": (
        [queued("a0", "b0"), with_("b0", "c0"), queued("c0", "b0")],
        "a0",
        "a b c b",
    ),
    "each has called the other": ([queued("a0", "b0"), queued("b0", "a0")], "b0", "a b a"),
    "one of the two on the way is not blocked": ([with_("a0", "b0"), with_("b0", "c0")], "b0", ""),
    "its requests may be answered from elsewhere": (
        [with_("a0", "b0"), queued("b0", "a0", alone=False)],
        "b0",
        "",
    ),
    "who may answer from elsewhere still has to return for a queued call": (
        [queued("a0", "a0", alone=False)],
        "a0",
        "a a",
    ),
    "both ways queued, both may answer from elsewhere": (
        [queued("a0", "b0", alone=False), queued("b0", "a0", alone=False)],
        "a0",
        "b a b",
    ),
    "one of two calls is enough": ([with_("a0", "c0", "b0"), queued("b0", "a0")], "a0", "b a b"),
    "two calls that end": ([with_("a0", "c0", "b0"), with_("b0", "d0")], "a0", ""),
    "a circle elsewhere is not ours": ([queued("a0", "b0"), queued("c0", "c0")], "a0", ""),
    "who asks about somebody that does not wait": ([queued("a0", "a0")], "b0", ""),
}


@pytest.mark.rule("4.4.1")
@pytest.mark.parametrize("case", CASES)
def test_a_circle_is_distinguished_from_a_wait_that_ends(case: str) -> None:
    waits, caller, expected = CASES[case]
    assert models(caller, waits) == expected


def test_the_callers_call_comes_first() -> None:
    found = circle_of("a0", dict([with_("a0", "c0", "b0"), queued("b0", "a0")]))
    assert found is not None
    assert found.calls == [UnansweredCall(executing="b0"), UnansweredCall(any_of=("a0",))]


def test_one_free_instance_frees_all_that_hang_on_it() -> None:
    """A long chain ends at an instance that works: nothing is stuck. Tied to itself, everything is."""
    chain = dict(with_(f"a{n}", f"a{n + 1}") for n in range(500))
    assert stuck_instances(chain) == set()
    closed = {**chain, **dict([queued("a500", "a0")])}
    assert len(stuck_instances(closed)) == 501
