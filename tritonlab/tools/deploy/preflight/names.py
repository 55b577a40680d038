"""P1: names that the model's files use but do not define, such as names from other cells."""

from __future__ import annotations

from collections.abc import Iterator

from ....core.source.undefined_names import undefined_names
from .finding import Finding, Prediction
from .subject import Subject


def names_of_other_cells(subject: Subject) -> Iterator[Finding]:
    """Yield the names without a definition, one finding for each file."""
    for source in subject.sources:
        names = undefined_names(source)
        if not names:
            continue
        (first, line), *_ = names.items()
        listed = ", ".join(names)
        plural = len(names) > 1
        yield Finding(
            row="P1",
            sentence=f"{listed} {'are' if plural else 'is'} used and not defined in the model's own files, so a "
            f"request that comes to {first} fails with NameError",
            remedy=f"define {'them' if plural else 'it'} in the model's cell; --capture writes what other cells define "
            "in front of the model",
            source_line=f"{source.path}:{line}",
            outcome=Prediction.FAILS,
        )
