from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritonlab
from tests.models import ADD_SUB, ADD_SUB_CONFIG
from tests.pictures import read, texts, titles
from tests.record.events import RecorderHooks, make_request
from tests.serving import Lab, eventually
from tritonlab import Server
from tritonlab.core.status import InvalidArgumentError, ModelError, UnavailableError
from tritonlab.engine.schedulers.dynamic_batch import BatchConfig
from tritonlab.figures.stored_picture import date_text
from tritonlab.notebook.views.record.opening import open_view
from tritonlab.notebook.views.record.timeline import BatchLines, Timeline
from tritonlab.record.line_profile import LineProfile, ProfiledLine
from tritonlab.record.recorder import Recorder
from tritonlab.record.recording import Recording, RecordingError

CONFIG = BatchConfig(max_batch_size=4, dynamic=True, preferred=(4,), delay=5_000_000, equal_shape_inputs=("IN",))


@pytest.fixture
def hooks() -> RecorderHooks:
    hooks = RecorderHooks()
    hooks.execute(make_request(1, at=0), make_request(2, at=1, request_id="two"), start=5, end=9, reason="shape")
    hooks.execute(make_request(3, at=2, columns=3), start=9, end=11, reason="delay", instance="add_0_1", failed=True)
    hooks.execute(make_request(4, at=7), start=12, end=14, reason="delay")
    hooks.respond(make_request(3), at=11, error=ModelError("no"))
    return hooks


def test_the_text_states_the_facts(hooks: RecorderHooks) -> None:
    assert repr(Timeline(hooks.recording, "add")).splitlines() == [
        "Timeline of add: 4 requests in 3 batches, 1 failed (1.33 each) within 9 ms.",
        "  sizes    1: 2, 2: 1",
        "  closed   delay: 2, shape: 1",
        "  queue    median 5 ms, 95% below 7 ms",
        "  compute  median 2 ms, 95% below 4 ms",
        "  error    request 3: no",
    ]
    assert repr(Timeline(hooks.recording, "other")) == "Timeline of other: no request has been executed yet."


def test_the_stored_form_has_the_time_and_the_subject_of_its_picture(hooks: RecorderHooks) -> None:
    hooks.recording.wall = 1_700_000_000_000_000_000 - 14_000_000  # the last execution ended at 14 ms
    page = Timeline(hooks.recording, "add").html()
    assert page.count(date_text(1_700_000_000)) == 2  # of the picture, and below
    assert "<div class='tl-dim'>The last 3 executions of add:</div>" in page
    hooks.recording.wall = 0  # a trace file of Triton has no time of day
    assert " at " not in re.sub("<[^>]*>", " ", Timeline(hooks.recording, "add").html())


def test_the_figure_has_what_happened_besides(hooks: RecorderHooks) -> None:
    record = hooks.recording.model("add")
    record.mark(12_500_000, "restart", "add_0_1: restarting after SIGKILL")
    record.mark(16_000_000, "state", "add, version 1: UNAVAILABLE")
    record.mark(600_000_000_000, "state", "long after")
    svg, legend = read(Timeline(hooks.recording, "add").figure())
    happened = [title for title in titles(svg) if title.split(":")[0] in ("error", "restart", "state")]
    assert happened == [
        "error: request 3: no",
        "restart: add_0_1: restarting after SIGKILL",
        "state: add, version 1: UNAVAILABLE",
    ]
    assert legend[-3:] == ["an error", "a restart", "a change of state"]


def test_requests_that_ended_in_the_queue_are_counted(hooks: RecorderHooks) -> None:
    reject = hooks.instruments.request_rejected
    assert reject is not None
    for serial, reason in enumerate(("queue full", "queue full", "cancelled"), start=10):
        reject(make_request(serial, at=8), reason, 9_000_000)
    view = Timeline(hooks.recording, "add")
    first = view.text().splitlines()[0]
    assert first.endswith("within 9 ms; 3 others ended in the queue (queue full: 2, cancelled: 1).")
    assert view.to_dict()["rejected"] == {"queue full": 2, "cancelled": 1}
    reject(make_request(20, model="busy"), "queue full", 9_000_000)
    text = "Timeline of busy: no request has been executed yet, 1 ended in the queue (queue full: 1)."
    assert repr(Timeline(hooks.recording, "busy")) == text


