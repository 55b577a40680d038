"""Releases of Triton, from one table (`releases.json`) in which every cell names its source."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ...core.explained import Explained
from ...core.status import Code
from ...figures.tables import text_table

_TABLE = Path(__file__).with_name("releases.json")
_COLUMNS = ("triton", "container", "wheel", "stubs", "python", "glibc", "libstdcxx", "numpy")
_NOT_KNOWN = "not known"
#: The repository of the containers of all releases.
IMAGES = "nvcr.io/nvidia/tritonserver"


@dataclass(frozen=True)
class Cell:
    """A value of the table and its source. `value` is None if unknown."""

    value: Any
    source: str

    def __str__(self) -> str:
        return _NOT_KNOWN if self.value is None else str(self.value) or "-"


@dataclass(frozen=True)
class Release:
    """One release. `numpy`: the versions that its models may use, `<2` or `any`."""

    triton: Cell
    container: Cell
    wheel: Cell
    stubs: Cell
    python: Cell
    glibc: Cell
    libstdcxx: Cell
    numpy: Cell

    @property
    def image(self) -> str:
        """The name of the release's container image."""
        return f"{IMAGES}:{self.container.value}-py3"

    @property
    def order(self) -> tuple[int, ...]:
        """Return the key that sorts releases by their age."""
        return _numbers(self.container.value)

    @property
    def is_started(self) -> bool:
        """Return whether the release could be started from a wheel, so that its cells are measured."""
        return self.order <= _numbers(find(_read()["verified_until"]).container.value)

    def __str__(self) -> str:
        return f"{self.triton} ({self.container})"


@dataclass(frozen=True)
class Feature:
    """A feature that models may use and some releases lack: the first container with it, and the last one known to lack
    it."""

    key: str
    name: str
    since: Cell
    lacking: Cell
    effect: str
    remedy: str

    def state(self, release: Release) -> bool | None:
        """Return whether the release has it; None if unknown."""
        if release.order >= _numbers(self.since.value):
            return True
        return False if release.order <= _numbers(self.lacking.value) or not release.is_started else None


@dataclass(frozen=True)
class Target:
    """The place where a model is to run: a release, and the conditions there. `about` is empty for a plain container,
    `engine` names the place otherwise; `is_triton` is False for an engine that serves with tritonlab."""

    release: Release
    about: str = ""
    shm_bytes: int | None = None
    engine: str = ""

    @property
    def is_triton(self) -> bool:
        return self.engine not in ("dynamo", "ray")

    def __str__(self) -> str:
        if not self.is_triton:
            return self.about
        return f"{self.about}, Triton {self.release}" if self.about else f"Triton {self.release}"


class UnknownTarget(Explained, ValueError):
    """A target that is not in the table."""

    code = Code.INVALID_ARG
    own_place = str(_TABLE)
    own_remedy = (
        "name a release as 2.49 or its container as 24.08, or kserve, dynamo or ray: `tritonlab releases` prints the "
        "releases"
    )

    def __init__(self, text: str) -> None:
        near = difflib.get_close_matches(text, [*_names()], n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        super().__init__(f"'{text}' is not a release of Triton in the table{hint}: {self.own_remedy}")


def releases() -> list[Release]:
    """Return all releases of the table, the oldest first."""
    return [Release(*(Cell(*row[column]) for column in _COLUMNS)) for row in _read()["releases"]]


def features() -> dict[str, Feature]:
    """Return the features of the table by their keys."""
    return {
        row["key"]: Feature(**{**row, "since": Cell(*row["since"]), "lacking": Cell(*row["lacking"])})
        for row in _read()["features"]
    }


def find(text: str) -> Release:
    """Return the release of a version or a container: `2.49`, `2.49.0`, `24.08` or `24.08-py3`.

    Raises UnknownTarget.
    """
    wanted = re.sub(r"(-py3|(?<=\.\d\d)\.0)$", "", text.strip().removeprefix("v"))
    for release in releases():
        if wanted in (release.triton.value, release.container.value):
            return release
    raise UnknownTarget(text)


def find_target(text: str) -> Target:
    """Return the target for a release, or for an engine in the table, such as `kserve`. Raises UnknownTarget."""
    name = text.strip().lower()
    place = _read()["targets"].get(name)
    if place is None:
        return Target(find(text))
    about, shm = Cell(*place["about"]).value, Cell(*place["shm_bytes"]).value
    return Target(find(Cell(*place["container"]).value), about, shm, name)


def table_text(sources: bool = False) -> str:
    """Return the table as text: the releases, then the first release of each feature. `sources`: whether to add the
    source of each cell."""
    return "\n".join(_lines(sources))


def print_table(sources: bool = False, as_json: bool = False) -> None:
    """Print the table of releases: `tritonlab releases`."""
    print(json.dumps(table_facts(), indent=1) if as_json else table_text(sources))


def table_facts() -> dict[str, Any]:
    """Return the table as JSON values, each cell with its source."""
    return dict(_read())


def _lines(sources: bool) -> Iterator[str]:
    rows = [[*_COLUMNS], *([str(getattr(release, name)) for name in _COLUMNS] for release in releases())]
    yield from text_table(rows)
    yield ""
    yield "since  lacking  what"
    for feature in features().values():
        yield f"{feature.since!s:<7}{feature.lacking!s:<9}{feature.name}: otherwise {feature.effect}"
    yield ""
    yield f"Releases after {_read()['verified_until']} are judged by this table and by rules only: none was started."
    if not sources:
        return
    yield ""
    for key, text in _read()["sources"].items():
        yield f"{key}: {text}"
    for release in releases():
        cited = ", ".join(f"{name} {getattr(release, name).source}" for name in _COLUMNS)
        yield f"{release.container}: {cited}"


@cache
def _read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_TABLE.read_bytes())
    return found


def _names() -> Iterator[str]:
    yield from _read()["targets"]
    for release in releases():
        yield from (str(release.triton), str(release.container))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
