"""All models of a workspace in one table."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar

from ....core.plain_facts import few_lines
from ....core.short_number import duration_text
from ....core.status import TritonError
from ....figures.stored_picture import date_line
from ....figures.tables import cell, text_table
from ....server.api.model import Model
from ....server.observe.idle_memory import MemoryUse
from ...authoring.workspace import Workspace
from ..widget import LiveView, in_kernel
from .device_text import gpus_text, places_text
from .hanging import draining_text, hanging_texts, lasting
from .model_facts import MOVING, TONES, instance_troubles, served_words
from .model_states import ModelStates


@dataclass(frozen=True)
class StatusRow:
    """One model version. `requests`: succeeded and failed requests since its load; `mean_ns`: per succeeded request."""

    name: str
    version: str
    state: str
    instances: int = 0
    #: the devices of its instances, if they include GPUs
    places: str = ""
    answered: int = 0
    failed: int = 0
    mean_ns: int = 0
    ready_at: float = 0.0
    reason: str = ""


@dataclass(eq=False, repr=False)
class StatusTable:
    """The table of `%triton status` at one moment."""

    HEAD: ClassVar = ("model", "version", "state", "instances", "answered", "failed", "mean", "since")
    #: the columns with numbers
    NUMBERS: ClassVar = (4, 5, 6)

    rows: list[StatusRow]
    endpoints: str = ""
    memory: str = ""
    draining: Sequence[str] = ()
    gpus: Sequence[Mapping[str, Any]] = ()
    hanging: Sequence[str] = ()

    def cells(self) -> list[tuple[str, ...]]:
        return [
            (
                row.name,
                row.version,
                row.state,
                f"{row.instances} on {row.places}" if row.places else str(row.instances),
                str(row.answered),
                str(row.failed),
                duration_text(row.mean_ns / 1e9) if row.answered else "",
                time.strftime("%H:%M:%S", time.localtime(row.ready_at)) if row.ready_at else "",
            )
            for row in self.rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON values."""
        more = {
            "draining": list(self.draining),
            "hanging": list(self.hanging),
            "memory": self.memory,
            "gpus": list(self.gpus),
            "endpoints": self.endpoints,
        }
        return {"models": [vars(row) for row in self.rows], **more}

    def __repr__(self) -> str:
        return few_lines("\n".join(filter(None, [self._models(), *self.draining, *self.hanging, *self._server()])))

    def _server(self) -> list[str]:
        return [text for text in (self.memory, gpus_text(self.gpus), self.endpoints) if text]

    def _models(self) -> str:
        if not self.rows:
            return "no models: run a %%triton_model cell"
        lines = text_table([self.HEAD, *self.cells()], self.NUMBERS)
        reasons = [f"{row.name}: {row.reason}" for row in self.rows if row.reason]
        return "\n".join(lines + reasons)

    def html(self) -> str:
        if not self.rows:
            return f"<div class='tl-panel tl-dim'>{escape(repr(self))}</div>"
        head = "".join(cell(title, kind="th", number=n in self.NUMBERS) for n, title in enumerate(self.HEAD))
        body = ""
        for row, cells in zip(self.rows, self.cells(), strict=True):
            tone = TONES.get(row.state, "bad")
            styled = [f"<td class='tl-tensor'>{escape(cells[0])}</td>", f"<td>{escape(cells[1])}</td>"]
            styled += [f"<td class='tl-{tone}'>{escape(cells[2])}</td>"]
            styled += [cell(text, number=n in self.NUMBERS) for n, text in enumerate(cells[3:], start=3)]
            body += f"<tr>{''.join(styled)}</tr>"
            if row.reason:
                body += f"<tr><td></td><td class='tl-dim' colspan='7'>{escape(row.reason)}</td></tr>"
        table = f"<table class='tl-tensors tl-status'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        notes = [f"<div class='tl-note tl-warn-note'>{escape(text)}</div>" for text in (*self.draining, *self.hanging)]
        below = [f"<div class='tl-lines tl-dim'>{escape(text)}</div>" for text in self._server()]
        return f"<div class='tl-panel'>{table}{''.join(notes + below)}</div>"


