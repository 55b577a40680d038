"""`Compare` and `Replay`: the form's request to this model and to the model of the same name on another server, or an
earlier request to the current model.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING

import ipywidgets as widgets

from ....core.inference.infer_request import InferenceRequest
from ....core.short_number import ns_text
from ....core.status import TritonError
from ....exchanges.comparison import Comparison, TensorDiff, compare
from ....exchanges.exchange import Exchange, addressed
from ....exchanges.sending import ask
from ...authoring.notebook_ports import Ports
from .fields import button, label_looks
from .history import History
from .many_view import PARTS, TRANSPORT, transport_ns
from .result_view import outcomes_html
from .tensor_text import line_text

if TYPE_CHECKING:
    from ....exchanges.remote.remote_server import RemoteServer
    from ....server.api.model import Model

#: The most characters of a value.
_MOST_TEXT = 300


def find_server(target: str, ports: Ports, headers: Mapping[str, str] | None = None) -> RemoteServer:
    """Return the server at an address, or the notebook's own, over `HTTP` or `gRPC`.

    Raises ValueError if no address was given or no port is open, TritonError if no server answers there.
    """
    # gRPC is imported only where it is used
    from ....exchanges.remote.remote_server import connect

    word = target.strip()
    if not word:
        raise ValueError("name a server to compare with: HTTP or gRPC (this notebook's own ports), or host:port")
    if word.lower() not in ("http", "grpc"):
        return connect(word, headers=headers)
    open_ports = ports()
    if open_ports is None:
        raise ValueError("this notebook has no open ports: %triton serve opens them")
    address = open_ports.http if word.lower() == "http" else open_ports.grpc
    return connect(f"{word.lower()}://{address}", headers={**open_ports.headers, **(headers or {})})


def send_to_both(model: Model, request: InferenceRequest, server: RemoteServer) -> Comparison:
    """Send the request to one server after the other, so that neither slows the other."""
    outcome = ask(model, request)
    decoupled = bool(model.config().get("model_transaction_policy", {}).get("decoupled"))
    return compare(outcome, server.model(model.name).send(request, decoupled))


class SideBySide:
    """Two responses to one request: from this model and another server's, or an earlier and a current one. `request`
    returns the form's request, `say` shows HTML, `note` a sentence in a tone.

    Guarantees: a button returns at once; a thread of its own does the waiting, one at a time.
    """

    def __init__(
        self,
        model: Model,
        ports: Ports,
        request: Callable[[], InferenceRequest],
        say: Callable[[str], object],
        note: Callable[[str, str], object],
    ) -> None:
        self._model, self._ports, self._request, self._say, self._note = model, ports, request, say, note
        self.target = widgets.Combobox(
            options=["HTTP", "gRPC"],
            description="other server",
            placeholder="HTTP, gRPC, or host:port",
            **label_looks("2px 4px 2px 0"),
        )
        self.button = button(
            "Compare",
            lambda: self._in_thread(lambda: self.compare(self.target.value)),
            "Sends the request to both, and shows their responses side by side",
        )
        self.history = History(
            lambda sent: say(outcomes_html([sent], finished=True)),
            lambda sent: self._in_thread(lambda: self.replay(sent)),
        )
        self.box = widgets.HBox([self.target, self.button], layout=widgets.Layout(flex_flow="row wrap"))

    def compare(self, target: str | RemoteServer, headers: Mapping[str, str] | None = None) -> Comparison:
        """Send to this model, and to the model of the same name on another server."""
        server = find_server(target, self._ports, headers) if isinstance(target, str) else target
        comparison = send_to_both(self._model, self._request(), server)
        self._say(comparison_html(comparison, ("this model", f"{server.protocol} {server.address}")))
        return comparison

    def replay(self, sent: Exchange) -> Comparison:
        """Send an earlier request again, show and return how the responses differ."""
        request = addressed(sent.request, self._model.name, self._model.version)
        comparison = compare(sent, ask(self._model, request))
        self._say(comparison_html(comparison, ("then", "now")))
        return comparison

    def _in_thread(self, do: Callable[[], object]) -> None:
        buttons = (self.button, self.history.button)

        def run() -> None:
            try:
                do()
            except (ValueError, TritonError) as problem:
                self._note(str(problem), "bad")
            finally:
                for each in buttons:
                    each.disabled = False

        for each in buttons:
            each.disabled = True
        threading.Thread(target=run, name="playground compare", daemon=True).start()


def comparison_html(comparison: Comparison, names: tuple[str, str]) -> str:
    """Return the verdict, the values and times of both responses, and their differences. `names`: their sources."""
    tone, verdict = ("good", "the same") if comparison.same else ("bad", "different")
    one, other = comparison.outcomes
    rows = []
    if one.error is not None or other.error is not None:
        rows.append(_row("error", _error(one), _error(other), "not the same" if comparison.errors else ""))
    if comparison.counts is not None:
        count, other_count = comparison.counts
        rows.append(_row("responses", str(count), str(other_count), "not the same"))
    rows += [_tensor_row(diff, one, other) for diff in comparison.tensors]
    rows.append(_row("total", _time(one.total_ns), _time(other.total_ns)))
    rows += [_row(word, _part(one, key), _part(other, key)) for key, word, _ in PARTS]
    rows.append(_row(TRANSPORT[0], _rest(one), _rest(other)))
    heads = "".join(f"<th>{escape(name)}</th>" for name in ("", *names, "difference"))
    return (
        f"<div class='tl-note tl-{tone}-note' role='status'><b class='tl-{tone}'>{verdict}</b></div>"
        f"<table class='tl-tensors tl-compare'><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _tensor_row(diff: TensorDiff, one: Exchange, other: Exchange) -> str:
    name = diff.name + (f" of response {diff.response + 1}" if diff.response else "")
    difference = str(diff).partition(": ")[2]
    return _row(name, _value(one, diff), _value(other, diff), difference, tone="" if diff.same else "tl-bad")


def _row(name: str, one: str, other: str, difference: str = "", tone: str = "tl-bad") -> str:
    cells = "".join(f"<td class='tl-type'>{escape(text)}</td>" for text in (one, other))
    return f"<tr><th>{escape(name)}</th>{cells}<td class='{tone if difference else ''}'>{escape(difference)}</td></tr>"


def _value(outcome: Exchange, diff: TensorDiff) -> str:
    responses = [arrival.response for arrival in outcome.arrivals if arrival.response.outputs]
    tensor = responses[diff.response].outputs.get(diff.name) if diff.response < len(responses) else None
    if tensor is None:
        return "-"
    return f"{tensor.datatype.name} {list(tensor.shape)} {line_text(tensor, _MOST_TEXT)}"


def _error(outcome: Exchange) -> str:
    return f"{outcome.error.code.name}: {outcome.error.message.strip()}" if outcome.error is not None else "none"


def _time(ns: int) -> str:
    return ns_text(ns) if ns else "-"


def _part(outcome: Exchange, key: str) -> str:
    return _time(getattr(outcome.split, key)) if outcome.split is not None else "-"


def _rest(outcome: Exchange) -> str:
    return _time(transport_ns(outcome, outcome.split)) if outcome.split is not None else "-"
