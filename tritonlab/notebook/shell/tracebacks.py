"""Errors in a notebook, shown as the author's exception with the cell's own lines, or as a few words.

IPython calls an exception's `_render_traceback_` for its traceback; `install` adds that method to our error classes. A
cell that raises such an error fails like any cell, so Run All and nbclient stop there.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import linecache
import os
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

from ...core.config.model_config import ConfigError, parse_pbtxt, to_dict
from ...core.error_pages import topic_of
from ...core.explained import Explained, Explanation
from ...core.quoting import without_colours
from ...core.status import (
    EnsembleError,
    Frame,
    LoadInterrupted,
    ModelError,
    ModelLoadError,
    NotFoundError,
    RemoteException,
)
from ...server.api.response_iterator import RequestInterrupted
from ..authoring.cells import cell_place
from ..authoring.config_text import ConfigTextError, line_of_step
from ..authoring.errors import NotebookError
from ..authoring.hints import hint, line_hint
from ..authoring.source_map import located
from ..authoring.workspace import Workspace

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_LOG_LINES = 10
#: How often one line of a function is shown in a traceback.
_MOST_REPEATS = 3
_MAGIC = re.compile(r"#(?=%%\w)")  # the prefix that makes a magic a comment in linecache, see cells.running_body
_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_FAILED_LOAD = re.compile(r"load failed for model '(.*?)'")
#: The file of a model in its version's directory.
_MODEL_FILE = re.compile(r"/([^/]+)/\d+/[^/]+\.py$")
_TIMED_OUT = "Request timeout expired"


class Tracebacks:
    """The rendering of errors for `shell`. `workspace` returns the notebook's workspace, `places` cites cells in a
    text, and `has_shown` returns whether a model's printed line is below the cell already."""

    def __init__(
        self,
        shell: Any,
        workspace: Callable[[], Workspace],
        places: Callable[[str], str],
        has_shown: Callable[[str], bool],
    ) -> None:
        self._shell = shell
        self._workspace = workspace
        self._places = places
        self._has_shown = has_shown

    def render(self, error: BaseException) -> list[str]:
        """Return the lines that IPython prints for `error`. Programs find the same in its `where` and `fix`."""
        if isinstance(error, Explained):
            error.explained_by = self.explain
        return [_MAGIC.sub("", line) for line in self._lines(error)]

    def _lines(self, error: BaseException) -> list[str]:
        if isinstance(error, ModelError) and error.exception is not None:
            return self._author(error)
        if isinstance(error, ConfigTextError):
            return [*self._only(error), *error.excerpt()]
        if isinstance(error, RequestInterrupted):
            report = self._places(str(error))
            return [*self._calling(error, ""), *([report] if report else []), *self._hint(error, error.symptom())]
        if isinstance(error, LoadInterrupted) and error.exception is not None:
            return self._trace(error.exception, self._callers(error))
        lines = self._calling(error, str(error).rstrip("\n"))
        if isinstance(error, ModelError):
            if error.reason and error.reason != error.message:
                lines += ["", error.reason]
            lines += self._printed(error)
        if (step := self._step(error)) is not None:
            lines += ["", f"{step.place()}:", *step.excerpt()[1:]]
        # no client sent a step's inputs, so advice to send others would not help
        if not isinstance(error, EnsembleError):
            lines += self._hint(error, error.symptom() if isinstance(error, Explained) else str(error))
        return lines

    def text(self, error: BaseException) -> str:
        """Return the author's traceback without colours; "" if the error is not the author's."""
        if not isinstance(error, ModelError) or error.exception is None:
            return ""
        text = without_colours("\n".join(self._trace(error.exception, None)))
        return _MAGIC.sub("", text).strip("-\n")

    def _author(self, error: ModelError) -> list[str]:
        """Return the author's traceback, below the frames that called the model, and the client's error."""
        assert error.exception is not None
        lines = self._trace(error.exception, self._callers(error)) + self._printed(error)
        if not isinstance(error, ModelLoadError):
            message = error.message.split("\n\nAt:\n", 1)[0]  # the frames are above already
            lines += ["", f"A client gets ({error.code.text}): {message}"]
        if isinstance(error, EnsembleError):
            lines += ["", error.reason]
        lines += self._failed_calls(error)
        lines += self._hint(error, str(error.exception))
        return lines

    def _failed_calls(self, error: ModelError) -> list[str]:
        """Return a line for each model whose answer to a BLS call of this execution was an error."""
        lines = []
        for call in error.capsule.failed_calls if error.capsule is not None else ():
            place = self.place(call.exception.place) if call.exception is not None else ""
            lines.append(f"It had called '{call.model}', which failed: {call.headline}" + f" ({place})" * bool(place))
        return ["", *lines] if lines else []

    def place(self, place: str) -> str:
        """Return a line of a model's file as the cell's line, and a text with such lines replaced by the cells'."""
        found = _LINE.fullmatch(place)
        if found is None:
            return self._places(place)
        origin, line = self._workspace().sources.locate(found[1], int(found[2]))
        return cell_place(self._shell, origin, line)

    def explain(self, error: Explained) -> Explanation:
        """Return the place of the error's cause in a cell, what to do about it, and the page about it."""
        step = self._step(error)
        place = step.place() if step is not None else self.place(error.place())
        symptom = error.symptom()
        return Explanation(place, self._advice(error, symptom), topic_of(symptom))

    def _step(self, error: object) -> ConfigTextError | None:
        """Return the fault of an ensemble's step that did not load, with its line in the config's cell."""
        if not isinstance(error, ModelLoadError) or (failed := _FAILED_LOAD.search(error.message)) is None:
            return None
        written = self._workspace().draft(failed[1]).config
        return ConfigTextError(ConfigError(error.reason), written) if line_of_step(error.reason, written) else None

    def _advice(self, error: object, text: str) -> str:
        """Return what to do about an error of this text; "" if unknown."""
        if text == _TIMED_OUT and (paused := self._workspace().server.debugger.words()):
            return f"{self._places(paused)}: type to it with %triton debug"
        if isinstance(error, ModelError) and (exception := error.exception) is not None:
            lines = []
            if exception.frames:
                file = exception.frames[-1].file
                linecache.checkcache(file)
                lines = linecache.getlines(file)
            if advice := line_hint(exception, self._config(error.message, exception), lines):
                return advice
        return hint(text, self._config_of, self._workspace().names)

    def _config(self, message: str, exception: RemoteException) -> dict[str, Any]:
        """Return the config of the model whose load or execution raised an exception, {} if unknown."""
        if failed := _FAILED_LOAD.search(message):
            try:  # as it was last written, whether it serves or not
                return to_dict(parse_pbtxt(self._workspace().draft(failed[1]).config_file, failed[1]))
            except (ConfigError, NotebookError):
                return {}
        names = (found[1] for frame in exception.frames if (found := _MODEL_FILE.search(frame.file)))
        return next((config for name in names if (config := self._config_of(name))), {})

    def _config_of(self, name: str) -> dict[str, Any] | None:
        """Return the config of a serving model."""
        try:
            return self._workspace().server.model(name).config()
        except NotFoundError:
            return None

    def _hint(self, error: BaseException, text: str) -> list[str]:
        """Return the lines below an error with what to do, and the page with more about it."""
        advice = self._advice(error, text)
        if not advice:
            return []
        page = topic_of(text)
        more = [f"More: %triton help {page}"] if page else []
        return ["", f"Hint: {advice}" + "." * (not advice.endswith("?")), *more]

    def _printed(self, error: ModelError) -> list[str]:
        if not error.log or self._has_shown(error.log[-1]):
            return []
        return ["", "The model's last output:", *(f"    {line}" for line in error.log[-_LOG_LINES:])]

    def _trace(self, remote: RemoteException, callers: TracebackType | None) -> list[str]:
        remote = located(remote, self._workspace().sources.locate)
        exception = as_exception(remote, callers)
        if isinstance(exception, SyntaxError):
            frames = traceback.extract_tb(exception.__traceback__)
            lines: list[str] = self._shell.SyntaxTB.structured_traceback(type(exception), exception, frames)
            return list(lines)
        return [*self._traceback(exception), *self._members(remote)]

    def _members(self, group: RemoteException) -> list[str]:
        """Return the tracebacks of the exceptions of a group, whose lines are already the cells'."""
        lines = []
        for number, member in enumerate(group.exceptions, start=1):
            lines += ["", f"Exception {number} of the {group.type_name.rpartition('.')[2]} above:"]
            lines += [*self._traceback(as_exception(member)), *self._members(member)]
        return lines

    def _calling(self, error: BaseException, text: str) -> list[str]:
        """Return the error, as `text`, with the author's line that led to it, if known."""
        callers = self._callers(error)
        if callers is None:
            return self._only(error)
        # a stand-in, because IPython would follow the causes of the error itself into our code
        exception = type(type(error).__name__, (Exception,), {"__module__": "builtins"})(text)
        return self._traceback(exception.with_traceback(callers))

    def _only(self, error: BaseException) -> list[str]:
        kind = type(type(error).__name__, (Exception,), {"__module__": "builtins"})
        lines: list[str] = self._shell.InteractiveTB.get_exception_only(kind, kind(str(error).rstrip("\n")))
        return [line.rstrip("\n") for line in lines]

    def _traceback(self, exception: BaseException) -> list[str]:
        lines: list[str] = self._shell.InteractiveTB.structured_traceback(
            type(exception), exception, exception.__traceback__, tb_offset=0
        )
        return lines

    def _callers(self, error: BaseException) -> TracebackType | None:
        """Return the author's frames above ours, from the cell to the call of tritonlab; None if a magic was run."""
        calling = itertools.takewhile(lambda entry: not _is_ours(entry), _entries(error.__traceback__))
        callers = list(itertools.dropwhile(_of_ipython, calling))
        return None if any(map(_of_ipython, callers)) else _link_entries(callers)


