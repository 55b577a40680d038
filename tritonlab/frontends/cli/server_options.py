"""The flags of a command line, turned into the options of the server and its endpoints."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.metrics.metrics_config import MetricsConfig
from ...core.observe.log_settings import LogSetting
from ...core.observe.trace_settings import LEVELS, TraceSetting
from ...engine.execution.rate_limiter import Limits
from ...server.inference_server import InferenceServer
from ...server.options import Options
from ...tool_table import ports
from ..endpoints import EndpointOptions
from ..http.http_server import HTTPOptions
from ..shared.access import AccessRules
from ..shared.grpc_options import GRPCOptions
from .command_line import CommandLine, Flag, Groups
from .flag_values import CommandLineError, restricted
from .flags import GROUPS, NOTEBOOK

_ENDPOINT_PARTS = ("endpoints", "http", "grpc", "access", "tool_ports")
#: The flags about endpoints, not about the server behind them.
ENDPOINT_GROUPS: Groups = {
    title: flags
    for title, group in GROUPS.items()
    if (flags := tuple(flag for flag in group if flag.place.partition(".")[0] in _ENDPOINT_PARTS))
}


@dataclass(frozen=True)
class ServerOptions:
    """The settings of a command line. `server`: the server's `repositories` and the fields of its Options;
    `exit_timeout`: seconds for requests in flight; `inert`: the given flags without effect; `help`: whether to print
    only the table of flags."""

    server: dict[str, Any]
    endpoints: EndpointOptions
    exit_on_error: bool
    exit_timeout: float
    inert: tuple[Flag, ...]
    help: bool

    def make_server(self) -> InferenceServer:
        """Make the server, with nothing loaded yet. Raises TritonError."""
        settings = {"kept_failures": 0, **self.server}  # they could not be read
        return InferenceServer(settings.pop("repositories"), Options(**settings), load_models=False)


def read_options(arguments: Sequence[str]) -> ServerOptions:
    """Read the command line of `tritonlab serve`. Raises CommandLineError in Triton's words, InvalidArgumentError."""
    line = CommandLine(GROUPS, arguments)
    values = line.values
    server, process = values["server"], values["process"]
    if "load-model" in line.flags_used and server["model_control_mode"] != "explicit":
        raise CommandLineError("Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well.")
    server["backend_config"] = _backend_config(values["backend"]["settings"])
    server["backends"] = dict(values["choices"]["backends"])
    metrics = values["metrics"]
    server["metrics_config"] = MetricsConfig.from_settings(**{**metrics, "settings": dict(metrics["settings"])})
    server["cache_config"] = _cache(values["cache"])
    server["rate_limit_resource"] = _limits(values["resources"]["resources"])
    server["cuda_memory_pool_sizes"] = dict(values["pools"]["cuda"])
    server["log_setting"] = LogSetting(**values["log"])
    server["trace_setting"] = _trace(values["trace"])
    return ServerOptions(
        server,
        endpoints=_endpoints(values, AccessRules()),
        exit_on_error=process["exit_on_error"],
        exit_timeout=max(process["exit_timeout"], 0),
        inert=tuple(line.inert),
        help=process.get("help", False),
    )


def read_endpoint_options(arguments: Sequence[str], access: AccessRules, **defaults: Any) -> EndpointOptions:
    """Read the flags that `%triton serve` takes: those about endpoints only. `access` has the rules, and `defaults` the
    other fields, for which no flag is given. Raises CommandLineError, or InvalidArgumentError."""
    return _endpoints(CommandLine({**ENDPOINT_GROUPS, **NOTEBOOK}, arguments).values, access, **defaults)


def _endpoints(values: dict[str, dict[str, Any]], access: AccessRules, **defaults: Any) -> EndpointOptions:
    http, grpc = dict(values["http"]), dict(values["grpc"])
    http["restricted_api"] = restricted("api", http["restricted_api"])
    grpc["restricted"] = restricted("protocol", grpc["restricted"])
    usual = {name: port.usual for name, port in ports().items() if values.get("tool_switches", {}).get(name)}
    return EndpointOptions(
        **{**defaults, **values["endpoints"]},
        tool_ports={**usual, **values.get("tool_ports", {})},
        access=_access(values["access"], access),
        http_options=HTTPOptions(**http),
        grpc_options=GRPCOptions(**grpc),
    )


def _access(values: dict[str, Any], access: AccessRules) -> AccessRules:
    rules: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    if (path := rules.pop("token_file", None)) is not None:
        rules["token"] = _token(path)
    if rules.pop("no_token", False):
        rules["token"] = ""
    return replace(access, **rules)


def _token(path: str) -> str:
    """Read a token. Like ssh with keys, refuse a file of this user that others can read or write."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            about = os.fstat(file.fileno())
            mode = stat.S_IMODE(about.st_mode)
            if stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and mode & 0o077:
                raise CommandLineError(
                    f"--token-file: '{path}' has mode {mode:04o}, so others may read or change it; "
                    f"chmod 600 {shlex.quote(path)}"
                )
            token = file.read().strip()
    except OSError as error:
        raise CommandLineError(f"--token-file: {error}") from None
    if not token:
        raise CommandLineError(f"--token-file: there is no token in '{path}'")
    return token


def _backend_config(settings: Iterable[tuple[str, str, str]]) -> dict[str, Any]:
    """Return the settings of all backends by their keys, and the settings of one backend by its name."""
    found: dict[str, dict[str, str]] = {"": {}}
    for backend, setting, value in settings:
        found.setdefault(backend, {})[setting] = value
    return {**found.pop(""), **found}


def _cache(values: dict[str, Any]) -> str:
    """Return the cache in the form of `--cache-config`. There is one cache with one setting: the last flag counts."""
    if values["settings"]:
        return "{},{}={}".format(*values["settings"][-1])
    size = values.get("byte_size", 0)
    return f"local,size={size}" if size else ""


def _limits(resources: Sequence[tuple[str, int, int]]) -> Limits:
    """Return resource -> count on every device, or resource -> device -> count."""
    found: dict[str, int | dict[int, int]] = {}
    for name, count, device in resources:
        known = found.get(name)
        found[name] = count if device < 0 else {**(known if isinstance(known, dict) else {}), device: count}
    return found


def _trace(values: dict[str, Any]) -> TraceSetting:
    """Return the settings of `--trace-config`, which override the deprecated flags."""
    shared: dict[str, str] = {}
    own: dict[str, list[tuple[str, str]]] = {"triton": [], "opentelemetry": []}
    levels = list(values["levels"])
    for mode, setting, value in values["settings"]:
        if mode:
            own[mode].append((setting, value))
        elif setting == "level":
            levels.append(value)
        else:
            shared[setting] = value
    mode, triton, unset = shared.get("mode", "triton").lower(), dict(own["triton"]), TraceSetting()
    found: set[str] = set()
    for name in levels:  # OFF cancels the levels before it
        found = set() if name.upper() == "OFF" else found | {name.upper()}
    return TraceSetting(
        level=tuple(level for level in LEVELS if level in found),
        rate=int(shared.get("rate", values.get("rate", unset.rate))),
        count=int(shared.get("count", values.get("count", unset.count))),
        log_frequency=int(triton.get("log-frequency", values.get("log_frequency", unset.log_frequency))),
        file=triton.get("file", values.get("file", unset.file)),
        mode=mode,
        options=tuple(own["opentelemetry"]) if mode == "opentelemetry" else (),
    )
