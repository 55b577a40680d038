"""The form of a push: what it shows while it runs, its result, and Undo."""

from __future__ import annotations

from typing import Any

import pytest

from tritonlab.core.status import UnavailableError
from tritonlab.tools.capture.push import push_panel
from tritonlab.tools.capture.push.push_panel import PushPanel
from tritonlab.tools.capture.push.push_result import Push, PushState, TargetResult


class FakeServer:
    """A server to which a push succeeds."""

    def __init__(self) -> None:
        self.proofs: list[Any] = []
        self.is_open = True

    def push(self, model: Any, *, proof: Any, say: Any) -> Push:
        self.proofs.append(proof)
        say("load …")
        target = TargetResult("gRPC", "there:8001", "version 1", PushState.PROVED)
        return Push("m", "mark", (target,), ("a note",), lambda: setattr(target, "state", PushState.UNDONE))

    def close(self) -> None:
        self.is_open = False


class FakeModel:
    name = "m"


def test_push_and_undo(monkeypatch: pytest.MonkeyPatch) -> None:
    server, results = FakeServer(), []

    def connect(address: str) -> FakeServer:
        if address != "there:8001":
            raise UnavailableError(f"no server answers at {address}")
        return server

    monkeypatch.setattr(push_panel, "connect", connect)
    panel = PushPanel(FakeModel(), lambda: results.append(panel.content))  # type: ignore[arg-type]

    def output() -> str:
        panel.wait(30)
        return str(panel.output.outputs[0]["data"]["text/plain"])

    panel.push_button.click()
    assert output().startswith("name the server: host:port")
    panel.address.value = "nowhere:1"
    panel.push_button.click()
    assert output() == "no server answers at nowhere:1" and panel.undo_button.layout.display == "none"
    panel.address.value = " there:8001 "
    panel.proof.value = "last"
    panel.push_button.click()
    assert output() == "m -> gRPC there:8001: pushed and proved\na note"
    assert (server.proofs, panel.undo_button.layout.display, len(results)) == (["last"], "", 1)
    panel.address.value = "nowhere:1"
    panel.push_button.click()
    assert output() == "no server answers at nowhere:1" and server.is_open  # for Undo
    panel.undo_button.click()
    assert "undone; the former model serves again" in output() and panel.undo_button.layout.display == "none"
    panel.close()
    assert not server.is_open and not panel.push_button.disabled
