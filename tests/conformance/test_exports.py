"""Exports whose config is the author's text with fields added to it: the real server reads them as ours does."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.notebook.authoring.test_base_model import SOURCE as HINTED
from tritonlab import Server, export
from tritonlab.kernel_modules import BASE_FILE
from tritonlab.notebook.authoring.workspace import Workspace

from .clients import Failure
from .lab_client import LabClient
from .models import model
from .real_client import RealClient
from .rules import rule

#: Completes whatever it is given.
SOURCE = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(4)
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]})
        config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [-1]})
        config.set_dynamic_batching()
        config.set_model_transaction_policy({"decoupled": False})
        return config

    def execute(self, requests):
        return [pb_utils.InferenceResponse([]) for request in requests]
"""

TEXTS = {
    "nothing": "",
    "comments": "# what it is for",
    "default_value": "max_batch_size: 0  # for now\n",
    "groups": 'name: "exported_groups"\nbackend: "python"\ninstance_group [ { count: 2, kind: KIND_CPU }, { } ]  # 3\n',
    "own_batcher": "max_batch_size: 4\ndynamic_batching { max_queue_delay_microseconds: 5 }\n",
    "own_input": "input [ { name: 'IN', data_type: TYPE_FP32, dims: [ -1 ] } ]\r\n# as in the notebook\r\n",
    "optimized": "optimization { priority: PRIORITY_MAX }\nparameters { key: 'a' value { string_value: '# b' } }",
    "within": "# gone\ninput { name: 'IN' }\n",
}


@rule("5.1.1", "5.1.3", "5.1.4", "2.4.6")
@pytest.mark.parametrize("case", TEXTS)
def test_the_real_server_reads_an_export_as_ours_reads_the_model(real: RealClient, lab: LabClient, case: str) -> None:
    name = f"exported_{case}"
    assert lab.placed(name, model(SOURCE, TEXTS[case])) is None
    shutil.rmtree(real.repository / name, ignore_errors=True)
    report = export(lab.server.model(name), real.repository)
    written = (real.repository / name / "config.pbtxt").read_bytes().decode()
    assert written.startswith(TEXTS[case]) is (case != "within")
    assert bool(report.plan.warnings) is (case == "within")
    assert real.load(name) is None
    ours, theirs = lab.config(name), real.config(name)
    for config in (ours, theirs):
        assert not isinstance(config, Failure)
    assert theirs == ours
    for client in (real, lab):
        client.unload(name)


def test_the_real_server_takes_the_config_of_type_hints(real: RealClient, tmp_path: Path) -> None:
    name = "exported_hinted"
    with Server(tmp_path, model_control_mode="explicit") as server:
        hinted = Workspace(server, tmp_path).load(name, HINTED)
        ours = hinted.config()
        shutil.rmtree(real.repository / name, ignore_errors=True)
        (real.repository / name / "1").mkdir(parents=True)
        for file in ("model.py", BASE_FILE.name):  # without a config, which the class completes there as well
            shutil.copy(Path(hinted.directory) / "1" / file, real.repository / name / "1" / file)
        (real.repository / name / "config.pbtxt").write_text('backend: "python"')
        assert real.load(name) is None
        theirs = real.config(name)
        row = np.arange(4, dtype=np.float32).reshape(1, 4)
        answers = [real.infer(name, inputs) for inputs in ({"A": row, "B": row}, {"A": row}, {"A": -row})]
        real.unload(name)
    assert not isinstance(theirs, Failure)
    for field in ("max_batch_size", "input", "output"):
        assert theirs[field] == ours[field]
    assert [each.outputs["SUM"].tolist() for each in answers[:2]] == [(row * 2).tolist(), row.tolist()]
    assert "it is negative" in str(answers[2].error)
