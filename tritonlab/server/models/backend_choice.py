"""The choice of the answers for a model whose backend is not the Python backend: the real backend, a running server,
recorded answers, or a stand-in that invents them.
"""

from __future__ import annotations

import enum
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ...core.config.model_config import ModelConfig
from ...core.foreign_file import read_text
from ...core.status import InvalidArgumentError

#: The file next to a repository, or in the working directory, with the choices for models in its table `[backends]`.
CHOICES_FILE = "tritonlab.toml"
#: The parameter of a served config with the choice that was made. It is in no config.pbtxt, and export drops it.
PARAMETER = "TRITONLAB_BACKEND"
#: The directory of recorded answers, next to the file or in the working directory, unless a choice names another.
RECORDINGS = "recordings"


class Use(enum.Enum):
    """The kinds of answers for a model."""

    REAL = "real"
    BORROW = "borrow"
    RECORDED = "recorded"
    STAND_IN = "stand-in"


#: The fields of a choice besides `use`, by use: the type of the value.
_FIELDS: dict[Use, dict[str, tuple[type, ...]]] = {
    Use.REAL: {},
    Use.BORROW: {
        "server": (str,),
        "record": (bool,),
        "otherwise": (str,),
        "timeout": (int, float),
        "directory": (str,),
    },
    Use.RECORDED: {"directory": (str,)},
    Use.STAND_IN: {
        "values": (str,),
        "seed": (int,),
        "size": (int,),
        "delay_ms": (int, float),
        "delay_ms_per_element": (int, float),
        "responses": (int,),
    },
}
#: The field set by the text after the colon: `borrow:host:8001`, `stand-in:echo`, `recorded:directory`.
_AFTER_COLON = {Use.BORROW: "server", Use.RECORDED: "directory", Use.STAND_IN: "values"}
_VALUES = ("zeros", "echo", "random")

#: A choice as a person writes it.
Written: TypeAlias = "str | Mapping[str, Any]"


@dataclass(frozen=True)
class BackendChoice:
    """The choice of the answers for a model: the use, and its fields of `_FIELDS`. A directory in it is absolute."""

    use: Use = Use.REAL
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_written(cls, name: str, written: Written, base: Path) -> BackendChoice:
        """Return the choice written for `name`, a model or a backend: `"stand-in:echo"`, or `{"use":
        "stand-in", "values": "echo"}`. Directories are below `base`. Raises InvalidArgumentError."""
        choice = dict(written) if isinstance(written, Mapping) else {"use": written}
        text = choice.pop("use", None)
        if not isinstance(text, str):
            raise InvalidArgumentError(f"the choice for '{name}' is {written!r}, expected one of {_forms()}")
        word, colon, rest = text.partition(":")
        try:
            use = Use(word)
        except ValueError:
            raise InvalidArgumentError(f"the choice for '{name}' is '{text}', expected one of {_forms()}") from None
        if colon:
            if use not in _AFTER_COLON or not rest:
                raise InvalidArgumentError(f"the choice for '{name}' is '{text}', expected one of {_forms()}")
            choice.setdefault(_AFTER_COLON[use], rest)
        _check(name, use, choice)
        if use is Use.RECORDED or choice.get("record") or choice.get("otherwise") == Use.RECORDED.value:
            choice["directory"] = os.path.abspath(base / choice.get("directory", RECORDINGS))
        return cls(use, choice)

    @property
    def parameter(self) -> str:
        """Return the choice in the form for its backend's model.py: JSON."""
        return json.dumps({"use": self.use.value, **self.settings}, sort_keys=True)


def choice_words(config: ModelConfig) -> str:
    """Return the source of the answers in plain words for the model of a served config; "" for the real backend."""
    if PARAMETER not in config.parameters:
        return ""
    choice = json.loads(config.parameters[PARAMETER].string_value)
    use = Use(choice["use"])
    if use is Use.BORROW:
        carry_on = ", with recorded answers if that fails" if choice.get("otherwise") else ""
        return f"borrowed from {choice['server']}{carry_on}"
    if use is Use.RECORDED:
        return f"recorded answers from {choice['directory']}"
    if use is Use.STAND_IN:
        return f"stand-in that invents its answers ({choice.get('values', 'zeros')})"
    return ""


