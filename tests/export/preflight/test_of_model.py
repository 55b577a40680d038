"""Models that run in the notebook and nowhere else, each with its one sentence; and models that draw none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.serving import write_model
from tritonlab import Server
from tritonlab.core.plain_facts import MOST_LINES
from tritonlab.core.status import ModelError
from tritonlab.export.preflight.finding import Prediction
from tritonlab.export.preflight.judge import judge, preflight, subject_in
from tritonlab.export.repository import export

CONFIG = 'input { name: "IN" data_type: TYPE_FP32 dims: [-1] } output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }'
MODEL = """\
import os
import numpy as np
import triton_python_backend_utils as pb_utils
{head}
class TritonPythonModel:
    def initialize(self, args):
        {initialize}
    def execute(self, requests):
        {execute}
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.zeros(1, "f4"))]) for r in requests]
"""


def source(head: str = "", initialize: str = "pass", execute: str = "pass") -> str:
    return MODEL.format(head=head, initialize=initialize, execute=execute)


#: Section 3's models that ran in the notebook and drew no warning: what they do, and the sentence of each now.
SILENT = {
    "constant": (source(execute="rate = RATE * 2"), "P1", "RATE is used and not defined in the model's own files"),
    "relative": (source(initialize="open('table.txt').close()"), "P3", "it opens {here}/table.txt, outside of its dir"),
    "module": (source("import tools_here"), "P4", "it imports tools_here from {here}/tools_here.py, where a deployed"),
    "absolute": (source(initialize="open('{here}/weights.bin').close()"), "P3", "it opens {here}/weights.bin, outside"),
    "variable": (source(initialize="os.environ['SILENT_HOME']"), "P3", "it reads the environment variable SILENT_HOME"),
    "concat": (source(execute="np.concat([np.zeros(1)])"), "P5", "it uses numpy.concat, which only numpy 2 has"),
    "ipython": (source("import IPython"), "P2", "it imports IPython, which Triton's image does not bring"),
}
#: Models that run anywhere.
SOUND = {
    "plain": source(),
    "beside": source("import beside", "open(os.path.join(os.path.dirname(__file__), 'beside.py')).close()"),
    "defaults": source(initialize="os.environ.get('NOT_SET_AT_ALL', '1'), os.environ.copy(), os.getenv('PATH')"),
    "guarded": source("try:\n    import tomllib\nexcept ImportError:\n    tomllib = None"),
    "caught": source(execute="\n        try:\n            ANY\n        except NameError:\n            pass"),
    "later": source(
        "def helper():\n    return LATER\nLATER = 1\n", execute="[x for x in range(3)]; __file__; helper()"
    ),
    "written": source(initialize="p = os.getcwd() + '/log.txt'; open(p, 'w').close(); open(p).close(); os.unlink(p)"),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the notebook's folder."""
    place = tmp_path_factory.mktemp("notebook")
    for name, text in {"table.txt": "1", "weights.bin": "1", "tools_here.py": "import json\n"}.items():
        (place / name).write_text(text)
    return place


@pytest.fixture(scope="module")
def server(here: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    repository = tmp_path_factory.mktemp("models")
    texts = {
        "default": source(initialize="os.environ.get('SILENT_HOME', '/')"),
        **{name: text for name, (text, _, _) in SILENT.items()},
        **SOUND,
    }
    for name, text in texts.items():
        write_model(repository, name, text.replace("{here}", str(here)), CONFIG)
        (repository / name / "1" / "beside.py").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.setenv("SILENT_HOME", "/somewhere")
        with Server(repository, model_control_mode="none") as server:
            yield server


@pytest.mark.parametrize("name", SILENT)
def test_each_silent_model_draws_one_sentence_with_a_remedy(
    server: Server, here: Path, tmp_path: Path, name: str
) -> None:
    _, row, sentence = SILENT[name]
    report = export(server.model(name), tmp_path / "models")
    (warning,) = report.plan.warnings
    assert warning.startswith(sentence.replace("{here}", str(here))), warning
    assert f"  Attention: {warning}." in str(report).splitlines()
    assert report.preflight is not None and not report.preflight.passed
    found = [finding for finding in report.preflight.findings if finding.outcome is not Prediction.ATTENTION]
    assert [finding.row for finding in found] == [row]
    assert found[0].remedy and found[0].source_line.partition(":")[0].endswith("1/model.py")
    facts = report.to_dict()["models"][0]["preflight"]
    assert facts["findings"][0]["sentence"] in warning or facts["findings"][-1]["sentence"] in warning


def test_no_number_of_files_hides_what_is_to_be_done(server: Server, tmp_path: Path) -> None:
    report = export(server.model("constant"), tmp_path / "models")
    many = replace(report, plan=replace(report.plan, added=tuple(f"{n}/model.py" for n in range(90))))
    lines = repr(many).splitlines()
    assert len(lines) <= MOST_LINES and f"  Attention: {report.plan.warnings[0]}." in lines
    assert "more lines" in repr(many) and f"  {many.commands()[0]}" in lines


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_model_draws_none(server: Server, tmp_path: Path, name: str) -> None:
    assert export(server.model(name), tmp_path / "models").plan.warnings == ()
    assert preflight(server.model(name), "2.51").passed


def test_a_variable_with_a_default_makes_it_differ(server: Server) -> None:
    found = preflight(server.model("default"), "24.12")
    assert ([each.row for each in found.findings], found.outcome) == (["P3"], "differs")


def test_what_is_read_while_requests_are_sent_again_is_found(server: Server, here: Path) -> None:
    model = server.model("constant")

    def replay() -> None:
        with pytest.raises(ModelError):
            model(IN=np.zeros(1, np.float32))

    assert [each.row for each in preflight(model, "24.12", replay=replay).findings] == ["P1"]


def test_the_models_that_it_calls_are_named(tmp_path: Path) -> None:
    write_model(tmp_path, "inner", source(), CONFIG)
    call = "pb_utils.InferenceRequest(model_name='inner', inputs=[], requested_output_names=['OUT']).exec()"
    write_model(tmp_path, "outer", source(execute=call), CONFIG)
    with Server(tmp_path, model_control_mode="none") as server:
        assert preflight(server.model("inner"), "2.51").notes == ()
        (note,) = preflight(server.model("outer"), "2.51").notes
    assert note == "it needs inner, which pre-flight judges by name: %triton preflight NAME"


def test_a_model_that_is_not_loaded_is_judged_by_its_files(server: Server) -> None:
    directory = Path(server.model("ipython").directory)
    found = judge(subject_in(directory), "26.01")
    assert found.findings == ()
    assert found.notes == (
        "Triton 2.65 (26.01) is judged by the release table and rules only: it was not started here",
        "it is not loaded, so what it imports, opens and reads of the environment is not known",
    )
