"""The Axes that results plot on."""

from __future__ import annotations

import datetime
import subprocess
import sys

import numpy as np
import pytest

from tests.plots import closed_figures, pyplot
from tritonlab.figures.axes import axes_of, days, name_time_axis, time_unit

__all__ = ["closed_figures"]


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"plot\(\) needs matplotlib.*pip install 'tritonlab\[lab\]'"):
        axes_of(None)


def test_axes_of_the_caller_are_drawn_on() -> None:
    _, ax = pyplot.subplots()
    assert axes_of(ax) is ax and axes_of(None) is not ax


def test_tritonlab_imports_no_matplotlib() -> None:
    source = "import sys, tritonlab, tritonlab.tools.measure.load_testing.load_result\n"
    source += "import tritonlab.tools.measure.tuning.tune_result\n"
    source += "import tritonlab.notebook.views.record.metrics, tritonlab.notebook.views.record.timeline\n"
    source += "sys.exit(any(name.startswith('matplotlib') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", source], check=False).returncode == 0


def test_times_become_dates_in_local_time() -> None:
    num2date = pytest.importorskip("matplotlib.dates").num2date
    wall = 1_800_000_000_000_000_000
    (one, other) = days(np.array([0.0, 1_500_000.0]), wall)
    assert (other - one) * 86400 == pytest.approx(0.0015, abs=1e-6)
    local = datetime.datetime.fromtimestamp(1_800_000_000)
    assert abs(num2date(one).replace(tzinfo=None) - local) < datetime.timedelta(milliseconds=1)
    assert len(days([], wall)) == 0


@pytest.mark.parametrize(("most", "unit"), [(5e6, (1e6, "s")), (2_000, (1e3, "ms")), (40, (1, "µs")), (0.5, (1, "µs"))])
def test_times_are_in_the_unit_that_reads_best(most: float, unit: tuple[float, str]) -> None:
    assert time_unit(most) == unit


def test_marks_are_the_time_of_day_of_what_is_visible() -> None:
    wall = 1_800_000_000_000_000_000
    _, ax = pyplot.subplots()
    ax.plot(days(np.array([0.0, 60e9]), wall), [0, 1])
    name_time_axis(ax)
    clock = datetime.datetime.fromtimestamp(1_800_000_000)
    labels = {text.get_text() for text in ax.get_xticklabels()}
    assert f"{clock + datetime.timedelta(seconds=15):%H:%M:%S}" in labels
    ax.set_xlim(*days(np.array([0.0, 10e6]), wall))  # as a person who looks closer
    labels = {text.get_text() for text in ax.get_xticklabels()}
    assert f"{clock:%H:%M:%S}.0040" in labels and ax.get_xlabel() == "time of day"