class BackendChoices:
    """The choices of one server: from its options, made since, and, per repository, from the file next to it."""

    def __init__(self, written: Mapping[str, Written] | None = None) -> None:
        """Make the choices. Raises InvalidArgumentError."""
        base = _working_directory()
        self._choices = {name: BackendChoice.from_written(name, each, base) for name, each in (written or {}).items()}

    def choose(self, model: str, written: Written) -> None:
        """Choose the answers for a model from its next load on. Directories are below the working directory. Raises
        InvalidArgumentError.
        """
        self._choices[model] = BackendChoice.from_written(model, written, _working_directory())

    def replaces(self, model: str, repository: Path) -> bool:
        """Return whether a choice by its name replaces the answers of a model's own backend. Raises
        InvalidArgumentError for an invalid file."""
        choice = self.find(model, model, repository)
        return choice is not None and choice.use is not Use.REAL

    def find(self, model: str, backend: str, repository: Path) -> BackendChoice | None:
        """Return the choice for a model, None if there is none. A choice by the model's name precedes one by the
        backend's; the options precede the file next to the repository, which precedes the one in the working directory.
        Raises InvalidArgumentError for an invalid file.
        """
        found = self._choices.get(model) or self._choices.get(backend)
        if found is not None:
            return found
        for directory in dict.fromkeys((Path(os.path.abspath(repository)).parent, _working_directory())):
            written = read_choices(directory / CHOICES_FILE)
            for name in (model, backend):
                if name in written:
                    return BackendChoice.from_written(name, written[name], directory)
        return None


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # the directory was removed; then nothing is found below a relative path
        return Path()


def read_choices(path: Path) -> dict[str, Written]:
    """Return the table `[backends]` of a file; empty if the file does not exist. Raises InvalidArgumentError."""
    try:
        os.lstat(path)  # most repositories have none
        document = tomllib.loads(read_text(path))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error}") from None
    table = document.get("backends", {})
    if not isinstance(table, dict):
        raise InvalidArgumentError(f"{path}: 'backends' is {table!r}, expected a table of models and backends")
    return table


def offer(model: str, backend: str) -> str:
    """Return the choices for a model whose backend is missing, with the lines to use."""
    return (
        f"Choose what answers for '{model}': "
        f'tritonlab.reset(backends={{"{model}": "stand-in"}}) invents answers of the right shapes, '
        f'"borrow:HOST:8001" asks a running server, "recorded" repeats its recorded answers; or write them below '
        f'[backends] in {CHOICES_FILE} beside the repository. "{backend}" in place of "{model}" is for all models of '
        "that backend."
    )


def _check(name: str, use: Use, choice: Mapping[str, Any]) -> None:
    fields = _FIELDS[use]
    for key, value in choice.items():
        if key not in fields:
            known = f"its fields are {', '.join(fields)}" if fields else "it has no other fields"
            raise InvalidArgumentError(f"the choice for '{name}' has '{key}', and '{use.value}' does not: {known}")
        if not isinstance(value, fields[key]) or (isinstance(value, bool) and bool not in fields[key]):
            kind = fields[key][-1].__name__
            raise InvalidArgumentError(f"the choice for '{name}' has {key}={value!r}, expected a {kind}")
        if isinstance(value, (int, float)) and value < 0:
            raise InvalidArgumentError(f"the choice for '{name}' has {key}={value!r}, expected 0 or more")
    if use is Use.BORROW:
        host, _, port = str(choice.get("server", "")).rpartition(":")
        if not host or not port.isdigit():
            raise InvalidArgumentError(
                f"the choice for '{name}' borrows from '{choice.get('server', '')}', expected the gRPC address of a "
                "server, as in 'borrow:triton-dev:8001'"
            )
        if choice.get("otherwise") not in (None, Use.RECORDED.value):
            raise InvalidArgumentError(
                f"the choice for '{name}' has otherwise={choice['otherwise']!r}, expected 'recorded'"
            )
    if use is Use.STAND_IN and choice.get("values", "zeros") not in _VALUES:
        raise InvalidArgumentError(
            f"the choice for '{name}' invents '{choice['values']}', expected one of {', '.join(_VALUES)}"
        )


def _forms() -> str:
    return "'real', 'recorded', 'stand-in' and 'borrow:host:8001'"
