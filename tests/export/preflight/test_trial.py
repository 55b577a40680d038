"""Models that work in the notebook only are named, and models that work anywhere are not accused, after they were tried
in processes of pre-flight's own. All are tried together; those that are left for `make exam` only there."""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.export.preflight.corpus import CONFIG, QUICK, RIGHT, TRAPS, write_files
from tests.serving import write_model
from tritonlab import Server
from tritonlab.clients.golden import GoldenCase
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.tensor import Tensor
from tritonlab.export.preflight.finding import Prediction, Preflight
from tritonlab.export.preflight.judge import preflight
from tritonlab.export.preflight.trial import try_models

X = Tensor(DataType.FP32, (2,), np.array([1, 2], np.float32))
_IS_EXAM = "TRITONLAB_EXAM" in os.environ
CHOSEN = tuple(TRAPS) if _IS_EXAM else QUICK
#: What depends on the target only: it may have the address, or the program.
_DEPENDS = {"url"}


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None: ...


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield what stands for `{here}` and others in the sources; the notebook's folder is the working directory."""
    here, home = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("home")
    write_files(here, home, slow=_IS_EXAM)
    etc = next(f"/etc/{name}" for name in ("adduser.conf", "bash.bashrc", "pam.conf") if Path(f"/etc/{name}").exists())
    temporary = tmp_path_factory.mktemp("tmp")
    (temporary / "tritonlab_a42.txt").write_text("2")
    variables = {"HOME": str(home), "TMPDIR": str(temporary), "TRAP_K": "2", "TRAP_L": "2", "TRAP_M": "2"}
    with pytest.MonkeyPatch.context() as patch, http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        patch.chdir(here)
        for name, value in variables.items():
            patch.setenv(name, value)
        yield {"here": str(here), "etc": etc, "port": str(web.server_address[1]), "top": "/" + here.parts[1]}
        web.shutdown()


@pytest.fixture(scope="module")
def found(places: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Preflight]:
    """Return what pre-flight finds of each model of the corpus."""
    repository = tmp_path_factory.mktemp("models")
    codes = {f"trap_{name}": TRAPS[name] for name in CHOSEN} | {f"right_{name}": RIGHT[name] for name in RIGHT}
    for name, code in codes.items():
        write_model(repository, name, code.source(**places), CONFIG)
    with Server(repository) as server:
        models = [server.model(name) for name in codes]
        cases = [GoldenCase(name, "one", {"X": X}, {}) for name in codes]
        trials = try_models(models, cases)
        return {model.name: preflight(model, "24.12", trial=trials[model.name]) for model in models}


@pytest.mark.parametrize("name", CHOSEN)
def test_a_trap_is_named(found: dict[str, Preflight], places: dict[str, str], name: str) -> None:
    named = TRAPS[name].named.format(**places)
    findings = [each for each in found[f"trap_{name}"].findings if named in each.sentence]
    assert findings, found[f"trap_{name}"]
    assert any(each.outcome is not Prediction.ATTENTION for each in findings) or name in _DEPENDS, findings


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_model_is_not_accused(found: dict[str, Preflight], name: str) -> None:
    assert found[f"right_{name}"].passed, found[f"right_{name}"]
