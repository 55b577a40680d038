"""The log of `tritonlab serve` at its start: Triton's tables of backends, models and options, and who can reach its
ports with which rights.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...engine.execution.rate_limiter import Limits
from ...ipc.processes.interpreter import STUB
from ...server.inference_server import InferenceServer
from ...server.models.backend_config import settings_of
from ...server.models.backends import DEFAULT_DIRECTORY
from ..endpoints import EndpointOptions
from ..shared.access import AccessRules

Record = tuple[str, str]


def backend_table(core: InferenceServer, options: Mapping[str, Any]) -> str:
    """Show the backends of the serving models, the places of their code, and the settings they run with."""
    directory = str(options.get("backend_directory") or DEFAULT_DIRECTORY)
    settings = {
        "auto-complete-config": "false" if options["strict_model_config"] else "true",
        "backend-directory": directory,
    }
    names = {v.config.backend for model in core.models.known() for v in model.versions.values() if v.config.backend}
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


#: The cells of Triton's table for a model without a version directory, or whose policy selects none (measured).
_NO_VERSION = ["-", "Not loaded: No model version was found"]


def model_table(core: InferenceServer) -> str:
    """Return every version that was loaded or tried, with the reason if it does not serve, and models without any."""
    rows = [[model.name, *_NO_VERSION] for model in core.models.known() if not model.states()]
    for entry in core.index():
        if "version" in entry:
            reason = f": {entry['reason']}" if "reason" in entry else ""
            rows.append([entry["name"], entry["version"], f"{entry['state']}{reason}"])
    rows.sort(key=lambda row: row[0])
    return print_table(["Model", "Version", "Status"], [[cell.rstrip("\n") for cell in row] for row in rows])


def option_table(core: InferenceServer, options: Mapping[str, Any], exit_timeout: float) -> str:
    """Show Triton's options, without the memory options that a server here does not have."""
    metadata = core.server_metadata()
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


def openness(options: EndpointOptions, places: Mapping[str, str], model_control_mode: str) -> Iterator[Record]:
    """Return level and text of each log record. `places` maps each open service to its `address:port`."""
    access = options.access
    for service, address in places.items():
        yield "INFO", f"{service} at {address} is open to {_allowed_clients(service, address, options)}"
    clients = "clients with the token" if access.token else "clients"
    if model_control_mode == "explicit" and access.model_control and (free := _unrestricted(options, places)):
        yield _model_control(access, free)
    if access.settings:
        yield "INFO", f"Trace and log settings: {clients} may change them; '--allow-settings=false' ends that"
    if options.http_options.models_page and "HTTP" in places:
        yield "INFO", f"The models are shown at http://{places['HTTP']}/"
    if options.client_shm:
        yield "INFO", f"Shared memory: {clients} may have this server read and write any region that its user may"


def _allowed_clients(service: str, place: str, options: EndpointOptions) -> str:
    address = place.rpartition(":")[0].strip("[]")
    if _is(address, "is_loopback") or address == "localhost":
        found = "every user of this machine"
    elif _is(address, "is_unspecified"):
        found = "every machine that reaches this one"
    else:
        found = f"every machine that reaches {address}"
    needs = ["the token"] if options.access.token else []
    if service == "GRPC" and options.grpc_options.use_ssl_mutual:
        needs.append("a certificate")
    return f"{found}, with {' and '.join(needs)}" if needs else found


def _is(address: str, what: str) -> bool:
    try:
        return bool(getattr(ipaddress.ip_address(address), what))
    except ValueError:  # a name
        return False


def _unrestricted(options: EndpointOptions, places: Mapping[str, str]) -> list[str]:
    """Return the services whose model control needs no key (rule 6.1.3)."""
    restricted = {"HTTP": options.http_options.restricted_api, "GRPC": options.grpc_options.restricted}
    return [service for service in places if "model-repository" not in restricted.get(service, ("model-repository",))]


def _model_control(access: AccessRules, services: list[str]) -> Record:
    what = "load any model, which is to run any code as the user of this server"
    if access.token:
        return "INFO", f"Model control: clients with the token may {what}"
    return (
        "WARNING",
        f"Model control: everyone who reaches {' or '.join(services)} may {what}; "
        "'--allow-model-control=false' ends that, '--token-file=<file>' requires a token",
    )
