"""What happens in a notebook's server now, and its log, as JSON for the panel of the JupyterLab extension."""

from __future__ import annotations

import time
from typing import Any

from ...core.status import TritonError
from ...profile.record_facts import traffic
from ...profile.recorder import Recorder
from ...profile.recording import Recording
from ..authoring.workspace import Workspace
from ..views.card.draining import draining_text, lasting
from ..views.card.hanging import cancelled_text, hanging_texts
from ..views.card.model_facts import current_facts
from ..views.card.placement_text import gpus_text, held_text, place_text
from ..views.card.status_table import memory_lines
from .logs import LogLine

#: How many requests in flight are listed, oldest first, and how many of the last lines of the log.
_REQUESTS = 50
_LINES = 300
LEVELS = ("VERBOSE", "INFO", "WARNING", "ERROR")


def overview(workspace: Workspace) -> dict[str, Any]:
    """Return what `%triton status` knows, and what moves: `models`, `requests` in flight and how many `more` there
    are, what is `draining` or hangs, `memory` and `gpus` in words, and the `ports` that are open.
    """
    server = workspace.server
    # also where there is no model yet: so the first is recorded
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
    """Return one model as its card and `%triton status` tell it. Times are milliseconds."""
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
    """Return the last lines that models printed and logged: `lines` of one model or of all, of this level or a worse
    one, in which `search` occurs in any case; and `count`, how many lines these were chosen from. Raises ValueError for
    an unknown level.
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
            "text": LogLine.from_record(record, workspace.cite_for(record)).text,
        }
        for record in found[-limit:]
    ]
    return {"count": len(found), "lines": lines}
