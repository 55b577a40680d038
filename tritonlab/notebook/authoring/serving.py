"""Opens the endpoints of a notebook's server. A module of its own, imported when somebody serves: what it needs costs a
tenth of a second, more than loading a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...frontends.cli.flag_values import CommandLineError
from ...frontends.cli.server_options import read_endpoint_options
from ...frontends.endpoints import EndpointOptions, Endpoints
from ...server.inference_server import InferenceServer
from .errors import OptionError


def open_endpoints(core: InferenceServer, arguments: Sequence[str] = (), **fields: Any) -> Endpoints:
    """`arguments`: flags of `tritonlab serve` about endpoints. `fields`: what is set of `EndpointOptions`.

    Raises OptionError for a flag that cannot be, TritonError for a port that cannot be opened.
    """
    try:
        options = read_endpoint_options(arguments) if arguments else EndpointOptions()
    except CommandLineError as error:
        raise OptionError(str(error)) from None
    return Endpoints(core, replace(options, **fields))
