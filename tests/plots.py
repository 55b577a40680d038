"""What `plot` of a result draws, with matplotlib and without a screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
pyplot: Any = pytest.importorskip("matplotlib.pyplot")

Plot = Callable[..., Any]


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    pyplot.close("all")


def drawn(plot: Plot) -> Any:
    """Draw in a new figure, and in the second of two subplots, which must look the same; return the first Axes."""
    axes = plot()
    _, (other, second) = pyplot.subplots(1, 2, figsize=(14, 5), layout="constrained")
    assert plot(ax=second) is second and not other.lines and not other.patches
    for ax in (axes, second):
        assert ax.get_title() and ax.get_xlabel() and ax.get_ylabel() is not None
        _check_inside(ax)
    assert facts(axes) == facts(second)
    return axes


def facts(ax: Any) -> dict[str, Any]:
    """Return the words of Axes."""
    legend = ax.get_legend()
    return {
        "title": ax.get_title(),
        "x": ax.get_xlabel(),
        "y": ax.get_ylabel(),
        "legend": [text.get_text() for text in legend.get_texts()] if legend is not None else [],
    }


def _check_inside(ax: Any) -> None:
    """Check that no label is clipped by the figure's edge."""
    figure = ax.get_figure()
    figure.canvas.draw()
    drawn, (wide, high) = figure.get_tightbbox(), figure.get_size_inches()
    assert drawn.x0 >= 0 and drawn.y0 >= 0 and drawn.x1 <= wide and drawn.y1 <= high
