"""The endpoints of a notebook's server. The first call that serves imports this module, because its imports take a
tenth of a second, more than loading a model.

On a shared machine such as a JupyterHub, every user reaches loopback, and a client that may load a model can run code
as the notebook's user. So a notebook's ports require a token, and calls that change the server are off by default. A
client that leaves cancels its request by default, because an author stops and runs clients all the time, and a model
that works for a client that is gone keeps the next one waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from ...core.unknown_option import UnknownOption
from ...frontends.cli.flag_values import CommandLineError
from ...frontends.cli.flags import NOTEBOOK
from ...frontends.cli.server_options import ENDPOINT_GROUPS, read_endpoint_options
from ...frontends.endpoints import EndpointOptions, Endpoints
from ...frontends.shared.access import AccessRules, new_token
from ...server.api.server import Server
from .errors import OptionError

_RULES = [field.name for field in fields(AccessRules)]
_OPTIONS = [field.name for field in fields(EndpointOptions) if field.name != "access"]


def open_endpoints(
    server: Server, arguments: Sequence[str] = (), make_room: Callable[[], None] = lambda: None, **options: Any
) -> Endpoints:
    """Open the endpoints. `arguments`: flags of `%triton serve`. `options`: the fields of `EndpointOptions` and of
    `AccessRules` that are set. `make_room` is called after these are checked, before a port is opened. For a token that
    is made here, print how clients send it, without the token.

    Raises OptionError for a flag that is not allowed, UnknownOption, TritonError for a port that cannot be opened.
    """
    UnknownOption.check("serve", options, [*_OPTIONS, *_RULES])
    token = new_token()
    try:
        rules = AccessRules(token=token, model_control=False, settings=False)
        chosen = read_endpoint_options(arguments, rules, http_cancel_on_disconnect=True)
    except CommandLineError as error:
        raise OptionError(str(error)) from None
    access = replace(chosen.access, **{name: options.pop(name) for name in _RULES if name in options})
    chosen = replace(chosen, access=access, **options)
    make_room()
    endpoints = Endpoints.from_server(server, chosen)
    if chosen.access.token == token:
        try:
            text = _client_examples(endpoints)
        # there is no file with the token; the caller does not get the ports and cannot close them
        except BaseException:
            endpoints.stop(0)
            raise
        print(text)
    return endpoints


def flags() -> list[str]:
    """Return the flags of `%triton serve`, in the order of its help."""
    return [f"--{flag.name}" for group in {**ENDPOINT_GROUPS, **NOTEBOOK}.values() for flag in group]


def _client_examples(endpoints: Endpoints) -> str:
    """Return how to send requests with the token, without the token itself: a cell's output is saved with the notebook,
    which others may read. Over HTTP tritonclient changes its `headers`, and gRPC then refuses them, so each call gets a
    copy.
    """
    clients = [(endpoints.http, "http"), (endpoints.grpc, "grpc")]
    lines = [
        f'tritonclient.{name}.InferenceServerClient("{address}").infer(…, headers=dict(headers))'
        for address, name in clients
        if address
    ]
    if endpoints.metrics:
        lines.append(f"curl -H @{endpoints.header_file} http://{endpoints.metrics}/metrics")
    return "\n".join(
        [
            "Clients send a token with every request. It is in a file that only you can read and that goes with the",
            "ports; the playground's Copy as names it, and `.headers` of the endpoints has it.",
            "",
            f"    headers = dict([open({endpoints.header_file!r}).read().strip().split(': ')])",
            *(f"    {line}" for line in lines),
            "",
            "Without: --no-token. Loading models and settings over the network are off: --allow-model-control=true,",
            "--allow-settings=true.",
        ]
    )
