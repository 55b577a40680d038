"""Pre-flight: what of a model will not work at the place where it is to run, found before it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..releases import Target, find_target
from .engines import notes_of, on_the_engine
from .features import missing_features
from .finding import Finding, Preflight, in_order
from .names import names_of_other_cells
from .places import mode_bits, name_of_the_model, secrets_and_clutter, shared_memory
from .reads import files_and_variables, modules_beside_the_notebook, third_party_imports
from .relocatable import relocatable
from .subject import Subject
from .versions import numpy_of_the_target, python_of_the_target

#: The target where none is named: the release whose container an export's report starts.
DEFAULT_TARGET = "2.51"

#: Each row, and what finds it.
ROWS: dict[str, Callable[[Subject, Target], Iterator[Finding]]] = {
    "P1": lambda subject, target: names_of_other_cells(subject),
    "P2": lambda subject, target: third_party_imports(subject),
    "P3": lambda subject, target: files_and_variables(subject),
    "P4": lambda subject, target: modules_beside_the_notebook(subject),
    "P5": lambda subject, target: numpy_of_the_target(subject, target.release),
    "P6": lambda subject, target: python_of_the_target(subject, target.release),
    "P7": lambda subject, target: missing_features(subject, target.release),
    "P8": shared_memory,
    "P9": lambda subject, target: relocatable(subject, target.release),
    "P10": lambda subject, target: secrets_and_clutter(subject),
    "P11": lambda subject, target: mode_bits(subject),
    "P12": on_the_engine,
    "P13": lambda subject, target: name_of_the_model(subject),
}
#: The rows that judge by a release of Triton, of which an engine that serves with tritonlab has none.
_OF_RELEASES = ("P5", "P6", "P7", "P9", "P13")


def judge(subject: Subject, target: str | Target = DEFAULT_TARGET) -> Preflight:
    """Return what pre-flight finds of a model for a target: a release as 2.49, its container as 24.08, or kserve,
    dynamo or ray.

    Raises UnknownTarget.
    """
    place = find_target(target) if isinstance(target, str) else target
    rows = [row for name, row in ROWS.items() if place.is_triton or name not in _OF_RELEASES]
    found = in_order(finding for row in rows for finding in row(subject, place))
    return Preflight(subject.name, str(place), found, tuple(_notes(subject, place)))


def _notes(subject: Subject, target: Target) -> Iterator[str]:
    yield from notes_of(target.engine)
    if target.is_triton and not target.release.is_started:
        yield f"Triton {target.release} is judged by the release table and rules only: it was not started here"
    if subject.sources and not subject.reads:
        yield "it is not loaded, so what it imports, opens and reads of the environment is not known"
    unparsed = [source.path for source in subject.sources if source.tree is None]
    if unparsed:
        yield f"{', '.join(unparsed)} could not be read as Python and was not looked at"
