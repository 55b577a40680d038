"""A picture as a notebook stores it: an image that contains its data, which every reader shows.

Sanitizers reduce inline SVG to its words: JupyterLab's for a notebook that is not trusted, GitHub's, mail readers'. An
`<img>` with a `data:` address passes them. Such an image does not get the colours or the theme of the page, so it has
its own background, legible on light and dark pages; the style sheet inverts it in JupyterLab's dark theme. (nbconvert's
`sanitize_html` passes no `<img>` in HTML at all.)
"""

from __future__ import annotations

import base64
import re
import time
from html import escape

from .svg_picture import FACES, FONT

_PAPER, _INK, _PAD = "#ffffff", "#212121", 8
_ROOT = re.compile(r"<svg role='img' aria-label='([^']*)' viewBox='(\S+) (\S+) (\S+) (\S+)'[^>]*>")
#: Tooltips, which an image does not show.
_TITLE = re.compile(r"<title>[^<]*</title>")


def stored_picture(svg: str, when: float | None, alt: str = "", *, has_caption: bool = False) -> str:
    """Return an `<img>` of the picture `svg`, inline SVG; empty for an empty text. `when`: wall clock seconds, if
    known; `alt`: the facts in the picture as words, by default its label, which is also the caption.
    """
    root = _ROOT.match(svg)
    if root is None:
        return ""
    label, *numbers = root.groups()
    left, top, width, height = map(float, numbers)
    wide, high = f"{width + 2 * _PAD:g}", f"{height + 2 * _PAD:g}"
    x, y = f"{left - _PAD:g}", f"{top - _PAD:g}"
    image = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='{x} {y} {wide} {high}' width='{wide}' height='{high}' "
        f'style="font:{FONT}px {FACES};fill:currentColor;color:{_INK};--jp-layout-color1:{_PAPER}">'
        f"<rect x='{x}' y='{y}' width='{wide}' height='{high}' rx='4' fill='{_PAPER}'/>"
        f"{_TITLE.sub('', svg[root.end() :])}"
    )
    title = f"title='{date_text(when)}' " if when is not None else ""
    caption = f"<div class='tl-dim'>{label[:1].upper()}{label[1:]}:</div>" if has_caption else ""
    return (
        f"{caption}<div><img class='tl-stored' width='{wide}' style='max-width:100%' alt='{escape(alt) or label}' "
        f"{title}src='{data_address('image/svg+xml', image.encode())}'></div>"
    )


def data_address(kind: str, data: bytes) -> str:
    """Return an address that contains its file. `kind`: the media type."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def date_line(when: float) -> str:
    """Return the line below a stored picture, with its time."""
    return f"<div class='tl-dim'>{date_text(when)}</div>"


def date_text(when: float) -> str:
    """Return `at 14:03:22, 23 Nov 2026`."""
    return f"at {time.strftime('%H:%M:%S, %d %b %Y', time.localtime(when))}"
