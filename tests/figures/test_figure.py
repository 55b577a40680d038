"""One figure, drawn as SVG text and by matplotlib."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.pictures import read, texts, titles
from tests.plots import closed_figures, drawn, facts
from tritonlab.core.status import UnavailableError
from tritonlab.figures.figure import Axis, Figure, Lanes, Point, Points, Span, Spans
from tritonlab.figures.svg_picture import INK

__all__ = ["closed_figures"]


@pytest.fixture
def lanes() -> Figure:
    return Figure(
        "gains",
        Axis("gained, %", 0, 50, "{:+.0f}%".format),
        Lanes(["a", "b"], height=20, drawn=16, foot=12, second="again"),
        [
            Spans([Span(0, 50, 0, "fifty", "+50%"), Span(0, 0, 20, text="none")], "red", "gain", size=8, beside=True),
            Spans([Span(-5, 90, 8)], INK, "range", ", as a line", shape="line"),
            Points([Point(10, 36)], "red", "event", shape="triangle"),
        ],
    )


def test_a_text_without_room_is_left_out() -> None:
    crowd = Points([Point(1 + n / 1000, 1, text=f"{n}") for n in range(40)], "red")
    svg = ElementTree.fromstring(Figure("crowd", Axis("", 0, 10, str), Axis("", 0, 2, str), [crowd]).svg())
    assert 1 <= len({text.text for text in svg.iter("text")} & {f"{n}" for n in range(3, 40)}) < 20


def test_lanes_have_blocks_lines_and_events(lanes: Figure) -> None:
    svg, legend = read(lanes.svg())
    assert legend == ["gain", "range, as a line", "event"]
    assert texts(svg)[:4] == ["a", "again", "b", "again"] and {"+50%", "none"} <= set(texts(svg))
    assert len(list(svg.iter("rect"))) == 1  # a span of no length has its text alone
    assert titles(svg) == ["gains", "fifty"]


def test_lanes_are_the_same_in_matplotlib(lanes: Figure) -> None:
    ax = drawn(lambda ax=None: lanes.plot(ax, "Gains"))
    assert set(facts(ax)["legend"]) == {"gain", "range", "event"}
    assert [(bar.get_y(), bar.get_width()) for bar in ax.patches] == [(-0.4, 50), (0.6, 0)]
    bottom, top = ax.get_ylim()
    assert bottom > 1.4 > top  # the event is below the lanes, and shown


def test_points_on_an_axis_of_numbers_have_their_texts_in_matplotlib() -> None:
    line = Points([Point(1, 2, text="two"), Point(3, 4)], "red", "answers", shape="dashes")
    figure = Figure("growth", Axis("requests", 0, 10, str, note="each second"), Axis("MB", 0, 5, str), [line])
    ax = drawn(lambda ax=None: figure.plot(ax, "Growth"))
    assert [text.get_text() for text in ax.texts] == ["two"] and ax.get_ylim() == (0, 5)
    assert ax.get_ylabel() == "MB" and ax.get_legend().get_title().get_text() == "each second"


def test_a_span_of_dashes_has_no_height() -> None:
    limit = Spans([Span(0, 50, 8)], INK, "limit", shape="dashes")
    svg, _ = read(Figure("limit", Axis("", 0, 50, str), Lanes(["a"], height=20, drawn=16, foot=12), [limit]).svg())
    assert not list(svg.iter("rect")) and "stroke-dasharray" in ElementTree.tostring(svg).decode()


def test_an_empty_figure_is_not_plotted() -> None:
    with pytest.raises(UnavailableError, match="there is nothing to plot: no request came"):
        Figure("empty", Axis("", 0, 1, str), Axis("", 0, 1, str), []).plot(None, "Empty", nothing="no request came")
