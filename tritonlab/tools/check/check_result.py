"""`CheckResult`, the findings and trials of a check, as text, HTML, JSON, JUnit and plot."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.inference.data_type import DataType
from ...core.inference.tensor import Tensor
from ...core.junit import JUnitTest
from ...core.junit import junit_xml as write_junit
from ...core.plain_facts import Shown
from ...exchanges.literal import floats
from ...figures.figure import Axis, Figure, Point, Points
from ...figures.stored_picture import date_line, stored_picture
from ...figures.svg_picture import BLUE, ORANGE, PURPLE, RED
from ...figures.tables import cell
from ..saved_result import ResultChange, ResultComparison, read_result, save_result
from .case import Case
from .check_finding import CheckFinding

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The name of the tool in saved results.
TOOL = "check"
#: The most elements of a tensor, and letters of a text, in a table cell.
_ELEMENTS, _LETTERS = 32, 60
#: Inline, because a page may keep no style sheet; legible on light and dark pages.
_MARKED = "font-weight:bold;color:#d9342b"
_LEFT, _LOOK = "text-align:left", "text-align:left;white-space:normal"
_TONES = (BLUE, ORANGE, PURPLE, RED)


@dataclass(frozen=True)
class Tried:
    """One relation of a check. `left_out`: why it was not tried; "" if it was. `cut`: whether the time ended before all
    of it was tried."""

    relation: str
    explanation: str
    left_out: str = ""
    cut: bool = False


@dataclass(eq=False, repr=False)
class CheckResult(Shown):
    """The result of `Model.check`. `checked`: whether the model answered any request and any relation was
    tried. `ok`: it was checked, and nothing was found. `tried`: the relations, each with its explanation. `notes`:
    sentences on how to read it.
    """

    name: str
    findings: tuple[CheckFinding, ...]
    tried: tuple[Tried, ...]
    notes: tuple[str, ...]
    _: KW_ONLY
    seconds: float
    requests: int
    seed: int
    checked: bool = True
    stopped: str = ""
    _when: float = field(default_factory=time.time, init=False)

    @property
    def ok(self) -> bool:
        return self.checked and not self.findings

    def of(self, relation: str) -> list[CheckFinding]:
        """Return the findings of one relation, also those that another finding explains."""
        return [one for head in self.findings for one in (head, *head.also) if one.relation == relation]

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        count = len(self.findings)
        found = f"{count} finding{'s' * (count != 1)}" if count else "nothing found"
        if not self.checked:
            found = "nothing could be checked"
        ended = f" ({self.stopped})" if self.stopped else ""
        spent = f"{self.requests:,} requests in {self.seconds:.1f} s, seed {self.seed}"
        return f"Check of {self.name}: {found}; {spent}{ended}"

    def text(self) -> str:
        """Return the whole result in words."""
        lines = [self.verdict]
        for finding in self.findings:
            lines += ["", *(f"  {line}" for line in finding.lines())]
        if self.findings:
            lines.append("")
        for one in self.tried:
            explanation = f" — {one.explanation}" if not one.left_out else ""
            lines.append(f"  {one.relation:<11}{self._mark(one)}{explanation}")
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)

    def _mark(self, one: Tried) -> str:
        if one.left_out:
            return f"not tried: {one.left_out}"
        if self.of(one.relation):
            return "does not hold"
        return "holds as far as the time went" if one.cut else "holds"

    def to_dict(self) -> dict[str, Any]:
        """Return the whole result as JSON values."""
        return {
            "model": self.name,
            "ok": self.ok,
            "checked": self.checked,
            "findings": [one.to_dict() for one in self.findings],
            "relations": [
                {
                    "name": one.relation,
                    "explanation": one.explanation,
                    "tried": not one.left_out,
                    "left_out": one.left_out,
                    "cut": one.cut,
                    "holds": None if one.left_out else not self.of(one.relation),
                }
                for one in self.tried
            ],
            "notes": list(self.notes),
            "seconds": self.seconds,
            "requests": self.requests,
            "seed": self.seed,
            "stopped": self.stopped,
        }

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the result to a JSON file, for `compare` of a later one. Raises OSError."""
        return save_result(path, TOOL, self.to_dict())

    def compare(self, earlier: Any) -> ResultComparison:
        """Compare the findings of each relation with those of an earlier result: the path of a saved one, a result, or
        its `to_dict()`. A relation is worse if it has more findings, or was tried before and is not now; findings that
        another explains count too. Raises InvalidArgumentError if it is not the result of a check."""
        before = read_result(earlier, TOOL, "relations", "findings")
        olds, news = _findings_by_relation(before), _findings_by_relation(self.to_dict())
        changes = []
        for name in {**news, **olds}:
            old, new = olds.get(name), news.get(name)
            words = "not tried" if old is None else str(old), "not tried" if new is None else str(new)
            is_worse = (new or 0) > (old or 0) or (old is not None and new is None)
            changes.append(
                ResultChange(f"{name}, findings", *words, is_worse, "better" if (new or 0) < (old or 0) else "")
            )
        return ResultComparison(f"Check of {self.name}", changes)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the resources that grow with requests with matplotlib and return the Axes. `ax`: where to draw, instead
        of in a new figure. Raises ImportError without matplotlib, and UnavailableError if nothing grows.
        """
        drawn = _growth_figure(self.name, self._grown())
        return drawn.plot(ax, f"What {self.name} keeps", f"nothing was found to grow in '{self.name}'")

    def figure(self) -> str:
        """Return the first resource that grows with requests as SVG text; empty if none does."""
        return _growth_figure(self.name, self._grown()[:1]).svg()

    def _grown(self) -> list[tuple[Case, Mapping[str, Any]]]:
        """Return the cases in which a resource grows, with the measurements."""
        return [(one.case, one.judgement.series) for one in self.findings if one.judgement.series is not None]

    def html(self) -> str:
        parts = [f"<b>{escape(self.verdict)}</b>"]
        for finding in self.findings:
            name, sentence = escape(finding.relation), escape(finding.sentence)
            parts.append(f"<div style='margin-top:8px'><b>{name}</b>: {sentence}</div>")
            parts += [f"<div class='tl-dim'>{escape(finding.where)}</div>"] if finding.where else []
            parts.append(_side_by_side(finding))
            also = (f"{escape(one.relation)}: {escape(one.sentence)}" for one in finding.also)
            parts += [f"<div class='tl-dim'>also {text}</div>" for text in also]
        parts.append(stored_picture(self.figure(), self._when, self.verdict))
        parts.append(self._relations_html())
        parts += [f"<div>{escape(note)}</div>" for note in self.notes]
        parts.append(date_line(self._when))
        return f"<div class='tl-panel'>{''.join(parts)}</div>"

    def _relations_html(self) -> str:
        rows = []
        for one in self.tried:
            mark = self._mark(one)
            look = f"{_LEFT};{'font-weight:bold' if mark == 'does not hold' else ''}"
            rows.append([cell(one.relation, look=_LEFT), cell(mark, look=look), cell(one.explanation, look=_LOOK)])
        return _table_of(rows)


def _findings_by_relation(facts: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the number of findings of each relation of `to_dict`; None for one that was not tried."""
    counts = Counter(one["relation"] for head in facts["findings"] for one in (head, *head["also"]))
    return {one["name"]: counts[one["name"]] if one["tried"] else None for one in facts["relations"]}