class StatusView(LiveView):
    """The live table of `%triton status`: it follows the models, and also the counts while it is visible.

    Its static form shows the moment of its cell, or the moment when the changing models have settled.
    """

    MODULE = "panel.js"

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._states = ModelStates.for_server(workspace.server)
        self.table = status_table(workspace)
        self._at = time.time()
        super().__init__(html=self.table.html())

    @property
    def subject(self) -> Hashable:
        return StatusView, id(self._workspace)

    def text(self) -> str:
        return repr(self.table)

    def to_dict(self) -> dict[str, Any]:
        return self.table.to_dict()

    def html(self) -> str:
        return f"{self.table.html()}<div class='tl-panel'>{date_line(self._at)}</div>"

    def show(self, around: Any = None) -> None:
        super().show(around)
        if not self._is_moving():
            self.fix()
        if in_kernel():
            self._states.follow(self.refresh)

    def close(self) -> None:
        self._states.leave(self.refresh)
        super().close()

    def _is_moving(self) -> bool:
        return any(row.state in MOVING for row in self.table.rows)

    def refresh(self) -> bool:
        """Check the models; return whether one is changing. Called by the store."""
        before, self.table, self._at = self.table, status_table(self._workspace), time.time()
        self.update(html=self.table.html())
        if self.table.rows != before.rows:
            self.freeze()
        if not self._is_moving():
            self.fix()
        return self._is_moving() or bool(self.table.hanging or self._workspace.server.draining())

    def on_message(self, content: Mapping[str, Any]) -> None:
        self.table, self._at = status_table(self._workspace), time.time()
        self.update(html=self.table.html())
        self.send({})  # replies to the question


def status_table(workspace: Workspace) -> StatusTable:
    """Return all models of the workspace and the server, with their statistics."""
    rows = []
    versions = workspace.server.models()
    for name in workspace.names():
        report = workspace.report(name)
        found = sorted(version for model, version in versions if model == name)
        if not found:
            reason = str(report.error).strip() if report is not None and report.error is not None else ""
            loading = workspace.loading(name) is not None
            rows.append(StatusRow(name, "", "LOADING" if loading else "NOT LOADED", reason="" if loading else reason))
        rows += [_row(versions[name, version], report.ready_at if report is not None else 0.0) for version in found]
    endpoints = repr(workspace.ports.endpoints) if workspace.ports.endpoints is not None else ""
    draining = [draining_text(found) for found in lasting(workspace.server.draining())]
    server, memory = workspace.server, memory_text(workspace.server.memory()) if rows else ""
    return StatusTable(rows, endpoints, memory, draining, gpus=server.gpus(), hanging=[*hanging_texts(server).values()])


def _row(model: Model, ready_at: float) -> StatusRow:
    """Return the row of a model's version."""
    with suppress(TritonError):  # it may end meanwhile
        if model.state == "READY":
            return _serving_row(model, ready_at)
    state, reason = model.state, model.reason.split("\n\nAt:", 1)[0]
    if state == "UNAVAILABLE" and reason in ("", "unloaded"):
        state, reason = "UNLOADED", ""
    return StatusRow(model.name, str(model.version), state, reason=reason)


def _serving_row(model: Model, ready_at: float) -> StatusRow:
    stats = model.statistics()["model_stats"][0]["inference_stats"]
    success = stats["success"]
    instances = model.instances()
    troubles = instance_troubles(instances)
    return StatusRow(
        model.name,
        str(model.version),
        "NOT READY" if troubles else "READY",
        instances=len(instances),
        places=places_text(instances) if any(each["kind"] == "GPU" for each in instances) else "",
        answered=success["count"],
        failed=stats["fail"]["count"],
        mean_ns=success["ns"] // success["count"] if success["count"] else 0,
        ready_at=ready_at,
        reason=" ".join(troubles) or served_words(model),
    )


def memory_lines(memory: MemoryUse) -> list[str]:
    """Return the uses of the memory, in sentences."""
    models = "1 model process uses" if memory.processes == 1 else f"{memory.processes} model processes use"
    lines = [f"This kernel uses {memory.kernel >> 20:,} MB of memory, its {models} {memory.models >> 20:,} MB."]
    if memory.warm:
        imports = f" with {' and with '.join(memory.imports)} imported" if memory.imports else ""
        most = f"at most {memory.warm_limit >> 20:,} MB may be"
        lines.append(f"{memory.warm >> 20:,} MB are kept for quick loads, in processes{imports}; {most}.")
    if memory.given_back_at:
        when = time.strftime("%H:%M:%S", time.localtime(memory.given_back_at))
        lines.append(f"{memory.given_back >> 20:,} MB were given back to the machine at {when}, while nothing ran.")
    return lines


def memory_text(memory: MemoryUse) -> str:
    """Return `memory: 210 MB in this kernel, 96 MB in 3 model processes, 80 of at most 6000 MB kept warm (torch); 680
    MB given back at 12:00:01`.
    """
    models = "1 model process" if memory.processes == 1 else f"{memory.processes} model processes"
    text = f"memory: {memory.kernel >> 20} MB in this kernel, {memory.models >> 20} MB in {models}"
    if memory.warm:
        imports = f" ({'; '.join(memory.imports)})" if memory.imports else ""
        text += f", {memory.warm >> 20} of at most {memory.warm_limit >> 20} MB kept warm{imports}"
    if memory.given_back_at:
        when = time.strftime("%H:%M:%S", time.localtime(memory.given_back_at))
        text += f"; {memory.given_back >> 20} MB given back at {when}"
    return text
