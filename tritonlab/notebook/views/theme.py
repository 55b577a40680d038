"""The looks of tritonlab's outputs in a notebook: a style sheet for live views, inline styles for stored ones.

Colours are JupyterLab's theme variables, then VS Code's, then plain values, so that the same HTML reads well in light
and dark themes. The tones (good, warn, bad) are mixed with the text colour, because JupyterLab's own are too light on
white.

A stored output has no style sheet: in a notebook of ten cells it would be nine tenths of nbconvert's markdown, and
GitHub shows it as text. The extension brings the sheet to JupyterLab and Notebook 7; elsewhere, as in a page of
nbconvert, the inline styles draw the parts that words alone do not convey.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

#: The style sheet, which is the extension's, too, and the ES modules that `extension/` builds.
STATIC = Path(__file__).resolve().parents[1] / "static"
STYLE = f"<style>\n{(STATIC / 'theme.css').read_text(encoding='utf-8')}</style>"

_DIM = "color:var(--tl-dim,color-mix(in srgb,currentColor 70%,transparent))"
#: By class, the style of an element without a style sheet. The sheet's variables and classes take precedence.
_INLINE = {
    "tl-card": "display:inline-block;padding:8px 14px;border:1px solid var(--tl-line,#8884);border-radius:6px",
    "tl-view": "padding:8px 10px;border:1px solid var(--tl-line,#8884);border-radius:6px",
    "tl-dot": "display:inline-block;width:9px;height:9px;border-radius:50%;background:currentColor",
    "tl-name": "font-weight:600",
    "tl-state": "font-weight:600",
    "tl-dim": _DIM,
    "tl-good": "color:var(--tl-good,#22a35a)",
    "tl-warn": "color:var(--tl-warn,#c47400)",
    "tl-bad": "color:var(--tl-bad,#e0443c)",
    "tl-stderr": "color:var(--tl-warn,#c47400)",
    "tl-error": "color:var(--tl-bad,#e0443c)",
    "tl-note": "margin-top:6px;padding:3px 8px;border-left:3px solid var(--tl-line,#8888)",
    "tl-text": "white-space:pre-wrap",
    "tl-value": "white-space:pre-wrap",
    "tl-bar": "display:flex;height:10px;max-width:480px;border-radius:5px;overflow:hidden;margin:5px 0 3px",
    "tl-key": "display:inline-block;width:9px;height:9px;margin-right:4px",
    "tl-histogram": "display:flex;align-items:flex-end;gap:1px;height:64px;max-width:480px",
    "tl-axis": f"display:flex;justify-content:space-between;max-width:480px;{_DIM}",
    "tl-pane": "margin:4px 0;padding:4px 8px;border:1px solid var(--tl-line,#8884);border-radius:4px",
    "tl-pane-text": "white-space:pre-wrap",
    "tl-picture": "max-width:256px;max-height:256px",
}
for _gap, (_tone, _share) in enumerate((("#1976d2", 20), ("#1976d2", 42), ("#d98000", 34), ("#f04a42", 38)), 1):
    _INLINE[f"tl-gap-{_gap}"] = f"background:color-mix(in srgb,{_tone} {_share}%,transparent)"
_CLASSES = re.compile(r"class='([^'<>]*)'(?: style='([^'<>]*)')?")


def stored_html(html: str) -> str:
    """Return HTML that needs no style sheet, made from HTML with our classes."""
    parts = _CLASSES.split(html)  # a text, the classes and the style of an element, a text, ...
    for index in range(1, len(parts), 3):
        classes, own = parts[index : index + 2]
        styles = ";".join(filter(None, [_inline_styles(classes), own]))
        parts[index] = f"class='{classes}'"
        parts[index + 1] = f" style='{styles}'" if styles else ""
    return "".join(parts)


@functools.lru_cache(256)
def _inline_styles(classes: str) -> str:
    return ";".join([_INLINE[name] for name in classes.split() if name in _INLINE])
