"""`%triton push` and `tritonlab push`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ....core.foreign_file import read_text
from ....core.status import TritonError
from ....exchanges.golden import GoldenSet, golden_beside
from ....exchanges.remote.remote_server import RemoteServer, connect
from ....notebook.authoring.hints import hint
from ....notebook.shell.subcommand import Context
from ....repository.layout import model_names
from ....server.api.server import Server
from .push_result import Push

#: Exit statuses of `tritonlab push`: all servers have the models; one failed, and it was undone; nothing was tried.
PUSHED, FAILED, NOTHING = 0, 1, 2
#: The beginning of a header with a token.
_HEADER = re.compile(r"(authorization:\s*)?(bearer\s+)?", re.IGNORECASE)


def push(context: Context, name: str, url: Sequence[str], proof: str | None = None, **connection: Any) -> Push:
    """Push a model of the notebook to servers, one after the other. `connection`: options of the command line."""
    model = context.model(name)
    first, *others = _connect_all(url, **connection)
    say = (lambda text: None) if context.json else print
    return first.push(model, targets=others, proof=_proof_of(proof, None), say=say)


def run(
    source: Path,
    url: Sequence[str],
    *,
    models: Sequence[str] = (),
    proof: str | None = None,
    as_json: bool = False,
    **connection: Any,
) -> int:
    """Push models of a repository, print the results, and return the exit status. The first failure ends it."""

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    results: list[Push] = []
    is_pushed = False
    try:
        names = list(models) or (model_names(source) if source.is_dir() else [])
        if not names:
            raise FileNotFoundError(f"{source} is not a model repository: it has no model")
        chosen = _proof_of(proof, GoldenSet(golden_beside(source)))
        first, *others = servers = _connect_all(url, **connection)
        with ExitStack() as opened:
            for each in servers:
                opened.enter_context(each)
            server = opened.enter_context(Server(source, model_control_mode="explicit", warm=0))
            for name in names:
                server.load(name)
            for name in names:
                results.append(first.push(server.model(name), targets=others, proof=chosen, say=say))
                if not results[-1].ok:
                    break
        is_pushed = all(each.ok for each in results)
    except (TritonError, ValueError, OSError) as error:
        print(f"tritonlab: {error}", file=sys.stderr)
        if not results:
            return NOTHING
    print(json.dumps([each.to_dict() for each in results], indent=1) if as_json else "\n".join(map(str, results)))
    return PUSHED if is_pushed else FAILED


def _proof_of(word: str | None, golden: GoldenSet | None) -> Any:
    """Return the option `proof` of a push: `none` sends nothing; `golden` is the default."""
    return {None: golden, "golden": golden, "none": False}.get(word, word)


def _connect_all(addresses: Sequence[str], token_file: str | None = None, **options: Any) -> list[RemoteServer]:
    """Return the servers at the addresses. `token_file`: a file with the token, or with the whole header."""
    token = _HEADER.sub("", read_text(Path(token_file).expanduser()).strip(), count=1) if token_file else ""
    with ExitStack() as opened:  # if one of them is not reached, the others are closed
        found = [opened.enter_context(connect(each, token=token, advise=hint, **options)) for each in addresses]
        opened.pop_all()
    return found
