"""The models of a repository, one after the other, for a subcommand that judges each."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from ..core.status import TritonError
from ..server.api.model import Model
from ..server.api.server import Server

Result = TypeVar("Result")

#: Exit statuses: all is well, something is not, or a model could not be judged.
PASSED, FAILED, NOTHING = 0, 1, 2


def judge_each(
    repository: Path, names: Sequence[str], judge: Callable[[Server, Model], Result]
) -> Iterator[tuple[str, Result | str]]:
    """Load one model of a repository at a time, and yield its name with the result of `judge`. If the model cannot be
    loaded or judged, print the error to stderr, and yield its text in place of the result.
    """
    with Server(repository, model_control_mode="explicit") as server:
        for name in names:
            found: Result | str
            try:
                found = judge(server, server.load(name))
            except (TritonError, ValueError, OSError) as error:
                found = error.line() if isinstance(error, TritonError) else str(error)
                print(f"tritonlab: {name}: {found}", file=sys.stderr, flush=True)
            yield name, found
            with contextlib.suppress(TritonError):
                server.unload(name)
