"""`tritonlab verify` with two real releases, on models that are equal there, and on models that only work here.

The wheels are fetched once and kept under build/; without an index to fetch them from the tests are skipped.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.models import streams
from tritonlab import Server
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.exchanges.exchange import Exchange
from tritonlab.exchanges.sending import asks_of
from tritonlab.tools.deploy.child_command import Cancelled, CommandFailed
from tritonlab.tools.deploy.own_backends import backends_of
from tritonlab.tools.deploy.verify.hiding import find_hiding
from tritonlab.tools.deploy.verify.verdict import Verification
from tritonlab.tools.deploy.verify.verification import verify
from tritonlab.tools.deploy.verify.wheels import CACHE_VARIABLE, find_wheel, unpacked

from .reference import ROOT, missing

if (why := missing()) is not None:
    pytest.skip(f"{why}; the releases here are wheels of the same package", allow_module_level=True)

pytestmark = pytest.mark.timeout(300)  # the first run fetches 95 MB and builds a Python

CONFIG = """
backend: "python"
max_batch_size: 8
input { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] }
dynamic_batching { }
"""
MODEL = """
import os
import numpy as np
import triton_python_backend_utils as pb_utils
{head}

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", self.one(r))]) for r in requests]

    def one(self, request):
        value = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        return {body}
"""
DECOUPLED = streams("x + n", over="range(3)")
VALUE = Tensor(DataType.FP32, (1, 4), np.arange(4, dtype=np.float32).reshape(1, 4))


def write_models(repository: Path, notebook: Path) -> None:
    """Write models that run here; two of them need the directory `notebook`."""
    notebook.mkdir()
    beside = notebook / "table.txt"
    beside.write_text("2")
    sources = {
        "plain": MODEL.format(head="", body="value * 2"),
        "raises": MODEL.format(head="", body="value / missing_of_another_cell"),
        "path": MODEL.format(head="", body=f"value * float(open({str(beside)!r}).read())"),
        "home": MODEL.format(head="", body=f"value * len(os.listdir({str(notebook)!r}))"),
        "decoupled": DECOUPLED,
    }
    for name, source in sources.items():
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "1" / "model.py").write_text(source)
        more = "model_transaction_policy { decoupled: true }\n" if name == "decoupled" else ""
        (repository / name / "config.pbtxt").write_text(CONFIG + more)
    (repository / "based" / "1").mkdir(parents=True)
    (repository / "based" / "1" / "empty").touch()
    (repository / "based" / "config.pbtxt").write_text(CONFIG.replace('"python"', '"mine"'))
    backend = backends_of(repository) / "mine"
    backend.mkdir(parents=True)
    (backend / "model.py").write_text(MODEL.format(head="import helper", body="value * helper.FACTOR"))
    (backend / "helper.py").write_text("FACTOR = 3\n")


def answered_here(repository: Path) -> list[Exchange]:
    """Return a request to each model, with what our server answers where the models were written, and a wrong one."""
    requests = [InferenceRequest(path.name, {"IN": VALUE}) for path in sorted(repository.iterdir())]
    requests.append(InferenceRequest("plain", {"OTHER": VALUE}))
    with Server(repository, backend_directory=backends_of(repository)) as server:
        send = asks_of(server)
        return [replace(send(each), name="wrong" if "OTHER" in each.inputs else "ok") for each in requests]


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an exported repository whose models run here."""
    scratch = tmp_path_factory.mktemp("export")
    write_models(scratch / "models", scratch / "notebook")
    return scratch / "models"


@pytest.fixture(scope="module", autouse=True)
def cache() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(ROOT / "build" / "cache"))
        for release in ("2.51", "2.36"):
            try:
                unpacked(find_wheel(release), print, threading.Event())
            except CommandFailed as error:
                pytest.skip(str(error))
        yield


@pytest.fixture(scope="module")
def verified(export: Path, cache: None) -> Verification:
    return verify(export, triton="2.51,2.36,2.52", requests=answered_here(export))


def test_each_model_is_judged_by_what_it_does_with_the_authors_machine_hidden(verified: Verification) -> None:
    newest, old, none = verified.releases
    assert newest.verified and old.verified and not none.verified
    symbols = {model.name: model.symbol for model in newest.models}
    if find_hiding({}).kind != "namespace":
        pytest.skip("there is no mount namespace here, so that absolute paths are not caught")
    assert symbols == {"plain": "=", "raises": "?", "decoupled": "=", "path": "D", "home": "D", "based": "="}
    assert {model.name for model in newest.models if not model.passed} == {"path", "home", "raises"}
    (path,) = [model for model in newest.models if model.name == "path"]
    assert "No such file or directory" in str(path.findings[0])
    assert "hidden" in newest.hidden


def test_an_old_release_differs_as_it_is_known_to(verified: Verification) -> None:
    models = {model.name: model for model in verified.releases[1].models}
    assert (models["plain"].symbol, models["decoupled"].symbol) == ("=", "=")
    *known, no_answer = models["raises"].findings
    assert models["raises"].symbol == "D"  # HTTP 400 where 2.51 says 500
    assert known and all(finding.known for finding in known), known
    assert "failed in the notebook, too" in no_answer.text


def test_a_page_and_a_record_are_written_beside_the_repository(verified: Verification, export: Path) -> None:
    page = verified.page.read_text()
    assert verified.page == export.with_name("models.verify.html")
    assert "does not exist" not in page and "No such file or directory" in page and "Triton 2.36" in page
    record = verified.record.read_text()
    assert '"plain/1/model.py"' in record and '"not_verified"' in record and "Triton 2.52" in record
    assert sorted(path.name for path in export.iterdir()) == ["based", "decoupled", "home", "path", "plain", "raises"]


def test_a_cancelled_verification_leaves_nothing(export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cancel, printed = threading.Event(), list[str]()

    def print_line(text: str) -> None:
        printed.append(text)
        if text.startswith("  plain") and any(line.startswith("  Triton 2.51") for line in printed):
            cancel.set()  # the real server runs and has loaded everything

    with pytest.raises(Cancelled):
        verify(
            export,
            requests=[Exchange(InferenceRequest("plain", {"IN": VALUE}), name="ok")],
            say=print_line,
            cancel=cancel,
        )
    prefix = f"tritonlab_verify_{os.getpid()}_"
    assert not [path for path in Path("/dev/shm").iterdir() if path.name.startswith(prefix)]
    assert not _processes_with(prefix)


def _processes_with(text: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        found += [command] if text in command else []
    return found
