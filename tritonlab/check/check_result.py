"""`CheckResult`, what a check has found and what it has tried, as text, HTML, JSON, JUnit and plot."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from ..core.axes import axes_of
from ..core.html_table import cell
from ..core.plain_facts import few_lines, xml_text
from ..core.status import UnavailableError
from ..core.stored_picture import date_line, stored_picture
from .check_finding import CheckFinding, largest_apart
from .growth_figure import growth_figure
from .tensor_cells import tensor_cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Tried:
    """One relation of a check. `left_out`: why it was not tried; "" if it was. `cut`: whether the time was over before
    all of it was tried."""

    relation: str
    explanation: str
    left_out: str = ""
    cut: bool = False


class CheckResult:
    """The result of `Model.check`. `ok`: nothing was found. `checked`: whether the model answered any request, and the
    time was enough to try anything. `tried`: the relations, each with its explanation. `notes`: sentences on how to
    read it.
    """

    def __init__(
        self,
        name: str,
        findings: tuple[CheckFinding, ...],
        tried: tuple[Tried, ...],
        notes: tuple[str, ...],
        *,
        seconds: float,
        requests: int,
        seed: int,
        checked: bool = True,
        stopped: str = "",
    ) -> None:
        self.name = name
        self.findings = findings
        self.tried = tried
        self.notes = notes
        self.seconds = seconds
        self.requests = requests
        self.seed = seed
        self.checked = checked
        self.stopped = stopped
        self._when = time.time()

    @property
    def ok(self) -> bool:
        return not self.findings

    def of(self, relation: str) -> list[CheckFinding]:
        """Return what was found of one relation."""
        return [one for one in self.findings if one.relation == relation]

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
        """Return everything in words."""
        lines = [self.verdict]
        for finding in self.findings:
            lines += ["", *(f"  {line}" for line in finding.lines())]
        if self.findings:
            lines.append("")
        for one in self.tried:
            mark = "not tried: " + one.left_out if one.left_out else self._mark(one)
            lines.append(f"  {one.relation:<11}{mark}" + (f" — {one.explanation}" if not one.left_out else ""))
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)

    def _mark(self, one: Tried) -> str:
        if self.of(one.relation):
            return "does not hold"
        return "holds as far as the time went" if one.cut else "holds"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
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

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw with matplotlib what grows with requests and return the Axes. `ax`: where to draw, instead of in a new
        figure. Raises ImportError without matplotlib, and UnavailableError if nothing was found to grow.
        """
        grown = [one for one in self.findings if one.judgement.series is not None]
        if not grown:
            raise UnavailableError(f"there is nothing to plot: nothing was found to grow in '{self.name}'")
        ax = axes_of(ax)
        for finding in grown:
            measured = largest_apart(finding)
            assert measured is not None and finding.judgement.series is not None
            requests, values = measured
            kind = finding.judgement.series["kind"]
            scale = 1 << 20 if kind in ("memory", "shared memory") else 1
            ax.plot(requests, (values - values[0]) / scale, marker="o", label=f"{kind}, {finding.case.kind}")
            ax.set_ylabel("gained, MiB" if scale > 1 else "gained")
        ax.set_xlabel("requests")
        ax.set_title(f"What {self.name} keeps")
        ax.legend()
        return ax

    def figure(self) -> str:
        """Return what grows with requests as SVG text; empty if nothing does."""
        grown = [one for one in self.findings if one.judgement.series is not None]
        return growth_figure(self.name, grown[0].judgement.series) if grown else ""

    def html(self) -> str:
        parts = [f"<b>{escape(self.verdict)}</b>"]
        for finding in self.findings:
            parts.append(_finding_html(finding))
        parts.append(stored_picture(self.figure(), self._when, self.verdict))
        parts.append(self._relations_html())
        parts += [f"<div>{escape(note)}</div>" for note in self.notes]
        parts.append(date_line(self._when))
        return f"<div class='tl-panel'>{''.join(parts)}</div>"

    def _relations_html(self) -> str:
        rows = []
        for one in self.tried:
            mark = f"not tried: {one.left_out}" if one.left_out else self._mark(one)
            look = "font-weight:bold" if mark == "does not hold" else ""
            rows.append(
                f"<tr>{cell(one.relation, look='text-align:left')}{cell(mark, look=f'text-align:left;{look}')}"
                f"{cell(one.explanation, look='text-align:left;white-space:normal')}</tr>"
            )
        body = "".join(rows)
        return f"<div style='overflow-x:auto'><table class='tl-tensors'><tbody>{body}</tbody></table></div>"

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        return few_lines(self.text())


