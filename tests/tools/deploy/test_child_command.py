from __future__ import annotations

import threading

import pytest

from tritonlab.tools.deploy.child_command import Cancelled, run_command


def test_a_command_prints_no_colours_although_jupyter_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip answered `--report -` with escape sequences in its JSON, so that no environment was made in a notebook."""
    for name in ("FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("KEPT", "1")
    printed = run_command(["env"], cancel=threading.Event())
    assert "KEPT=1" in printed and "COLOR" not in printed


def test_lines_are_reported_while_the_command_runs() -> None:
    lines: list[str] = []
    cancel = threading.Event()

    def hear(line: str) -> None:
        lines.append(line)
        cancel.set()  # it has not ended

    with pytest.raises(Cancelled):
        run_command(["sh", "-c", "echo one; exec sleep 60"], cancel=cancel, printed=hear)
    assert lines == ["one"]
