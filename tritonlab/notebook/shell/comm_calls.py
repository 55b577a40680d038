"""The calls that a window of JupyterLab can make to the kernel: each row of `CALLS` is a Python call that a notebook
can make, too, and returns JSON."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from ...core.plain_facts import JsonAnswer
from ...core.status import NotFoundError, TritonError
from ...record.record_facts import traffic
from ...record.recorder import Recorder
from ...record.recording import Recording
from ..authoring.config_fields import sentence_of
from ..authoring.config_text import ConfigText, ConfigTextError, faults
from ..authoring.opened_repository import OpenedRepository
from ..authoring.workspace import Workspace
from ..views.card.device_text import gpus_text, held_text, place_text
from ..views.card.hanging import cancelled_text, draining_text, hanging_texts, kill_pressed, lasting
from ..views.card.model_facts import current_facts
from ..views.card.status_table import memory_lines
from .config_completion import config_words, field_at
from .debugger_desk import NotebookDesk
from .logs import LogLine

#: The most requests in flight that are listed, oldest first, and the most last lines of the log.
_REQUESTS = 50
_LINES = 300
LEVELS = ("VERBOSE", "INFO", "WARNING", "ERROR")

_WORD = re.compile(r"[^\s{}\[\]:,]+|\S")
#: The file's own name stands for the model's directory, which may not contain it yet.
_NAME = re.compile(r'^\s*name\s*:\s*"([^"]*)"', re.MULTILINE)


def _cells(workspace: Workspace, model: str) -> JsonAnswer:
    """Return the texts of the cells that write a model of a repository that was opened (`opened[model].to_cells()`)."""
    for opened in workspace.repositories.values():
        if isinstance(opened, OpenedRepository) and model in opened:
            return {"cells": opened[model].to_cells()}
    raise NotFoundError(f"'{model}' is not a model of a repository that was opened")


def _load(workspace: Workspace, name: str) -> JsonAnswer:
    """Load a model from its last draft, or the model of that name in the repository (`tritonlab.load(name)`)."""
    if workspace.draft(name).loadable:
        workspace.load(name)
    else:
        workspace.server.load(name)
    return {"name": name, "state": workspace.server.model(name).state}


def _unload(workspace: Workspace, name: str) -> JsonAnswer:
    """Start unloading a model, without waiting (`server.unload(name, wait=False)`)."""
    if name not in workspace.names():
        raise NotFoundError(f"'{name}' is not a model of this notebook")
    workspace.unload(name, wait=False)
    return {"name": name}


def _stop(workspace: Workspace, name: str) -> JsonAnswer:
    """End a load, also the running cell's, as `workspace.stop_loading(name)` does; the version that served before goes
    on."""
    workspace.stop_loading(name)
    return {"name": name}


def _kill(workspace: Workspace, name: str) -> JsonAnswer:
    """End a draining version or a hanging process, as `server.kill(name)` does."""
    return {"name": name, "killed": kill_pressed(workspace.server, name)}


def _cancel(workspace: Workspace, serial: int) -> JsonAnswer:
    """Request the cancellation of a request in flight, as `server.cancel(serial)` does."""
    return {"serial": serial, "cancelled": workspace.server.cancel(serial)}


def _typing(workspace: Workspace, shown: bool, asked: bool = False) -> None:
    """Note whether a window was opened for the debugger's prompt, and shows its box."""
    desk = workspace.server.debugger.desk
    if isinstance(desk, NotebookDesk):
        desk.watch.seen(shown, asked)


def overview(workspace: Workspace) -> dict[str, Any]:
    """Return the content of `%triton status`, and the current activity: `models`, `requests` in flight and how many
    `more` there are, what is `draining` or hanging, `memory` and `gpus` in words, and the `ports` that are open.
    """
    server = workspace.server
    # also without a model: so the first one is recorded
    recording = Recorder.for_instruments(server.instruments).recording
    requests = server.requests()
    ports = workspace.ports.endpoints
    return {
        "models": [_model(workspace, name, recording) for name in workspace.names()],
        "requests": [_request(each) for each in requests[:_REQUESTS]],
        "more": max(len(requests) - _REQUESTS, 0),
        "draining": [
            *({"name": each["model"], "text": draining_text(each)} for each in lasting(server.draining())),
            *({"name": name, "text": text} for name, text in hanging_texts(server).items()),
        ],
        "memory": "\n".join(memory_lines(server.memory())),
        "gpus": gpus_text(server.gpus()),
        "ports": dict(ports.places) if ports else {},
    }


def _request(facts: dict[str, Any]) -> dict[str, Any]:
    entry = {key: value for key, value in facts.items() if key not in ("pid", "cancelled")}
    entry["ends"] = cancelled_text(facts)
    if entry["ends"]:
        entry["state"] = "executing, cancel requested"
    return entry


