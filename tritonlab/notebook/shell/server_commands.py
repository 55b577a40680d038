"""The subcommands about the server: its ports, log, views, statistics, metrics and traces."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ...core.unknown_option import did_you_mean
from ...server.observe.why import Why
from ..authoring.errors import OptionError
from ..authoring.workspace import Workspace
from ..views.record.record_view import KINDS
from ..views.theme import stored_html
from ..views.widget import LiveView, in_kernel
from .logs import LogView
from .parsing import split_line, unknown
from .subcommand import Context, Text, failed_load_of

if TYPE_CHECKING:
    from ...frontends.endpoints import Endpoints
    from ...server.observe.chrome_trace import ChromeTrace

_DYNAMO = "--dynamo"
#: A line of /metrics about a family of Triton's.
_OF_TRITON = re.compile(r"(?:# (?:HELP|TYPE) )?nv_")
#: The parts that Triton sums up, in the order in which a request meets them.
_PARTS = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss")


def serve(context: Context, line: str) -> Endpoints | Text:
    """Open the ports, with a button that shows their token. With `--dynamo` open none, and return the commands that
    serve the notebook's models in a fleet of NVIDIA Dynamo."""
    words, workspace = split_line(line), context.workspace
    if _DYNAMO in words:
        if len(words) > 1:
            others = " ".join(word for word in words if word != _DYNAMO)
            raise OptionError(f"{_DYNAMO} opens no port of this kernel, so it takes no other flag: {others}")
        return _dynamo_commands(workspace)
    endpoints = workspace.ports.open(words)
    if not context.json:
        _show_token_button(endpoints)
    return endpoints


class TokenButton(LiveView):
    """The button that shows the token of a notebook's ports. `authorization` returns the value of the header that
    clients send.

    The output of a cell and the state of its widgets are saved with the notebook, in a file that others may read. So
    the token is sent to the page as a message when the button is pressed, and is never saved with the page.
    """

    MODULE = "token.js"

    def __init__(self, file: str, authorization: Callable[[], str]) -> None:
        self._file = file
        self._authorization = authorization
        super().__init__()

    def text(self) -> str:
        return f"the token is in {self._file}, which only its owner can read"

    def html(self) -> str:
        return f"<div class='tl-dim'>{escape(self.text())}</div>"

    def on_message(self, content: Mapping[str, Any]) -> None:
        """Send the token to the requesting page."""
        if content.get("do") == "show":
            self.send({"authorization": self._authorization()})


def _show_token_button(endpoints: Endpoints) -> None:
    """Show the button below a cell, if clients need a token; a terminal has no buttons."""
    if endpoints.header_file and in_kernel():
        TokenButton(endpoints.header_file, lambda: endpoints.headers.get("authorization", "")).show()


def _dynamo_commands(workspace: Workspace) -> Text:
    """Return the two commands. They run in an environment with ai-dynamo, which a kernel's environment should not have:
    the frontend listens on all interfaces without a token."""
    repository = shlex.quote(str(workspace.repository.absolute()))
    frontend = "python -m dynamo.frontend --kserve-grpc-server"
    worker = f"tritonlab worker --dynamo --model-repository={repository}"
    text = (
        "export DYN_DISCOVERY_BACKEND=file DYN_FILE_KV=$HOME/.dynamo   # the same for both\n"
        f"{frontend}   # unless the fleet has one; it listens on all interfaces, without a token\n"
        f"{worker}   # again for another worker; the models are this kernel's, and go with it\n"
    )
    return Text(text, {"frontend": frontend, "worker": worker})


def stop(context: Context) -> None:
    context.workspace.ports.close()


def logs(context: Context, name: str | None = None, lines: int = 40, request: str | None = None) -> LogView:
    workspace = context.workspace
    records = workspace.server.logs(name)
    if not records:
        context.check_known(name)
    if request is not None:
        records = [record for record in records if record.is_of_request(request)]
    return LogView(records[max(len(records) - lines, 0) :], workspace.shell.cite_for)


def why(context: Context, name: str | None = None) -> Text:
    """Return the sentences of `server.why()`; for a load that a cell started, the cell's own error. Raises the client's
    NotFoundError for an unknown name."""
    workspace = context.workspace
    context.check_known(name)
    waits = workspace.server.why(name).cited(workspace.shell.cite)
    names = [name] if name is not None else workspace.names()
    cells = {each: reason for each in names if (reason := failed_load_of(workspace, each)) is not None}
    others = [reason for reason in waits.reasons if reason.kind != "load" or reason.model not in cells]
    whole = Why([*cells.values(), *others], waits.calm)
    return Text(whole.text(), whole.to_dict())


