"""Pictures as a notebook stores them."""

from __future__ import annotations

import base64
import re
import time
from html.parser import HTMLParser
from xml.etree import ElementTree

from tritonlab.figures.stored_picture import date_line, stored_picture

WHEN = time.mktime((2026, 11, 23, 14, 3, 22, 0, 0, -1))
SVG = (
    "<svg role='img' aria-label='lanes of &lt;m&gt;' viewBox='0 0 100 40' width='100' style='x'>"
    "<title>lanes</title><g><title>size 4</title><rect x='1' width='9' fill='#1976d2'/></g></svg>"
)


def image_of(html: str) -> dict[str, str]:
    """Return the attributes of the only `<img>`."""
    found: list[dict[str, str]] = []

    class Images(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag == "img":
                found.append({name: value or "" for name, value in attrs})

    Images().feed(html)
    (image,) = found
    return image


def test_a_picture_is_an_image_with_its_data_words_and_date() -> None:
    image = image_of(stored_picture(SVG, WHEN, "3 batches\n of 'm' & <n>"))
    assert image["alt"] == "3 batches\n of 'm' & <n>"
    assert image["title"] == "at 14:03:22, 23 Nov 2026"
    kind, data = image["src"].split(",", 1)
    assert kind == "data:image/svg+xml;base64"
    root = ElementTree.fromstring(base64.b64decode(data))
    names = [re.sub("{.*}", "", one.tag) for one in root.iter()]
    assert root.tag == "{http://www.w3.org/2000/svg}svg"  # an image without its namespace is not drawn
    assert names == ["svg", "rect", "g", "rect"]  # the paper and the mark, without tooltips


def test_a_picture_without_words_has_its_label() -> None:
    assert image_of(stored_picture(SVG, WHEN))["alt"] == "lanes of <m>"


def test_the_paper_covers_the_picture_and_a_margin() -> None:
    data = image_of(stored_picture(SVG.replace("0 0 100", "-1 -1 100"), WHEN))["src"].split(",")[1]
    root = ElementTree.fromstring(base64.b64decode(data))
    assert root.get("viewBox") == "-9 -9 116 56"
    paper = root[0]
    assert [paper.get(name) for name in ("x", "y", "width", "height", "fill")] == ["-9", "-9", "116", "56", "#ffffff"]


def test_no_picture_is_no_image() -> None:
    assert stored_picture("", WHEN, "words") == ""


def test_the_date_is_readable_below_the_picture() -> None:
    assert "at 14:03:22, 23 Nov 2026" in date_line(WHEN)
