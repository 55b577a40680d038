"""`SendButtons`, the playground's Send, Send N and Cancel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MOST_IN_FLIGHT = 4096


class SendButtons:
    """A button for one request, one for as many as `count`, and one that cancels them. Either the first two can be
    pressed or the last one.
    """

    def __init__(self, widgets: Any, press: Callable[[int], None], cancel: Callable[[], None]) -> None:
        layout = widgets.Layout
        self.send = widgets.Button(description="Send", button_style="primary", layout=layout(width="88px"))
        self.many = widgets.Button(description="Send N", layout=layout(width="88px"))
        self.count = widgets.BoundedIntText(
            value=32,
            min=1,
            max=MOST_IN_FLIGHT,
            description=f"N, at most {MOST_IN_FLIGHT:,}",
            tooltip="Requests of Send N, all in flight at once",
            layout=layout(width="auto", margin="2px 12px 2px 0"),
            style={"description_width": "initial"},
        )
        self.cancel = widgets.Button(description="Cancel", disabled=True, layout=layout(width="88px"))
        self.send.tooltip = "Ctrl+Enter in any field"
        self.many.tooltip = "N requests in flight at once"
        self.cancel.tooltip = "Request cancellation; press again to stop waiting"
        self.send.on_click(lambda _: press(1))
        self.many.on_click(lambda _: press(self.count.value))
        self.cancel.on_click(lambda _: cancel())
        row = [self.send, self.many, self.count, self.cancel]
        self.box = widgets.HBox(row, layout=layout(align_items="center", flex_flow="row wrap"))

    def enable(self, ready: bool) -> None:
        """Enable the first two if `ready`, or only Cancel while a request is in flight."""
        self.send.disabled = self.many.disabled = not ready
        self.cancel.disabled = ready
