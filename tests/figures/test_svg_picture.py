"""Pictures as SVG text: scales, marks of axes, widths of texts, legends."""

from __future__ import annotations

import time
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from tests.pictures import read, texts
from tritonlab.figures import svg_picture
from tritonlab.figures.svg_picture import Key, Scale, SvgPicture, Tick, fitted, round_steps, text_width, time_ticks

MS, SECOND = 1_000_000, 1_000_000_000
#: 14:03:22 of a day in the zone of this machine.
NOON = int(time.mktime((2026, 11, 23, 14, 3, 22, 0, 0, -1))) * SECOND


@pytest.mark.parametrize(
    ("span", "marks"),
    [
        (800, ["14:03:22.0000002", "14:03:22.0000004"]),
        (30 * MS, ["14:03:22.005", "14:03:22.010"]),
        (3 * SECOND, ["14:03:22.5", "14:03:23.0"]),
        (40 * SECOND, ["14:03:30", "14:03:40"]),
        (257 * SECOND, ["14:04", "14:05"]),
        (5 * 3600 * SECOND, ["15:00", "16:00"]),
        (9 * 86400 * SECOND, ["25 Nov", "27 Nov"]),
    ],
)
def test_a_time_axis_has_the_time_of_day_at_round_times(span: int, marks: list[str]) -> None:
    ticks = time_ticks(1, 1 + span, NOON)
    assert [tick.text for tick in ticks][:2] == marks
    assert 2 <= len(ticks) <= 7 and all(1 <= tick.value <= 1 + span for tick in ticks)


def test_a_time_axis_of_one_moment_has_no_two_marks() -> None:
    assert len(time_ticks(5, 5, NOON)) == 1


def test_marks_of_a_number_axis_are_round_and_few() -> None:
    assert round_steps(0, 45.3) == [0, 10, 20, 30, 40]
    assert round_steps(0, 1.9) == [0, 0.5, 1, 1.5]
    assert round_steps(-0.08, 1.0) == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert round_steps(-0.4, 0.35) == [-0.4, -0.2, 0, 0.2]
    assert round_steps(0, 0) == [0] and round_steps(0, float("nan")) == [0]


def test_a_name_keeps_the_end_that_tells_it_apart_and_its_tooltip() -> None:
    assert fitted("add_0_0", 100) == "add_0_0"
    long = "x" * 100_000
    assert fitted(f"y{long}", 100) == "yxxxxxxxxxxx…" and fitted(f"{long}y", 100, end=True) == "…xxxxxxxxxxxy"
    cut = fitted("a_preprocessing_of_images_0_1", 100, end=True)
    assert cut.startswith("…") and cut.endswith("_0_1") and text_width(cut) <= 100
    picture = SvgPicture("lanes")
    picture.name(10, "a_preprocessing_of_images_0_1", 112)
    (name,) = ElementTree.fromstring(picture.svg()).findall("text")
    assert (name.text, [title.text for title in name]) == (cut, ["a_preprocessing_of_images_0_1"])


def test_texts_of_people_are_escaped() -> None:
    picture = SvgPicture("<m> & 'n'")
    picture.text(0, 10, "<m> & 'n'", title="<t>")
    with picture.group("a < b"):
        picture.rect(0, 0, 1, 1, "red")
    root, _ = read(picture.svg())
    assert root.get("aria-label") == "<m> & 'n'" and texts(root) == ["<m> & 'n'"]


def test_a_legend_takes_as_many_lines_as_it_needs_and_stays_in_the_picture() -> None:
    picture = SvgPicture("many", 300)
    picture.legend([Key(shape, "red", f"mark number {n}") for n, shape in enumerate(svg_picture.SHAPES)])
    root = ElementTree.fromstring(picture.svg())
    (legend,) = (group for group in root if group.get("class") == "tl-legend")
    ends = [float(text.get("x", 0)) + text_width(text.text or "") for text in legend.iter("text")]
    assert len(ends) == len(svg_picture.SHAPES) and max(ends) <= 300
    assert len({text.get("y") for text in legend.iter("text")}) > 1 and picture.height > 22


def test_numbers_of_an_axis_do_not_cover_one_another_nor_leave_the_picture() -> None:
    picture = SvgPicture("axis", 200)
    picture.x_axis(Scale(0, 10, 0, 200), [Tick(n, f"value {n}") for n in range(11)], "a name that is rather long")
    root, _ = read(picture.svg())
    spans = [
        (float(text.get("x", 0)) - text_width(text.text or "") / 2, text_width(text.text or ""))
        for text in root.iter("text")
    ]
    *numbers, name = spans
    assert 2 <= len(numbers) < 11
    assert all(left > -0.1 and left + wide < 200.1 for left, wide in [*numbers, name])
    assert all(one[0] + one[1] < other[0] for one, other in pairwise(numbers))
    assert picture.height >= 38
