"""The page of a verification, for other people: the verdict, the points that are not proved, each difference, and the
evidence."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from ....core.inference.data_type import DataType
from ....exchanges.comparison import tolerance
from ....figures.result_page import Tone, result_page, verdict_banner
from ....figures.svg_picture import BLUE, ORANGE, Key, Scale, SvgPicture, Tick, column_width, round_steps
from ....figures.tables import cell, prose
from .differences import DIFFERS, EQUAL, NEAR, NOT_LOADED, TEXT, WORDS
from .judgement import ModelJudgement
from .release_verdict import ReleaseVerdict

#: Inline, because JupyterLab right-aligns all table cells.
_LEFT = "text-align:left"
#: Paths that every machine has, so that they are not the author's.
_COMMON = ("/", "/usr", "/usr/local", "/opt", "/tmp", "/home", "/var/tmp")
_WORDS: dict[Tone, str] = {"good": "Proved", "bad": "Not equal", "open": "Not proved"}
_ROW = 22
#: The models that the title names.
_NAMED = 3


def page_of(body: str, record: Mapping[str, Any]) -> str:
    """Return the page as one self-contained file. `body`: its content; `record`: the content of export.json."""
    names = [*record["features"]]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    title = f"{', '.join(names[:_NAMED])}{more}: judged by real Triton servers"
    size = sum(each["bytes"] for each in record["files"].values())
    facts = f"version {record['version']}; " if "version" in record else ""
    facts += f"{record['when']}, {record['where']}, tritonlab {record['tritonlab']}; {len(record['files'])} files, "
    facts += f"{size / 1e6:.1f} MB, whose SHA-256 are in export.json"
    return result_page(title, f"{facts}.", body)


def without_paths(text: str, paths: Iterable[str]) -> str:
    """Return a text with `<hidden>` for paths of the author's machine."""
    for path in sorted({*paths} - {*_COMMON}, key=len, reverse=True):
        hidden = "&lt;hidden&gt;" if text.startswith("<!doctype") else "<hidden>"
        shown = escape(path) if text.startswith("<!doctype") else path
        text = re.sub(rf"(?<![\w.-]){re.escape(shown)}(?![\w.-])", hidden, text)
    return text


def body_of(
    releases: Sequence[ReleaseVerdict], not_verified: Sequence[str], earlier: Sequence[Mapping[str, Any]]
) -> str:
    """Return the content of a page below its title."""
    banners = ((tone := _tone(each), f"{_WORDS[tone]} on Triton {each.release}", each.verdict) for each in releases)
    parts = [verdict_banner(*banner) for banner in banners]
    parts.append("<h2>What is not proved</h2>" + _list(_list_unproved(releases, not_verified)))
    for release in releases:
        if any(finding.symbol in (DIFFERS, NOT_LOADED, TEXT) for model in release.models for finding in model.findings):
            parts.append(f"<h2>What differs on Triton {escape(release.release)}</h2>{_differences(release)}")
    for release in releases:
        if release.models:
            parts.append(f"<h2>What was sent to Triton {escape(release.release)}</h2>{_evidence(release)}")
    if any(model.requests for release in releases for model in release.models):
        parts.append(f"<h2>How it was compared</h2>{_how()}")
    for release in releases:
        parts += [picture] if (picture := _latencies(release)) else []
    parts.append("<h2>Who judged</h2>" + _judges(releases))
    if earlier:
        parts.append("<h2>Earlier verdicts</h2>" + _earlier(earlier))
    return "".join(parts)


def _tone(release: ReleaseVerdict) -> Tone:
    if release.passed:
        return "good"
    symbols = {finding.symbol for model in release.models for finding in model.findings if finding.is_serious}
    return "bad" if release.still_open or symbols & {DIFFERS, NOT_LOADED, TEXT} else "open"


