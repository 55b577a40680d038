"""The printed and logged lines of a model, folded up below a card or a response."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ....core.quoting import magic_line
from ....ipc.processes.stub_log import LogRecord

_SHOWN = 200


def log_lines_html(records: Sequence[LogRecord], model: str, when: str = "", *, opened: bool) -> str:
    """Return the last lines under a summary that counts them; empty if there are none. `when` ends the summary."""
    if not records:
        return ""
    count = len(records)
    lines = [
        f"<div class='tl-{record.stream} tl-{record.level.lower()}'>{escape(record.text) or '&nbsp;'}</div>"
        for record in records[-_SHOWN:]
    ]
    if count > _SHOWN:
        command = escape(magic_line("%triton", "logs", model))
        lines.insert(0, f"<div class='tl-dim'>{count - _SHOWN} lines before: {command}</div>")
    title = f"{count} line{'s' * (count > 1)} printed{when}"
    body = f"<pre class='tl-lines'>{''.join(lines)}</pre>"
    return f"<details class='tl-log tl-printed'{' open' * opened}><summary>{title}</summary>{body}</details>"
