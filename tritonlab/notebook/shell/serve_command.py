"""`%triton serve`: the ports of the notebook's server, and the button that shows their token."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ..authoring.errors import OptionError
from ..authoring.workspace import Workspace
from ..views.card.token_button import show_token_button
from .results import Text

if TYPE_CHECKING:
    from ...frontends.endpoints import Endpoints


_DYNAMO = "--dynamo"


def serve(workspace: Workspace, flags: str, *, as_json: bool) -> Endpoints | Text:
    """Open the ports; `as_json`: a program reads what the cell shows. With `--dynamo` open none, and return the
    commands that serve the notebook's models in a fleet of NVIDIA Dynamo."""
    words = shlex.split(flags)
    if _DYNAMO in words:
        if len(words) > 1:
            others = " ".join(word for word in words if word != _DYNAMO)
            raise OptionError(f"{_DYNAMO} opens no port of this kernel, so it takes no other flag: {others}")
        return _dynamo_commands(workspace)
    endpoints = workspace.ports.open(words)
    if not as_json:
        show_token_button(endpoints)
    return endpoints


def _dynamo_commands(workspace: Workspace) -> Text:
    """Return the two commands. They run in an environment that has ai-dynamo, which a kernel's should not have: the
    frontend listens on all interfaces without a token."""
    repository = shlex.quote(str(workspace.repository.absolute()))
    frontend = "python -m dynamo.frontend --kserve-grpc-server"
    worker = f"tritonlab worker --dynamo --model-repository={repository}"
    text = (
        "export DYN_DISCOVERY_BACKEND=file DYN_FILE_KV=$HOME/.dynamo   # the same for both\n"
        f"{frontend}   # unless the fleet has one; it listens on all interfaces, without a token\n"
        f"{worker}   # again for another worker; the models are this kernel's, and go with it\n"
    )
    return Text(text, {"frontend": frontend, "worker": worker})
