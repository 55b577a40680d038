"""The author's machine, hidden from a server that judges an export.

A model that reads the author's files by their absolute paths, or runs with the author's packages, "works" on the
author's machine. In a mount namespace the virtual environment, the Python prefix and the notebook's folder are empty
directories; the files that the server needs are bound below one directory. Without a namespace, the server only gets
another path and a scrubbed environment, and the result reports that.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....stub._pb_stub.process.reads_record import is_everywhere

#: Directories of every Linux below which the server's files are bound.
_MOUNT_POINTS = ("/mnt", "/media", "/srv")
#: Paths that a server itself needs, so that they cannot be hidden.
_NEEDED = ("/", "/usr", "/bin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/sys", "/mnt")
#: Directories that every machine has, in which single files are hidden.
_SHARED = (*_NEEDED, "/opt", "/var", "/run", "/home", "/usr/local", "/usr/share")
#: Nothing below these is hidden: programs and libraries run from there, or the kernel fills them.
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/usr/lib/", "/usr/bin/", "/usr/sbin/")
#: Paths that every machine has, with different contents.
_EVERYWHERE = {
    f"/etc/{name}"
    for name in ("passwd", "group", "hosts", "hostname", "resolv.conf", "nsswitch.conf", "localtime", "os-release")
}
_TRIAL_SECONDS = 10.0
#: Directories of `/` and `/var` that every machine has. Their files are not the author's, or programs write to them.
_OF_THE_SYSTEM = {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "nix", "proc", "run", "sbin", "sys"}
_OF_THE_SYSTEM |= {"usr", "var", "tmp"}
_OF_VAR = {"cache", "lock", "log", "run", "tmp"}

#: Mounts, then becomes the command: NAME DIRECTORY… -- KEPT… -- HIDDEN… -- FILE… -- COMMAND…
#: Kept paths are restored in a hidden directory; a file is hidden by links to all others of its directory.
#: A directory that every program may write to stays writable.
_SCRIPT = """
set -e
root=$1 scratch=$2; shift 2
mount -t tmpfs -o size=1m,mode=755 tmpfs "$root"
while [ "$1" != -- ]; do mkdir -p "$root/$1"; mount --rbind "$2" "$root/$1"; shift 2; done; shift
n=0; : > "$root/.kept"
while [ "$1" != -- ]; do n=$((n+1)); if [ -d "$1" ]; then mkdir "$root/.kept-$n"; else : > "$root/.kept-$n"; fi
  mount --rbind "$1" "$root/.kept-$n"
  printf '%s\n' "$1" >> "$root/.kept"; shift; done; shift
[ -z "$scratch" ] || mount --rbind "$scratch" /tmp
: > "$root/.hidden"
while [ "$1" != -- ]; do if [ -k "$1" ]; then mount -t tmpfs -o mode=1777 tmpfs "$1"
  elif [ -d "$1" ]; then mount -t tmpfs -o size=64k,mode=755 tmpfs "$1"
  printf '%s\n' "$1" >> "$root/.hidden"; fi; shift; done; shift
