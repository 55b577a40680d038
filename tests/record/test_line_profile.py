"""Profiles of the lines of real models: a planted slow line and a planted leak, on Pythons with events and without."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from tests.interpreters import environment
from tests.plots import drawn
from tests.serving import DECOUPLED, Lab, config
from tritonlab.core.status import NotFoundError, UnavailableError
from tritonlab.notebook.model import Model
from tritonlab.record.line_profile import LineProfile, ProfiledLine
from tritonlab.record.line_profiling import profile_lines

SLOW = """
import time

import numpy as np
import triton_python_backend_utils as pb_utils


def polish(x):
    time.sleep(0.002)  # half of that
    return x * 2


class TritonPythonModel:
    def initialize(self, args):
        self.kept = []

    def execute(self, requests):
        responses = []
        for request in requests:
            x = request.inputs()[0].as_numpy()
            time.sleep(0.004 * len(x))  # the slow line
            self.kept.append(bytes(50_000))  # the leak
            y = polish(x)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", y)]))
        return responses
"""
LOOPING = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        total = 0
        for number in range(300_000):
            total += number * number  # the hot line
        out = pb_utils.Tensor("OUT", np.full((1, 1), total % 1000, np.float32))
        return [pb_utils.InferenceResponse([out]) for _ in requests]
"""
ONE_LINE = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        total = sum([number * number for number in range(2_000_000)])  # the hot line
        out = pb_utils.Tensor("OUT", np.full((1, 1), total % 1000, np.float32))
        return [pb_utils.InferenceResponse([out]) for _ in requests]
"""
AWAITING = """
import asyncio

import triton_python_backend_utils as pb_utils
from helper import wait


class TritonPythonModel:
    async def execute(self, requests):
        responses = []
        for request in requests:
            await asyncio.sleep(0.003)  # waits itself
            await wait()  # waits in the helper
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", request.inputs()[0].as_numpy())]))
        return responses
"""
HELPER = """
import asyncio


async def wait():
    await asyncio.sleep(0.009)  # the slow line
"""
STREAMING = """
import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.generate, args=(request.get_response_sender(),)).start()

    def generate(self, sender):
        for number in range(4):
            time.sleep(0.004)  # the slow line
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([[number]]))]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
TENSORS = ("IN FP32 1", "OUT FP32 1", "max_batch_size: 8")
ONE, TWO = np.ones((1, 1), np.float32), np.ones((2, 1), np.float32)


def load(lab: Lab, version: str, name: str, source: str, *more: str, **files: str) -> Model:
    """Load a model that runs on a Python of that version: 3.11 has no events, 3.12 has."""
    path = environment(version)
    setting = f'parameters {{ key: "EXECUTION_ENV_PATH" value: {{ string_value: "{path}" }} }}'
    text = config(*TENSORS, setting, *more)
    return lab.load(f"{name}_{version.replace('.', '_')}", source, text, **files)  # type: ignore[return-value]


def line_with(profile: LineProfile, text: str) -> ProfiledLine:
    (found,) = [line for line in profile.lines if text in line.text]
    return found


BOTH = pytest.mark.parametrize("version", ["3.11", "3.12"])


@BOTH
def test_the_slow_line_is_found_with_its_time_in_each_batch_size(lab: Lab, version: str) -> None:
    model = load(lab, version, "slow", SLOW)
    found = model.profile([{"IN": ONE}] * 25 + [{"IN": TWO}] * 25)
    slow, half, caller = (line_with(found, text) for text in ("the slow line", "half of that", "y = polish(x)"))
    assert found.way == ("sampling" if version == "3.11" else "monitoring")
    assert found.slowest is slow
    assert (slow.place, slow.line) == ("model.py", 1 + SLOW[: SLOW.index("# the slow line")].count("\n"))
    assert {size: count for size, (count, _) in found.executions.items()} == {1: 25, 2: 25}
    assert 0.06 < slow.times[1][0] < slow.times[2][0]
    assert 0.2 < half.own / slow.times[1][0] < 2.5
    assert caller.total >= half.own > caller.own
    assert slow.hits == (0 if version == "3.11" else 50)