def test_copies_between_host_and_gpu_are_reported(hooks: RecorderHooks) -> None:
    hook = hooks.instruments.bytes_copied
    assert hook is not None
    hook("add", 1, 0, 4_000_000, 0, True, 0)
    hook("add", 1, 0, 0, 1_500, True, 0)
    hook("add", 3, 0, 0, 500, True, 0)
    view = Timeline(hooks.recording, "add")
    assert "\n  copied   4 MB to the simulated GPU, 2 kB back for 2 requests\n" in view.text()
    assert view.to_dict()["copies"] == {"requests": 2, "to_device": 4_000_000, "to_host": 2_000, "simulated": True}
    assert view.values(0) == ["copied 4 MB to the simulated GPU, 1.5 kB back"]
    assert view.values(1) == []
    assert view.values(2) == ["copied 500 bytes from the simulated GPU"]


def test_the_text_says_what_is_not_kept() -> None:
    hooks = RecorderHooks(events=2)
    for serial in range(4):
        hooks.execute(make_request(serial), start=serial, end=serial + 1)
    assert "within 2 ms; 4 older events are not kept." in repr(Timeline(hooks.recording, "add"))


def test_the_figure_is_svg_with_every_execution(hooks: RecorderHooks) -> None:
    view = Timeline(hooks.recording, "add")
    svg, legend = read(view.figure())
    assert titles(svg) == [
        "the last 3 executions of add",
        "size 2, 4 ms, closed because: shape",
        "size 1, 2 ms, closed because: delay",
        "size 1, 2 ms, closed because: delay",
        "error: request 3: no",
    ]
    assert texts(svg)[:2] == ["add_0_0", "add_0_1"]
    assert legend == ["execution, with its batch size", "failed", "a request that waits", "an error"]
    assert texts(svg)[-1].startswith("time of day, ") and texts(svg)[-1].endswith("; 2 ms between two marks")
    assert Timeline(hooks.recording, "other").figure() == ""


def test_the_table_has_the_executions(hooks: RecorderHooks) -> None:
    rows = Timeline(hooks.recording, "add").table()
    assert [row["start"] for row in rows] == [0, 0.004, 0.007]
    assert {type(row["start"]) for row in rows} == {float}  # as people read it, not np.float64(0.004)
    assert rows[1] == {
        "instance": "add_0_1",
        "start": 0.004,
        "took": 0.002,
        "requests": 1,
        "size": 1,
        "reason": "delay",
        "failed": True,
    }


def test_two_requests_say_why_they_were_apart(hooks: RecorderHooks, monkeypatch: pytest.MonkeyPatch) -> None:
    view = Timeline(hooks.recording, "add", config=lambda: CONFIG)
    assert view.why_apart(0, 1) == "request 1 and 'two' did share a batch."
    assert view.why_apart(1, 2).startswith("Input 'IN' is [2] in 'two' and [3] in request 3;")
    assert view.why_apart(0, 3).startswith(
        "request 4 came 2 ms after the batch of request 1 had left; that was closed by"
    )
    assert view.why_apart(0, 99) == "One of them is no longer kept, or never came."
    unknown = Timeline(hooks.recording, "add")
    assert unknown.why_apart(1, 2).startswith("The batch of 'two' was closed by a request of another shape")
    sent: list[Any] = []
    monkeypatch.setattr(view, "send", sent.append)
    view.on_message({"do": "why", "rows": [0, 1]})
    assert sent == [{"kind": "answer", "why": "request 1 and 'two' did share a batch."}]


def test_a_model_a_recording_and_files_have_the_same_view(hooks: RecorderHooks, tmp_path: Path) -> None:
    text = repr(open_view(hooks.recording, "timeline"))
    assert repr(tritonlab.view(hooks.recording.save(tmp_path / "day.npz"))) == text
    trace = tmp_path / "trace.json"
    stamps = (
        "REQUEST_START",
        "QUEUE_START",
        "COMPUTE_START",
        "COMPUTE_INPUT_END",
        "COMPUTE_OUTPUT_START",
        "COMPUTE_END",
    )
    entries = [{"id": 1, "timestamps": [{"name": name, "ns": n * 1000}]} for n, name in enumerate(stamps)]
    trace.write_text(json.dumps([{"id": 1, "model_name": "real", "model_version": 1}, *entries]))
    assert repr(tritonlab.view(trace)).startswith("Timeline of real: 1 request in 1 batch ")
    with pytest.raises(InvalidArgumentError, match="view 'graphs' does not exist: did you mean 'graph'"):
        open_view(hooks.recording, "graphs")
    with pytest.raises(InvalidArgumentError, match="the recording has no model 'none', only add"):
        open_view(hooks.recording, model="none")
    with pytest.raises(RecordingError):
        open_view(Path(__file__))
    with pytest.raises(RecordingError, match="neither a recording nor a trace file of Triton"):
        open_view(hooks.recording.perfetto(tmp_path / "perfetto.json"))


