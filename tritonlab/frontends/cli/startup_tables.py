"""The tables that Triton prints when its models are loaded: backends in use, models, the server's
options."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...instances.execution.rate_limiter import Limits
from ...ipc.processes.interpreter import STUB
from ...server.inference_server import InferenceServer
from ...server.models.backend_config import settings_of
from ...server.models.backends import DEFAULT_DIRECTORY


def backend_table(core: InferenceServer, options: Mapping[str, Any]) -> str:
    """Show the backends of the models that serve, where their code is, and the settings they run with."""
    directory = str(options.get("backend_directory") or DEFAULT_DIRECTORY)
    settings = {
        "auto-complete-config": "false" if options["strict_model_config"] else "true",
        "backend-directory": directory,
    }
    names = {v.config.backend for model in core.models() for v in model.versions.values() if v.config.backend}
    paths = {name: str(Path(directory) / name / "model.py") for name in names} | {"python": str(STUB)}
    configs = {
        name: json.dumps(
            {"cmdline": {**settings, "default-max-batch-size": "4", **settings_of(options["backend_config"], name)}},
            separators=(",", ":"),
            sort_keys=True,
        )
        for name in names
    }
    return print_table(["Backend", "Path", "Config"], [[name, paths[name], configs[name]] for name in sorted(names)])


#: What Triton's table says of a model without a version directory, or whose policy selects none (measured).
_NO_VERSION = ["-", "Not loaded: No model version was found"]


def model_table(core: InferenceServer) -> str:
    """Return every version that was loaded or tried, with the reason if it does not serve, and models without one."""
    rows = []
    for entry in core.index():
        if "version" in entry:
            reason = f": {entry['reason']}" if "reason" in entry else ""
            rows.append([entry["name"], entry["version"], f"{entry['state']}{reason}"])
        elif (model := core.model(entry["name"])) is not None and model.is_without_version:
            rows.append([entry["name"], *_NO_VERSION])
    return print_table(["Model", "Version", "Status"], [[cell.rstrip("\n") for cell in row] for row in rows])


def option_table(core: InferenceServer, options: Mapping[str, Any], exit_timeout: float) -> str:
    """Show Triton's options, without those about memory that a server here does not have."""
    metadata = core.facts.server_metadata()
    rows = [
        ("server_id", metadata["name"]),
        ("server_version", metadata["version"]),
        ("server_extensions", " ".join(metadata["extensions"])),
        *((f"model_repository_path[{n}]", path) for n, path in enumerate(options["repositories"])),
        ("model_control_mode", f"MODE_{options['model_control_mode'].upper()}"),
        *((f"startup_models_{n}", name) for n, name in enumerate(options["startup_models"])),
        ("strict_model_config", _flag(options["strict_model_config"])),
        ("model_config_name", options["model_config_name"]),
        ("rate_limit", "OFF" if options["rate_limit"] == "off" else "EXEC_COUNT"),
        *((f"rate_limit_resource[{n}]", text) for n, text in enumerate(_resources(options["rate_limit_resource"]))),
        ("strict_readiness", _flag(options["strict_readiness"])),
        ("exit_timeout", f"{exit_timeout:.0f}"),
        ("cache_enabled", _flag(bool(options["cache_config"]))),
    ]
    return print_table(["Option", "Value"], [[name, str(value)] for name, value in rows])


def _resources(limits: Limits) -> Iterator[str]:
    """Write resource limits as Triton does, including its missing comma."""
    for name, limit in limits.items():
        for device, count in (limit if isinstance(limit, Mapping) else {-1: limit}).items():
            yield f'{{"name":"{name}", "count":{count} "device":{device}}}'


def _flag(value: bool) -> str:
    return str(int(value))


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Draw a table as Triton draws it in its log; a cell of several lines makes its row as high.

    >>> print(print_table(["Model", "Version"], [["add_sub", "1"]]))
    +---------+---------+
    | Model   | Version |
    +---------+---------+
    | add_sub | 1       |
    +---------+---------+
    """
    cells = [[cell.split("\n") for cell in row] for row in (head, *rows)]
    widths = [max(len(line) for row in cells for line in row[column]) for column in range(len(head))]
    rule = f"+{'+'.join('-' * (width + 2) for width in widths)}+"
    lines = [rule]
    for number, row in enumerate(cells):
        for height in range(max(len(cell) for cell in row)):
            texts = (cell[height] if height < len(cell) else "" for cell in row)
            lines.append(f"| {' | '.join(text.ljust(width) for text, width in zip(texts, widths, strict=True))} |")
        if number == 0 or number == len(rows):
            lines.append(rule)
    return "\n".join(lines if rows else [*lines, rule])