def view(context: Context, name: str | None = None, kind: str | None = None) -> Any:
    names = context.workspace.names()
    if name in KINDS and kind is None and name not in names:
        name, kind = None, name
    known = [*names, *(row["name"] for row in context.workspace.server.index())]
    if name is not None and name not in known and kind is None and did_you_mean(name, KINDS, KINDS):
        raise unknown("there is no model and no view", name, [*names, *KINDS], KINDS)
    if name is None:
        if len(names) != 1:
            fix = f"name a model: {', '.join(names)}" if names else ""
            raise OptionError(fix or "no model is loaded", fix=fix)
        name = names[0]
    return context.model(name).view(kind or next(iter(KINDS)))


def trace(context: Context, file: str | None = None) -> ChromeTrace | None:
    workspace = context.workspace
    running, workspace.tracing = workspace.tracing, None
    if file is None:
        if running is None:
            advice = "'%triton trace FILE' begins a trace"
            raise OptionError(f"nothing is traced; {advice}", fix=advice)
        running.stop()
        return running
    if running is not None:
        running.stop()
    workspace.tracing = workspace.server.trace(file).start()
    return None


def metrics(context: Context, name: str | None = None) -> Text:
    if name is not None:
        context.model(name)
    lines = context.workspace.server.metrics(name or "").splitlines()
    return MetricsText(lines, {"metrics": samples(lines)} if context.json else None)


class MetricsText(Text):
    """The text of /metrics. The metrics of models come first; Triton's own follow, and a browser folds them."""

    def __init__(self, lines: Sequence[str], facts: Mapping[str, Any] | None = None) -> None:
        self.own = [line for line in lines if not _OF_TRITON.match(line)]
        self.of_triton = [line for line in lines if _OF_TRITON.match(line)]
        super().__init__("\n".join([*self.own, *self.of_triton]), facts)

    def _repr_html_(self) -> str | None:
        if not self.own:
            return super()._repr_html_()
        shown, folded = (_lines_html(part) for part in (self.own, self.of_triton))
        summary = f"<summary>{len(self.of_triton)} lines of Triton's own</summary>"
        more = f"<details class='tl-log'>{summary}{folded}</details>" if self.of_triton else ""
        return stored_html(f"<div class='tl-panel'>{shown}{more}</div>")


def _lines_html(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    return f"<pre class='tl-lines'>{escape(text)}</pre>"


def statistics(context: Context, name: str | None = None) -> Text:
    if name is not None:
        context.model(name)
    found = context.workspace.server.statistics(name or "")
    return Text(statistics_text(found), found)


def statistics_text(statistics: Mapping[str, Any]) -> str:
    """Return a table per version: how often each part ran, and how long on average, without parts that never ran."""
    return "\n\n".join("\n".join(_lines(stats)) for stats in statistics["model_stats"]) or "no model is loaded"


def samples(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Return the samples in lines of a metrics text: name, labels and value of each. The parser is imported here,
    because `%load_ext tritonlab` would take a fifth longer with it.
    """
    parser = importlib.import_module("prometheus_client.parser")
    found = parser.text_string_to_metric_families("\n".join(lines) + "\n")
    return [{"name": s.name, "labels": s.labels, "value": s.value} for family in found for s in family.samples]


def _lines(stats: Mapping[str, Any]) -> Iterator[str]:
    inferences = _plural(stats["inference_count"], "inference")
    executions = _plural(stats["execution_count"], "execution")
    yield f"{stats['name']} version {stats['version']}: {inferences} in {executions}"
    for part in _PARTS:
        found = stats["inference_stats"][part]
        if found["count"]:
            yield f"  {part:<15}{found['count']:>8}  {found['ns'] / found['count'] / 1000:>12.1f} µs on average"
    for batch in stats["batch_stats"]:
        times = batch["compute_infer"]
        mean = times["ns"] / times["count"] / 1000
        yield f"  batch of {batch['batch_size']:<6}{times['count']:>8}  {mean:>12.1f} µs compute_infer"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
