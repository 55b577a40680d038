"""The proof of an opened repository asks for as much as that of single models."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritonlab
from tests.serving import write_model
from tests.tools.deploy.preflight.corpus import CONFIG, Code
from tritonlab import Model
from tritonlab.record.recorder import Recorder
from tritonlab.runtime import open_repository
from tritonlab.tools.deploy import repository
from tritonlab.tools.deploy.child_command import Cancelled
from tritonlab.tools.deploy.whole_repository import export_opened


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A file of this machine."""
    file = tmp_path / "scale.txt"
    file.write_text("2")
    yield file
    tritonlab.reset()


def test_what_its_requests_read_of_this_machine_is_open(
    outside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed_on: dict[str, Any] = {}

    def verify(place: Path, **options: Any) -> None:
        passed_on.update(options)
        raise Cancelled("cancelled")

    monkeypatch.setattr(repository, "verify", verify)
    write_model(tmp_path / "source", "m", Code(execute=f"k = float(open({str(outside)!r}).read())").source(), CONFIG)
    opened = open_repository(tmp_path / "source")
    Recorder.for_instruments(opened.workspace.server.instruments)
    model = opened["m"].load()
    assert isinstance(model, Model)
    model(X=np.float32([1, 2]))
    with pytest.raises(Cancelled, match=r"the proof was cancelled; .*/models was written before, and stays"):
        export_opened(opened, tmp_path / "out" / "models", verify="2.51")
    assert outside in passed_on["reads"] and [case.model for case in passed_on["requests"]] == ["m"]
    (finding,) = passed_on["open_findings"]["m"]
    assert str(outside) in finding


def test_a_cancelled_export_leaves_nothing(outside: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "source", "m", Code().source(), CONFIG)
    opened = open_repository(tmp_path / "source")
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        export_opened(opened, tmp_path / "out" / "models", cancel=cancel)
    assert not (tmp_path / "out").exists()


def test_a_finding_names_the_line_of_the_repository(outside: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "source", "m", Code(execute="k = not_defined").source(), CONFIG)
    report = export_opened(open_repository(tmp_path / "source"), tmp_path / "out")
    found = report.models[0].preflight
    assert found is not None and found.findings[0].source_line.startswith(f"{tmp_path / 'source' / 'm'}/1/model.py:")
