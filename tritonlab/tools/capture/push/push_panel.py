"""The form of a push below a model's card: the server, the proof, and Undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....exchanges.remote.remote_server import RemoteServer, connect
from ....notebook.views.card.card_panel import TaskPanel
from ....server.api.model import Model
from .push_proof import LAST
from .push_result import Push

#: The choices of a proof, with their values for `RemoteServer.push`.
_PROOFS = (("golden answers", None), ("the last requests here", LAST), ("no requests", False))


class PushPanel(TaskPanel):
    """The form; it needs ipywidgets."""

    def __init__(self, model: Model, changed: Callable[[], object] = lambda: None) -> None:
        """changed: called when there is a result."""
        self._model = model
        self._server: RemoteServer | None = None
        super().__init__(f"push {model.name}", changed)

    def _form(self, widgets: Any) -> list[Any]:
        layout = widgets.Layout
        self.address = widgets.Text(
            placeholder="host:port",
            tooltip="or https://, grpcs:// or kube://namespace/service:port",
            description="Server",
            layout=layout(width="420px", max_width="100%"),
        )
        self.proof = widgets.Dropdown(options=list(_PROOFS), description="Proof", layout=layout(width="260px"))
        self.push_button = widgets.Button(description="Push", button_style="primary", layout=layout(width="90px"))
        self.undo_button = widgets.Button(
            description="Undo", tooltip="load the former model again", layout=layout(width="80px", display="none")
        )
        self.push_button.on_click(lambda button: self.push())
        self.undo_button.on_click(lambda button: self.undo())
        return [self.address, self.proof, self.push_button, self.undo_button]

    def push(self) -> None:
        """Begin a push to the server of the form, unless one runs."""
        self._start(self._push)

    def undo(self) -> None:
        """Begin to undo the last push, unless something runs."""
        if self.result is not None:
            self._start(self.result.undo)

    def _push(self) -> Push:
        address = self.address.value.strip()
        if not address:
            raise ValueError(
                "name the server: host:port; one that needs certificates or a token takes "
                "tritonlab.connect(ADDRESS, token=…).push(model)"
            )
        server = connect(address)
        try:
            result = server.push(self._model, proof=self.proof.value, say=self._show)
        except BaseException:
            server.close()
            raise
        self._close_server()  # not before, for Undo of the last push
        self._server = server
        return result

    def _close_server(self) -> None:
        if self._server is not None:
            self._server.close()

    def close(self) -> None:
        super().close()
        self._close_server()

    def _on_running(self, is_running: bool) -> None:
        self.push_button.disabled = self.undo_button.disabled = is_running
        has_pushed = self.result is not None and any(target.state.is_pushed for target in self.result.targets)
        self.undo_button.layout.display = "" if has_pushed else "none"
