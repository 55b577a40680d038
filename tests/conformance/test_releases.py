"""What pre-flight predicts for two releases of Triton, and what their servers do: a small cut of `make releases`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.long_proofs import long
from tests.releases import PYTHON, Cell, table_of, text_of
from tritonlab.tools.deploy.environment.python_prefix import find_python
from tritonlab.tools.deploy.verify.hiding import find_hiding
from tritonlab.tools.deploy.verify.wheels import CACHE_VARIABLE, find_wheel, unpacked

from .reference import ROOT, missing

if (why := missing()) is not None:
    pytest.skip(f"{why}; the releases here are wheels of the same package", allow_module_level=True)
if find_python(PYTHON) is None:
    pytest.skip(f"this machine has no Python {PYTHON}, as the containers have", allow_module_level=True)
if find_hiding({}).kind != "namespace":
    pytest.skip("there is no mount namespace here, so that absolute paths are not caught", allow_module_level=True)

pytestmark = [long, pytest.mark.timeout(300)]

RELEASES = ("2.51", "2.36")
#: By kind: what every release does, what it lacks, and what only the author's machine has.
NAMES = [
    *("dynamic_batching", "sequence_state", "decoupled", "bytes"),
    *("sender_default", "histogram_metric", "iterative", "cancellation", "response_parameters"),
    *("numpy_2", "other_cell", "absolute_path", "variable"),
]


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Cell]]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(ROOT / "build" / "cache"))
        for release in RELEASES:
            try:
                unpacked(find_wheel(release), print, threading.Event())
            except OSError as error:
                pytest.skip(str(error))
        yield table_of(tmp_path_factory.mktemp("releases"), RELEASES, NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_release_does_what_was_predicted(cells: dict[str, dict[str, Cell]], name: str) -> None:
    assert set(cells[name]) == set(RELEASES)
    assert {release: cell.found for release, cell in cells[name].items()} == {
        release: cell.predicted for release, cell in cells[name].items()
    }, cells[name]


def test_the_cut_has_every_outcome_and_the_table_names_what_was_predicted_wrongly(
    cells: dict[str, dict[str, Cell]], tmp_path: Path
) -> None:
    found = {cell.found for row in cells.values() for cell in row.values()}
    assert found == {"equal", "differs", "does not load"}
    text = text_of({"bytes": {"2.51": Cell("equal", "does not load", "X", "it is gone")}}, ["2.51"])
    assert "**X** (equal was predicted)" in text and "Predicted rightly: 0 of 1." in text
    assert "- bytes on 2.51: equal was predicted, does not load found. it is gone" in text