def _side_by_side(finding: CheckFinding) -> str:
    """Return the two requests next to each other, and the answers, with the differing element in bold."""
    case, judgement = finding.case, finding.judgement
    if judgement.series is not None:
        return ""
    heads = ["", "the request", "the other"][: 1 + len(case.samples)]
    rows = [[cell(text, kind="th", look=_LEFT) for text in heads]]
    for name in dict.fromkeys(name for sample in case.samples for name in sample.inputs):
        tensors = (sample.inputs.get(name) for sample in case.samples)
        rows.append([cell(name, kind="th", look=_LEFT), *map(_tensor_cell, tensors)])
    difference = judgement.difference
    for words, answer in (("alone", judgement.expected), ("got", judgement.got)):
        if answer is None:
            continue
        if difference is not None and difference.kind == "value" and answer.good:
            tensor = answer.responses[difference.response].get(difference.output)
            html = _tensor_cell(tensor, difference.index)
            label = f"{difference.output} {words}"
        else:
            html, label = cell(answer.text(), look=_LOOK), words
        span = html.replace("<td", f"<td colspan='{len(case.samples)}'", 1)
        rows.append([cell(label, kind="th", look=_LEFT), span])
    return _table_of(rows)


def _table_of(rows: Sequence[Sequence[str]]) -> str:
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f"<div style='overflow-x:auto'><table class='tl-tensors'><tbody>{body}</tbody></table></div>"


