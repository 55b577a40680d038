"""The fields of a request, as widgets: its inputs, and all other options of a client; their text and keys."""

from __future__ import annotations

import ast
import functools
import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from ....core.inference.infer_request import SEQUENCE_END, SEQUENCE_START
from ....core.inference.infer_response import ParameterValue
from ....exchanges.exchange import Exchange
from ....server.api.request_maker import RequestFields
from ..widget import close_widget, module_text
from .fields import button, label_looks, side_by_side
from .input_pages import InputPages, UnseenInput
from .input_row import InputRow
from .input_values import ValueProblem, input_specs

#: Fields that every form has.
_COMMON = ("seed", "request_id", "correlation_id", "start", "end", "priority", "timeout", "parameters", "batch")
#: The most outputs with a box of their own.
_MOST_BOXES = 12
#: The most characters of a value in the text, and the most inputs listed one by one.
_MOST_TEXT, _LISTED = 60, 20

#: Takes the number of an input, the browser's report of files dropped on it, and their contents.
Drop = Callable[[int, Sequence[Mapping[str, Any]], Sequence[bytes]], object]


class RequestForm:
    """The fields for requests to a model of `config`. `box`: the widget for a frontend."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._facts = _config_facts(config)
        specs = input_specs(config)
        self.inputs = InputPages(specs)
        self._batching = config["max_batch_size"] > 0
        self._sequence = "sequence_batching" in config
        #: the batch size except for typed rows, which set their own
        self._chosen_batch = 1
        self._follows = False  # set while the form sets the batch size
        self.batch = _number("batch size", 1, max(1, config["max_batch_size"] * 2), "Rows of one request")
        self.seed = _number("seed", 0, (1 << 31) - 1, "Of the random values; one seed makes the same ones each time")
        self.new_button = button("New values", self.new_values, "Random values of the next seed", "100px")
        self._build_options([output["name"] for output in config["output"]])
        self._arrange()
        self.batch.observe(lambda change: self._choose_batch(), names="value")
        for field in (self.batch, self.seed):
            field.observe(lambda change: self.inputs.arrange(self.batch.value, self.seed.value), names="value")
        self.inputs.changed = self._take_rows
        self.inputs.arrange(self.batch.value, self.seed.value)

    def _build_options(self, outputs: list[str]) -> None:
        most = 1 << 53  # the largest number that a browser counts exactly
        self.request_id = _text("request id", "")
        self.correlation_id = _text("correlation id", "a number or text; 0 is none")
        self.correlation_id.value = "1" if self._sequence else ""
        self.start = _check("sequence start", self._sequence)
        self.end = _check("sequence end", self._sequence)
        self.priority = _number("priority", 0, most, "0 is the model's default, 1 the highest")
        self.timeout = _number("timeout µs", 0, most, "Microseconds in the queue; 0 is none")
        self.parameters = _text("parameters", '{"key": "value"}')
        self._names = outputs
        self.outputs = {name: _check(name, True) for name in outputs[:_MOST_BOXES]}
        #: of many outputs the requested ones; none chosen: all
        self.chosen = widgets.SelectMultiple(
            options=outputs, rows=6, description="requested outputs", style={"description_width": "initial"}
        )

    def _arrange(self) -> None:
        sequence = side_by_side(self.correlation_id, self.start, self.end)
        options = [side_by_side(self.request_id, self.priority, self.timeout, self.parameters)]
        if not self._sequence:
            options.append(sequence)
        if len(self._names) > _MOST_BOXES:
            self.outputs = {}
            options.append(side_by_side(self.chosen))
        elif len(self.outputs) > 1:
            head = widgets.HTML("<div class='tl-panel tl-dim'>requested outputs (none chosen: all)</div>")
            options.append(side_by_side(head, *self.outputs.values()))
        self.options = widgets.Accordion([widgets.VBox(options)], titles=["Request options"], selected_index=None)
        batch = [self.batch] if self._batching else []
        children = [
            self.inputs.box,
            side_by_side(*batch, self.seed, self.new_button),
            *([sequence] if self._sequence else []),
            self.options,
        ]
        self.box = widgets.VBox(children)

    def fits(self, config: Mapping[str, Any]) -> bool:
        """Return whether the form for `config` would have the same fields."""
        return self._facts == _config_facts(config)

    def take_over(self, other: RequestForm) -> None:
        """Copy the values of the fields that another form shares with this one."""
        for name, before in other.inputs.made.items():
            row = self.inputs.get(name)
            if row is not None and replace(before.spec, max_batch_size=row.spec.max_batch_size) == row.spec:
                row.take_over(before)
        for name, box in self.outputs.items():
            if name in other.outputs:
                box.value = other.outputs[name].value
        self.chosen.value = [name for name in other.chosen.value if name in self._names]
        for name in _COMMON:
            getattr(self, name).value = getattr(other, name).value  # a batch size is cut to the current limit

    def close(self) -> None:
        """Close all fields, also hidden ones, once another form has replaced this one."""
        parts = [part for row in self.inputs.made.values() for part in (row.box, row.sent_box)]
        for widget in (self.box, self.inputs.bar, *parts, *self.fields, self.chosen):
            if widget.comm is not None:
                close_widget(widget)

    @property
    def fields(self) -> list[Any]:
        """Return every field except buttons and files."""
        fields = [self.batch, self.seed, self.request_id, self.correlation_id, self.start, self.end]
        fields += [self.priority, self.timeout, self.parameters, *self.outputs.values()]
        return [field for row in self.inputs.made.values() for field in row.fields] + fields

    @property
    def requested_outputs(self) -> list[str]:
        if len(self._names) > _MOST_BOXES:
            return list(self.chosen.value) or list(self._names)
        return [name for name, box in self.outputs.items() if box.value]

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the fields for a program, as JSON values."""
        return {
            "inputs": self.inputs.to_dict(),
            "batch_size": self.batch.value,
            "seed": self.seed.value,
            "outputs": self.requested_outputs,
        }

    def new_values(self) -> None:
        """Take the next seed, so that random values change."""
        self.seed.value += 1

    def requests(self, count: int, inputs: Mapping[str, Any], namespace: Mapping[str, Any]) -> Iterator[RequestFields]:
        """Return the fields of each of `count` requests. They differ only in their random values; the first one has the
        values in the form. `inputs`: replacements of the form's inputs. Raises ValueProblem.
        """
        common = self._fields()
        rows = {name: row for name, row in self.inputs.senders().items() if name not in inputs and row.sent}
        batch, fixed = self._fixed(rows, namespace, int(self.batch.value))
        for number in range(count):
            random = {name: row.value(batch, namespace, number) for name, row in rows.items() if row.random}
            known = {**inputs, **fixed, **random}
            sent = {name: known[name] for name in dict.fromkeys([*rows, *known])}  # in the config's order
            yield RequestFields(inputs=sent, **common)

    def _fixed(
        self, senders: Mapping[str, InputRow | UnseenInput], namespace: Mapping[str, Any], batch: int
    ) -> tuple[int, dict[str, Any]]:
        """Return the batch size, and the values that are the same in all requests. A value with rows sets the batch
        size, otherwise it is `batch`.
        """
        rows = {name: row for name, row in senders.items() if isinstance(row, InputRow) and not row.random}
        values = {name: row.value(batch, namespace) for name, row in rows.items()}
        brought = [rows[name].rows(value) for name, value in values.items()]
        other = next((rows for rows in brought if rows not in (None, batch)), None)
        if other is None:
            return batch, values
        return other, {name: rows[name].value(other, namespace) for name in values}

    def _fields(self) -> RequestFields:
        correlation = self.correlation_id.value.strip()
        return RequestFields(
            request_id=self.request_id.value.strip(),
            correlation_id=int(correlation or 0) if correlation.isdecimal() or not correlation else correlation,
            flags=SEQUENCE_START * self.start.value | SEQUENCE_END * self.end.value,
            priority=self.priority.value,
            timeout=self.timeout.value,
            parameters=_parameters(self.parameters.value.strip()),
            requested_outputs=[] if len(self.requested_outputs) == len(self._names) else self.requested_outputs,
        )

    def _choose_batch(self) -> None:
        if not self._follows:
            self._chosen_batch = int(self.batch.value)

    def _take_rows(self) -> None:
        """Set the batch size from the typed values if they have rows, else to the chosen one."""
        typed = {name: row for name, row in self.inputs.made.items() if row.sent and row.typed}
        try:
            batch, _ = self._fixed(typed, {}, self._chosen_batch)
        except ValueProblem:
            return  # reported when the request is sent
        if batch <= self.batch.max:
            self._follows = True
            try:
                self.batch.value = batch
            finally:
                self._follows = False


