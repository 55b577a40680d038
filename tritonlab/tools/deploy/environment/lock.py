"""The packages that a model needs, found by the actual imports of its stub: modules, their distributions, pinned
versions."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from ..child_command import CommandFailed, Say, run_command
from ..loaded_modules import LoadedModule
from ..releases import find
from .python_prefix import Python

NUMPY_REASON = (
    "numpy < 2: the stubs of Triton up to 2.51 were compiled for numpy 1. With numpy 2 they answer 200 with 0 bytes"
)
#: The last numpy 1 for each Python; 3.13 has none.
_NUMPY_1 = {"3.8": "1.24.4", "3.9": "1.26.4", "3.10": "1.26.4", "3.11": "1.26.4", "3.12": "1.26.4"}
#: What pip says if no release goes with the others or with the Python; the last one for files of `find-links`.
_NOT_TOGETHER = ("ResolutionImpossible", "No matching distribution", "requires a different Python")
#: Packages whose build of an index brings CUDA.
_WITH_CUDA = ("torch", "torchvision", "torchaudio", "triton")
#: PyTorch's own index of the builds for CPUs.
_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_HEAD_SECONDS = 5.0
#: The time after which the author sees what pip does.
_SILENT_SECONDS = 3.0


class Distribution(NamedTuple):
    """An installed distribution that a model imported. `bytes`: of its files; `why`: a module of it; `url`: the source
    of its installation, if that was not an index."""

    name: str
    version: str
    bytes: int
    why: str
    url: str = ""


class StubImports(NamedTuple):
    """The origins of a stub's modules. `loose`: files outside any distribution, by module."""

    distributions: tuple[Distribution, ...]
    loose: Mapping[str, str]


class Pin(NamedTuple):
    """One line of a lock. `url`: its source, if no index has it; `bytes`: of its file, 0 if unknown."""

    name: str
    version: str
    comment: str = ""
    url: str = ""
    bytes: int = 0

    @property
    def requirement(self) -> str:
        """Return the requirement for pip."""
        return f"{self.name} @ {self.url}" if self.url else f"{self.name}=={self.version}"

    @property
    def line(self) -> str:
        if self.url.startswith("file:"):
            return f"# {self.name}=={self.version} is a local wheel, which is packed in the environment"
        return self.requirement + (f"  # {self.comment}" if self.comment else "")


class EnvironmentRefused(CommandFailed):
    """An environment that would not work on the target, or is not allowed there."""


def imported(modules: Iterable[LoadedModule]) -> StubImports:
    """Return the distributions of the third-party modules that a stub has imported."""
    found: dict[str, Distribution] = {}
    loose: dict[str, str] = {}
    for module in modules:
        if module.distribution is None:
            if not (module.is_packaged and os.path.isdir(module.file)):  # a namespace may belong to many distributions
                loose.setdefault(module.top, module.file)
        elif module.distribution.metadata["Name"] not in found:
            found[module.distribution.metadata["Name"]] = _distribution(module.distribution, module.name)
    return StubImports(tuple(found[name] for name in sorted(found)), loose)


def _distribution(found: metadata.Distribution, why: str) -> Distribution:
    size = sum(_size(str(file.locate())) for file in found.files or ())
    return Distribution(found.metadata["Name"], found.version, size, why, url_of(found))


def url_of(found: metadata.Distribution) -> str:
    """Return the source of a distribution's installation, as pip records it; empty for an index."""
    try:
        document = json.loads(found.read_text("direct_url.json") or "{}")
    except ValueError:
        return ""
    return str(document.get("url", "")) if isinstance(document, dict) else ""


def check_local(distributions: Iterable[Distribution], choice: str) -> None:
    """Raise EnvironmentRefused for packages that only this machine has: a lock cannot name them, and an installation
    from a directory has nothing to pack."""
    for each in distributions:
        if not each.url.startswith("file:"):
            continue
        path = unquote(urlsplit(each.url).path)
        about = f"{each.name} {each.version} was installed from {path}, which no index has"
        if not (path.endswith(".whl") and os.path.isfile(path)):
            fix = f"make a wheel (`pip wheel --no-deps {path}`), install that, and use --env archive, which packs it"
            raise EnvironmentRefused(f"{about}, and which is not a wheel that is there", fix)
        if choice == "requirements":
            fix = "use --env archive or --env dir, which pack it, or upload it to an index"
            raise EnvironmentRefused(f"{about}, so that a lock of its name installs nothing or another package", fix)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def needs_numpy_1(target: str) -> bool:
    """Return whether the stubs of that release of Triton need numpy 1. Raises UnknownTarget."""
    return bool(find(target).numpy.value == "<2")


def pins(distributions: Iterable[Distribution], target: str, python: str) -> list[Pin]:
    """Return the pins for a release of Triton and a Python: the versions that the stub imported, but numpy 1 where the
    release needs it. Raises EnvironmentRefused for a Python that has no such numpy."""
    found = []
    names = {each.name.lower() for each in distributions}
    for each in [*distributions, *([] if "numpy" in names else [Distribution("numpy", "", 0, "the stub")])]:
        version, comment = each.version.partition("+")[0], f"import {each.why}"
        if "+" in each.version:
            comment += f"; {each.version} here, a local build"
        if each.name.lower() == "numpy" and needs_numpy_1(target) and not version.startswith("1."):
            if python not in _NUMPY_1:
                raise EnvironmentRefused(
                    f"Triton {target} needs numpy < 2, which has no release for Python {python}",
                    "use a Python up to 3.12, or a later release of Triton",
                )
            comment = f"{NUMPY_REASON}; {version or 'no numpy'} here"
            version = _NUMPY_1[python]
        found.append(Pin(each.name, version, comment, each.url))
    return sorted(found, key=lambda pin: pin.name.lower())