def junit_xml(results: Sequence[tuple[str, CheckResult | str]]) -> bytes:
    """Return the JUnit XML of the results of several models, by name; a text instead of a result is the reason why the
    model could not be checked. Each relation is a test."""
    return write_junit([(name, list(_tests(result))) for name, result in results])


def _tests(result: CheckResult | str) -> Iterator[JUnitTest]:
    if isinstance(result, str):
        yield JUnitTest("check", error=result)
        return
    for one in result.tried:
        found = result.of(one.relation)
        failure = "\n\n".join("\n".join(each.lines()) for each in found) if not one.left_out else ""
        yield JUnitTest(one.relation, failure=failure, skipped=one.left_out)


def _growth_figure(name: str, grown: Sequence[tuple[Case, Mapping[str, Any]]]) -> Figure:
    """Return the resources of a model's processes against the requests that they have had, a line for each case."""
    marks = []
    values, unit = [0.0], ""
    for number, (case, series) in enumerate(grown):
        gained, unit = _gained(series)
        values += gained
        points = [Point(*place) for place in zip(series["requests"], gained, strict=True)]
        tone = _TONES[number % len(_TONES)]
        marks.append(Points(points, tone, f"{series['kind']}, {case.kind}", shape="line", size=2.5))
    kind = grown[0][1]["kind"] if grown else ""
    most = max([1, *(series["requests"][-1] for _, series in grown)])
    return Figure(
        f"{kind} of {name} against requests",
        Axis("requests", 0, most * 1.03, "{:,.0f}".format),
        Axis(f"gained{unit}", min(values), max(*values, 1e-6) * 1.05, "{:g}".format),
        marks,
    )


def _gained(series: Mapping[str, Any]) -> tuple[list[float], str]:
    """Return the increase since the first measurement, and the unit in the form that follows a name."""
    is_bytes = series["kind"] in ("memory", "shared memory")
    first, scale = series["values"][0], 1 << 20 if is_bytes else 1
    return [(value - first) / scale for value in series["values"]], ", MiB" if is_bytes else ""


def _tensor_cell(tensor: Tensor | None, marked: tuple[int, ...] | None = None) -> str:
    """Return the shape and the first values of a tensor, or the values around the marked element, by index."""
    if tensor is None:
        return cell("", look=_LOOK)
    array = tensor.numpy() if tensor.datatype is DataType.BYTES else floats(tensor)
    flat = array.reshape(-1)
    place = int(np.ravel_multi_index(marked, array.shape)) if marked else (0 if marked == () else -1)
    first = max(0, min(place - _ELEMENTS // 2, flat.size - _ELEMENTS)) if place >= 0 else 0
    elements = []
    for number in range(first, min(first + _ELEMENTS, flat.size)):
        text = escape(_element(tensor, flat[number]))
        elements.append(f"<span style='{_MARKED}'>{text}</span>" if number == place else text)
    before, after = "… " * (first > 0), " …" * (first + _ELEMENTS < flat.size)
    values = f"{before}{', '.join(elements)}{after}"
    kind = f"<span class='tl-dim'>{tensor.datatype.name} {escape(str(list(tensor.shape)))}</span> "
    return f"<td style='{_LOOK}'>{kind}[{values}]</td>"


def _element(tensor: Tensor, value: object) -> str:
    if tensor.datatype is not DataType.BYTES:
        return str(value)
    text = repr(bytes(value))[1:] if isinstance(value, bytes) else str(value)
    return text if len(text) <= _LETTERS else text[:_LETTERS] + "…"
