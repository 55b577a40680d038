"""The requests that an export was judged by. They are kept with it as golden cases, to be sent again."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from ....exchanges.exchange import Exchange, non_default_settings
from ....exchanges.exchange_file import read_exchange, write_exchange
from ....exchanges.golden import golden_beside


def requests_of(root: Path) -> Path:
    """Return the directory of the requests of an export: in `root` if it has `models/`, otherwise next to it."""
    return root / "requests" if (root / "models").is_dir() else root.with_name(f"{root.name}.requests")


def ship_requests(root: Path, cases: Sequence[Exchange]) -> None:
    """Keep the cases with an export, replacing earlier ones for the same models."""
    place = requests_of(root)
    for model in dict.fromkeys(case.model for case in cases):
        shutil.rmtree(place / model, ignore_errors=True)
    for case in cases:
        write_exchange(case, place)


def shipped_requests(root: Path) -> list[Exchange]:
    """Return the cases kept with an export, and the ones of the golden set next to it, each once."""
    places = [requests_of(root), *(golden_beside(each) for each in (root, root / "models"))]
    cases = [read_exchange(path) for place in places for path in sorted(place.glob("*/*.json"))]
    return list({(case.model, key_of(case), case.name): case for case in cases}.values())


def key_of(case: Exchange) -> str:
    """Return a short text that is equal for equal requests."""
    found = hashlib.sha256(repr((case.model, sorted(non_default_settings(case.request).items()))).encode())
    for name, tensor in sorted(case.request.inputs.items()):
        found.update(repr((name, tensor.datatype.name, tensor.shape)).encode())
        found.update(tensor.data.tobytes())
    return found.hexdigest()[:16]
