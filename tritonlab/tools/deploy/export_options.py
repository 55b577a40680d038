"""The options of an export: one object from `tritonlab.export`, `%triton export` and the panel to the files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

from ...core.explained import Explained
from ...core.status import Code
from ...core.unknown_option import UnknownOption
from ...core.version import DEFAULT_TARGET
from ...record.recorder import MOST
from ...repository.place import repository_path
from .child_command import Say
from .environment.placed import CHOICES, EnvironmentOptions
from .manifests.files import KINDS
from .verify.verification import releases

#: Called with the bytes written so far and the bytes of all models; an exception that it raises cancels the export.
Progress = Callable[[int, int], object]
NO_ENVIRONMENT = EnvironmentOptions("none")
#: The name of a repository that has deploy files next to it.
MODELS = "models"


class ExportOptionError(Explained, ValueError):
    """An invalid option of an export, with a valid alternative. `is_place`: whether the alternative is another
    directory."""

    code = Code.INVALID_ARG

    def __init__(self, text: str, fix: str, is_place: bool = False) -> None:
        super().__init__(text)
        self.own_remedy = fix
        self.is_place = is_place


@dataclass(frozen=True)
class ExportOptions:
    """The options of one export, as `tritonlab.export` describes them. `env` is for `target`; `deploy`, `verify` and
    `include` are lists. `say` receives one line about each step. `about`: the purpose of the models in one line, for
    the README."""

    overwrite: bool = False
    alone: bool = False
    include: Sequence[str] = ()
    target: str = DEFAULT_TARGET
    env: EnvironmentOptions = NO_ENVIRONMENT
    deploy: Sequence[str] = ()
    capture: bool = False
    artifacts: Mapping[str, Any] = field(default_factory=dict)
    verify: Sequence[str] = ()
    last: int = MOST
    dry_run: bool = False
    about: str = ""
    progress: Progress = lambda done, total: None
    say: Say = lambda text: None
    cancel: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def from_keywords(cls, **options: Any) -> Self:
        """Make the options from the keyword arguments of `tritonlab.export`; None stands for the default. Raises
        UnknownOption."""
        UnknownOption.check("export", options, [each.name for each in fields(cls)])
        given = {name: value for name, value in options.items() if value is not None}
        target, env = given.get("target", DEFAULT_TARGET), given.get("env") or "none"
        if not isinstance(env, EnvironmentOptions):
            env = EnvironmentOptions(env if env in CHOICES else str(Path(env).expanduser()))
        include, verify = given.get("include", ()), given.get("verify", ())
        given |= {
            "overwrite": bool(given.get("overwrite")),
            "include": [include] if isinstance(include, str) else list(include),
            "env": replace(env, target=target),
            "deploy": _words(given.get("deploy", ())),
            "verify": [target] if verify is True else _words(verify or ()),
        }
        return cls(**given)

    def check(self, directory: str | PathLike[str]) -> None:
        """Raise ExportOptionError for unknown kinds of deploy files, for deploy files that would lie among the models,
        and for a negative number of requests; UnknownTarget for unknown releases."""
        if self.last < 0:
            raise ExportOptionError(f"last={self.last}: it is a number of requests", f"write 0 to {MOST}")
        if self.verify:
            releases(self.verify)
        if wrong := [kind for kind in self.deploy if kind not in KINDS]:
            raise ExportOptionError(f"deploy={wrong[0]!r}: there are {', '.join(KINDS)}", f"name some of {[*KINDS]}")
        if self.deploy and repository_path(directory).name != MODELS:
            fix = f"{str(directory).rstrip('/')}/{MODELS}"
            text = f"deploy files are written beside a repository called {MODELS}/: export to {fix}"
            raise ExportOptionError(text, fix, is_place=True)


def _words(names: str | Sequence[str]) -> list[str]:
    """Return `a,b` and `["a", "b"]` as a list."""
    parts = names.split(",") if isinstance(names, str) else names
    return [part.strip() for part in parts if part.strip()]
