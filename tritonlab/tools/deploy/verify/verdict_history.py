"""The record of the verdicts on an export, stored with it: earlier verdicts, open differences, and the evidence."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....core.foreign_file import read_json
from ....repository.layout import model_names
from ..own_backends import backends_in, backends_of
from .differences import DIFFERS
from .release_verdict import ReleaseVerdict
from .shipped_requests import requests_of

#: The number of earlier verdicts in a record.
_EARLIER = 20


def evidence_of(repository: Path, models: Sequence[str]) -> Iterator[Path]:
    """Yield the files of the verdict on an exported repository: the page, the record, and the requests to `models`. A
    verdict on other files than the present ones is left out."""
    for root in (repository, *([repository.parent] if repository.name == "models" else [])):
        names = [name for name in model_names(repository) if not name.startswith(".")]
        history = VerdictHistory(root, repository, names)
        if history.is_current:
            yield from (path for path in (history.page, history.record) if path.is_file())
            for model in models:
                yield from sorted(path for path in (requests_of(root) / model).rglob("*") if path.is_file())


def record_of(root: Path) -> Path:
    """Return the path of the record of an export: in `root` if it has `models/`, otherwise next to it."""
    return root / "export.json" if (root / "models").is_dir() else root.with_name(f"{root.name}.export.json")


class VerdictHistory:
    """The earlier verdicts on an export, from its record."""

    def __init__(self, root: Path, models: Path, names: Sequence[str]) -> None:
        self.is_whole = models != root
        self.record = record_of(root)
        self.page = root / "verify.html" if self.is_whole else root.with_name(f"{root.name}.verify.html")
        backends = backends_of(models)
        self.files = dict(_files(models, names))
        self.files |= dict(_files(backends, [each.name for each in backends_in(backends)], f"{backends.name}/"))
        self._document: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            self._document = _sound_record(read_json(self.record))

    @property
    def is_current(self) -> bool:
        """Return whether the record is about the present files."""
        return self._document.get("files") == self.files

    @property
    def open_findings(self) -> Mapping[str, Sequence[str]]:
        """The findings of pre-flight at the export of these files."""
        found = self._document.get("preflight", {}) if self.is_current else {}
        return found if isinstance(found, dict) else {}

    def verdicts(self) -> list[dict[str, Any]]:
        """Return all verdicts so far, the oldest first, each with its date and files."""
        document = self._document
        last = {name: document[name] for name in ("when", "verified", "files") if name in document}
        if isinstance(last.get("files"), dict):
            last["files"] = _digest(last["files"])
        earlier = [*document.get("earlier", ()), *([last] if last.get("verified") else [])]
        return earlier[-_EARLIER:]

    def still_open(self, verdict: ReleaseVerdict) -> Iterator[str]:
        """Yield the differences of an earlier verdict on this release and these files whose requests were not sent
        again now."""
        sent = {(model.name, each.key) for model in verdict.models for each in model.requests}
        opened: dict[tuple[str, str], str] = {}
        for entry in self.verdicts():
            for release in entry["verified"] if entry.get("files") == _digest(self.files) else ():
                if release["triton"] == verdict.release:
                    for name, model in release["models"].items():
                        for each in model["requests"] if isinstance(model["requests"], list) else ():
                            opened.pop((name, each["key"]), None)
                            if each["symbol"] == DIFFERS:
                                about = f"{name} differed on {entry['when'][:10]} for {each['name']}"
                                opened[name, each["key"]] = f"{about}, which was not sent again"
        yield from (text for key, text in opened.items() if key not in sent)


def _sound_record(document: Any) -> dict[str, Any]:
    """Return the record of an export without unreadable verdicts."""
    if not isinstance(document, dict):
        return {}
    earlier = document.get("earlier")
    sound = [each for each in earlier if _is_verdict(each)] if isinstance(earlier, list) else []
    found = {**document, "earlier": sound}
    if not _is_verdict(document):
        found.pop("verified", None)
    return found


def _is_verdict(entry: Any) -> bool:
    try:
        requests = [
            request
            for release in entry["verified"]
            for model in release["models"].values()
            if release["triton"] and isinstance(model["requests"], list)
            for request in model["requests"]
        ]
        return all(each.keys() >= {"key", "symbol", "name"} for each in requests) and isinstance(entry["when"], str)
    except (AttributeError, KeyError, TypeError):
        return False


def _digest(files: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]


def _files(models: Path, names: Sequence[str], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(path for name in names for path in (models / name).rglob("*")):
        relative = prefix + path.relative_to(models).as_posix()
        if path.is_symlink():
            yield relative, {"bytes": 0, "link": os.readlink(path)}
        elif path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            status = path.stat()
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            yield relative, {"bytes": status.st_size, "sha256": digest, "mode": mode}