def _finding_html(finding: CheckFinding) -> str:
    where = f"<div class='tl-dim'>{escape(finding.where)}</div>" if finding.where else ""
    head = f"<div style='margin-top:8px'><b>{escape(finding.relation)}</b>: {escape(finding.sentence)}</div>{where}"
    return head + _side_by_side(finding)


def _side_by_side(finding: CheckFinding) -> str:
    """Return the two requests beside each other, and the answers, with the element that differs in bold."""
    case, judgement = finding.case, finding.judgement
    if judgement.series is not None:
        return ""
    heads = ["", "the request", "the other"][: 1 + len(case.samples)]
    rows = []
    for name in dict.fromkeys(name for sample in case.samples for name in sample.inputs):
        tensors = [sample.inputs.get(name) for sample in case.samples]
        rows.append([name, *map(tensor_cell, tensors)])
    difference = judgement.difference
    table = [f"<tr>{''.join(cell(text, kind='th', look='text-align:left') for text in heads)}</tr>"]
    table += [f"<tr>{cell(row[0], kind='th', look='text-align:left')}{''.join(row[1:])}</tr>" for row in rows]
    answers = [("alone", judgement.expected), ("got", judgement.got)]
    for words, answer in answers:
        if answer is None:
            continue
        if difference is not None and difference.kind == "value" and answer.good:
            tensor = answer.responses[difference.response].get(difference.output)
            html = tensor_cell(tensor, difference.index)
            label = f"{difference.output} {words}"
        else:
            html, label = cell(answer.text(), look="text-align:left;white-space:normal"), words
        span = html.replace("<td", f"<td colspan='{len(case.samples)}'", 1)
        table.append(f"<tr>{cell(label, kind='th', look='text-align:left')}{span}</tr>")
    return f"<div style='overflow-x:auto'><table class='tl-tensors'><tbody>{''.join(table)}</tbody></table></div>"


def junit_xml(results: Sequence[tuple[str, CheckResult | str]]) -> bytes:
    """Return JUnit's XML of the results of several models, by name; a text in the place of one is why it could not be
    checked. Each relation is a test."""
    root = ElementTree.Element("testsuites")
    for name, result in results:
        suite = ElementTree.SubElement(root, "testsuite", name=name)
        if isinstance(result, str):
            suite.attrib.update(tests="1", failures="0", errors="1", skipped="0")
            case = ElementTree.SubElement(suite, "testcase", classname=name, name="check")
            text = xml_text(result)
            ElementTree.SubElement(case, "error", message=text.partition("\n")[0]).text = text
            continue
        skipped = sum(bool(one.left_out) for one in result.tried)
        failed = sum(bool(result.of(one.relation)) for one in result.tried)
        suite.attrib.update(tests=str(len(result.tried)), failures=str(failed), errors="0", skipped=str(skipped))
        suite.set("time", f"{result.seconds:.3f}")
        for one in result.tried:
            case = ElementTree.SubElement(suite, "testcase", classname=name, name=one.relation)
            if one.left_out:
                ElementTree.SubElement(case, "skipped", message=one.left_out)
            elif found := result.of(one.relation):
                text = xml_text("\n\n".join("\n".join(each.lines()) for each in found))
                ElementTree.SubElement(case, "failure", message=xml_text(found[0].sentence)).text = text
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))
