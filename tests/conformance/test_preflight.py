"""What pre-flight predicts for 2.51, and what the real server does with the same export."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.serving import write_model
from tests.tools.deploy.preflight.test_judge import CONFIG, SILENT, SOUND, source
from tritonlab import Server, export

from .real_client import RealClient

#: The models whose failure needs nothing but another working directory, Python and numpy than the notebook's.
SOURCES = {
    **{name: SILENT[name][0] for name in ("constant", "relative", "module", "variable", "concat")},
    "parameters": source(execute="pb_utils.InferenceResponse([], parameters={'a': 1})"),
    **{name: SOUND[name] for name in ("plain", "guarded", "caught", "later")},
}


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("preflight")
    (place / "here").mkdir()
    for name, text in {"table.txt": "1", "tools_here.py": "import json\n"}.items():
        (place / "here" / name).write_text(text)
    for name, text in SOURCES.items():
        write_model(place / "models", f"preflight_{name}", text, CONFIG)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place / "here")
        patch.setenv("SILENT_HOME", "/somewhere")
        with Server(place / "models", warm=0) as server:
            yield server


@pytest.mark.parametrize("name", SOURCES)
def test_the_real_server_does_what_was_predicted(real: RealClient, notebook: Server, name: str) -> None:
    model = f"preflight_{name}"
    shutil.rmtree(Path(real.repository) / model, ignore_errors=True)
    report = export(notebook.model(model), real.repository, target="2.51")
    assert report.preflight is not None
    failure = real.load(model)
    found = "does not load"
    if failure is None:
        found = "fails" if real.infer(model, {"IN": np.zeros(1, np.float32)}).error else "equal"
    real.unload(model)
    assert report.preflight.outcome == found, (report.preflight, failure)
