"""The author's machine, hidden from a server that judges an export.

A model that reads a file of the author's by its absolute path, or runs with the author's packages, "works" on the
author's machine. In a mount namespace the virtual environment, the Python prefix and the notebook's folder are empty
directories; what the server needs is bound below one directory. Where there is no namespace, the server only gets
another path and a scrubbed environment, and the result says so.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

#: Directories of every Linux below which the server's files are bound.
_MOUNT_POINTS = ("/mnt", "/media", "/srv")
#: What a server itself needs, so that it cannot be hidden.
_NEEDED = ("/", "/usr", "/bin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/sys", "/mnt")
_TRIAL_SECONDS = 10.0

#: Mounts, then becomes the command: NAME DIRECTORY… -- HIDDEN… -- COMMAND…
_SCRIPT = """
set -e
root=$1 scratch=$2; shift 2
mount -t tmpfs -o size=1m,mode=755 tmpfs "$root"
while [ "$1" != -- ]; do mkdir -p "$root/$1"; mount --rbind "$2" "$root/$1"; shift 2; done; shift
[ -z "$scratch" ] || mount --rbind "$scratch" /tmp
while [ "$1" != -- ]; do if [ -d "$1" ]; then mount -t tmpfs -o ro,size=4k tmpfs "$1"; fi; shift; done; shift
cd /
exec "$@"
"""


@dataclass(frozen=True)
class Hiding:
    """How much of the author's machine a server cannot see. `left`: what stays visible, one sentence each. `own_tmp`:
    another directory is its /tmp."""

    unshare: tuple[str, ...]
    root: str
    hidden: tuple[str, ...]
    left: tuple[str, ...] = ()
    own_tmp: bool = True

    @property
    def kind(self) -> str:
        return "namespace" if self.unshare else "scrubbed"

    def __str__(self) -> str:
        if not self.unshare:
            return "no mount namespace here: another path and a scrubbed environment; absolute paths were not caught"
        own = "" if self.root == "/" or not self.own_tmp else " and /tmp"  # a container has nothing of the machine
        text = f"hidden: {', '.join(self.hidden) or 'nothing'}{own}"
        return f"{text}; {'; '.join(self.left)}" if self.left else text

    def place(self, name: str, path: Path) -> str:
        """Return the path at which the server sees `path`, which was given to `command` as `name`."""
        return f"{self.root}/{name}" if self.unshare else str(path)

    def command(self, command: Iterable[str], places: Mapping[str, Path], scratch: Path) -> list[str]:
        """Return the command that runs `command` where the author's machine is hidden. `scratch` is its /tmp."""
        if not self.unshare:
            return list(command)
        bound = [word for name, path in places.items() for word in (name, str(path))]
        script = [*self.unshare, "sh", "-c", _SCRIPT, "hide", self.root, str(scratch) if self.own_tmp else ""]
        return [*script, *bound, "--", *self.hidden, "--", *command]


def find_hiding(paths: Iterable[Path], *, keep: Iterable[Path] = ()) -> Hiding:
    """Return the way to hide `paths` on this machine. `keep`: what the server needs at its own path."""
    hidden, left = [], []
    for path in dict.fromkeys([*(str(path) for path in paths), "/tmp"]):
        needed = [str(each) for each in keep if each == Path(path) or Path(path) in each.parents]
        if path in _NEEDED:
            left.append(f"{path} cannot be hidden, the server needs it")
        elif needed:
            left.append(f"{path} cannot be hidden, the server needs {needed[0]}")
        else:
            hidden.append(path)
    own_tmp = "/tmp" in hidden  # it is not emptied, but replaced
    hidden = [path for path in hidden if path != "/tmp"]
    root = next((each for each in _MOUNT_POINTS if os.path.isdir(each)), "")
    unshare = _unshare() if root else ()
    return Hiding(unshare, root, hidden=tuple(hidden) if unshare else (), left=tuple(left), own_tmp=own_tmp)


def author_paths(more: Iterable[Path] = ()) -> list[Path]:
    """Return the directories of this process that a deployed server does not have: its virtual environment, its Python
    prefix, or the packages of a system's Python, the user's packages and the working directory."""
    prefixes = [Path(sys.prefix), Path(sys.base_prefix)]
    own = [path for path in prefixes if str(path) not in ("/usr", "/usr/local")]
    packages = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
    user = Path(sysconfig.get_path("purelib", f"{os.name}_user"))
    found = [*own, *packages, user, *more]
    with contextlib.suppress(OSError):  # it was removed
        found.append(Path.cwd())
    real = list(dict.fromkeys(path.resolve() for path in found if path.is_dir()))
    return [path for path in real if not any(other in path.parents for other in real)]


@functools.cache
def _unshare() -> tuple[str, ...]:
    """Return the command that gives its command a mount namespace of its own; empty where there is none."""
    program = shutil.which("unshare")
    for flags in (["--mount"], ["--mount", "--map-root-user"]) if program else ():
        command = [str(program), *flags, "--propagation", "private"]
        try:
            trial = [*command, "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
            if not subprocess.run(trial, capture_output=True, timeout=_TRIAL_SECONDS).returncode:
                return tuple(command)
        except (OSError, subprocess.TimeoutExpired):
            pass
    return ()
