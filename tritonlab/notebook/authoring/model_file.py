"""One file of a model that a notebook writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .source_map import Segment


@dataclass(frozen=True)
class ModelFile:
    """One file of a model: its bytes, or the path it is copied from at each load.

    `segments` say where its lines were written. `link`: it is a link that leads there instead. `like`: the file that
    has its mode.
    """

    content: bytes | Path
    segments: tuple[Segment, ...] = ()
    link: str = ""
    like: Path | None = None

    def text(self) -> str:
        return (self.content if isinstance(self.content, bytes) else self.content.read_bytes()).decode()
