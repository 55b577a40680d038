from __future__ import annotations

from pathlib import Path

import pytest

from tests.serving import write_model
from tritonlab.export.releases import UnknownTarget
from tritonlab.export.verify import verification
from tritonlab.export.verify.verification import static_findings, verify

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


def test_releases_are_known_before_a_server_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path / "models", "m", SOURCE, "")
    monkeypatch.setattr(verification._Work, "run", lambda self, who: pytest.fail(f"{who.name} was started"))
    with pytest.raises(UnknownTarget):
        verify(tmp_path, triton="2.51,2.5")
    for nothing in ("", ",", []):
        with pytest.raises(ValueError, match="no release of Triton is named"):
            verify(tmp_path, triton=nothing)


def test_a_target_is_verified_on_its_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path / "models", "m", SOURCE, "")
    monkeypatch.setattr(verification._Work, "run", lambda self, who: {})
    monkeypatch.setattr(verification, "find_docker_judge", lambda release, container: f"no container {container}")
    (verdict,) = verify(tmp_path, triton="kserve").releases
    assert verdict.release == "2.34" and "no wheel has Triton 2.34" in verdict.verdict
    assert "no container 23.05" in verdict.verdict
