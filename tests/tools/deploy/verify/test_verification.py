from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from tests.serving import write_model
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.status import TritonError
from tritonlab.exchanges.exchange import Exchange
from tritonlab.tools.deploy.releases import UnknownTarget
from tritonlab.tools.deploy.verify import verification
from tritonlab.tools.deploy.verify.judgement import judge
from tritonlab.tools.deploy.verify.judges import WheelJudge
from tritonlab.tools.deploy.verify.release_verdict import ReleaseVerdict
from tritonlab.tools.deploy.verify.replayed_requests import ALONE, ModelAnswers
from tritonlab.tools.deploy.verify.shipped_requests import shipped_requests
from tritonlab.tools.deploy.verify.verdict_history import VerdictHistory
from tritonlab.tools.deploy.verify.verification import static_findings, verify

SOURCE = "import triton_python_backend_utils as pb_utils\nmaker = pb_utils.MetricFamily\n"
ENVIRONMENT = 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env" } }'


def test_what_no_server_can_judge_is_judged_by_its_files(tmp_path: Path) -> None:
    write_model(tmp_path, "early", SOURCE, "")
    write_model(tmp_path, "bare", "", ENVIRONMENT)
    write_model(tmp_path, "odd", "", "no config")
    write_model(tmp_path, "pipe", "", ENVIRONMENT)
    os.mkfifo(tmp_path / "pipe" / "env")
    found = static_findings(tmp_path, ["early", "bare", "odd", "pipe"], "2.33")
    assert [text.partition(":")[0] for text in found] == ["early", "bare", "odd", "pipe", "pipe"]
    assert found[3] == "pipe: its environment, env, is not in its directory"
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


def test_a_model_that_does_not_load_does_not_lack_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"bad": ModelAnswers("bad", "ValueError"), "idle": ModelAnswers("idle")}
    for name in answers:
        write_model(tmp_path / "models", name, SOURCE, "")
    monkeypatch.setattr(verification._Work, "run", lambda self, who: answers)
    judge_of = SimpleNamespace(name="wheel", release="2.51")
    monkeypatch.setattr(verification, "_judge_for", lambda release, python, lock, work: judge_of)
    found = verify(tmp_path)
    assert [text.partition(":")[0] for text in found.not_verified] == ["no request was sent to idle"]
    assert "1 of 2 models differ: bad" in found.releases[0].verdict


@pytest.mark.parametrize("first", ["", "models"])
@pytest.mark.parametrize("then", ["", "models"])
def test_an_export_has_one_record_by_whichever_directory_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, then: str
) -> None:
    write_model(tmp_path / "models", "m", SOURCE, "")
    monkeypatch.setattr(verification._Work, "run", lambda self, who: {"m": ModelAnswers("m")})
    judge_of = SimpleNamespace(name="wheel", release="2.51")
    monkeypatch.setattr(verification, "_judge_for", lambda release, python, lock, work: judge_of)
    case = Exchange(InferenceRequest("m", {}), name="one", error=TritonError("no"))
    place = verify(tmp_path / first, requests=[case]).record
    sent: list[Exchange] = []

    def answer_here(work: verification._Work) -> tuple[dict[str, ModelAnswers], str]:
        sent.extend(work.cases)
        return {}, ""

    monkeypatch.setattr(verification, "_ask_here", answer_here)
    monkeypatch.setattr(verification._Work, "verdict", lambda self, who, ours, place: ReleaseVerdict("2.51", "wheel"))
    again = verify(tmp_path / then)
    assert [each.name for each in sent] == ["one"]
    assert again.record == place and len(again.earlier) == 1


def test_what_lies_beside_the_models_is_copied_with_them(tmp_path: Path) -> None:
    write_model(tmp_path, "m", SOURCE, "")
    for folder in ("shared", ".git", "__pycache__"):
        (tmp_path / folder).mkdir()
    (tmp_path / "shared.txt").write_text("1")
    work = verification._Work(["m"], [], 1, print, threading.Event(), models=tmp_path, hide={}, open_findings={})
    assert [path.name for path in work._entries()] == ["m", "shared", "shared.txt"]


def test_a_link_beside_the_models_stays_a_link(tmp_path: Path) -> None:
    models, home = tmp_path / "models", tmp_path / "home"
    write_model(models, "m", SOURCE, "")
    home.mkdir()
    (home / "key").write_text("secret")
    (models / "home").symlink_to(home)
    (models / "key").symlink_to(home / "key")
    (models / "alias").symlink_to("m")
    seen = {}

    class Hiding:
        kind = ""

        def place(self, name: str, path: Path) -> str:
            seen.update({each.name: each.is_symlink() for each in path.iterdir()})
            raise KeyboardInterrupt

    work = verification._Work(["m"], [], 1, print, threading.Event(), models=models, hide={}, open_findings={})
    with pytest.raises(KeyboardInterrupt):
        work.run(mock.Mock(hiding=Hiding))
    assert seen == {"m": False, "home": True, "key": True, "alias": False}


@pytest.mark.parametrize(
    ("path", "is_advised"), [("m/1/../../shared.txt", True), ("shared.txt", True), ("m/1/gone.txt", False)]
)
def test_a_file_that_is_missing_beside_the_model_is_named(path: str, is_advised: bool) -> None:
    problem = f"FileNotFoundError: [Errno 2] No such file or directory: '/mnt/models/{path}'"
    there, here = ModelAnswers("m", problem), ModelAnswers("m", "the same")
    (found,) = judge(here, there, [], release="2.51", places=("/x", "/mnt/models")).findings
    advice = "<repository>/shared.txt lies beside the model directory and was not exported with it: copy it there"
    assert (advice in found.text) is is_advised, found.text