def lock_text(found: Iterable[Pin], target: str, python: Python) -> str:
    """Return the text of requirements.lock."""
    lines = [
        f"# For Triton {target}, Python {python.version}. What the models imported while they were loaded",
        "# and answered their requests, and what that needs. Written by tritonlab.",
    ]
    if needs_numpy_1(target):
        lines.append(f"# {NUMPY_REASON}.")
    return "\n".join([*lines, *(pin.line for pin in found)]) + "\n"


def resolved(found: Sequence[Pin], python: Python, cancel: threading.Event, say: Say) -> list[Pin]:
    """Return the pins with the pins of their dependencies, as pip resolves them for that Python without installing.
    `say` receives a line every few seconds.

    A distribution whose pinned release needs another numpy gets an older release; its comment says so.
    """
    try:
        answer = _report(
            [pin.requirement if pin.version or pin.url else pin.name for pin in found], python, cancel, say
        )
    except CommandFailed as error:
        if not any(sign in str(error) for sign in _NOT_TOGETHER):
            raise
        bounds = ("==" if pin.name.lower() == "numpy" else "<=" for pin in found)
        older = [
            pin.requirement if pin.url else f"{pin.name}{bound}{pin.version}"
            for pin, bound in zip(found, bounds, strict=True)
        ]
        answer = _report(older, python, cancel, say)
    known = {pin.name.lower().replace("_", "-"): pin for pin in found}
    has_cuda = any(_is_cuda(name) for name in answer)
    result = []
    for name, (version, url) in answer.items():
        pin = known.get(name.lower().replace("_", "-"))
        comment = pin.comment if pin else "needed by one of the others"
        if pin and pin.version and pin.version != version:
            comment += f"; {pin.version} does not go with the others or with Python {python.version}"
        size = _download_size(url) if has_cuda and (_is_cuda(name) or name.lower() in _WITH_CUDA) else 0
        result.append(Pin(name, version, comment, pin.url if pin else "", size))
    return sorted(result, key=lambda pin: pin.name.lower())


def cuda_warnings(distributions: Iterable[Distribution], found: Iterable[Pin]) -> list[str]:
    """Return a warning with the size and the line for CPUs, if a lock has the libraries of CUDA and the models ran here
    with a build for CPUs."""
    cpu = [each for each in distributions if each.version.endswith("+cpu")]
    pins = list(found)
    libraries = [pin for pin in pins if _is_cuda(pin.name)]
    if not (cpu and libraries):
        return []
    size = sum(pin.bytes for pin in pins)
    about = f", {size / 1e9:.1f} GB to be fetched" if size else ""
    names = " ".join(f"{each.name}=={each.version}" for each in cpu)
    return [
        f"{cpu[0].name} {cpu[0].version} ran here, a build for CPUs, and the lock has the one with CUDA and "
        f"{len(libraries)} of NVIDIA's packages{about}. For CPUs write these lines instead: "
        f"--extra-index-url {_CPU_INDEX} and {names}"
    ]


def _is_cuda(name: str) -> bool:
    return name.lower().startswith("nvidia-")


def _download_size(url: str) -> int:
    """Return the bytes of a distribution's file, 0 if its server does not tell them at once."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=_HEAD_SECONDS) as answer:
            return int(answer.headers.get("Content-Length") or 0)
    except (OSError, ValueError):
        return 0


def _report(requirements: list[str], python: Python, cancel: threading.Event, say: Say) -> dict[str, tuple[str, str]]:
    """Return the versions that pip would install, and the addresses of their files, by name."""
    command = [*pip_of(python), "install", "--dry-run", "--ignore-installed", "--only-binary=:all:"]
    if not python.full_version.startswith(f"{python.version}."):  # this machine does not have that Python
        # without --target, into which a dry run writes nothing, pip resolves only for a Python that runs
        command += ["--python-version", python.version, "--target", tempfile.gettempdir()]
    with tempfile.TemporaryDirectory(prefix="tritonlab-lock-") as scratch:
        file = os.path.join(scratch, "report.json")
        run_command([*command, "--report", file, *requirements], cancel=cancel, printed=_Progress(say))
        with open(file, encoding="utf-8") as opened:
            report = json.load(opened)
    return {
        row["metadata"]["name"]: (row["metadata"]["version"], row["download_info"]["url"]) for row in report["install"]
    }


class _Progress:
    """The progress of pip as one line every few seconds, instead of a line for each package."""

    def __init__(self, say: Say) -> None:
        self._say, self._count, self._next = say, 0, time.monotonic() + _SILENT_SECONDS

    def __call__(self, line: str) -> None:
        verb, _, rest = line.strip().partition(" ")
        self._count += verb == "Collecting"
        if verb in ("Collecting", "Downloading") and time.monotonic() >= self._next:
            self._next = time.monotonic() + _SILENT_SECONDS
            self._say(f"environment: package {self._count}, {verb.lower()} {rest}")


def pip_of(python: Python) -> list[str]:
    """Return the start of a pip command that works for `python`, run by this process's own pip. Raises
    EnvironmentRefused if it has none, as in an environment of uv's."""
    if importlib.util.find_spec("pip") is None:
        raise EnvironmentRefused(
            f"pip finds and installs the packages of an environment, and {sys.executable} has none",
            f"{sys.executable} -m ensurepip, or uv pip install pip",
        )
    return [
        *(sys.executable, "-m", "pip", "--python", str(python.executable)),
        *("--disable-pip-version-check", "--no-input"),
    ]
