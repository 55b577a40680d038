"""Pictures as tests read them."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree


def read(svg: str) -> tuple[ElementTree.Element, list[str]]:
    """Return a picture without its legend, and the texts of that."""
    root = ElementTree.fromstring(svg)
    legends = [group for group in root if group.get("class") == "tl-legend"]
    for legend in legends:
        root.remove(legend)
    return root, [text.text or "" for legend in legends for text in legend.iter("text")]


def texts(root: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in root.iter("text")]


def titles(root: ElementTree.Element) -> list[str]:
    return [title.text or "" for title in root.iter("title")]


def stored(html: str) -> list[str]:
    """Return the pictures of a page that are images, without their namespaces."""
    found = re.findall(r"data:image/svg\+xml;base64,([^\"']+)", html)
    return [base64.b64decode(data).decode().replace(" xmlns='http://www.w3.org/2000/svg'", "") for data in found]
