"""The image of an export, built and run with a container engine of this machine."""

from __future__ import annotations

import contextlib
import http.client
import re
import shlex
import shutil
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from .child_command import CommandFailed, Say, raise_if_cancelled, run_command
from .export_options import ExportOptionError

#: The engines that are looked for, in this order. Their commands have the same options here; `compose up --wait` is
#: refused by nerdctl and by older releases of podman-compose, of which newer ones may not wait.
ENGINES = ("docker", "podman", "nerdctl")
_DOCKERFILE, _COMPOSE = "deploy/Dockerfile", "deploy/compose.yaml"
_LABEL = re.compile(r"^LABEL org\.opencontainers\.image\.(title|version)=(\S+)$", re.MULTILINE)
_BUILD_SECONDS, _ANSWER_SECONDS, _READY_SECONDS = 3600.0, 30.0, 600.0
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class ImageReport:
    """The steps from an export to a running container. `engine`: the container engine that ran them; empty if none was
    found, and no step was run."""

    image: str
    steps: tuple[tuple[str, ...], ...]
    engine: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {"image": self.image, "engine": self.engine, "steps": [list(step) for step in self.steps]}

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        lines = [f"  {shlex.join(step)}" for step in self.steps]
        if self.engine:
            return "\n".join([f"{self.engine} has built {self.image}:", *lines])
        looked = ", ".join(ENGINES[:-1])
        return "\n".join([f"no container engine answers here ({looked} or {ENGINES[-1]}); where one does:", *lines])


def build_image(
    directory: str | PathLike[str],
    engine: str = "",
    *,
    run: bool = False,
    say: Say = lambda text: None,
    cancel: threading.Event | None = None,
) -> ImageReport:
    """Build the image of an export, and return the steps.

    Args:
        directory: the directory that has `models/` and `deploy/`.
        engine: the program of a container engine; by default the first of ENGINES that answers. If none does, nothing
            is run.
        run: whether to start the container, too, and to wait until it is ready.
        say: receives one line about each step.
        cancel: ends the current step.

    Raises ExportOptionError for an export without the files, or an engine that does not answer; CommandFailed,
    Cancelled.
    """
    root = Path(directory).expanduser().absolute()
    for name in (_DOCKERFILE, _COMPOSE) if run else (_DOCKERFILE,):
        if not (root / name).is_file():
            raise ExportOptionError(f"{root} has no {name}: an image is built from it", "export with --deploy=docker")
    cancel = cancel or threading.Event()
    found = _find_engine(engine, cancel)
    image = _image_of(root)
    program = found or ENGINES[0]
    steps: list[tuple[str, ...]] = [(program, "build", "-t", image, "-f", str(root / _DOCKERFILE), str(root))]
    if run:
        steps.append((program, "compose", "-f", str(root / _COMPOSE), "up", "--detach"))
    for step in steps if found else ():
        say(shlex.join(step))
        run_command(step, cancel=cancel, timeout=_BUILD_SECONDS)
    if run and found:
        _wait_until_ready([*steps[-1][:-2], "logs"], cancel)
    return ImageReport(image, tuple(steps), found)


def _wait_until_ready(logs: Sequence[str], cancel: threading.Event) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not _is_ready():
        raise_if_cancelled(cancel)
        if time.monotonic() > deadline:
            raise CommandFailed(f"Triton was not ready within {_READY_SECONDS:g} s", f"read {shlex.join(logs)}")
        cancel.wait(_LOOK_SECONDS)


def _is_ready() -> bool:
    """Return whether Triton is ready at the port of the compose file."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", 8000, timeout=_ANSWER_SECONDS)) as connection:
        try:
            connection.request("GET", "/v2/health/ready")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False


def with_docker(deploy: str) -> str:
    """Return the kinds of deploy files of an export whose image is to be built: the given ones, and `docker`."""
    kinds = deploy.split(",") if deploy else []
    return ",".join(dict.fromkeys([*kinds, "docker"]))


def _image_of(root: Path) -> str:
    """Return the name and tag that the Dockerfile has in its labels."""
    labels = dict(_LABEL.findall((root / _DOCKERFILE).read_text()))
    if len(labels) < 2:
        text = f"{root / _DOCKERFILE} does not name its image in the labels title and version"
        raise ExportOptionError(text, "export again")
    return f"{labels['title']}:{labels['version']}"


def _find_engine(wanted: str, cancel: threading.Event) -> str:
    """Return the engine that answers; empty if none does. A client alone is not one: `info` asks its server."""
    for name in (wanted,) if wanted else ENGINES:
        if shutil.which(name) is None:
            reason = f"'{name}' is not on PATH"
            continue
        try:
            run_command([name, "info"], cancel=cancel, timeout=_ANSWER_SECONDS)
            return name
        except CommandFailed as error:
            reason = str(error)
    if wanted:
        raise ExportOptionError(f"the container engine does not answer: {reason}", f"name another one of {[*ENGINES]}")
    return ""
