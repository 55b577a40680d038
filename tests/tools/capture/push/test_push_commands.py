"""`tritonlab push` and `%triton push`: their options, output and exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.models import answers
from tests.serving import config
from tritonlab.__main__ import main
from tritonlab.core.status import UnsupportedError
from tritonlab.exchanges.golden import GoldenSet
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.notebook.shell.subcommand import Context
from tritonlab.tools.capture.push import push_commands
from tritonlab.tools.capture.push.push_result import Push, PushState, TargetResult


class Elsewhere:
    """Servers to which pushes end as `states` say, one after the other. `seen`: how they were called."""

    def __init__(self, *states: PushState) -> None:
        self.states = list(states)
        self.seen: list[Any] = []
        self.closed = 0

    def __enter__(self) -> Elsewhere:
        return self

    def __exit__(self, *error: object) -> None:
        self.closed += 1

    def connect(self, address: str, **options: Any) -> Elsewhere:
        options.pop("advise")
        self.seen.append((address, options))
        return self

    def push(self, model: Any, *, targets: Any, proof: Any, say: Any) -> Push:
        self.seen.append((model.name, len(targets), proof))
        say("load …")
        return Push(model.name, "mark", (TargetResult("HTTP", "one:1", state=self.states.pop(0)),), (), lambda: None)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / "models" / name / "1").mkdir(parents=True)
        (tmp_path / "models" / name / "1" / "model.py").write_text(answers("x"))
        (tmp_path / "models" / name / "config.pbtxt").write_text(config("IN INT32 1", "OUT INT32 1"))
    return tmp_path / "models"


def test_the_command_line(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = Elsewhere(PushState.PROVED, PushState.UNDONE, PushState.LOADED)
    monkeypatch.setattr(push_commands, "connect", there.connect)
    (tmp_path / "token").write_text("authorization: Bearer abc\n")
    words = ["push", str(repository), "one:1", "two:2", "--token-file", str(tmp_path / "token"), "--ca", "ca.pem"]
    assert main([*words, "--json"]) == 1
    assert [address for address, *_ in there.seen] == ["one:1", "two:2", "a", "b"]
    assert there.seen[0][1] == {"token": "abc", "ca": "ca.pem"} and there.closed == 2
    name, others, proof = there.seen[2]
    assert (name, others) == ("a", 1) and isinstance(proof, GoldenSet)
    assert proof.directory == tmp_path / "models.golden"
    captured = capsys.readouterr()
    assert [each["ok"] for each in json.loads(captured.out)] == [True, False] and "load …" in captured.err
    assert main(["push", str(repository), "one:1", "--model", "b", "--proof", "none"]) == 0
    assert there.seen[-1] == ("b", 0, False) and "loaded; no request was sent" in capsys.readouterr().out
    assert main(["push", str(tmp_path / "none"), "one:1"]) == 2
    assert "is not a model repository" in capsys.readouterr().err


def test_what_was_pushed_before_an_error_is_printed(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = Elsewhere(PushState.PROVED)
    push = there.push

    def push_one(model: Any, **options: Any) -> Push:
        if model.name == "b":
            raise UnsupportedError("'b' was not pushed")
        return push(model, **options)

    monkeypatch.setattr(there, "push", push_one)
    monkeypatch.setattr(push_commands, "connect", there.connect)
    assert main(["push", str(repository), "one:1", "--json"]) == 1
    captured = capsys.readouterr()
    assert [each["model"] for each in json.loads(captured.out)] == ["a"] and "'b' was not pushed" in captured.err


def test_the_magic(workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    there = Elsewhere(PushState.PROVED)
    monkeypatch.setattr(push_commands, "connect", there.connect)
    workspace.load("a", answers("x"), config=config("IN INT32 1", "OUT INT32 1"))
    result = push_commands.push(Context(None, workspace), "a", ["one:1"], proof="last", server_name="x")
    assert result.ok and there.seen == [("one:1", {"token": "", "server_name": "x"}), ("a", 0, "last")]
    assert capsys.readouterr().out == "load …\n"


@pytest.mark.parametrize("text", ["abc", "Bearer abc\n", "authorization: Bearer abc", "Authorization: bearer  abc"])
def test_a_file_has_the_token_or_the_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "token").write_text(text)
    there = Elsewhere()
    monkeypatch.setattr(push_commands, "connect", there.connect)
    push_commands._connect_all(["one:1"], token_file=str(tmp_path / "token"))
    assert there.seen == [("one:1", {"token": "abc"})]
