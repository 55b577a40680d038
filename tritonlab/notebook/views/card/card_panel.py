"""The panel that a button opens below a model's card."""

from __future__ import annotations

from typing import Any, Protocol

from ..widget import close_widget


class Content(Protocol):
    """A content with a stored form: as text, and as HTML."""

    def text(self) -> str: ...

    def html(self) -> str: ...


class CardPanel:
    """The base of a panel; `widget`, of ipywidgets, is the panel in a browser. It is made once for each card."""

    widget: Any

    def opened(self) -> None:
        """Called each time before the button shows the panel."""

    @property
    def content(self) -> Content | None:
        """The content that the stored form of the card shows below its facts; None for nothing."""
        return None

    def close(self) -> None:
        """End the live form."""
        close_widget(self.widget)