def _list(texts: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{prose(text)}</li>' for text in texts)}</ul>"


def _list_unproved(releases: Sequence[ReleaseVerdict], not_verified: Sequence[str]) -> Iterator[str]:
    """Yield the limits of the verdict, starting with the points of this export."""
    yield from not_verified
    shown = (DIFFERS, NOT_LOADED, TEXT, NEAR)
    for release in releases:
        yield from (f"Triton {release.release}: {text}" for text in release.still_open)
        for model in release.models:
            for each in model.findings:
                if each.symbol not in shown and each.text not in "".join(not_verified):
                    yield f"{model.name} on Triton {release.release}: {each}"
            if model.through:
                yield f"{model.name} was sent no request of its own, only those of {model.through}"
        if release.verified and not release.is_hidden:
            yield f"Triton {release.release}: {release.hidden_words or release.hidden}"
    yield "Inputs that are not below, more than four requests at once, and how fast it is under load"
    yield "What a model reaches over the network, services of this machine included, and what the host's name does"


def _differences(release: ReleaseVerdict) -> str:
    found = []
    for model in release.models:
        for each in model.findings:
            if each.symbol in (DIFFERS, NOT_LOADED, TEXT):
                known = f"<div>Known: {prose(each.known)}</div>" if each.known else ""
                where = escape(f"{model.name}: {each.where}")
                found.append(f"<li><b>{where}</b><pre>{escape(each.text)}</pre>{known}</li>")
    return f"<ul>{''.join(found)}</ul>"


def _evidence(release: ReleaseVerdict) -> str:
    rows = []
    for model in release.models:
        loaded = f"loaded in {model.load_seconds:.1f} s"
        if not model.requests:
            rows.append([model.name, "none", "", "", "", "", WORDS[model.symbol] if model.symbol != EQUAL else loaded])
        for each in model.requests:
            result = _result(model, each.symbol, each.notebook, each.name)
            rows.append([model.name, each.name, each.source, each.inputs, each.notebook, f"{each.sent} x", result])
    heads = ["Model", "Request", "From", "Inputs", "In the notebook", "Sent", "Result"]
    count = sum(len(model.requests) for model in release.models)
    failed = sum(model.failed for model in release.models)
    sent = sum(model.sent for model in release.models)
    text = f"{count} request{'s' * (count != 1)}, sent {sent} times; {failed or 'none'} had failed in the notebook."
    return f"<p>{text}</p>{_table(heads, rows)}"


def _result(model: ModelJudgement, symbol: str, notebook: str, name: str) -> str:
    if symbol == EQUAL:
        return "the same error" if notebook == "failed" else "equal byte for byte"
    if symbol == NEAR:
        near = [each.text for each in model.findings if each.symbol == NEAR and each.where.startswith(f"{name},")]
        return near[0] if near else WORDS[NEAR]
    return WORDS[symbol]


def _how() -> str:
    floats = "; ".join(
        f"{each.name} {relative:g} of the value plus {absolute:g}"
        for each in DataType
        if (relative := tolerance(each)[0]) and (absolute := tolerance(each)[1])
    )
    return _list(
        [
            "Each request was sent alone, four times at once so that batches form, and as a gRPC stream. Requests "
            "of a sequence were sent alone and in their order.",
            "Each answer was compared with the notebook's, and with the answer of tritonlab's server for a copy of the "
            "export: names, datatypes, shapes, number and order of responses, and values byte by byte.",
            f"Floats that are not equal byte for byte pass within {floats}, as another build of numpy or of a BLAS "
            "rounds differently. If all values are below 1, the absolute part is multiplied by the largest. Other "
            "datatypes must be equal.",
            "Errors were compared by status and text, metadata and config field by field. Not compared: parameters of "
            "responses, logs, and times.",
        ]
    )


def _latencies(release: ReleaseVerdict) -> str:
    """Return a figure of the time that one request of each model took, there and here; empty if nothing was
    measured."""
    models = [model for model in release.models if model.latencies_ms]
    if not models:
        return ""
    names = [model.name for model in models]
    most = max(max(*model.latencies_ms, *model.own_latencies_ms) for model in models)
    picture = SvgPicture("Latency of the first request that is answered, sent again and again")
    left = column_width(names)
    scale = Scale(0.0, most or 1.0, left, picture.width - 90)
    for number, model in enumerate(models):
        y = 14 + number * 2 * _ROW
        picture.name(y + _ROW / 2 + 4, model.name, left)
        for row, (values, tone) in enumerate(((model.latencies_ms, BLUE), (model.own_latencies_ms, ORANGE))):
            for value in values:
                picture.dot(scale(value), y + row * _ROW, 3, tone, filled=False)
            if values:
                middle = statistics.median(values)
                picture.line(scale(middle), y + row * _ROW - 8, scale(middle), y + row * _ROW + 8, "", tone)
                picture.text(picture.width - 84, y + row * _ROW + 4, f"{middle:.2f} ms")
    picture.height += 8
    picture.x_axis(scale, [Tick(value, f"{value:g}") for value in round_steps(0, most)], "milliseconds")
    picture.height += 8
    picture.legend([Key("ring", BLUE, f"Triton {release.release}"), Key("ring", ORANGE, "tritonlab serve")])
    text = "The first request with an answer was sent repeatedly, one at a time, over HTTP, or over gRPC if the model "
    text += "is decoupled. The line is the median. This machine did other work, too: it is not a benchmark."
    return f"<h2>How long a request took on Triton {escape(release.release)}</h2><p>{text}</p>{picture.svg()}"


def _judges(releases: Sequence[ReleaseVerdict]) -> str:
    rows = [
        [each.release, each.judge, each.hidden_words or each.hidden, f"{each.seconds:.0f} s", str(each.restarts)]
        for each in releases
    ]
    return _table(["Triton", "Judge", "Of the author's machine", "Time", "Crashes"], rows)


def _earlier(earlier: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [entry["when"], release["triton"], release["verdict"], str(entry.get("files", ""))]
        for entry in reversed(earlier)
        for release in entry["verified"]
    ]
    return _table(["Date", "Triton", "Verdict", "Files (digest)"], rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(cell(text, kind="th", look=_LEFT) for text in heads)
    body = "".join(f"<tr>{''.join(cell(text, look=_LEFT, write=prose) for text in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