def install(tracebacks: Tracebacks) -> None:
    """Make IPython show our errors through `tracebacks`, in place of earlier ones."""

    def _render_traceback_(error: BaseException) -> list[str]:
        return tracebacks.render(error)

    setattr(Explained, "_render_traceback_", _render_traceback_)  # noqa: B010  # mypy minds the plain assignment


def _is_ours(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(_PACKAGE + os.sep)


def _of_ipython(trace: TracebackType) -> bool:
    module = str(trace.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in ("IPython", "ipykernel")


def as_exception(remote: RemoteException, callers: TracebackType | None = None) -> BaseException:
    """Return an exception of the same type name, text, notes, frames and causes. None of the author's code runs.

    `callers`: frames of this process above the author's, outermost first.
    """
    exception = _syntax_error(remote) if remote.detail.get("filename") else _stand_in(remote)
    frames = _without_repeats(remote.frames)
    for note in remote.notes:
        exception.add_note(note)
    if left_out := len(remote.frames) - len(frames):
        exception.add_note(f"{left_out} more frames repeat those above")
    if remote.cause is not None:
        cause = as_exception(remote.cause)
        if remote.is_context:
            exception.__context__ = cause
        else:
            exception.__cause__ = cause
    return exception.with_traceback(_link_entries([*_entries(callers), *map(_traceback_at, frames)]))


def _stand_in(remote: RemoteException) -> BaseException:
    """Make an exception that prints the same. It is not of the real class, which may not exist here, and whose
    constructor may run any code."""
    module, _, name = remote.type_name.rpartition(".")
    members = {"__str__": lambda self: remote.text, "__module__": module or "builtins", "__qualname__": name}
    exception: BaseException = type(name, (Exception,), members)()
    return exception


def _syntax_error(remote: RemoteException) -> BaseException:
    kind: Any = getattr(builtins, remote.type_name, SyntaxError)
    detail = remote.detail
    location = [detail.get(key) for key in ("filename", "lineno", "offset", "text", "end_lineno", "end_offset")]
    error: BaseException = kind(detail.get("msg") or remote.text, tuple(location))
    return error


def _without_repeats(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Return the frames without most repetitions of a recursion: in a kernel IPython would print all of them, which
    takes many seconds and thousands of lines."""
    counts, seen = Counter(frames), Counter[Frame]()
    distinct = []
    for frame in frames:
        seen[frame] += 1
        if counts[frame] <= _MOST_REPEATS or seen[frame] < _MOST_REPEATS or seen[frame] == counts[frame]:
            distinct.append(frame)
    return tuple(distinct)


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _link_entries(entries: Sequence[TracebackType]) -> TracebackType | None:
    """Return a traceback of these entries, outermost first; None if there are none."""
    trace = None
    for entry in reversed(entries):
        trace = TracebackType(trace, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return trace


def _traceback_at(frame: Frame) -> TracebackType:
    """Return the traceback entry of a `raise` that was compiled to stand at `frame`."""
    tree = ast.parse("raise signal")
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.expr)):
            node.lineno = node.end_lineno = max(frame.line, 1)
            # no columns, otherwise they would be marked in the author's line
            node.col_offset = node.end_col_offset = -1
    code = compile(tree, frame.file, "exec", dont_inherit=True)
    try:
        exec(code.replace(co_name=frame.function, co_qualname=frame.function), {"signal": _Signal()})
    except _Signal as raised:
        assert raised.__traceback__ is not None and raised.__traceback__.tb_next is not None
        return raised.__traceback__.tb_next
    raise AssertionError("the signal did not come back")


class _Signal(Exception):
    pass