@BOTH
def test_a_hot_line_in_a_loop_is_found(lab: Lab, version: str) -> None:
    model = load(lab, version, "looping", LOOPING)
    found = model.profile([{"IN": ONE}] * 10)
    spent = sum(seconds for _, seconds in found.executions.values())
    hot = [line for line in found.lines if "the hot line" in line.text or "range(300_000)" in line.text]
    assert sum(line.own for line in hot) > 0.5 * spent
    if version == "3.12":  # a line that takes less time than its event
        assert found.way == "monitoring, then sampling"


def test_a_loop_within_one_line_is_sampled_after_a_while(lab: Lab) -> None:
    found = load(lab, "3.12", "one_line", ONE_LINE).profile([{"IN": ONE}] * 6)
    assert found.way == "monitoring, then sampling"
    assert found.slowest is line_with(found, "the hot line")


@BOTH
def test_a_coroutine_that_waits_counts_where_it_waits_in_a_helper_file_too(lab: Lab, version: str) -> None:
    model = load(lab, version, "awaiting", AWAITING, **{"1__helper_dot_py": HELPER})
    found = model.profile([{"IN": ONE}] * 25)
    assert found.slowest is line_with(found, "the slow line")
    assert found.slowest.place == "helper.py"
    assert line_with(found, "waits itself").own < found.slowest.own
    assert line_with(found, "waits in the helper").total > 0.5 * found.slowest.own


@BOTH
def test_threads_of_a_decoupled_model_count_beside_its_batches(lab: Lab, version: str) -> None:
    model = load(lab, version, "streaming", STREAMING, DECOUPLED)
    found = model.profile([{"IN": ONE}] * 10)
    assert found.slowest is line_with(found, "the slow line")
    assert set(found.slowest.times) == {0}


@BOTH
def test_the_line_that_keeps_memory_is_found(lab: Lab, version: str) -> None:
    model = load(lab, version, "leaking", SLOW)
    found = model.profile([{"IN": ONE}] * 20, memory=True)
    leak = line_with(found, "the leak")
    assert found.slowest is leak
    assert 20 * 50_000 <= leak.kept < 25 * 50_000
    assert leak.blocks >= 20 == found.requests
    assert "per request" in found.text() and "KiB" in found.text()


#: A cache that fills within the first requests, and keeps more than the leak.
FILLED = "self.filled = getattr(self, 'filled', None) or bytearray(10_000_000)  # the cache"
WARMING = SLOW.replace("y = polish(x)", f"y = polish(x)\n            {FILLED}")


@BOTH
def test_a_leak_comes_before_a_cache_that_is_full(lab: Lab, version: str) -> None:
    model = load(lab, version, "warming", WARMING)
    found = model.profile([{"IN": ONE}] * 60, memory=True)
    cache, leak = line_with(found, "the cache"), line_with(found, "the leak")
    assert found.slowest is leak
    assert cache.kept > 3 * leak.kept and cache.growth == 0
    assert leak.growth > 20 * 50_000


@pytest.fixture(scope="module")
def profile(lab: Lab) -> LineProfile:
    return load(lab, "3.11", "shown", SLOW).profile([{"IN": ONE}] * 10 + [{"IN": TWO}] * 10)


def test_the_text_names_line_share_and_time_per_batch(profile: LineProfile) -> None:
    head, heads, first, *_ = profile.text().splitlines()
    assert head.startswith("Lines of shown_3_11: 20 executions of ")
    assert heads.split() == ["share", "own", "with", "calls", "batch", "of", "1", "batch", "of", "2", "where", "line"]
    assert "model.py, line 21" in first and "time.sleep(0.004 * len(x))" in first
    assert repr(profile) == profile.text()
    assert len(profile.text().splitlines()) <= 20


