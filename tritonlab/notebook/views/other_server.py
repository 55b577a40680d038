"""`Compare`: the form's request to this model, and to the model of the same name on another server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ...clients.comparison import Comparison, compare
from ...clients.sending import ask
from ...core.infer_request import InferenceRequest

if TYPE_CHECKING:
    from ...clients.remote import RemoteServer
    from ...server.api.model import Model


class OpenPorts(Protocol):
    """The part of `Endpoints` that says where the notebook's own server is."""

    @property
    def http(self) -> str: ...

    @property
    def grpc(self) -> str: ...

    @property
    def headers(self) -> dict[str, str]: ...


#: The ports that are open, None if there are none.
Ports = Callable[[], OpenPorts | None]


def find_server(target: str, ports: Ports, headers: Mapping[str, str] | None = None) -> RemoteServer:
    """The server at an address, or the notebook's own, over `HTTP` or `gRPC`.

    Raises ValueError if nothing was named or no port is open, TritonError if nobody answers there.
    """
    # gRPC is loaded where it is wanted
    from ...clients.remote import connect

    word = target.strip()
    if not word:
        raise ValueError("compare with whom? HTTP or gRPC (this notebook's own ports), or host:port")
    if word.lower() not in ("http", "grpc"):
        return connect(word, headers=headers)
    open_ports = ports()
    if open_ports is None:
        raise ValueError("this notebook has no open ports: %triton serve opens them")
    address = open_ports.http if word.lower() == "http" else open_ports.grpc
    return connect(f"{word.lower()}://{address}", headers={**open_ports.headers, **(headers or {})})


def ask_both(model: Model, request: InferenceRequest, server: RemoteServer) -> Comparison:
    """One after the other, so that neither slows the other."""
    outcome = ask(model, request)
    decoupled = bool(model.config().get("model_transaction_policy", {}).get("decoupled"))
    return compare(outcome, server.model(model.name).send(request, decoupled))


class OtherServer:
    """Whom to compare with, and the button. `press` is called with what was typed."""

    def __init__(self, widgets: Any, press: Callable[[str], object]) -> None:
        self.target = widgets.Combobox(
            options=["HTTP", "gRPC"],
            description="other server",
            placeholder="HTTP, gRPC, or host:port",
            layout=widgets.Layout(width="auto", margin="2px 4px 2px 0"),
            style={"description_width": "initial"},
        )
        self.button = widgets.Button(description="Compare", layout=widgets.Layout(width="88px"))
        self.button.tooltip = "Sends the request to both, and shows their answers side by side"
        self.button.on_click(lambda button: press(self.target.value))
        self.box = widgets.HBox([self.target, self.button])
