"""The parts of a model that an export leaves out, or that its report warns of: parts that depend on this machine, and
files that are hidden, large, or outside of the repository.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ...core.config.model_config import ModelConfig
from ...core.status import InvalidArgumentError
from ...ipc.processes.execution_env import MODEL_DIRECTORY, PARAMETER
from ...ipc.processes.own_stub import NAME, is_compiled
from ...repository.model_tree import KEEPS, Omission, Omitted

_NAMED = 3


def incomplete(left_out: Iterable[Omitted]) -> list[str]:
    """Return the sentences about large files and versions that the model needs for its deployment."""
    return [*sentences(entry for entry in left_out if entry.reason is Omission.LARGE or _is_version(entry))]


def _is_version(entry: Omitted) -> bool:
    """Return whether the path is a version directory that is a link out of the repository."""
    return entry.reason is Omission.OUTSIDE and entry.path.isdecimal()


def sentences(left_out: Iterable[Omitted]) -> Iterator[str]:
    """Yield sentences about the left-out files and the remedies, one sentence for all hidden files."""
    each = list(left_out)
    hidden = [entry.path for entry in each if entry.reason is Omission.HIDDEN]
    if hidden:
        more = len(hidden) - _NAMED
        named = ", ".join(hidden[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        name = hidden[0].rstrip("/") if len(hidden) == 1 else "NAME"
        was, each_of = ("is hidden and was", "it") if len(hidden) == 1 else ("are hidden and were", "one")
        yield f"{named} {was} left out: include=[{name!r}] (--include {name}) exports {each_of}"
    for entry in each:
        if entry.reason is Omission.LARGE:
            path, size = entry.path, f"{int(entry.detail) / 1e6:,.0f} MB"
            yield (
                f"{path} has {size} and was left out, and the model does not deploy until it is there: "
                f"include=[{path!r}] (--include {path}) copies it"
            )
        elif entry.reason is Omission.OUTSIDE:
            path, rest = entry.path, ", and the model does not deploy until it is there" * _is_version(entry)
            yield (
                f"{path} leads to {entry.detail}, outside of the repository, and was left out{rest}: "
                f"include=[{path!r}] (--include {path}) copies what is there"
            )
        elif entry.reason is Omission.SECRET:
            yield (
                f"{entry.path} looks like a secret ({entry.detail}) and was left out; mount it where the model runs: "
                f"include=[{entry.path!r}] (--include {entry.path}) exports it all the same"
            )
        elif entry.reason is Omission.SPECIAL:
            yield f"{entry.path} is {entry.detail} and was left out: remove it, or put a file in its place"
        elif entry.reason is Omission.DANGLING:
            gone = f"its link {entry.path} leads to '{entry.detail}', which is not there or left out"
            yield f"{gone}, and was left out: put the file there, or remove the link"


def forget_backend_directory(config: ModelConfig, authored: ModelConfig) -> None:
    """Remove the fields that the directory of a Python-based backend filled in (rules 2.11.1, 2.11.3); the next
    server's directory fills them in again."""
    if not authored.runtime:
        config.ClearField("runtime")
    if PARAMETER not in authored.parameters and config.backend != "python":
        config.parameters.pop(PARAMETER, None)


class NotDeployable(InvalidArgumentError):
    """A model without anything that a Triton server could run."""


def check_deployable(name: str, answers: str, files: Iterable[str]) -> None:
    """Raise NotDeployable for a model that was answered for by something else (`answers` in words), unless its own
    files are here."""
    if any("/" in file and Path(file).name != KEEPS for file in files):
        return
    raise NotDeployable(
        f"'{name}' cannot be exported: it does not answer itself here ({answers}), and none of its own files is in its "
        "version directory. Put the real model there, or leave it out with alone=True"
    )


def never_ran(answers: str) -> Iterator[str]:
    """Yield a warning for a model that was answered for by something else (`answers` in words)."""
    if answers:
        yield f"it did not answer itself here ({answers}): what was exported are its own files, which never ran here"


def starts_our_stub(directory: Path, files: Iterable[str]) -> list[str]:
    """Return the files that start tritonlab's stub, which no Triton server has (rule 2.10.6)."""
    return [file for file in files if file == NAME and not is_compiled(directory / file)]


def warnings(config: ModelConfig, directory: Path, files: Iterable[str]) -> tuple[str, ...]:
    """Return the tasks for the author before the model runs elsewhere, one sentence each."""
    found = [
        f"{file} starts tritonlab's stub and was left out: a Triton server needs one that was compiled for the same "
        "Python, unless that is the Python of its own stub"
        for file in starts_our_stub(directory, files)
    ]
    environment = config.parameters[PARAMETER].string_value if PARAMETER in config.parameters else ""
    if environment and not environment.startswith(MODEL_DIRECTORY):
        found.append(
            f"{PARAMETER} is '{environment}', a path of this machine: put the environment into the model directory and "
            f"write '{MODEL_DIRECTORY}/{Path(environment).name}'"
        )
    return tuple(found)
