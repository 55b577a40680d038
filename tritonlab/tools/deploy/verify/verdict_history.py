"""The record of the verdicts on an export, stored with it: earlier verdicts, open differences, and the evidence."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....core.foreign_file import read_json
from ..export_record import record_of
from ..exported_files import FileFacts, files_of
from .release_verdict import ReleaseVerdict
from .shipped_requests import requests_of

#: The number of earlier verdicts in a record.
_EARLIER = 20
#: The parts of a record that an export writes and a verification keeps.
_OF_EXPORT = ("version", "image", "environment")


def evidence_of(repository: Path, models: Sequence[str]) -> Iterator[Path]:
    """Yield the files of the verdict on an exported repository: the page, the record, and the requests to `models`. A
    verdict on other files than the present ones is left out."""
    for root in (repository, *([repository.parent] if repository.name == "models" else [])):
        history = VerdictHistory(root, repository)
        if history.is_current:
            yield from (path for path in (history.page, history.record) if path.is_file())
            for model in models:
                yield from sorted(path for path in (requests_of(root) / model).rglob("*") if path.is_file())


class VerdictHistory:
    """The record of an export, with the earlier verdicts on it. `files`: the present ones, if they are known."""

    def __init__(self, root: Path, models: Path, files: FileFacts | None = None) -> None:
        self.is_whole = models != root
        self.record = record_of(root)
        self.page = root / "verify.html" if self.is_whole else root.with_name(f"{root.name}.verify.html")
        self.files = files_of(models) if files is None else files
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

    def renewed(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record with the facts of a new export: a verdict stays if it is on the same files, and becomes an
        earlier one otherwise."""
        if self.is_current and self._document.get("version") == facts["version"]:
            return {**self._document, **facts}
        earlier = self.verdicts()
        return {**facts, **({"earlier": earlier} if earlier else {})}

    @property
    def export_facts(self) -> dict[str, Any]:
        """The facts about the export of the present files, without a verdict; empty if there is no record of them."""
        if not self.is_current:
            return {}
        return {name: self._document[name] for name in _OF_EXPORT if name in self._document}

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
                            if each["is_open"]:
                                about = f"{name} differed on {entry['when'][:10]} for {each['name']}"
                                opened[name, each["key"]] = f"{about}, which was not sent again"
        yield from (text for key, text in opened.items() if key not in sent)


def _sound_record(document: Any) -> dict[str, Any]:
    """Return the record of an export without unreadable verdicts."""
    if not isinstance(document, dict):
        return {}
    found = dict(document)
    if "earlier" in found:
        earlier = found["earlier"]
        found["earlier"] = [each for each in earlier if _is_verdict(each)] if isinstance(earlier, list) else []
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
        return all(each.keys() >= {"key", "is_open", "name"} for each in requests) and isinstance(entry["when"], str)
    except (AttributeError, KeyError, TypeError):
        return False


def _digest(files: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]
