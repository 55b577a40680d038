"""The changes between two answers, and their groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tools.capture.replay.captures import answer_of, planned
from tritonlab.tools.capture.replay.answer_changes import AnswerChange, ChangeLog, changes_between, group_changes

ONE = {"OUT": np.float32([1, 2])}


def change(number: int, before: Any, after: Any) -> list[AnswerChange]:
    return changes_between(planned(number), answer_of({"OUT": before}), answer_of({"OUT": after}))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (answer_of(ONE), answer_of({"OUT": np.float32([1, 2.000001])}), []),
        (answer_of(ONE), answer_of({"OUT": np.float32([1, 3])}), [("value", "OUT[1]", "2.0", "3.0")]),
        (answer_of(ONE), answer_of({"OUT": np.float32([1])}), [("shape", "OUT", "[2]", "[1]")]),
        (answer_of(ONE), answer_of({"OUT": np.float64([1, 2])}), [("datatype", "OUT", "FP32", "FP64")]),
        (answer_of(ONE), answer_of({}), [("responses", "", "1 response", "no answer")]),
        (answer_of(ONE), answer_of(ONE, {"OUT": np.float32([5])}), [("responses", "", "1 response", "2 responses")]),
        (
            answer_of(ONE, {"OUT": np.float32([5])}),
            answer_of({"OUT": np.float32([5])}, ONE),
            [("order", "", "2 responses", "in another order")],
        ),
        (answer_of(ONE), answer_of(error="boom"), [("error", "", "1 response", "boom")]),
        (answer_of(error="model 'm_0_1' fails"), answer_of(error="model 'm_0_0' fails"), []),
        (answer_of(error="x\n\nAt:\n  a.py(3): f\n"), answer_of(error="x\n\nAt:\n  a.py(4): f\n"), []),
        (answer_of({"OUT": [b"a"]}), answer_of({"OUT": [b"b"]}), [("value", "OUT[0]", "'a'", "'b'")]),
    ],
)
def test_each_change_has_its_kind_and_both_sides(before: Any, after: Any, expected: list[Any]) -> None:
    found = changes_between(planned(), before, after)
    assert [(each.kind, each.place, each.before, each.after) for each in found] == expected


def test_withheld_outputs_are_not_compared() -> None:
    before, after = answer_of({}), answer_of({"OUT": np.float32([1])})
    assert changes_between(planned(), before, after, {(0, "OUT")}) == []
    assert changes_between(planned(), before, answer_of(error="boom"), {(0, "OUT")})


def test_a_constant_difference_is_one_cause_whatever_the_values_are() -> None:
    values = np.float32([1e-3, 1, 5, 1000])
    added = [each for n, value in enumerate(values) for each in change(n, [value], [value + np.float32(0.5)])]
    (group,) = group_changes(added)
    assert (group.count, group.sizes) == (4, "by 0.5")
    scaled = [each for n, value in enumerate(values) for each in change(n, [value], [value * np.float32(1.25)])]
    (group,) = group_changes(scaled)
    assert (group.count, group.sizes) == (4, "by 0.2 of the value")


def test_causes_are_distinguished_and_ranked_by_requests() -> None:
    found = [each for n in range(3) for each in change(n, np.float32([1.0]), np.float32([1.001]))]
    found += [each for n in range(3, 5) for each in change(n, np.float32([1.0]), np.float32([900.0]))]
    errors = [f"row {n} is bad" for n in (17, 18, 19, 20)]
    for number, text in enumerate(errors, 10):
        found += changes_between(planned(number), answer_of(), answer_of(error=text))
    groups = group_changes(reversed(found))
    assert [(group.kind, group.count, group.example.number) for group in groups] == [
        ("error", 4, 10),
        ("value", 3, 0),
        ("value", 2, 3),
    ]
    assert groups[1].lines() == [
        "3 requests: OUT has other values by 0.001",
        "    request 0 OUT[0]: 1.0 -> 1.001",
        "    requests 0, 1, 2",
    ]
    assert groups[0].to_dict()["example"]["after"] == "row 17 is bad"


def test_a_few_similar_changes_keep_their_evidence() -> None:
    """At least one of each group, also where noise covers the small ones."""
    log = ChangeLog()
    for number in [*range(20, 60), *range(20)]:
        log.add(change(number, [1.0], [1.001 + number / 100_000]))
    log.add(change(60, [1.0], [9.0]))
    small, large = group_changes(log.changes)
    assert (small.count, small.example.number, large.example.number) == (60, 0, 60)
    assert [each.number for each in log.changes if each.evidence is not None] == [59, 0, 1, 60]
    (beyond,) = group_changes(each for each in log.changes if 0.001555 < each.absolute < 1)
    assert (beyond.count, beyond.example.number, beyond.example.evidence is not None) == (4, 59, True)
    assert [group.example.evidence is not None for group in (small, large)] == [True, True]
