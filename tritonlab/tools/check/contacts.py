"""`Contacts`, the other models and network services that a model uses, as its source and processes show."""

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

#: Top-level modules that use a network.
_NETWORK = {
    *("socket", "http", "urllib", "urllib3", "requests", "httpx", "aiohttp", "websocket", "websockets", "grpc"),
    *("tritonclient", "redis", "boto3", "botocore", "google.cloud", "azure", "psycopg", "psycopg2", "pymongo"),
    *("sqlalchemy", "mysql", "kafka", "confluent_kafka", "pika", "paramiko", "smtplib", "ftplib", "openai"),
    *("elasticsearch", "zmq"),
}
#: Submodules of these that only parse text.
_HARMLESS = {"urllib.parse", "http.HTTPStatus", "urllib.error"}
#: Names in a source that make unpredictable values.
_RANDOM = ("random", "uuid", "secrets", "urandom", "time_ns", "perf_counter", "shuffle", "randn", "multinomial")
#: Names in a source that read a clock.
_CLOCKS = {
    *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "ctime", "localtime"),
    *("gmtime", "strftime", "now", "utcnow", "today"),
}
_CALLS = {"exec", "async_exec"}
#: Names that send to another address, unlike a server on its own socket.
_CONNECTS = {"connect", "connect_ex", "create_connection", "sendto"}
_CLASS = "TritonPythonModel"
_IMPORTS = {"import_module", "__import__", "run_path", "run_module", "spec_from_file_location", "iter_modules"}


@dataclass(frozen=True)
class Contacts:
    """The contacts of a model: the names of models, "" among them for unknown ones, and the network services it
    uses."""

    models: tuple[str, ...] = ()
    network: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        return bool(self.models or self.network)

    @staticmethod
    def of_model(model: Model) -> Contacts:
        """Return the contacts of a serving model."""
        directory = model.directory
        models: dict[str, None] = {}
        with suppress(TritonError):
            models = dict.fromkeys(model.called())
        network: dict[str, None] = {}
        for source in _read_sources(directory):
            if source.calls_models and not models:
                known = {one.identifier for one in model.server.core.models.known()} - {model.name}
                models = dict.fromkeys([text for text in source.texts if text in known] or [""])
            connects = bool(source.attributes & _CONNECTS)
            network |= dict.fromkeys(each for each in source.network_modules() if each != "socket" or connects)
        for instance in model.instances():
            network |= dict.fromkeys(_sockets(instance["pid"]))
        return Contacts(tuple(models), tuple(network))

    @staticmethod
    def named_in(directory: Path) -> list[str]:
        """Return the texts in the sources of a model; they include the names of the models that it calls."""
        return [text for source in _read_sources(directory) for text in source.texts]

    def words(self) -> str:
        """Return the contacts in words."""
        named = [f"'{name}'" for name in self.models if name]
        parts = [f"it calls {', '.join(named) if named else 'other models'} (BLS)"] if self.models else []
        parts += [f"it uses {', '.join(self.network)}"] if self.network else []
        return " and ".join(parts)


class _Source:
    """The words of a source in their order: attributes, names, texts, and imports."""

    def __init__(self, tree: ast.Module) -> None:
        nodes = [*ast.walk(tree)]
        self.attributes = {one.attr for one in nodes if isinstance(one, ast.Attribute)}
        self.names = {one.id for one in nodes if isinstance(one, ast.Name)}
        self.texts = [one.value for one in nodes if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        self.imports = [one for one in nodes if isinstance(one, (ast.Import, ast.ImportFrom))]
        self.members = {alias.name for one in self.imports if isinstance(one, ast.ImportFrom) for alias in one.names}
        self.makes_sets = any(isinstance(one, (ast.Set, ast.SetComp)) for one in nodes)
        #: whether it imports or runs names that only a running program has
        self.imports_any = any(isinstance(one, ast.Call) and _imports_any(one) for one in nodes)
        #: the words of imports, of texts as `helper.py` or `pack/helper`, and the classes
        self.words = {part for word in self.imported for part in word.split(".")}
        self.words.update(*(re.split(r"[^\w]", text) for text in self.texts if len(text) < 1000))
        self.words.update(one.name for one in nodes if isinstance(one, ast.ClassDef))
        targets = [each for one in nodes if isinstance(one, ast.Assign) for each in one.targets]
        self.words.update(one.id for one in targets if isinstance(one, ast.Name) and one.id == _CLASS)

    @property
    def imported(self) -> set[str]:
        """The words of imports: `a.b` and `c` for `from a.b import c`."""
        modules = {getattr(one, "module", None) or "" for one in self.imports}
        return modules | {alias.name for one in self.imports for alias in one.names}

    @property
    def calls_models(self) -> bool:
        """Whether it makes requests and executes them."""
        return "InferenceRequest" in self.attributes | self.names and bool(self.attributes & _CALLS)

    def network_modules(self) -> Iterator[str]:
        for one in self.imports:
            names = [alias.name for alias in one.names]
            if isinstance(one, ast.ImportFrom):
                names = [one.module, *(f"{one.module}.{name}" for name in names)] if one.module else []
                if one.level or any(name in _HARMLESS for name in names):
                    continue
            for name in names:
                if name not in _HARMLESS and (name.partition(".")[0] in _NETWORK or name in _NETWORK):
                    yield name.partition(".")[0]


def _read_sources(directory: Path) -> list[_Source]:
    """Return the sources of a model: the files with its class, and the files in its directory that these name, as a
    module or in a text, and so on. A file there that is never named, such as a client, is not the model's.
    """
    found: dict[Path, _Source] = {}
    for file in sorted(directory.rglob("*.py")):
        with suppress(OSError, *UNPARSABLE):
            if file.stat().st_size < 1 << 20:
                found[file] = _Source(ast.parse(file.read_text(encoding="utf-8", errors="replace")))
    reached = [source for source in found.values() if _CLASS in source.words] or list(found.values())
    for source in reached:  # `reached` grows meanwhile
        if source.imports_any:
            return list(found.values())
        for file, other in found.items():
            if other not in reached and (file.parent.name if file.stem == "__init__" else file.stem) in source.words:
                reached.append(other)
    return reached


def _imports_any(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in _IMPORTS and not all(isinstance(one, ast.Constant) for one in call.args[:1])


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
    """Return whether the sources of a model use a function that makes unpredictable values."""
    words = (source.attributes | source.names | source.imported for source in _read_sources(directory))
    return any(part in word for each in words for word in each for part in _RANDOM)


def uses_clock(directory: Path) -> bool:
    """Return whether the sources of a model read a clock, so that its answers may depend on the time."""
    return any((source.attributes | source.members) & _CLOCKS for source in _read_sources(directory))


def uses_hashes(directory: Path) -> bool:
    """Return whether the sources of a model make sets or call hash(): for texts these differ between processes."""
    names = {"set", "frozenset", "hash"}
    return any(source.makes_sets or source.names & names for source in _read_sources(directory))