def test_a_model_in_service_is_seen_as_it_is(lab: Lab) -> None:
    model = lab.load("seen", ADD_SUB, ADD_SUB_CONFIG + "max_batch_size: 8\ndynamic_batching { }\n")
    view = model.view()
    ones = np.ones((1, 4), np.float32)
    model(INPUT0=ones, INPUT1=ones)
    message, buffers = view.news()
    assert message["live"] == {"instances": ["seen_0_0"], "waiting": [], "waiting_count": 0, "running": []}
    assert len(buffers) == 2
    lab.server.unload(model)
    assert "1 request in 1 batch" in repr(view)  # and still when it is gone
    view.news()


def test_a_request_of_an_open_timeline_tells_its_values(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    model = lab.load("valued", ADD_SUB, ADD_SUB_CONFIG)
    view = model.view()
    ones = np.ones(4, np.float32)
    sent: list[Any] = []
    monkeypatch.setattr(view, "send", lambda content, buffers=(): sent.append(content))
    monkeypatch.setattr(view._ticker, "_running", True)  # no thread of it
    model(INPUT0=ones, INPUT1=ones)
    view.on_message({"do": "open", "known": {}})
    model(INPUT0=ones * 2, INPUT1=ones)
    view.on_message({"do": "values", "row": 0})
    view.on_message({"do": "values", "row": 1})
    view.on_message({"do": "close"})
    assert lab.server.instruments.response_sent is None
    before, values = (answer["values"] for answer in sent)
    assert before == ["Its values are not kept; they are while a timeline is open, of 1,000 responses a second."]
    assert values[0] == "got INPUT0 = <Tensor FP32 [4] [2., 2., 2., 2.]>, 2.0 to 2.0"
    assert values[2:] == [
        "sent OUTPUT0 = <Tensor FP32 [4] [3., 3., 3., 3.]>, 3.0 to 3.0",
        "sent OUTPUT1 = <Tensor FP32 [4] [1., 1., 1., 1.]>, 1.0 to 1.0",
    ]
    lab.server.unload(model)


def test_a_recorder_that_raised_and_was_dropped_is_reported(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    view = lab.server.model("any").view()
    recorder = Recorder.for_instruments(lab.server.instruments)
    sent: list[Any] = []
    monkeypatch.setattr(view, "send", lambda content, buffers=(): sent.append(content))
    view.check()
    lab.server.instruments.remove(recorder)
    view.on_message({"do": "open", "known": {}})
    eventually(lambda: sent and sent[-1]["kind"] == "problem")
    assert "This view has stopped: RuntimeError: recording has stopped; open the view again." in sent[-1]["text"]


def test_a_view_of_a_server_that_has_ended_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(tmp_path, model_control_mode="explicit") as server:
        view = server.model("any").view()
    sent: list[Any] = []
    monkeypatch.setattr(view, "send", lambda content, buffers=(): sent.append(content))
    view.on_message({"do": "open", "known": {}})
    eventually(lambda: sent and sent[-1]["kind"] == "problem")
    assert sent[-1]["text"].startswith("This view has stopped: its server has ended.")
    assert not caplog.records


def test_a_request_that_executes_and_one_that_waits(lab: Lab, tmp_path: Path) -> None:
    wait = f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.005)"
    source = ADD_SUB.replace("responses = []", f"import os, time\n        {wait}\n        responses = []")
    model = lab.load("slow_view", source, ADD_SUB_CONFIG)
    ones = np.ones(4, np.float32)
    answers = [model.infer(inputs={"INPUT0": ones, "INPUT1": ones}) for _ in range(2)]
    message, _ = model.view().news()
    live = message["live"]
    assert (len(live["waiting"]), live["waiting_count"]) == (1, 1)
    assert [(one["instance"], one["size"], one["count"]) for one in live["running"]] == [("slow_view_0_0", 1, 1)]
    (tmp_path / "go").touch()
    assert [len(list(answer)) for answer in answers] == [1, 1]
    lab.server.unload(model)


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