def _parameters(text: str) -> dict[str, ParameterValue]:
    if not text:
        return {}
    for read in (ast.literal_eval, json.loads):
        with suppress(ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            value = read(text)
            if isinstance(value, dict):
                return value
    raise ValueProblem(f'parameters: {text!r} is not a dict such as {{"key": "value"}}')


def _config_facts(config: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the facts of a config that determine the fields."""
    outputs = [output["name"] for output in config["output"]]
    return input_specs(config), config["max_batch_size"], outputs, "sequence_batching" in config


def _number(name: str, least: int, most: int, tip: str) -> Any:
    return widgets.BoundedIntText(value=least, min=least, max=most, description=name, tooltip=tip, **label_looks())


def _text(name: str, placeholder: str) -> Any:
    return widgets.Text(description=name, placeholder=placeholder, **label_looks())


def _check(name: str, value: bool) -> Any:
    return widgets.Checkbox(value=value, description=name, indent=False, layout=widgets.Layout(width="auto"))


def form_text(facts: Mapping[str, Any], last: Exchange | None) -> str:
    """Return a playground's `to_dict` for a terminal."""
    inputs = facts["inputs"]
    width = max(map(len, inputs), default=0)
    lines = [f"Playground of {facts['model']}: batch size {facts['batch_size']}, seed {facts['seed']}"]
    lines += [_input_line(name, width, one) for name, one in list(inputs.items())[:_LISTED]]
    lines += [f"  and {len(inputs) - _LISTED} more inputs"] if len(inputs) > _LISTED else []
    lines += ["  last request:", *(f"    {line}" for line in repr(last).split("\n"))] if last is not None else []
    return "\n".join([*lines, "  .send() sends it; .compare(…), .copy_as(…) and .keep() do what its buttons do"])


def _input_line(name: str, width: int, facts: Mapping[str, Any]) -> str:
    value = " ".join(facts["text"].split())
    text = value if len(value) <= _MOST_TEXT else f"{value[:_MOST_TEXT]}…"
    how = facts["mode"] if facts["sent"] else "not sent"
    return f"  send  {name:<{width}}  {facts['datatype']:<6} {facts['shape']}  {how}{f': {text}' if text else ''}"


def form_keys(fields: Callable[[], Sequence[Any]], send: Callable[[], object], drop: Drop, view: str) -> Any:
    """Return an invisible widget to put into a form, a box of class `tl-form`. `fields`: its widgets for text and
    numbers, each with a description of its own. `send` is called at Ctrl+Enter, once the focused field has the visible
    value. `view` names its static form, as `LiveView.id` does.
    """
    keys = _keys_class()(view=view)
    keys.own_id = keys.model_id  # as in `LiveView.widget`

    def received(widget: Any, content: Any, buffers: Any) -> None:
        if content.get("kind") == "drop":
            drop(int(content["input"]), content["files"], [bytes(part) for part in buffers])
        if content.get("kind") != "send":
            return
        label = content.get("label")
        field = next((field for field in fields() if field.description == label), None) if label else None
        if field is not None:
            _write(field, content["value"])
        send()

    keys.on_msg(received)
    return keys


@functools.cache
def _keys_class() -> Any:
    anywidget, traitlets = importlib.import_module("anywidget"), importlib.import_module("traitlets")
    texts = {name: traitlets.Unicode().tag(sync=True) for name in ("view", "own_id")}
    members = {"_esm": module_text("formKeys.js"), **texts}
    return type("FormKeys", (anywidget.AnyWidget,), members)


def _write(field: Any, text: str) -> None:
    """Set the value as if it came from the page: it is not sent back to the page, which may have a newer one."""
    if isinstance(field.value, str):
        field.set_state({"value": text})
        return
    # for a text that is not a number the field keeps its number, as when the focus leaves it
    with suppress(ValueError):
        field.set_state({"value": int(text)})
