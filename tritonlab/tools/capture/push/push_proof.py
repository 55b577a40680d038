"""The requests that prove a push, with the answers that they must have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ....exchanges.exchange import Exchange
from ....exchanges.golden import Ask, GoldenReport, GoldenSet, check_cases
from ....exchanges.last_cases import answered_cases
from ....server.api.model import Model
from ..capture_file import Capture

#: The value of `proof` for the last requests to the model here.
LAST = "last"


@dataclass(frozen=True)
class PushProof:
    """Requests with their answers. `title`: their source. `check`: sends them and compares. `left_out`: how many of
    their source cannot be sent or compared."""

    title: str
    cases: Sequence[Exchange]
    check: Callable[[Ask], GoldenReport]
    left_out: int = 0

    @staticmethod
    def from_option(model: Model, proof: Any) -> PushProof:
        """Return the proof that the option `proof` of `RemoteServer.push` names. Raises OSError and ValueError for a
        path that is neither a golden set nor a capture."""
        if proof is False:
            return _of_cases("nothing", [])
        if proof == LAST:
            return _of_cases("last", list(answered_cases([model])))
        if proof is None or isinstance(proof, GoldenSet):
            return _of_golden(proof or GoldenSet(), model.name)
        if not isinstance(proof, Capture):
            path = Path(proof).expanduser()
            if path.is_dir():
                return _of_golden(GoldenSet(path), model.name)
            proof = Capture(path)
        captured = [each for each in proof if each.exchange.model == model.name]
        whole = [each.exchange for each in captured if not each.withheld]
        found = _of_cases("captured", whole)
        return PushProof(found.title, found.cases, found.check, found.left_out + len(captured) - len(whole))


def _of_golden(golden: GoldenSet, name: str) -> PushProof:
    return PushProof("golden", golden.cases(name), partial(golden.check, model=name))


def _of_cases(title: str, cases: Sequence[Exchange]) -> PushProof:
    usable = [case for case in cases if not case.unsent and not case.unanswered and case.has_answer]
    return PushProof(title, usable, partial(check_cases, usable), len(cases) - len(usable))
