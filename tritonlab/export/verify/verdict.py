"""The result of a verification: as text, as JSON values, and as one page to hand on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ...core.html_table import cell
from ...core.plain_facts import few_lines
from .judgement import EQUAL, NOT_VERIFIED, WORDS, ModelJudgement


@dataclass(frozen=True)
class ReleaseVerdict:
    """What one judge found. `hidden`: what of the author's machine it did not see; `is_hidden`: whether that is
    everything that could be; `problem`: why it did not judge, or ended early."""

    release: str
    judge: str
    hidden: str = ""
    is_hidden: bool = True
    models: tuple[ModelJudgement, ...] = ()
    problem: str = ""
    seconds: float = 0.0
    restarts: int = 0

    @property
    def verified(self) -> bool:
        return bool(self.models) and not self.problem

    @property
    def passed(self) -> bool:
        return self.verified and all(model.passed for model in self.models)

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        if not self.verified:
            return f"not verified: {self.problem or 'there are no models'}"
        open_ones = [model.name for model in self.models if model.symbol == NOT_VERIFIED]
        unknown = f"{len(open_ones)} of {len(self.models)} models could not be verified: {', '.join(open_ones)}"
        bad = [model.name for model in self.models if not model.passed and model.name not in open_ones]
        if bad:
            return f"{len(bad)} of {len(self.models)} models differ: {', '.join(bad)}" + f"; {unknown}" * bool(
                open_ones
            )
        if open_ones:
            return f"{unknown}; nothing else differs"
        others = {model.symbol for model in self.models} - {EQUAL}
        requests = sum(model.requests for model in self.models)
        models = f"{len(self.models)} model{'s' * (len(self.models) != 1)}"
        if not requests:
            return f"{models} loaded, with equal config and metadata; no request was sent"
        text = f"{models}, {requests} request{'s' * (requests != 1)}: equal"
        return f"{text}, but for known differences of this release" if others else text

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "triton": self.release,
            "judge": self.judge,
            "verified": self.verified,
            "passed": self.passed,
            "verdict": self.verdict,
            "hidden": self.hidden,
            "seconds": round(self.seconds, 1),
            "restarts": self.restarts,
            "models": {model.name: model.to_dict() for model in self.models},
        }


@dataclass(frozen=True)
class Verification:
    """The verdicts of all judges, and the files in which they are kept."""

    directory: Path
    releases: tuple[ReleaseVerdict, ...]
    not_verified: tuple[str, ...]
    page: Path
    record: Path

    @property
    def passed(self) -> bool:
        return bool(self.releases) and all(release.passed for release in self.releases)

    def lines(self) -> Iterator[str]:
        for release in self.releases:
            yield f"Triton {release.release}: {release.verdict}"
            if release.verified and not release.is_hidden:
                yield f"  {release.hidden}"
            for model in release.models:
                if model.symbol != EQUAL:
                    yield f"  {model.symbol} {model.name}: {WORDS[model.symbol]}"
                yield from (f"      {finding}" for finding in model.findings if not finding.known)
        yield from (f"not verified: {each}" for each in self.not_verified)
        yield f"page: {self.page}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "directory": str(self.directory),
            "passed": self.passed,
            "verified": [release.to_dict() for release in self.releases],
            "not_verified": list(self.not_verified),
            "page": str(self.page),
        }

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return few_lines(str(self))

    def _repr_html_(self) -> str:
        return f"<div class='tl-export'>{_body(self)}</div>"


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1f2328; }
table { border-collapse: collapse; margin: .5rem 0 1rem; }
th, td { border: 1px solid #d0d7de; padding: .25rem .6rem; text-align: left; vertical-align: top; }
.good { background: #dafbe1; } .bad { background: #ffebe9; } .open { background: #fff8c5; }
pre { white-space: pre-wrap; margin: 0; font-size: 12px; }
@media (prefers-color-scheme: dark) {
  body { background: #0d1117; color: #e6edf3; } th, td { border-color: #30363d; }
  .good { background: #12261e; } .bad { background: #3c1618; } .open { background: #2e2a1f; }
}
"""


#: Inline, because JupyterLab puts all cells of tables on the right.
_LEFT = "text-align:left"


def page_of(verification: Verification, record: dict[str, Any]) -> str:
    """Return the page: one file that needs nothing else."""
    title = f"{verification.directory.name}: verified on Triton"
    facts = f"{len(record['files'])} files, {sum(each['bytes'] for each in record['files'].values()) / 1e6:.1f} MB"
    when = f"{record['when']}, {record['where']}, tritonlab {record['tritonlab']}"
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(title)}</title>"
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1><p>{escape(facts)}. {escape(when)}.</p>"
        f"{_body(verification)}</html>\n"
    )


def _body(verification: Verification) -> str:
    rows = "".join(
        f"<tr class='{_tone(release)}'>"
        + _cells(release.release, release.verdict, release.judge, release.hidden, f"{release.seconds:.0f} s")
        + "</tr>"
        for release in verification.releases
    )
    head = f"<tr>{_cells('Triton', 'Verdict', 'Judge', 'Hidden from it', 'Time', kind='th')}</tr>"
    open_ = "".join(f"<li>{escape(each)}</li>" for each in verification.not_verified)
    details = "".join(_details(release) for release in verification.releases if release.models)
    return f"<table>{head}{rows}</table>{details}" + (f"<h2>Not verified</h2><ul>{open_}</ul>" if open_ else "")


def _tone(release: ReleaseVerdict) -> str:
    return "good" if release.passed else "bad" if release.verified else "open"


def _details(release: ReleaseVerdict) -> str:
    rows = "".join(
        f"<tr class='{'good' if model.passed else 'bad'}'>"
        + _cells(model.name, WORDS[model.symbol], str(model.requests), f"{model.load_seconds:.1f} s")
        + _cells(_ms(model.latency_ms), _ms(model.own_latency_ms))
        + f"<td style='{_LEFT}'><pre>{escape(chr(10).join(map(str, model.findings)))}</pre></td></tr>"
        for model in release.models
    )
    head = _cells("Model", "Verdict", "Requests", "Load", "Median there", "here", "Differences", kind="th")
    return f"<h2>Triton {escape(release.release)}</h2><table><tr>{head}</tr>{rows}</table>"


def _cells(*texts: str, kind: str = "td") -> str:
    return "".join(cell(text, kind=kind, look=_LEFT) for text in texts)


def _ms(value: float | None) -> str:
    return f"{value:.2f} ms" if value is not None else "-"
