"""A model as it is sent to a running Triton, its configuration and files; and the record of sent models.

A Triton does not return the files of a model. The record keeps the last ones that this user has pushed, so that a push
in place of another one can be undone, also by a later kernel.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from ....core.config.model_config import ModelConfig, parse_pbtxt, read_config_text
from ....core.status import UnsupportedError
from ....core.whole_file import whole_file
from ....exchanges.remote.http_link import MOST_LOAD_BYTES
from ....ipc.processes.own_stub import NAME as OWN_STUB
from ....repository.layout import CONFIG_FILE
from ....server.api.model import Model
from ....server.api.needed_models import names_needed
from ...deploy.model_build import ModelBuild
from ...deploy.releases import find_target

#: The parameter of a pushed configuration that names the push: a hash of its files, and its time. 2.51 ignores a load
#: whose configuration is equal to the served one, even if its files differ.
MARK = "tritonlab_push"
#: How many pushes are kept, and the most bytes of one.
_KEPT, _MOST_KEPT_BYTES = 8, 256 << 20
_DIGITS = 12
#: The most bytes of files in a message of gRPC, which has 2 GB at most.
_MOST_GRPC = (1 << 31) - (1 << 20)


@dataclass(frozen=True)
class PushedModel:
    """A model with everything that a server needs to load it.

    config: in its JSON form, with the mark of this push. files: contents by the path in the model directory. needs: the
    models of its steps. notes: sentences about differences there.
    """

    name: str
    config: str
    files: Mapping[str, bytes]
    mark: str
    needs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @staticmethod
    def from_model(model: Model, target: str) -> PushedModel:
        """Return a loaded model in the form of an export for `target`. Raises UnsupportedError if it needs more than
        files and a configuration, and the errors of an export."""
        find_target(target)  # raises
        build = ModelBuild.of(model, ())
        if build.incomplete:
            raise UnsupportedError(f"'{model.name}' was not pushed: {build.incomplete[0]}")
        with tempfile.TemporaryDirectory(prefix="tritonlab-push-") as scratch:
            place = Path(scratch) / model.name
            notes = [*build.write(place, lambda file, size: None), *_notes(place)]
            if build.backend is not None:
                notes.append(f"it needs the backend '{build.backend.name}', which the server must have")
            files = {path.relative_to(place).as_posix(): path.read_bytes() for path in _files(place)}
            config = parse_pbtxt(read_config_text(place / CONFIG_FILE), CONFIG_FILE)
        if OWN_STUB in files:
            raise UnsupportedError(f"'{model.name}' was not pushed: {OWN_STUB} cannot be run after it was sent")
        config.name = model.name
        steps = names_needed(model) if config.HasField("ensemble_scheduling") else []
        return _marked(model.name, config, files, tuple(steps), tuple(notes))

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(map(len, self.files.values()))

    def check_size(self, protocol: str, address: str) -> None:
        """Raise UnsupportedError if the files are too large for one request."""
        if protocol == "gRPC":
            sent, most, remedy = self.size, _MOST_GRPC, "put the large ones where the server reads them"
        else:  # as base64
            sent, most, remedy = self.size * 4 // 3 + len(self.config) * 2, MOST_LOAD_BYTES, "connect over gRPC"
        if sent >= most:
            raise UnsupportedError(
                f"'{self.name}' was not pushed to {address}: with its files the request has {sent / 1e6:,.1f} MB, and "
                f"over {protocol} {most / 1e6:,.1f} MB are the most: {remedy}"
            )


def _marked(
    name: str, config: ModelConfig, files: Mapping[str, bytes], needs: tuple[str, ...], notes: tuple[str, ...]
) -> PushedModel:
    digest = hashlib.sha256(config.SerializeToString(deterministic=True))
    for path in sorted(files):
        digest.update(f"\0{path}\0{len(files[path])}\0".encode("utf-8", "surrogateescape") + files[path])
    moment = time.time()
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment % 1 * 1000):03d}Z"
    mark = f"{digest.hexdigest()[:_DIGITS]} {when}"
    config.parameters[MARK].string_value = mark
    text = json_format.MessageToJson(config, preserving_proto_field_name=True, indent=None)
    return PushedModel(name, text, files, mark, needs, notes)


def _files(place: Path) -> Iterator[Path]:
    """Yield the files to send: the configuration is sent apart."""
    for path in sorted(place.rglob("*")):
        if path.is_file() and path != place / CONFIG_FILE:
            yield path


def _notes(place: Path) -> Iterator[str]:
    """Yield sentences about parts that do not arrive as they are."""
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if path.is_symlink() and path.is_dir():
            yield f"its link '{name}' to a directory is not sent"
        elif path.is_file() and path.stat().st_mode & stat.S_IXUSR:
            yield f"'{name}' cannot be executed there: files are sent without their modes"


class PushRecord:
    """The last pushes of this user, each in a zip file that only this user can read."""

    def __init__(self, directory: Path | None = None) -> None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        self.directory = directory or Path(base) / "tritonlab" / "pushes"

    def add(self, pushed: PushedModel) -> str:
        """Keep a push, and forget the oldest ones. Return why it is not kept; "" if it is."""
        if pushed.size > _MOST_KEPT_BYTES:
            return f"its {pushed.size / 1e6:,.0f} MB are not kept, so a later push in its place cannot bring it back"
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            with whole_file(self._path(pushed.mark)) as file, zipfile.ZipFile(file, "w") as archive:
                os.fchmod(file.fileno(), 0o600)
                archive.writestr("push.json", json.dumps({"name": pushed.name, "config": pushed.config}))
                for path, data in pushed.files.items():
                    archive.writestr(f"files/{path}", data)
            for old in sorted(self.directory.glob("*.zip"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
                old.unlink(missing_ok=True)
        except OSError as error:
            return f"it is not kept, so a later push in its place cannot bring it back: {error}"
        return ""

    def find(self, mark: str) -> PushedModel | None:
        """Return the push with that mark; None if it is not kept."""
        try:
            with zipfile.ZipFile(self._path(mark)) as archive:
                facts: dict[str, Any] = json.loads(archive.read("push.json"))
                names = [name for name in archive.namelist() if name.startswith("files/")]
                files = {name.removeprefix("files/"): archive.read(name) for name in names}
            return PushedModel(facts["name"], facts["config"], files, mark)
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
            return None

    def _path(self, mark: str) -> Path:
        return self.directory / f"{hashlib.sha256(mark.encode()).hexdigest()[:32]}.zip"


def mark_of(config: Mapping[str, Any]) -> str:
    """Return the mark of a served configuration in its JSON form; "" if it was not pushed."""
    return str(config.get("parameters", {}).get(MARK, {}).get("string_value", ""))
