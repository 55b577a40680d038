"""The replies of the timeline to a batch whose lines a person wants to see."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from tests.serving import eventually
from tritonlab.core.status import UnavailableError
from tritonlab.notebook.views.record.batch_lines import BatchLines
from tritonlab.profile.line_profile import LineProfile, ProfiledLine
from tritonlab.profile.recording import Recording


def profile(*sizes: int) -> LineProfile:
    times = {size: (0.5, 0.5, 0) for size in sizes}
    line = ProfiledLine("m.py", 3, "Cell In[2]", 4, "    time.sleep(1)\n", times)
    return LineProfile("m", [line] if sizes else [], {size: (1, 0.5) for size in sizes if size})


def test_the_last_profile_is_sent_at_once() -> None:
    sent: list[Mapping[str, Any]] = []
    recording = Recording()
    recording.line_profiles["m"] = profile(1, 8)
    BatchLines("m", recording, lambda seconds: profile(), sent.append).reply(8)
    (message,) = sent
    assert message["title"].startswith("Lines of m in batches of 8: ")
    assert message["head"][-2:] == ["where", "line"]
    assert message["rows"][0][-2:] == ["Cell In[2], line 4", "time.sleep(1)"]


def test_without_one_the_lines_are_looked_at_once_whatever_is_clicked() -> None:
    sent: list[Mapping[str, Any]] = []
    go, looks = threading.Event(), []

    def look(seconds: float) -> LineProfile:
        looks.append(seconds)
        go.wait(10)
        return profile(4)

    lines = BatchLines("m", Recording(), look, sent.append)
    lines.reply(2)
    lines.reply(4)
    assert [message["title"] for message in sent] == ["Looking at the lines for 3 s …"] * 2
    go.set()
    eventually(lambda: len(sent) == 3)
    assert looks == [3.0]
    assert sent[2]["size"] == 4 and sent[2]["rows"]


def test_threads_beside_execute_are_named_where_they_do_the_work() -> None:
    sent: list[Mapping[str, Any]] = []
    recording = Recording()
    lines = BatchLines("m", recording, lambda seconds: profile(0), sent.append)
    lines.reply(1)
    eventually(lambda: len(sent) == 2)
    assert sent[1]["title"].startswith("Lines of m in threads beside it: ")


def test_a_failure_is_reported() -> None:
    sent: list[Mapping[str, Any]] = []

    def fail(seconds: float) -> LineProfile:
        raise UnavailableError("no process of 'm' answered")

    BatchLines("m", Recording(), fail, sent.append).reply(1)
    eventually(lambda: len(sent) == 2)
    assert sent[1]["title"] == "no process of 'm' answered" and sent[1]["rows"] == []
