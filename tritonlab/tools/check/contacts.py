"""`Contacts`, whom a model talks to: other models, and services over the network, as its source and processes show."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...core.source.source_file import UNPARSABLE
from ...core.status import TritonError
from ...server.api.model import Model

#: Modules that talk over a network, by their first name.
_NETWORK = {
    "socket",
    "http",
    "urllib",
    "urllib3",
    "requests",
    "httpx",
    "aiohttp",
    "websocket",
    "websockets",
    "grpc",
    "tritonclient",
    "redis",
    "boto3",
    "botocore",
    "google.cloud",
    "azure",
    "psycopg",
    "psycopg2",
    "pymongo",
    "sqlalchemy",
    "mysql",
    "kafka",
    "confluent_kafka",
    "pika",
    "paramiko",
    "smtplib",
    "ftplib",
    "openai",
    "elasticsearch",
    "zmq",
}
#: Submodules of these that only read texts.
_HARMLESS = {"urllib.parse", "http.HTTPStatus", "urllib.error"}
#: What in a source makes values that nobody can foresee.
_RANDOM = ("random", "uuid", "secrets", "urandom", "time_ns", "perf_counter", "shuffle", "randn", "multinomial")
#: What in a source reads a clock.
_CLOCKS = {
    *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "ctime", "localtime"),
    *("gmtime", "strftime", "now", "utcnow", "today"),
}
_CALLS = {"exec", "async_exec"}
_CLASS = "TritonPythonModel"
_IMPORTS = {"import_module", "__import__", "run_path", "run_module", "spec_from_file_location", "iter_modules"}


@dataclass(frozen=True)
class Contacts:
    """The others that a model talks to: the names of models, "" among them for unknown ones, and what of the network
    it uses."""

    models: tuple[str, ...] = ()
    network: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        return bool(self.models or self.network)

    @staticmethod
    def of_model(model: Model) -> Contacts:
        """Return the contacts of a model that serves."""
        directory = model.directory
        models: dict[str, None] = {}
        with suppress(TritonError):
            models = dict.fromkeys(model.called())
        network: dict[str, None] = {}
        for tree in _trees(directory):
            if _calls_models(tree) and not models:
                models = dict.fromkeys([*_names_in(tree, _known(model))] or [""])
            network |= dict.fromkeys(each for each in _network_modules(tree) if each != "socket" or _connects(tree))
        for instance in model.instances():
            network |= dict.fromkeys(_sockets(instance["pid"]))
        return Contacts(tuple(models), tuple(network))

    @staticmethod
    def named_in(directory: Path) -> list[str]:
        """Return the texts in the sources of a model, among which are the names of models that it calls."""
        return [
            node.value
            for tree in _trees(directory)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]

    def words(self) -> str:
        """Say whom it talks to."""
        named = [f"'{name}'" for name in self.models if name]
        parts = [f"it calls {', '.join(named) if named else 'other models'} (BLS)"] if self.models else []
        parts += [f"it uses {', '.join(self.network)}"] if self.network else []
        return " and ".join(parts)


def _known(model: Model) -> set[str]:
    return {one.identifier for one in model.server.core.models.known()} - {model.name}


def _trees(directory: Path) -> list[ast.Module]:
    """Return the sources of a model: the files with its class, and those in its directory that they name as a module
    or in a text, and so on. What lies there and is never named, as a client, is not the model's.
    """
    found: dict[Path, ast.Module] = {}
    for file in sorted(directory.rglob("*.py")):
        with suppress(OSError, *UNPARSABLE):
            if file.stat().st_size < 1 << 20:
                found[file] = ast.parse(file.read_text(encoding="utf-8", errors="replace"))
    reached = [tree for tree in found.values() if _CLASS in _names(tree)] or list(found.values())
    for tree in reached:  # it grows meanwhile
        if any(_imports_any(node) for node in ast.walk(tree)):
            return list(found.values())
        named = _names(tree)
        for file, other in found.items():
            if other not in reached and (file.parent.name if file.stem == "__init__" else file.stem) in named:
                reached.append(other)
    return reached


def _names(tree: ast.Module) -> set[str]:
    """Return the words of imports, of texts as `helper.py` or `pack/helper`, and the classes of a source."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            words = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            names.update(part for word in words for part in word.split("."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 1000:
            names.update(re.split(r"[^\w]", node.value))
        elif isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name) and target.id == _CLASS)
    return names


def _imports_any(node: ast.AST) -> bool:
    """Return whether it is a call that imports or runs what only a running program knows."""
    if not isinstance(node, ast.Call) or not node.args:
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in _IMPORTS and not all(isinstance(one, ast.Constant) for one in node.args[:1])


def _calls_models(tree: ast.Module) -> bool:
    """Return whether a source makes requests and executes them."""
    makes = any(
        isinstance(node, (ast.Attribute, ast.Name))
        and (node.attr if isinstance(node, ast.Attribute) else node.id) == "InferenceRequest"
        for node in ast.walk(tree)
    )
    calls = any(isinstance(node, ast.Attribute) and node.attr in _CALLS for node in ast.walk(tree))
    return makes and calls


def _names_in(tree: ast.Module, known: set[str]) -> list[str]:
    return [
        n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value in known
    ]


def _network_modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            if any(name in _HARMLESS for name in names):
                continue
        for name in names:
            if name not in _HARMLESS and (name.partition(".")[0] in _NETWORK or name in _NETWORK):
                yield name.partition(".")[0]


def _connects(tree: ast.Module) -> bool:
    """Return whether a source sends something to another address, as a server on a socket of its own does not."""
    names = {"connect", "connect_ex", "create_connection", "sendto"}
    return any(isinstance(node, ast.Attribute) and node.attr in names for node in ast.walk(tree))


def _sockets(pid: int | None) -> list[str]:
    """Return the internet connections of a process, in words."""
    if pid is None:
        return []
    own = set()
    with suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
                if target.startswith("socket:["):
                    own.add(target[8:-1])
    found = []
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]:
                fields = line.split()
                if len(fields) > 9 and fields[9] in own:
                    found.append(f"a {kind.rstrip('6').upper()} socket")
    return sorted(set(found))


def uses_random(directory: Path) -> bool:
    """Return whether the sources of a model name something that makes values which nobody can foresee."""
    for tree in _trees(directory):
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.Attribute):
                names = [node.attr]
            elif isinstance(node, ast.Name):
                names = [node.id]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(alias.name for alias in node.names)]
            if any(part in name for name in names for part in _RANDOM):
                return True
    return False


def uses_clock(directory: Path) -> bool:
    """Return whether the sources of a model read a clock, so that what they answer may depend on the time."""
    for tree in _trees(directory):
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in _CLOCKS:
                return True
            if isinstance(node, ast.ImportFrom) and any(alias.name in _CLOCKS for alias in node.names):
                return True
    return False


def uses_hashes(directory: Path) -> bool:
    """Return whether the sources of a model make sets or call hash(), which differ from process to process for texts.
    """
    for tree in _trees(directory):
        for node in ast.walk(tree):
            if isinstance(node, (ast.Set, ast.SetComp)):
                return True
            if isinstance(node, ast.Name) and node.id in ("set", "frozenset", "hash"):
                return True
    return False