while [ "$1" != -- ]; do if [ -e "$1" ]; then n=$((n+1)); seen=$root/.kept-$n folder=${1%/*}; mkdir "$seen"
  mount --rbind "${folder:-/}" "$seen"; mount -t tmpfs -o size=1m,mode=755 tmpfs "$folder"
  find "$seen" -mindepth 1 -maxdepth 1 -exec ln -s -t "$folder" {} +; rm -f "$1"; fi; shift; done; shift
n=0; while read -r kept; do n=$((n+1))
  if [ -d "$root/.kept-$n" ]; then mkdir -p "$kept"; else mkdir -p "${kept%/*}"; : >> "$kept"; fi
  mount --rbind "$root/.kept-$n" "$kept"; done < "$root/.kept"
while read -r hidden; do mount -o remount,bind,ro "$hidden"; done < "$root/.hidden"
cd /
exec "$@"
"""


@dataclass(frozen=True)
class Hiding:
    """The part of the author's machine that a server cannot see. `hidden`: directories, with a word for each; `files`:
    hidden files of visible directories; `kept`: visible parts of hidden directories; `common`: the same, but parts that
    every machine has; `left`: what stays visible, one sentence each. `root`: the directory below which the files that a
    server needs are bound.

    `own_tmp`: whether another directory is its /tmp; `in_tmp`: words for what that hides.
    """

    unshare: tuple[str, ...]
    root: str
    hidden: Mapping[str, str]
    files: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    common: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    own_tmp: bool = True
    in_tmp: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return "namespace" if self.unshare else "scrubbed"

    def __str__(self) -> str:
        return self._text([*self.hidden, *self.files], f" but for {', '.join(self.kept)}" * bool(self.kept))

    @property
    def words(self) -> str:
        """Return the same as words, without paths of this machine."""
        words = ", ".join([*self.hidden.values(), *self.in_tmp, *([_READ] if self.files else [])]).split(", ")
        return self._text([*dict.fromkeys(filter(None, words))], " but for what the server runs from" * bool(self.kept))

    def _text(self, hidden: Sequence[str], kept: str) -> str:
        if not self.unshare:
            return "no mount namespace here: another path and a scrubbed environment; absolute paths were not caught"
        own = " and /tmp" if self.root and self.own_tmp else ""  # a container contains nothing of the machine
        text = f"hidden: {', '.join(hidden) or 'nothing'}{own}{kept}"
        return f"{text}; {'; '.join(self.left)}" if self.left else text

    def place(self, name: str, path: Path) -> str:
        """Return the path at which the server sees `path`, which `command` received as `name`."""
        return f"{self.root}/{name}" if self.unshare else str(path)

    def command(self, command: Iterable[str], places: Mapping[str, Path], scratch: Path) -> list[str]:
        """Return the command that runs `command` where the author's machine is hidden. `scratch` is its /tmp."""
        if not self.unshare:
            return list(command)
        bound = [word for name, path in places.items() for word in (name, str(path))]
        script = [*self.unshare, "sh", "-c", _SCRIPT, "hide", self.root, str(scratch) if self.own_tmp else ""]
        return [*script, *bound, "--", *self.kept, *self.common, "--", *self.hidden, "--", *self.files, "--", *command]


#: Of a server that sees everything.
NOT_HIDDEN = Hiding((), "", {})


def find_hiding(
    paths: Mapping[Path, str], *, keep: Iterable[Path] = (), common: Iterable[str] = (), program: Path | None = None
) -> Hiding:
    """Return the way to hide `paths` on this machine.

    Args:
        paths: directories and files, with a word for each.
        keep: directories that the server needs at their own path.
        common: files and directories that stay because every machine has them.
        program: the server, if its files are not known; directories that contain it stay.
    """
    needed = {str(path) for path in keep}
    wanted: dict[str, str] = {}
    for path, word in {**paths, Path("/tmp"): "/tmp"}.items():
        covering = str(_covering(path))
        if word == _MACHINE or not (covering.startswith(_SYSTEM) or covering in _EVERYWHERE):
            wanted.setdefault(covering, word)
    hidden, files, left = dict[str, str](), list[str](), list[str]()
    for text, word in wanted.items():
        user = next((each for each in needed if is_in(text, each)), "")
        user = user or (str(program) if program is not None and is_in(str(program), text) else "")
        if os.path.isfile(text):
            files.append(text)
        elif (text in _NEEDED and word != _MACHINE) or user:
            left.append(f"{text} cannot be hidden, the server needs {user or 'it'}")
        else:
            hidden[text] = word
    words: dict[str, list[str]] = {}
    for text, word in sorted(hidden.items()):  # a directory precedes its contents
        outer = next((each for each in words if is_in(text, each)), text)
        words.setdefault(outer, []).append(word)
    in_tmp = words.pop("/tmp", [])
    own_tmp = bool(in_tmp)  # /tmp is not emptied, but replaced
    root = _mount_point()
    unshare = _unshare() if root else ()
    return Hiding(
        unshare,
        root,
        hidden={text: ", ".join(dict.fromkeys(each)) for text, each in words.items()} if unshare else {},
        files=tuple(each for each in files if unshare and not is_in(each, *hidden)),
        kept=tuple(sorted(each for each in needed if is_in(each, *hidden))) if unshare else (),
        common=tuple(sorted(common)) if unshare else (),
        left=tuple(left),
        own_tmp=own_tmp,
        in_tmp=tuple(word for word in in_tmp if word != "/tmp"),
    )


def _mount_point() -> str:
    return next((each for each in _MOUNT_POINTS if os.path.isdir(each)), "")


def is_in(path: str, *places: str) -> bool:
    """Return whether a path is one of `places`, or lies in one of them."""
    return any(path == place or path.startswith(place.rstrip("/") + "/") for place in places)


def _covering(path: Path) -> Path:
    """Return the directory to hide for a path: the path itself, or a file's directory, or just the file if every
    machine has that directory."""
    return path if path.is_dir() or str(path.parent) in _SHARED else path.parent


#: The words for directories that do not belong to the system.
_MACHINE = "the folders of this machine that are not its system's"


def folders_of_the_machine() -> dict[Path, str]:
    """Return the directories with this machine's own files, with a word for each: the non-system directories of `/` and
    `/var`, `/usr/local`, `/var/tmp`, and `/etc`, of which `common_entries` stay. The rest of `/usr` and `/var`, and
    `/run`, are not hidden."""
    found = [Path("/etc"), Path("/usr/local"), Path("/var/tmp")]
    needed = {*_OF_THE_SYSTEM, _mount_point().lstrip("/")}  # nothing of the machine is visible at the mount point
    for top, besides in ((Path("/"), needed), (Path("/var"), _OF_VAR)):
        with contextlib.suppress(OSError):
            found += [path for path in top.iterdir() if path.name not in besides]
    return {path: _MACHINE for path in sorted(found) if path.is_dir() and not path.is_symlink()}


def common_entries() -> list[str]:
    """Return the entries of these directories that every machine has, or that belong to drivers and libraries."""
    with contextlib.suppress(OSError):
        entries = [*Path("/etc").iterdir(), *Path("/usr/local").glob("cuda*")]
        return [str(path) for path in entries if path.exists() and _is_common(path)]
    return []


def _is_common(path: Path) -> bool:
    """Return whether every machine has this file, or this directory's contents; False for a link to the kernel's
    files."""
    if os.path.realpath(path).startswith("/proc/"):
        return False
    return is_everywhere(f"{path}/x" if path.is_dir() else str(path))


#: The words for the paths that a model reads.
_READ = "what the models read of this machine"


def author_paths(more: Mapping[Path, str] | None = None, reads: Iterable[Path] = ()) -> dict[Path, str]:
    """Return the parts of this process's machine that a deployed server does not have, with a word for each: the home
    directory, the virtual environment, the Python prefix or the packages of a system's Python, the user's packages, the
    working directory, and the paths that models read."""
    python = "this Python and its packages"
    prefixes = [Path(sys.prefix), Path(sys.base_prefix)]
    found = {path: python for path in prefixes if str(path) not in ("/usr", "/usr/local")}
    found |= {Path(sysconfig.get_path(name)): python for name in ("purelib", "platlib")}
    found[Path(sysconfig.get_path("purelib", f"{os.name}_user"))] = python
    found |= more or {}
    with contextlib.suppress(OSError):  # it was removed
        found[Path.cwd()] = "the working directory"
    with contextlib.suppress(RuntimeError):  # a user without a home
        found[Path.home()] = "the home directory"
    found |= {path: _READ for path in reads}
    real = {path.resolve(): word for path, word in found.items() if path.exists()}
    # a link is hidden at its own place, too: if only its target were hidden, the name would stay
    return real | {path: word for path, word in found.items() if path.is_symlink()}


@functools.cache
def _unshare() -> tuple[str, ...]:
    """Return the command that runs a command in a new mount namespace; empty if that is not possible."""
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
