"""The button that shows the token of a notebook's ports.

The output of a cell and the state of its widgets are saved with the notebook, in a file that others may read. So the
token is sent to the page as a message when the button is pressed, and is never saved with the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from ..widget import LiveView, in_kernel

if TYPE_CHECKING:
    from ....frontends.endpoints import Endpoints


class TokenButton(LiveView):
    """The button, and access to the token. `authorization` returns the value of the header that clients send."""

    MODULE = "token.js"

    def __init__(self, file: str, authorization: Callable[[], str]) -> None:
        self._file = file
        self._authorization = authorization
        super().__init__()

    def text(self) -> str:
        return f"the token is in {self._file}, which only its owner can read"

    def html(self) -> str:
        return f"<div class='tl-dim'>{escape(self.text())}</div>"

    def on_message(self, content: Mapping[str, Any]) -> None:
        """Send the token to the requesting page."""
        if content.get("do") == "show":
            self.send({"authorization": self._authorization()})


def show_token_button(endpoints: Endpoints) -> None:
    """Show the button below a cell, if clients need a token; a terminal has no buttons."""
    if endpoints.header_file and in_kernel():
        TokenButton(endpoints.header_file, lambda: endpoints.headers.get("authorization", "")).show()
