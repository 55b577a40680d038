from __future__ import annotations

from pathlib import Path

from tests.serving import write_model
from tritonlab.export.verify.verification import static_findings

SOURCE = "import triton_python_backend_utils as pb_utils\nmaker = pb_utils.MetricFamily\n"
ENVIRONMENT = 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env" } }'


def test_what_no_server_can_judge_is_judged_by_its_files(tmp_path: Path) -> None:
    write_model(tmp_path, "early", SOURCE, "")
    write_model(tmp_path, "bare", "", ENVIRONMENT)
    write_model(tmp_path, "odd", "", "no config")
    found = static_findings(tmp_path, ["early", "bare", "odd"], "2.33")
    assert [text.partition(":")[0] for text in found] == ["early", "bare", "odd"]
    assert "MetricFamily" in found[0]
    assert found[1] == "bare: its environment, env, is not in its directory"
    assert static_findings(tmp_path, ["early"], "2.51") == []