def test_the_html_has_a_margin_beside_the_source_and_escapes_it(profile: LineProfile) -> None:
    html = profile.html()
    assert html.count("<tr") > 10
    # nbconvert's style aligns the cells of a table to the right
    assert html.count("<td style='text-align:left'><pre ") == html.count("<pre ") > 5
    assert "█" * 12 in html
    line = ProfiledLine("f", 1, "<place>", 1, "x = '<b>' & 1", {1: (1.0, 1.0, 1)})
    hostile = LineProfile("<m>", [line], {1: (1, 1.0)})
    assert "<b>'" not in hostile.html() and "&lt;b&gt;" in hostile.html() and "&lt;place&gt;" in hostile.html()


def test_a_page_that_drops_styles_and_classes_still_shows_bars_and_indented_code(profile: LineProfile) -> None:
    bare = re.sub(r" (style|class)='[^']*'", "", profile.html())
    assert "<td>" + "█" * 12 + "</td>" in bare
    assert "<pre>            time.sleep(0.004 * len(x))" in bare
    assert "<script" not in bare and "<svg" not in bare


def test_the_json_has_times_by_size(profile: LineProfile) -> None:
    found = json.loads(json.dumps(profile.to_dict()))
    assert found["executions"]["2"]["count"] == 10
    (slow,) = [line for line in found["lines"] if "the slow line" in line["text"]]
    assert set(slow["sizes"]) == {"1", "2"}


def test_one_batch_size_by_itself(profile: LineProfile) -> None:
    assert profile.of(2).sizes == [2]
    assert profile.of(2).count == 10
    assert "in batches of 2" in profile.of(2).text()
    assert "nothing was executed" in profile.of(7).text()


def test_the_plot(profile: LineProfile) -> None:
    axes = drawn(profile.plot)
    assert "time.sleep" in axes.get_yticklabels()[0].get_text()
    with pytest.raises(UnavailableError, match="nothing to plot"):
        profile.of(7).plot()


def test_nothing_is_left_on_after_it(lab: Lab) -> None:
    model = lab.load("off", SLOW, config(*TENSORS))
    model.profile([{"IN": ONE}])  # type: ignore[attr-defined]
    (profile,) = model.look_at_lines(False).values()
    assert profile.way == "" and profile.times == []
    stacks = "".join(model.stacks().values())
    assert "profile" not in stacks


def test_a_watch_that_saw_nothing_says_what_to_do(lab: Lab) -> None:
    model: Any = lab.load("idle", SLOW, config(*TENSORS))
    found = model.profile(seconds=0.05)
    assert "nothing was executed" in found.text() and "idle.profile(seconds=3, concurrency=4)" in found.text()


def test_a_watch_that_met_no_line_says_why() -> None:
    found = LineProfile("short", [], {1: (170, 0.016)}, seconds=3.0)
    assert "No line was seen: so short an execution" in found.text() and "No line was seen" in found.html()
    assert "No line" not in LineProfile("short", [], {1: (170, 0.016)}, memory=True).text()


def test_a_load_is_sent_meanwhile(lab: Lab) -> None:
    model: Any = lab.load("loaded", SLOW, config(*TENSORS))
    found = model.profile(seconds=0.4, concurrency=2)
    assert found.requests > 10
    # in so short a time a busy machine may keep either of them waiting the longest
    assert found.slowest in [line_with(found, "the slow line"), line_with(found, "half of that")]


def test_a_version_that_is_unloaded_meanwhile_has_no_lines(lab: Lab) -> None:
    lab.load("unloaded", SLOW, config(*TENSORS))
    version = lab.server.model("unloaded", 1)
    found = profile_lines(version, version.server.instruments, lambda: lab.server.unload("unloaded"))
    assert found.title().startswith("Lines of unloaded: nothing was executed in ")


def test_a_model_that_is_not_loaded_has_no_lines(lab: Lab) -> None:
    with pytest.raises(NotFoundError):
        lab.server.model("nowhere").profile(seconds=0.1)  # type: ignore[attr-defined]
