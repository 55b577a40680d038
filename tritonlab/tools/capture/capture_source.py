"""`capture_from`, which makes a capture of files that others have written."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core.foreign_file import open_file
from . import cloud_events, trace_capture
from .capture_file import CapturedRequest
from .capture_rules import CaptureRules
from .capture_writer import CaptureReport, CaptureWriter

#: Seconds for the end of the file: no client waits.
_MOST_SECONDS = 3600.0


def capture_from(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    path: str | os.PathLike[str],
    rules: Mapping[str, Any],
) -> CaptureReport:
    """Do the work of `tritonlab.capture_from`."""
    given = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    return convert([Path(each) for each in given], path, CaptureRules(**rules))


def convert(files: Sequence[Path], path: str | os.PathLike[str], rules: CaptureRules) -> CaptureReport:
    """Write the requests of files to a new capture. Raises OSError, and ValueError for a file of another kind; then
    there is no capture."""
    if not files:
        raise ValueError("no file is named to make a capture of")
    kinds = set()
    for file in files:
        with open_file(file) as opened:
            kinds.add(trace_capture.BEGINNING.match(opened.read(200)) is not None)
    if len(kinds) > 1:
        raise ValueError("some of the files are traces of Triton, and some are not: make a capture of each kind")
    (is_trace,) = kinds
    read = trace_capture.read_requests if is_trace else cloud_events.read_events
    facts = {"source": "trace" if is_trace else "events", "files": [file.name for file in files]}
    found: Iterator[Any] = itertools.chain.from_iterable(map(read, files))
    first: list[Any] = []  # up to the first request: an unreadable file is refused before there is a capture
    begin = 0
    for each in found:
        first.append(each)
        if isinstance(each, CapturedRequest):
            begin = each.at_ns
            break
    # Triton's clock begins when its machine does
    writer = CaptureWriter(path, facts if is_trace else {**facts, "began": begin / 1e9}, rules)
    try:
        for each in itertools.chain(first, found):
            if not isinstance(each, CapturedRequest):
                writer.leave_out(str(each))
                continue
            begin = begin or each.at_ns  # 0 is unknown
            at_ns = each.at_ns - begin if each.at_ns else 0
            if writer.chooses(at_ns, each.exchange.request):
                writer.add(replace(each, at_ns=at_ns), waits=True)
    except BaseException:
        writer.close()
        os.unlink(path)
        raise
    return writer.close(_MOST_SECONDS)
