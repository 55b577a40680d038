"""The form of a push below a model's card: the server, the proof, and Undo."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

from ....core.status import TritonError
from ....exchanges.remote.remote_server import RemoteServer, connect
from ....notebook.views.card.card_panel import CardPanel
from ....notebook.views.theme import STYLE
from .push_proof import LAST
from .push_result import Push

if TYPE_CHECKING:
    from ....server.api.model import Model

#: The choices of a proof, with their values for `RemoteServer.push`.
_PROOFS = (("golden answers", None), ("the last requests here", LAST), ("no requests", False))


class PushPanel(CardPanel):
    """The form; it needs ipywidgets. Guarantees: one push or undo runs at a time, on a thread of its own."""

    def __init__(self, model: Model, changed: Callable[[], object] = lambda: None) -> None:
        """changed: called when there is a result."""
        self._model, self._changed = model, changed
        self._thread: threading.Thread | None = None
        self._server: RemoteServer | None = None
        #: the result of the last push
        self.result: Push | None = None
        widgets: Any = importlib.import_module("ipywidgets")
        layout = widgets.Layout
        self.address = widgets.Text(
            placeholder="host:port, https:// or grpcs://, kube://namespace/service:port",
            description="Server",
            layout=layout(width="420px", max_width="100%"),
        )
        self.proof = widgets.Dropdown(options=list(_PROOFS), description="Proof", layout=layout(width="260px"))
        self.push_button = widgets.Button(description="Push", button_style="primary", layout=layout(width="90px"))
        self.undo_button = widgets.Button(
            description="Undo", tooltip="load the former model again", layout=layout(width="80px", display="none")
        )
        self.progress = widgets.HTML("")
        self.output = widgets.Output()
        self.push_button.on_click(lambda button: self.push())
        self.undo_button.on_click(lambda button: self.undo())
        row = widgets.HBox(
            [self.address, self.proof, self.push_button, self.undo_button], layout=layout(flex_flow="wrap")
        )
        self.widget = widgets.VBox([row, self.progress, self.output])

    @property
    def content(self) -> Push | None:
        return self.result

    def push(self) -> None:
        """Begin a push to the server of the form, unless one runs."""
        self._start(self._push)

    def undo(self) -> None:
        """Begin to undo the last push, unless something runs."""
        if self.result is not None:
            self._start(self.result.undo)

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end of the push or undo."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _push(self) -> Push:
        address = self.address.value.strip()
        if not address:
            raise ValueError(
                "name the server: host:port; one that needs certificates or a token takes "
                "tritonlab.connect(ADDRESS, token=…).push(model)"
            )
        server = connect(address)
        try:
            result = server.push(self._model, proof=self.proof.value, say=self._say)
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

    def _start(self, work: Callable[[], Push]) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        self._thread = threading.Thread(target=self._run, args=(work,), name=f"push {self._model.name}", daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], Push]) -> None:
        self.push_button.disabled = self.undo_button.disabled = True
        try:
            self.result = result = work()
        except (TritonError, OSError, ValueError) as error:
            self._show(str(error), f"<div class='tl-note tl-bad-note tl-text'>{escape(str(error))}</div>")
        else:
            self._show(result.text(), result.html())
            has_pushed = any(target.state.is_pushed for target in result.targets)
            self.undo_button.layout.display = "" if has_pushed else "none"
            self._changed()
        finally:
            self.progress.value = ""
            self.push_button.disabled = self.undo_button.disabled = False

    def _say(self, text: str) -> None:
        self.progress.value = f"<span class='tl-dim'>{escape(text)}</span>"

    def _show(self, text: str, html: str) -> None:
        data = {"text/plain": text, "text/html": f"{STYLE}<div class='tl-panel'>{html}</div>"}
        self.output.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)