def test_a_backend_that_only_the_container_has_is_no_difference() -> None:
    who = WheelJudge("2.51", files=None, python=None, hide={})  # type: ignore[arg-type]
    refused = Exchange(InferenceRequest("outer", {}), error=TritonError("Model 'user' is not ready."))
    text = "version 1 is at UNAVAILABLE state: Invalid argument: unable to find backend library for backend"
    found = {
        "net": ModelAnswers("net", f"{text} 'onnxruntime', try specifying runtime on the model configuration.;"),
        "bad": ModelAnswers("bad", "ValueError"),
        "user": ModelAnswers("user"),
        "outer": ModelAnswers("outer", answers={(ALONE, "golden"): [refused]}),
        "other": ModelAnswers("other", answers={(ALONE, "golden"): [replace(refused, error=None)]}),
    }
    verification._explain_backends(who, found, {"user": {"net"}})
    judged = [judge(ModelAnswers(name), found[name], [], release="2.51", places=("", "")) for name in found]
    assert [each.symbol for each in judged] == ["?", "X", "?", "?", "0"]
    assert "it calls 'user', which could not be verified: it calls 'net', which" in str(judged[3].findings[0])
    assert "has Python's backend only, and 'onnxruntime' is needed: its container has more" in str(
        judged[0].findings[0]
    )


def test_a_stub_of_another_release_is_refused_before_a_server_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(tmp_path, "m", SOURCE, "", triton_python_backend_stub="of another release")
    files = SimpleNamespace(compiled=lambda stub: False)
    who = WheelJudge("2.50", files=files, python=None, hide={})  # type: ignore[arg-type]
    monkeypatch.setattr(WheelJudge, "hiding", lambda self: SimpleNamespace())
    monkeypatch.setattr(WheelJudge, "start", lambda *arguments: pytest.fail("a server was started"))
    work = verification._Work(["m"], [], 1, print, threading.Event(), models=tmp_path, hide={}, open_findings={})
    problem = work.run(who)["m"].problem
    assert "was not compiled for Triton 2.50, and it was not tried" in problem and "--target 2.50" in problem
    files.compiled = lambda stub: True
    assert work._foreign_stubs(who) == {}


def test_one_problem_is_printed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path / "models", "m", SOURCE, "")
    monkeypatch.setattr(verification._Work, "run", lambda self, who: {})
    monkeypatch.setattr(verification, "find_docker_judge", lambda release, container: "no container")
    assert str(verify(tmp_path, triton="2.60")).count("no container") == 1


ENSEMBLE = {"ensemble_scheduling": {"step": [{"model_name": "step"}]}}


@pytest.mark.parametrize(("error", "symbol"), [(None, "="), (TritonError("no"), "0")])
def test_a_step_is_reached_only_by_requests_that_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: TritonError | None, symbol: str
) -> None:
    sent = Exchange(InferenceRequest("whole", {}), error=error)
    found = {"whole": ModelAnswers("whole", config=ENSEMBLE, answers={(ALONE, "one"): [sent]})}
    found["step"] = ModelAnswers("step")
    who = SimpleNamespace(name="wheel", release="2.51")
    monkeypatch.setattr(verification._Work, "run", lambda self, who: found)
    work = verification._Work(list(found), [], 1, print, threading.Event(), tmp_path, {}, {})
    verdict = work.verdict(who, found, "")  # type: ignore[arg-type]
    assert [each.symbol for each in verdict.models if each.name == "step"] == [symbol]


def test_requests_of_one_name_are_judged_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path / "models", "m", SOURCE, "")
    seen: list[str] = []

    def run(self: verification._Work, who: object) -> dict[str, ModelAnswers]:
        seen[:] = [case.name for case in self.cases]
        return {"m": ModelAnswers("m")}

    monkeypatch.setattr(verification._Work, "run", run)
    judge_of = SimpleNamespace(name="wheel", release="2.51")
    monkeypatch.setattr(verification, "_judge_for", lambda release, python, lock, work: judge_of)
    cases = [Exchange(InferenceRequest("m", {}, request_id=name), name=name[0]) for name in ("a1", "a2", "b", "a3")]
    verify(tmp_path, requests=cases)
    assert seen == ["a", "a-2", "b", "a-3"]
    assert {case.name for case in shipped_requests(tmp_path)} == {*seen}


def test_a_verdict_is_on_its_files_also_with_a_link_to_the_author_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(tmp_path / "models", "m", SOURCE, "")
    (tmp_path / "home").mkdir()
    (tmp_path / "models" / "m" / "1" / "weights").symlink_to(tmp_path / "home" / "weights")
    found = {"m": ModelAnswers("m", not_judged=f"no {tmp_path / 'home'}")}
    monkeypatch.setattr(verification._Work, "run", lambda self, who: found)
    judge_of = SimpleNamespace(name="wheel", release="2.51")
    monkeypatch.setattr(verification, "_judge_for", lambda release, python, lock, work: judge_of)
    record = verify(tmp_path, hide=[tmp_path / "home"]).record
    assert VerdictHistory(tmp_path, tmp_path / "models").is_current
    text = json.dumps({**json.loads(record.read_text()), "files": {}})
    assert str(tmp_path / "home") not in text and "no <hidden>" in text
