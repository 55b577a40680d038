"""Names that would be code, or end a text, if they were written into a file as they are."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

#: What each of them does if it is run: Python appends to a list, a shell makes the file `ran`.
_PARTS = [
    '"', "'", '"""', "\\", "`", "\n", "\r", "\x0b", "\x0c", "\x00", "\x1b", "\x7f", "\x85", "\u2028", "\u2029",
    "\u202e",
    "\t", " ", "  ", "#", "|", ")", "(", "]", "}", "{", "{{", "}}", "[[", ";", ":", ",", "-", "--", "$", "$$", "%", "&",
    "<", ">", "*", "!", "../", ".", "a", "Z", "0", "ü", "²", "\ufeff", "🙂", "\U000e0041", "RAN.append(1)",
    '") or RAN.append(1) #', "' + str(RAN.append(1)) + '", "{RAN.append(1)}", "$RAN", "\nRAN.append(1)\n",
    "\rRAN.append(1)\r", "$(touch ran)", "`touch ran`", "'; touch ran; '", "\ntouch ran\n", '"; touch ran; "',
    "<script>", "</code>", "<!--", "-->", "]]>", "coding: utf-7", "+AAo-", "- x: y", "&anchor", "END", "\nEND\n",
    '{{ query "x" }}', "${source}", "[0-9]", "InferenceServerClient(\"localhost:8000\")", "http://localhost:8000",
    ".npy", "file", "%%", "\\u000a", "&quot;", "--config",
]  # fmt: skip
_PART = st.one_of(st.sampled_from(_PARTS), st.characters(exclude_categories=["Cs"]))
NAMES = st.lists(_PART, min_size=1, max_size=6).map("".join)
#: Those that a directory can have.
DIRECTORY_NAMES = NAMES.map(lambda name: name.replace("/", "_").replace("\0", "_")[:60]).filter(
    lambda name: name not in (".", "..")
)
quick = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@contextlib.contextmanager
def nothing_runs() -> Iterator[None]:
    """Fail if code within calls `RAN.append`."""
    ran: list[Any] = []
    builtins.RAN = ran  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del builtins.RAN  # type: ignore[attr-defined]
    assert not ran
