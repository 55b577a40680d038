"""The button that shows the token of a notebook's ports: the token is in a message to the page, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tritonlab.notebook.shell import server_commands
from tritonlab.notebook.shell.server_commands import TokenButton
from tritonlab.notebook.views import widget


@dataclass
class Ports:
    header_file: str = ""

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": "Bearer secret"} if self.header_file else {}


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(widget, "_display", lambda bundle, **how: found.append(bundle))
    for module in (widget, server_commands):
        monkeypatch.setattr(module, "in_kernel", lambda: True)
    return found


def test_the_token_is_a_message(displayed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    button = TokenButton("/the/file", lambda: "Bearer secret")
    button.show()
    monkeypatch.setattr(button.widget, "send", lambda content, buffers: sent.append(content))
    button.on_message({"do": "something else"})
    assert sent == []
    button.on_message({"do": "show"})
    assert sent == [{"authorization": "Bearer secret"}]
    button.freeze()
    assert "secret" not in str([displayed, button.state, button.widget.get_state(), button.to_dict(), repr(button)])
    assert "/the/file" in displayed[0]["text/html"] and "/the/file" in displayed[0]["text/plain"]


def test_it_is_there_where_a_token_is_needed(displayed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    server_commands._show_token_button(Ports())
    assert displayed == []
    server_commands._show_token_button(Ports("/the/file"))
    assert len(displayed) == 2
    monkeypatch.setattr(server_commands, "in_kernel", lambda: False)
    server_commands._show_token_button(Ports("/the/file"))
    assert len(displayed) == 2
