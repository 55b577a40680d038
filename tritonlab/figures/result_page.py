"""A self-contained page with the verdict of a tool, for other people: light or dark as the reader's system is."""

from __future__ import annotations

from html import escape
from typing import Literal

from .tables import prose

Tone = Literal["good", "bad", "open"]

_STYLE = """
:root { --ink: #1f2328; --paper: #fff; --line: #d0d7de; --good: #1a7f37; --bad: #cf222e; --open: #9a6700; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: var(--ink);
  background: var(--paper); }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin: 1.8rem 0 .4rem; }
table { border-collapse: collapse; margin: .5rem 0 1rem; width: 100%; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; vertical-align: top; }
td { overflow-wrap: anywhere; }
.verdict { border: 1px solid var(--line); border-left: .5rem solid; padding: .5rem 1rem; margin: .6rem 0; }
.verdict strong { font-size: 1.2rem; }
.good { border-left-color: var(--good); } .bad { border-left-color: var(--bad); }
.open { border-left-color: var(--open); }
.good strong { color: var(--good); } .bad strong { color: var(--bad); } .open strong { color: var(--open); }
code { padding: 0 .2em; border-radius: .2em; background: color-mix(in srgb, var(--ink) 9%, transparent); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .2rem 0; font-size: 13px; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --paper: #0d1117; --line: #3d444d; --good: #3fb950; --bad: #ff7b72; --open: #d29922; }
}
@media print {
  body { max-width: none; margin: 0; font-size: 11pt; -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  tr, li, svg, .verdict { break-inside: avoid; } h2 { break-after: avoid; }
}
"""
_MARKS: dict[Tone, str] = {"good": "✓", "bad": "✗", "open": "?"}


def result_page(title: str, facts: str, body: str) -> str:
    """Return a page as one file. `facts`: the line below its title; `body`: HTML."""
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'><meta name='color-scheme' content='light dark'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style><h1>{escape(title)}</h1><p>{escape(facts)}</p>"
        f"{body}</html>\n"
    )


def verdict_banner(tone: Tone, head: str, text: str) -> str:
    """Return the verdict in a frame of its tone."""
    return f"<div class='verdict {tone}'><strong>{_MARKS[tone]} {escape(head)}</strong><div>{prose(text)}</div></div>"
