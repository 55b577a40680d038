from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serving import Lab
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.observe.instrument import HOOKS, Instruments
from tritonlab.core.observe.trace import Trace
from tritonlab.core.observe.trace_settings import TraceSetting, TraceSettings
from tritonlab.core.status import InvalidArgumentError
from tritonlab.server.observe.tracer import RECEPTION, Reception, TraceFile, Tracer


class Bench:
    """A tracer on its own, and the records that it logs."""

    def __init__(self, setting: TraceSetting) -> None:
        self.instruments = Instruments()
        self.records: list[tuple[str, str]] = []
        self.settings = TraceSettings(setting, lambda name: True, lambda: self.refresh())
        self.tracer = Tracer(self.settings, self.instruments, lambda *record: self.records.append(record))
        self.tracer.refresh()

    def refresh(self) -> None:
        self.tracer.refresh()

    @property
    def listening(self) -> bool:
        return any(getattr(self.instruments, name) is not None for name in HOOKS)

    def run(self, request: InferenceRequest) -> None:
        """Do all that happens to a request without an execution."""
        self.instruments.request_released(request, 5)  # type: ignore[misc]


def setting(tmp_path: Path, **fields: Any) -> TraceSetting:
    return TraceSetting(("TIMESTAMPS",), 1, file=str(tmp_path / "t.json"), **fields)


def test_it_does_not_listen_while_nothing_is_traced() -> None:
    bench = Bench(TraceSetting())
    assert (bench.tracer.active, bench.listening) == (False, False)
    assert bench.tracer.begin(InferenceRequest("m", {})) is None


def test_it_listens_until_the_last_traced_request_has_ended(tmp_path: Path) -> None:
    bench = Bench(setting(tmp_path, count=1))
    assert (bench.tracer.active, bench.listening) == (True, True)
    request = InferenceRequest("m", {})
    assert bench.tracer.begin(request) is request.trace
    assert (bench.tracer.active, bench.listening) == (False, True)
    bench.run(request)
    assert not bench.listening
    bench.tracer.flush()
    written = json.loads((tmp_path / "t.json").read_text())
    assert [entry["id"] for entry in written] == [1] * 4


def test_a_refused_request_is_forgotten(tmp_path: Path) -> None:
    bench = Bench(setting(tmp_path, count=1))
    trace = bench.tracer.begin(InferenceRequest("m", {}))
    assert trace is not None
    bench.tracer.forget(trace)
    assert not bench.listening
    bench.tracer.flush()
    assert not (tmp_path / "t.json").exists()


def test_a_request_of_a_model_joins_the_trace_that_it_names(tmp_path: Path) -> None:
    bench = Bench(setting(tmp_path))
    request, inner, late = (InferenceRequest("m", {}) for _ in range(3))
    trace = bench.tracer.begin(request)
    assert trace is not None
    request.queue_start = 1
    bench.instruments.execute_started("m_0_0", 1, [request], 2)  # type: ignore[misc]
    bench.tracer.adopt(inner, trace.ident)
    assert inner.trace is not None
    assert inner.trace.parent_id == trace.ident
    bench.tracer.adopt(late, 77)
    assert late.trace is None


def begun(bench: Bench, request: InferenceRequest, context: str) -> Trace | None:
    """Return the trace of a request that came with these headers."""
    token = RECEPTION.set(Reception(context))
    try:
        return bench.tracer.begin(request)
    finally:
        RECEPTION.reset(token)


def test_what_a_frontend_knows_is_waited_for(tmp_path: Path) -> None:
    bench = Bench(setting(tmp_path, log_frequency=1))
    request, reception = InferenceRequest("m", {}), Reception()
    reception.stamp("HTTP_RECV_START", 1)
    token = RECEPTION.set(reception)
    trace = bench.tracer.begin(request)
    RECEPTION.reset(token)
    bench.run(request)
    reception.stamp("HTTP_SEND_END", 9)
    assert list(tmp_path.iterdir()) == []
    reception.end()
    assert reception.trace is trace
    (path,) = tmp_path.iterdir()
    entries = json.loads(path.read_text())
    assert entries[0] == {"id": 1, "timestamps": [{"name": "HTTP_RECV_START", "ns": 1}]}
    assert entries[-1] == {"id": 1, "timestamps": [{"name": "HTTP_SEND_END", "ns": 9}]}
    Reception().end()  # of a request that is not traced


def test_opentelemetry_gives_contexts_and_says_that_nothing_is_sent() -> None:
    bench = Bench(TraceSetting(("TIMESTAMPS",), 1000, mode="opentelemetry"))
    ((level, text),) = bench.records
    assert (level, "no span is sent" in text) == ("WARNING", True)
    sent = json.dumps({"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
    request = InferenceRequest("m", {})
    trace = begun(bench, request, sent)
    assert trace is not None
    assert trace.context is not None
    version, trace_id, span, flags = json.loads(trace.context)["traceparent"].split("-")
    assert (version, trace_id, flags, len(span)) == ("00", "a" * 32, "01", 16)
    assert span != "b" * 16
    strange = begun(bench, InferenceRequest("m", {}), "no JSON")
    assert strange is not None
    assert strange.context is not None
    bench.run(request)
    assert bench.records == [(level, text)]


def test_a_file_without_a_frequency_is_one_array(tmp_path: Path) -> None:
    file = TraceFile(str(tmp_path / "t"))
    (tmp_path / "t").write_text("of an earlier run")
    file.flush()
    file.add('{"id":1},{"id":1}', 0)
    file.flush()
    assert json.loads((tmp_path / "t").read_text()) == [{"id": 1}, {"id": 1}]
    file.add('{"id":2}', 0)
    file.add('{"id":3}', 0)
    file.flush()
    assert [entry["id"] for entry in json.loads((tmp_path / "t").read_text())] == [1, 1, 2, 3]


def test_files_of_so_many_traces(tmp_path: Path) -> None:
    file = TraceFile(str(tmp_path / "t"))
    for number in range(5):
        file.add(f'{{"id":{number}}}', 2)
    file.flush()
    assert [(p.name, p.read_text()) for p in sorted(tmp_path.iterdir())] == [
        ("t.0", '[{"id":0},{"id":1}]'),
        ("t.1", '[{"id":2},{"id":3}]'),
        ("t.2", '[{"id":4}]'),
    ]


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    bench = Bench(TraceSetting(("TIMESTAMPS",), 1, log_frequency=1, file=str(tmp_path / "no" / "t")))
    request = InferenceRequest("m", {})
    bench.tracer.begin(request)
    bench.run(request)
    ((level, text),) = bench.records
    assert (level, text.startswith("the trace file cannot be written: ")) == ("ERROR", True)


def test_a_server_looks_at_requests_only_while_it_traces(lab: Lab, tmp_path: Path) -> None:
    core, settings = lab.server.core, lab.server.trace_settings
    script = lab.script("traced")
    assert not core.tracer.active
    settings.start(setting(tmp_path, log_frequency=1))
    assert core.tracer.active
    script("return [answer()]")
    with pytest.raises(InvalidArgumentError):
        script.model.infer(inputs={"NOPE": np.zeros(1)})
    settings.stop()
    assert not core.tracer.active
    script("return [answer()]")
    (path,) = tmp_path.iterdir()
    assert json.loads(path.read_text())[0] == {"id": 1, "model_name": "traced", "model_version": 1}
    lab.server.unload("traced")
