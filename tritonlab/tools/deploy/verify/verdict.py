"""The result of a verification: as text, as JSON values, and as HTML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....core.plain_facts import few_lines
from .differences import EQUAL, WORDS
from .page import body_of
from .release_verdict import ReleaseVerdict


@dataclass(frozen=True)
class Verification:
    """The verdicts of all judges, and the files that store them."""

    directory: Path
    releases: tuple[ReleaseVerdict, ...]
    not_verified: tuple[str, ...]
    page: Path
    record: Path
    earlier: tuple[dict[str, Any], ...] = ()

    @property
    def passed(self) -> bool:
        return bool(self.releases) and all(release.passed for release in self.releases)

    def lines(self) -> Iterator[str]:
        for release in self.releases:
            yield f"Triton {release.release}: {release.verdict}"
            if release.verified and not release.is_hidden:
                yield f"  {release.hidden}"
            for model in release.models:
                if model.symbol != EQUAL:
                    yield f"  {model.symbol} {model.name}: {WORDS[model.symbol]}"
                yield from (f"      {finding}" for finding in model.findings if not finding.known)
        shown = "".join(release.problem for release in self.releases)
        yield from (f"not verified: {each}" for each in self.not_verified if each.partition(": ")[2] not in shown)
        yield f"page: {self.page}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "directory": str(self.directory),
            "passed": self.passed,
            "verified": [release.to_dict() for release in self.releases],
            "not_verified": list(self.not_verified),
            "page": str(self.page),
        }

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return few_lines(str(self))

    def _repr_html_(self) -> str:
        return f"<div class='tl-export'>{body_of(self.releases, self.not_verified, self.earlier)}</div>"