def _model(workspace: Workspace, name: str, recording: Recording) -> dict[str, Any]:
    """Return one model as its card and `%triton status` show it. Times are milliseconds."""
    facts = current_facts(workspace, name)
    entry: dict[str, Any] = {
        "name": name,
        "version": facts.version,
        "state": facts.state,
        "reason": facts.reason or facts.kept,
        "loading": facts.loading,
        "instances": [],
        "answered": 0,
        "failed": 0,
    }
    entry.update(traffic(recording.model(name), time.monotonic_ns())._asdict())
    try:
        model = workspace.server.model(name)
        stats = model.statistics()["model_stats"][0]["inference_stats"]
        entry |= {"answered": stats["success"]["count"], "failed": stats["fail"]["count"]}
        entry["instances"] = [
            {
                **{key: instance[key] for key in ("name", "kind", "pid", "state", "restarts", "failure")},
                "place": place_text(instance),
                "holds": held_text(instance),
            }
            for instance in model.instances()
        ]
    except TritonError:
        pass  # the model does not serve
    return entry


def logs(
    workspace: Workspace, model: str = "", level: str = "VERBOSE", search: str = "", limit: int = _LINES
) -> dict[str, Any]:
    """Return the last lines that models printed and logged: `lines` of one model or of all, of at least this level,
    with `search` in upper or lower case; and `count`, the number of lines from which these were chosen. Raises
    ValueError for an unknown level.
    """
    lowest, sought = LEVELS.index(level), search.lower()
    found = [
        record
        for record in workspace.server.logs(model or None)
        if (record.level not in LEVELS or LEVELS.index(record.level) >= lowest) and sought in record.text.lower()
    ]
    lines = [
        {
            "time": time.strftime("%H:%M:%S", time.localtime(record.time_ns / 1e9)),
            "model": record.model,
            "instance": record.instance,
            "stream": record.stream,
            "level": record.level,
            "text": LogLine.from_record(record, workspace.shell.cite_for(record)).text,
        }
        for record in found[-limit:]
    ]
    return {"count": len(found), "lines": lines}


def check(workspace: Workspace, text: str, model: str = "") -> list[dict[str, Any]]:
    """Return the faults for which `%%triton_config` would refuse this text: `text`, the `line` (from 1; 0 for the
    whole), and the columns `start` and `end` (from 0).
    """
    if not model and (named := _NAME.search(text)):
        model = named[1]
    return [
        {"text": f"{error.complaint} {error.advice}".strip(), "line": error.line, **_columns(text, error)}
        for error in faults(ConfigText(text, model=model or "model"))
    ]


def _columns(text: str, error: ConfigTextError) -> dict[str, int]:
    """Return the place of the faulty word in its line; without a column the line, from its first letter."""
    lines = text.splitlines()
    line = lines[error.line - 1] if 0 < error.line <= len(lines) else ""
    if not error.column:
        return {"start": len(line) - len(line.lstrip()), "end": len(line.partition("#")[0].rstrip())}
    found = _WORD.match(line, error.column - 1)
    return {"start": error.column - 1, "end": found.end() if found else len(line)}


def complete(workspace: Workspace, text: str) -> dict[str, Any]:
    """Return the completions at the end of `text`: `typed`, the part so far, and the `words` that begin with it:
    fields, values of enums, models of this notebook for a step."""
    typed, words = config_words(text, workspace.names) or ("", [])
    return {"typed": typed, "words": words}


def explain(workspace: Workspace, text: str) -> dict[str, str]:
    """Return the `field` with whose name `text` ends, its `type`, and its purpose; "" if that is not a field."""
    descriptor, name = field_at(text)
    field = descriptor.fields_by_name.get(name) if descriptor is not None else None
    if field is None:
        return {"field": "", "type": "", "says": ""}
    return {"field": name, "type": _type(field), "says": sentence_of(descriptor, name)}


def _type(field: Any) -> str:
    if field.message_type is not None:
        kind = "map" if field.message_type.GetOptions().map_entry else field.message_type.name
    elif field.enum_type is not None:
        kind = " or ".join(value.name for value in field.enum_type.values if value.name != "TYPE_INVALID")
    else:
        kind = _SCALARS[field.cpp_type]
    return f"{kind}, repeated" if field.is_repeated and kind != "map" else kind


#: protobuf's numbers of kinds of scalars, in Triton's words
_SCALARS = {
    1: "integer",
    2: "integer",
    3: "integer",
    4: "integer",
    5: "number",
    6: "number",
    7: "true or false",
    9: "text",
}

#: name -> call(workspace, **arguments); tools have further ones (`Tool.calls`)
CALLS: dict[str, Callable[..., JsonAnswer]] = {
    "cells": _cells,
    "load": _load,
    "unload": _unload,
    "stop": _stop,
    "kill": _kill,
    "cancel": _cancel,
    "overview": overview,
    "typing": _typing,
    "logs": logs,
    "check": check,
    "complete": complete,
    "explain": explain,
}
