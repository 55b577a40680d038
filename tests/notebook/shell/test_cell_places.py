"""Lines of cells in texts, such as the watchdog's report in a notebook."""

from __future__ import annotations

from typing import Any

import pytest

from tritonlab.core.observe.instrument import Instruments
from tritonlab.notebook.shell.cell_places import CellPlaces
from tritonlab.notebook.shell.running_cell import RunningCell, WaitingNotice

REPORT = """\
request 1 of model 'm' waits for 10.0 s:
  File "{}/1/model.py", line 2, in execute
  File "/lib/x.py", line 3"""


def test_lines_of_models_are_those_of_the_cells(capsys: pytest.CaptureFixture[str]) -> None:
    def locate(file: str, line: int) -> tuple[str, int]:
        return ("cell", line + 5) if file == "/m/1/model.py" else (file, line)

    instruments = Instruments()
    for _ in range(2):  # the extension may be loaded again
        notice = WaitingNotice(CellPlaces(locate, lambda origin: f"Cell {origin}"), RunningCell())
        instruments.replace(notice)
        instruments.replace(notice)
    assert list(instruments) == [notice]
    assert instruments.requests_wait is not None
    instruments.requests_wait("m", REPORT.format("/m"), 0)
    assert capsys.readouterr().err == (
        "request 1 of model 'm' waits for 10.0 s:\n  Cell cell, line 7, in execute\n  File \"/lib/x.py\", line 3\n"
    )


def test_frames_below_tritons_at_are_those_of_the_cells() -> None:
    places = CellPlaces(lambda file, line: ("cell", line + 5) if file == "/m/1/model.py" else (file, line), str.title)
    text = "IndexError: no\n\nAt:\n  /lib/x.py(3): get\n  /m/1/model.py(2): execute\n"
    cited = "IndexError: no\n\nAt:\n  /lib/x.py(3): get\n  Cell, line 7: execute\n"
    assert places(text) == cited
    assert places(text.replace("At:", "")) == text.replace("At:", "")


def test_a_warning_is_placed_in_the_cell() -> None:
    places = CellPlaces(lambda file, line: ("cell", line + 5) if file == "/m/1/model.py" else (file, line), str.title)
    assert places("/m/1/model.py:2: UserWarning: careful") == "Cell, line 7: UserWarning: careful"
    assert places("/lib/x.py:3: DeprecationWarning: old") == "/lib/x.py:3: DeprecationWarning: old"


def test_the_lines_of_a_version_from_before_the_cell_was_changed_stay(notebook: Any) -> None:
    cell = "%%triton_model m\nclass TritonPythonModel:\n    def execute(self, requests): pass"
    notebook.run(cell)
    report = 'File "{}/1/model.py", line 2, in execute\n    {}'
    call = "m.server.core.instruments.requests_wait('m', {!r}.format(m.directory, {!r}), 0)"
    model = notebook.number()
    result = notebook.run(call.format(report, "def execute(self, requests): pass"))
    assert f"Cell In[{model}], line 3, in execute\n    def execute(self, requests): pass" in result.text
    result = notebook.run(call.format(report, "time.sleep(600)"))
    assert '/1/model.py", line 2, in execute\n    time.sleep(600)' in result.text
    notebook.run("%%triton_model m\n\n" + cell.partition("\n")[2])
    result = notebook.run(call.format(report, "def execute(self, requests): pass"))
    assert f"Cell In[{model}], line 3, in execute\n    def execute(self, requests): pass" in result.text


def test_it_appears_below_the_cell_that_waits(notebook: Any) -> None:
    notebook.run("%%triton_model m\nclass TritonPythonModel:\n    def execute(self, requests): pass")
    model = notebook.number()
    result = notebook.run(f"m.server.core.instruments.requests_wait('m', {REPORT!r}.format(m.directory), 0)")
    assert f"  Cell In[{model}], line 3, in execute\n" in result.text
