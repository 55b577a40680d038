"""The verdict of one judge on all models of an export."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .differences import NOT_SENT, NOT_VERIFIED, WORDS
from .judgement import ModelJudgement


@dataclass(frozen=True)
class ReleaseVerdict:
    """The verdict of one judge. `hidden`: the parts of the author's machine that it did not see; `hidden_words`: the
    same without paths. `is_hidden`: whether that is everything that could be hidden. `problem`: why it did not judge,
    or ended early. `still_open`: differences of an earlier verdict on the same files whose requests were not sent
    again."""

    release: str
    judge: str
    hidden: str = ""
    hidden_words: str = ""
    is_hidden: bool = True
    models: tuple[ModelJudgement, ...] = ()
    problem: str = ""
    seconds: float = 0.0
    restarts: int = 0
    still_open: tuple[str, ...] = ()

    @property
    def verified(self) -> bool:
        return bool(self.models) and not self.problem

    @property
    def passed(self) -> bool:
        return self.verified and not self.still_open and all(model.passed for model in self.models)

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        if not self.verified:
            return f"not verified: {self.problem or 'there are no models'}"
        names = {symbol: [each.name for each in self.models if each.symbol == symbol] for symbol in WORDS}
        open_ones, silent = names[NOT_VERIFIED], names[NOT_SENT]
        bad = [each.name for each in self.models if not each.passed and each.name not in (*open_ones, *silent)]
        count = len(self.models)
        parts = [f"{len(bad)} of {count} models differ: {', '.join(bad)}"] if bad else []
        if open_ones:
            parts.append(f"{len(open_ones)} of {count} models could not be verified: {', '.join(open_ones)}")
        if silent and not any(model.sent for model in self.models):
            loaded = f"{count} model{'s' * (count != 1)} loaded; no request was sent"
            return "; ".join([*parts, loaded, *self.still_open])
        if silent:
            parts.append(f"no request was sent to {len(silent)} of {count} models: {', '.join(silent)}")
        if parts or self.still_open:
            return "; ".join([*parts, *(["nothing else differs"] if not bad else []), *self.still_open])
        requests = [each for model in self.models for each in model.requests]
        failed = sum(model.failed for model in self.models)
        text = f"{count} model{'s' * (count != 1)}, {len(requests)} request{'s' * (len(requests) != 1)}: equal"
        text += f", {failed} of them in an error that the notebook had, too" * bool(failed)
        known = any(finding.known for model in self.models for finding in model.findings)
        return f"{text}, but for known differences of this release" if known else text

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "triton": self.release,
            "judge": self.judge,
            "verified": self.verified,
            "passed": self.passed,
            "verdict": self.verdict,
            "hidden": self.hidden_words or self.hidden,
            "seconds": round(self.seconds, 1),
            "restarts": self.restarts,
            "still_open": list(self.still_open),
            "models": {model.name: model.to_dict() for model in self.models},
        }
