"""The pictures of a replay's verdict."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.plots import closed_figures, drawn
from tests.tools.capture.replay.captures import answer_of, planned
from tritonlab.tools.capture.replay.answer_changes import changes_between, group_changes
from tritonlab.tools.capture.replay.replay_verdict import ReplayVerdict

__all__ = ["closed_figures"]


def test_changes_without_sizes_have_lanes_in_the_picture_instead_of_an_axis_of_numbers() -> None:
    before, after = answer_of({"OUT": np.float32([1])}), answer_of({"OUT": np.float64([1])})
    changes = [each for number in (3, 9) for each in changes_between(planned(number), before, after)]
    changes += changes_between(planned(5), before, answer_of(error="boom"))
    counts: dict[str, Any] = {"sent": 10, "compared": 10, "same": 7, "not_sent": {}, "not_compared": {}, "notes": ()}
    model: Any = SimpleNamespace(name="m")
    found = ReplayVerdict(model, "", groups=tuple(group_changes(changes)), noise=None, latency=None, **counts)
    picture = found.figure()
    assert "power of 10" not in picture and "OUT, datatype" in picture and "number of the request" in picture
    axes = drawn(found.plot)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["OUT, datatype", "error"]
    assert [line.get_ydata().tolist() for line in axes.lines] == [[0, 0], [1]] and axes.get_ylabel() == "change"
