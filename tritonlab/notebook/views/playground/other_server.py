"""`Compare` and `Replay`: the form's request to this model and to the model of its name on another server, or an
earlier request to the model as it is now.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ....clients.comparison import Comparison, compare
from ....clients.outcome import Outcome, addressed
from ....clients.sending import ask
from ....clients.snippets import Address
from ....core.inference.infer_request import InferenceRequest
from ....core.status import TritonError
from .comparison_view import comparison_html
from .history import History
from .result_view import outcomes_html

if TYPE_CHECKING:
    from ....clients.remote import RemoteServer
    from ....server.api.model import Model


class OpenPorts(Protocol):
    """The part of `Endpoints` that names the notebook's own server."""

    @property
    def http(self) -> str: ...

    @property
    def grpc(self) -> str: ...

    @property
    def headers(self) -> dict[str, str]: ...

    @property
    def header_file(self) -> str: ...


#: The ports that are open, None if there are none.
Ports = Callable[[], OpenPorts | None]


def find_server(target: str, ports: Ports, headers: Mapping[str, str] | None = None) -> RemoteServer:
    """Return the server at an address, or the notebook's own, over `HTTP` or `gRPC`.

    Raises ValueError if nothing was named or no port is open, TritonError if no server answers there.
    """
    # gRPC is imported only where it is used
    from ....clients.remote import connect

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


def open_address(ports: Ports) -> Address | None:
    """Return where a program finds the notebook's own server, None if no port is open."""
    found, usual = ports(), Address()
    return None if found is None else Address(found.http or usual.http, found.grpc or usual.grpc, found.header_file)


def send_to_both(model: Model, request: InferenceRequest, server: RemoteServer) -> Comparison:
    """Send the request to one after the other, so that neither slows the other."""
    outcome = ask(model, request)
    decoupled = bool(model.config().get("model_transaction_policy", {}).get("decoupled"))
    return compare(outcome, server.model(model.name).send(request, decoupled))


class SideBySide:
    """Two responses to one request: of this model and of another server's, or of then and of now. `request` returns the
    form's request, `say` shows HTML, `note` a sentence in a tone.

    Guarantees: a button returns at once; a thread of its own does the waiting, one at a time.
    """

    def __init__(
        self,
        widgets: Any,
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
            layout=widgets.Layout(width="auto", margin="2px 4px 2px 0"),
            style={"description_width": "initial"},
        )
        self.button = widgets.Button(description="Compare", layout=widgets.Layout(width="88px"))
        self.button.tooltip = "Sends the request to both, and shows their responses side by side"
        self.button.on_click(lambda button: self._in_thread(lambda: self.compare(self.target.value)))
        self.history = History(
            widgets,
            lambda sent: say(outcomes_html([sent], finished=True)),
            lambda sent: self._in_thread(lambda: self.replay(sent)),
        )
        self.box = widgets.HBox([self.target, self.button], layout=widgets.Layout(flex_flow="row wrap"))

    def compare(self, target: str | RemoteServer, headers: Mapping[str, str] | None = None) -> Comparison:
        """Send to this model, and to the one of its name on another server."""
        server = find_server(target, self._ports, headers) if isinstance(target, str) else target
        comparison = send_to_both(self._model, self._request(), server)
        self._say(comparison_html(comparison, ("this model", f"{server.protocol} {server.address}")))
        return comparison

    def replay(self, sent: Outcome) -> Comparison:
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
                for button in buttons:
                    button.disabled = False

        for button in buttons:
            button.disabled = True
        threading.Thread(target=run, name="playground compare", daemon=True).start()
