"""`%triton serve`: the ports of the notebook's server, and the button that shows their token."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ..authoring.workspace import Workspace
from ..views.card.token_button import show_token_button

if TYPE_CHECKING:
    from ...frontends.endpoints import Endpoints


def serve(workspace: Workspace, flags: str, *, as_json: bool) -> Endpoints:
    """Open the ports; `as_json`: a program reads what the cell shows."""
    endpoints = workspace.ports.open(shlex.split(flags))
    if not as_json:
        show_token_button(endpoints)
    return endpoints
