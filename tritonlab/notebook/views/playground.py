"""A form for sending requests to a model, made from its config. Every button is also a method."""

from __future__ import annotations

import ast
import importlib
import json
import threading
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.infer_request import InferenceRequest
from ...core.infer_response import ParameterValue
from ..authoring.cells import user_namespace
from ..authoring.hints import hint
from .input_row import InputRow
from .input_values import ValueProblem, input_specs
from .result_view import outcomes_html
from .sending import Outcome, Sending
from .theme import STYLE

if TYPE_CHECKING:
    from ...server.api.model import Model

MOST_IN_FLIGHT = 4096
_FRAME_SECONDS = 1 / 20

#: The author's traceback of an error as plain text, "" if there is none.
DescribeError = Callable[[BaseException], str]


class Playground:
    """Sends requests to `model` and shows what a client gets and where the time went.

    Needs ipywidgets. Guarantees: widget callbacks may come on any thread; a button returns at once, the request waits
    in a thread of its own. One press is in flight at a time.
    """

    def __init__(self, model: Model, describe_error: DescribeError = lambda error: "") -> None:
        self.model = model
        self._describe_error = describe_error
        self._random = np.random.default_rng(0)
        self._lock = threading.Lock()  # guards _sending
        self._sending: Sending | None = None
        try:
            widgets: Any = importlib.import_module("ipywidgets")
        except ModuleNotFoundError:
            raise ModuleNotFoundError("the playground needs ipywidgets: pip install 'tritonlab[lab]'") from None
        config = model.config()
        self.inputs = {spec.name: InputRow(spec, widgets) for spec in input_specs(config)}
        self._build(widgets, config["max_batch_size"])

    def _build(self, widgets: Any, max_batch_size: int) -> None:
        layout = widgets.Layout
        self.batch = widgets.BoundedIntText(
            value=1, min=1, max=max(1, max_batch_size * 2), layout=layout(width="72px"), tooltip="Rows of one request"
        )
        self.count = widgets.BoundedIntText(value=32, min=1, max=MOST_IN_FLIGHT, layout=layout(width="72px"))
        self.request_id = widgets.Text(placeholder="request id", layout=layout(width="150px"))
        self.parameters = widgets.Text(placeholder='parameters: {"key": "value"}', layout=layout(width="260px"))
        self.send_button = widgets.Button(description="Send", button_style="primary", layout=layout(width="88px"))
        self.many_button = widgets.Button(description="Send N", layout=layout(width="88px"))
        self.cancel_button = widgets.Button(description="Cancel", disabled=True, layout=layout(width="88px"))
        self.many_button.tooltip = "N requests in flight at once"
        self.cancel_button.tooltip = "Ask for cancellation; press again to stop waiting"
        self.send_button.on_click(lambda _: self._press(1))
        self.many_button.on_click(lambda _: self._press(self.count.value))
        self.cancel_button.on_click(lambda _: self.cancel())
        self.result = widgets.HTML(layout=layout(margin="4px 0 0 0"))
        label = widgets.HTML("<div class='tl-panel tl-dim'>batch size</div>")
        request = [self.request_id, self.parameters]
        row = layout(align_items="center", flex_flow="row wrap")
        self.widget = widgets.VBox(
            [
                widgets.HTML(STYLE, layout=layout(display="none")),
                *[inputs.box for inputs in self.inputs.values()],
                widgets.HBox([label, self.batch, *request] if max_batch_size > 0 else request, layout=row),
                widgets.HBox([self.send_button, self.many_button, self.count, self.cancel_button], layout=row),
                self.result,
            ],
            layout=layout(max_width="1000px"),
        )

    def send(self, inputs: Mapping[str, Any] | None = None) -> Outcome:
        """Sends one request, waits, shows and returns what happened. `inputs` replace what the form says.

        Raises ValueProblem for a field that cannot be read. An error of the server or the model is in the outcome.
        """
        return self.send_many(1, inputs)[0]

    def send_many(self, count: int | None = None, inputs: Mapping[str, Any] | None = None) -> list[Outcome]:
        """Sends `count` requests (what the form says) so that all are in flight at once, and waits for them."""
        sending = self._start(self.count.value if count is None else count, inputs)
        sending.wait()
        self._show(sending)
        return sending.outcomes()

    def cancel(self) -> None:
        """Asks to cancel what is in flight. A second call stops waiting: a model may never answer (rule 3.7.2)."""
        with self._lock:
            sending = self._sending
            if sending is not None and sending.cancelled:
                self._sending = None
        if sending is None:
            return
        if sending.cancelled:
            self._enable(True)
        else:
            sending.cancel()

    def _press(self, count: int) -> None:
        try:
            sending = self._start(count, None)
        except ValueProblem as problem:
            note = f"<div class='tl-note tl-bad-note'>{escape(str(problem))}</div>"
            self.result.value = f"<div class='tl-panel'>{note}</div>"
            return
        threading.Thread(target=self._follow, args=(sending,), daemon=True).start()

    def _start(self, count: int, inputs: Mapping[str, Any] | None) -> Sending:
        requests = [self._request(inputs) for _ in range(count)]
        sending = Sending(self.model, requests)
        with self._lock:
            if self._sending is not None and not self._sending.finished:
                raise ValueProblem("a request is still in flight: wait, or cancel it")
            self._sending = sending
        self._enable(False)
        sending.start()
        return sending

    def _request(self, inputs: Mapping[str, Any] | None) -> InferenceRequest:
        given = dict(inputs or {})
        namespace = user_namespace()
        for name, row in self.inputs.items():
            if name not in given and row.given.value:
                given[name] = row.value(self.batch.value, namespace, self._random)
        return self.model.create_request(
            inputs=given, request_id=self.request_id.value.strip(), parameters=self._parameters()
        )

    def _parameters(self) -> dict[str, ParameterValue]:
        text = self.parameters.value.strip()
        if not text:
            return {}
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            try:
                value = json.loads(text)
            except ValueError:
                value = None
        if not isinstance(value, dict):
            raise ValueProblem(f'parameters: {text!r} is no dict such as {{"key": "value"}}')
        return value

    def _follow(self, sending: Sending) -> None:
        while not sending.wait(_FRAME_SECONDS):
            if not self._current(sending):
                return
            if sending.take_changes():
                self._show(sending)
        if self._current(sending):
            self._show(sending)

    def _current(self, sending: Sending) -> bool:
        with self._lock:
            return self._sending is sending

    def _show(self, sending: Sending) -> None:
        outcomes, finished = sending.outcomes(), sending.finished
        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        trace = self._describe_error(errors[0]) if errors else ""
        advice = hint(errors[0].message, lambda name: self.model.server.model(name).config()) if errors else ""
        html = outcomes_html(outcomes, finished=finished, hint=advice)
        if trace:
            html += f"<div class='tl-value'>{escape(trace)}</div>"
        self.result.value = f"<div class='tl-panel'>{html}</div>"
        if finished:
            self._enable(True)

    def _enable(self, ready: bool) -> None:
        self.send_button.disabled = self.many_button.disabled = not ready
        self.cancel_button.disabled = ready

    def _ipython_display_(self) -> None:
        importlib.import_module("IPython.display").display(self.widget)

    def __repr__(self) -> str:
        return f"<Playground {self.model.name} [{', '.join(self.inputs) or 'no inputs'}]>"
