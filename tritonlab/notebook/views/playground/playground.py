"""The form that sends requests to a model, made from its config. Every button is also a method."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from ....core.inference.infer_request import InferenceRequest
from ....core.plain_facts import few_lines
from ....core.process_bound import ProcessBound
from ....core.status import TritonError
from ....exchanges.comparison import Comparison
from ....exchanges.exchange import Exchange
from ....exchanges.golden import GoldenSet
from ....exchanges.sending import Sending
from ....exchanges.snippets import Address, Snippet, copy_as
from ...authoring.cells import user_namespace
from ...authoring.errors import DescribeError
from ...authoring.hints import hint
from ...authoring.notebook_ports import Ports, open_address
from ..theme import STYLE
from ..widget import close_widget, renew_form, show_form
from .fields import button
from .history import History
from .in_flight import CurrentSending, SendButtons, follow
from .input_row import InputRow
from .input_values import ValueProblem
from .other_server import SideBySide
from .program_panel import ProgramPanel
from .request_form import RequestForm, form_keys, form_text
from .result_view import outcomes_html

if TYPE_CHECKING:
    from ....exchanges.remote.remote_server import RemoteServer
    from ....server.api.model import Model


class Playground(ProcessBound):
    """A form that sends requests to `model` and shows the client's answers and times.

    Needs ipywidgets and anywidget. Guarantees: widget callbacks may come on any thread; a button returns at once, the
    request waits in a thread of its own. One press is in flight at a time.
    """

    _elsewhere = "pickle its `to_dict()`"

    def __init__(
        self,
        model: Model,
        describe_error: DescribeError = lambda error: "",
        ports: Ports = lambda: None,
        cite: Callable[[str], str] = str,
    ) -> None:
        """cite: function that names the cell in a text that names a line of a model's file."""
        self.model = model
        self._cite = cite
        self._ports = ports
        self._describe_error = describe_error
        self._sent = CurrentSending()
        self._id = uuid.uuid4().hex[:12]
        self._output = ""  # the display id of the output that shows it last
        #: called when there is another answer
        self.answered: Callable[[], object] = lambda: None
        #: called when its live form has ended
        self.closed: Callable[[], object] = lambda: None
        self.form = RequestForm(model.config())
        self._build()

    @property
    def inputs(self) -> Mapping[str, InputRow]:
        """The rows of the form by the inputs' names."""
        return self.form.inputs

    @property
    def history(self) -> History:
        """The requests that were sent, with their responses."""
        return self.other.history

    def renew(self) -> bool:
        """Show the fields of the model's current config, and keep the values of unchanged fields. Called by the store
        when the model may have changed.
        """
        with suppress(TritonError):  # it does not serve; its form stays until it does
            config = self.model.config()
            if self.model.ready() and not self.form.fits(config):
                form = RequestForm(config)
                form.take_over(self.form)
                former, self.form = self.form, form
                self.widget.children = tuple(form.box if each is former.box else each for each in self.widget.children)
                former.close()
        return False

    def close(self) -> None:
        """End the live form; the static form stays in its output."""
        self.form.close()
        close_widget(self.widget)
        self.closed()

    def _build(self) -> None:
        layout = widgets.Layout
        self.buttons = SendButtons(self._press, self.cancel)
        self.result = widgets.HTML(layout=layout(margin="4px 0 0 0"))
        self.other = SideBySide(
            self.model, self._ports, request=lambda: self._requests(1, {})[0], say=self._say, note=self._note
        )
        self.keys = form_keys(
            lambda: [*self.form.fields, self.buttons.count, self.other.target],
            lambda: self._press(1),
            lambda *dropped: self.form.inputs.drop(*dropped),
            self._id,
        )
        self.keys.add_class("tl-keys-widget")
        self.programs = ProgramPanel(self.copy_as)
        tip = "Keep the last request and response beside the notebook, to test every reload"
        self.keep_button = button("Keep as golden", self._press_keep, tip, "124px")
        more = [self.other.box, self.programs.choice, self.keep_button, self.other.history.box]
        self.widget = widgets.VBox(
            [
                widgets.HTML(STYLE, layout=layout(display="none")),
                self.form.box,
                self.buttons.box,
                widgets.HBox(more, layout=layout(flex_flow="row wrap")),
                self.programs.box,
                self.result,
                self.keys,
            ],
            layout=layout(max_width="1000px"),
        )
        self.widget.add_class("tl-form")

    def send(self, inputs: Mapping[str, Any] | None = None) -> Exchange:
        """Send one request and wait; show and return the outcome. `inputs`: replacements of the form's inputs.

        Raises ValueProblem for a field that cannot be read. An error of the server or the model is in the outcome.
        """
        return self.send_many(1, inputs)[0]

    def send_many(self, count: int | None = None, inputs: Mapping[str, Any] | None = None) -> list[Exchange]:
        """Send `count` requests (default: the form's number) so that all are in flight at once, and wait for them."""
        sending = self._start(self.buttons.count.value if count is None else count, inputs)
        sending.wait()
        self._show(sending)
        return sending.outcomes()

    def copy_as(self, kind: str, address: Address | None = None) -> Snippet:
        """Return the request of the form as a program: `tritonclient HTTP`, `tritonclient gRPC`, `curl`, `perf_analyzer
        input`, or the last request with a response as a `pytest`. `address`: the server's; by default this notebook's
        own ports with the file of their token, or if none is open, Triton's.

        Raises ValueError for a request that such a program cannot send, or a field that cannot be read.
        """
        address = address or open_address(self._ports)
        sent = self._sent.finished() if kind == "pytest" else None
        if sent is None:
            sent = Exchange(self._requests(1, {})[0])
        return copy_as(kind, sent, self.model.config(), address)

    def compare(self, target: str | RemoteServer, headers: Mapping[str, str] | None = None) -> Comparison:
        """Send the form's request to this model and to the model of the same name on another server; show and return
        how their responses differ. `target`: an address, `HTTP` or `gRPC` for this notebook's own ports, or a server
        that `tritonlab.connect` found.

        Raises ValueError for a field that cannot be read, TritonError if no server answers.
        """
        return self.other.compare(target, headers)

    def replay(self, sent: Exchange) -> Comparison:
        """Send a request again; show and return how its responses differ from the earlier ones."""
        return self.other.replay(sent)

    def keep(self, name: str = "", *, error: bool = False) -> Path:
        """Save the last request with a response in the notebook's golden set; return the file. `error`: whether an
        error may be the expected answer.

        Raises ValueError without such a request, or for an error that is not expected, FileExistsError for a name that
        is taken.
        """
        sent = self._sent.finished()
        if sent is None:
            raise ValueError("send the request first: its response is what is kept")
        return GoldenSet().add(sent, name, error=error)

    def _press_keep(self) -> None:
        try:
            self._note(f"kept: {self.keep()}", "good")
        except (ValueError, OSError) as problem:
            self._note(str(problem), "bad")

    def _say(self, html: str) -> None:
        self.result.value = f"<div class='tl-panel'>{html}</div>"

    def cancel(self) -> None:
        """Cancel requests in flight. A second call stops waiting: a model may never respond (rule 3.7.2)."""
        if self._sent.cancel():
            self._note("the response is no longer awaited; the model may still be executing", "warn")
            self.buttons.enable(True)

    def _press(self, count: int) -> None:
        try:
            sending = self._start(count, None)
        except ValueProblem as problem:
            self._note(str(problem), "bad")
            return
        threading.Thread(target=self._follow, args=(sending,), name="playground follow", daemon=True).start()

    def _note(self, text: str, tone: str) -> None:
        self._say(f"<div class='tl-note tl-{tone}-note' role='alert'>{escape(text)}</div>")

    def _start(self, count: int, inputs: Mapping[str, Any] | None) -> Sending:
        sending = Sending(self.model, self._requests(count, inputs or {}))
        self._sent.begin(sending)
        self.buttons.enable(False)
        sending.start()
        return sending

    def _requests(self, count: int, inputs: Mapping[str, Any]) -> list[InferenceRequest]:
        try:
            wanted = self.form.requests(count, inputs, user_namespace())
            return [self.model.create_request(**fields) for fields in wanted]
        except (TritonError, UnicodeError) as error:  # the request has values that a client could not send
            raise ValueProblem(str(error)) from error

    def _follow(self, sending: Sending) -> None:
        follow(sending, lambda why: self._show(sending, self._cite(why)), lambda: self._sent.now() is sending)

    def _show(self, sending: Sending, why: str = "") -> None:
        outcomes, finished = sending.outcomes(), sending.finished
        errors = [outcome.error for outcome in outcomes if outcome.error is not None and outcome.failed]
        trace = self._describe_error(errors[0]) if errors else ""
        advice = hint(errors[0].message, lambda name: self.model.server.model(name).config()) if errors else ""
        html = outcomes_html(outcomes, finished=finished, hint=advice, waited=sending.waited, why=why)
        if trace:
            html += f"<div class='tl-value'>{escape(trace)}</div>"
        self._say(html)
        if finished:
            self.buttons.enable(True)
            if len(outcomes) == 1:
                self.other.history.add(outcomes[0])
            if not errors:  # an error from before a good answer is removed
                self.form.inputs.clear_problems()
                self.programs.clear_problem()
            if self._output:  # the static form shows the answer, too
                renew_form(self._output, self._id, repr(self), self.html())
            self.answered()

    def html(self) -> str:
        """Return the form and its last answer for an output without a running kernel."""
        # a notebook that is not trusted has no styles
        lines = escape(form_text(self.to_dict(), None)).replace("\n", "<br>")
        return f"<div class='tl-panel'><div class='tl-text'>{lines}</div></div>{self.result.value}"

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the form, and the outcome of the last request, as JSON values."""
        last = self._sent.finished()
        return {
            "model": self.model.name,
            **self.form.to_dict(),
            "last": last.to_dict() if last is not None else None,
        }

    def _ipython_display_(self) -> None:
        self._output = uuid.uuid4().hex[:12]  # the earlier output keeps its moment
        show_form(self.widget, view=self._id, text=repr(self), html=self.html(), output=self._output)

    def text(self) -> str:
        return form_text(self.to_dict(), self._sent.finished())

    def __repr__(self) -> str:
        return few_lines(self.text())
