"""Completion of what is ours in a cell: the magics' lines (options, subcommands, model names, values), the bodies of
cells with a model or a config.pbtxt, and calls of models."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from IPython.core.error import UsageError

from ...core.config.model_config import ConfigError
from ...core.inference.data_type import DataType
from ...core.status import TritonError
from ..authoring.workspace import Workspace
from ..views.record.record_view import KINDS
from .call_completion import call_arguments
from .cell_completion import input_keys, model_cell
from .commands import COMMANDS
from .config_completion import config_words
from .golden_commands import VERBS
from .parsing import LineParser, line_parser, parse

CELL_MAGICS = ("triton_model", "triton_config", "triton_file")


def install_completion(shell: Any, magics: Any, workspace: Callable[[], Workspace]) -> None:
    """Add a matcher to the shell's completer; does nothing before IPython 8.6, which has no matchers."""
    try:
        from IPython.core.completer import SimpleCompletion, context_matcher
    except ImportError:
        return
    identifier = "tritonlab.magics"

    @context_matcher(identifier=identifier)
    def matcher(context: Any) -> Any:
        lines = context.full_text.split("\n")[: context.cursor_line]
        text = "\n".join([*lines, context.text_until_cursor])
        found = (
            completions(context.text_until_cursor, magics, workspace)
            or config_cell(text, workspace)
            or model_cell(text, lambda line, kind: _tensors(line, kind, magics, workspace()))
            or input_keys(text, shell.user_ns)
        )
        alone = found is not None
        found = found or call_arguments(text, shell.user_ns)
        if found is None:
            return {"completions": [], "suppress": False}
        fragment, words = found
        return {
            "completions": [SimpleCompletion(word) for word in words],
            "matched_fragment": fragment,
            "suppress": alone,  # beside the keywords of a call, values may come from others
            "ordered": True,
        }

    matchers = shell.Completer.custom_matchers
    matchers[:] = [m for m in matchers if getattr(m, "matcher_identifier", "") != identifier] + [matcher]


def completions(line: str, magics: Any, workspace: Callable[[], Workspace]) -> tuple[str, list[str]] | None:
    """Return the word at the end of `line` and what it may become; None if the line is not one of our magics."""
    words = line.lstrip().split(" ")
    fragment = words[-1]
    if words[0].startswith("%%") and words[0][2:] in CELL_MAGICS and len(words) > 1:
        parser = line_parser(getattr(magics, words[0][2:]))
        offered = _arguments(parser, words[1:], workspace)
    elif words[0] == "%triton" and len(words) == 2:
        offered = iter(COMMANDS)
    elif words[0] == "%triton" and words[1] == "serve":
        offered = iter(workspace().ports.flags())
    elif words[0] == "%triton" and words[1] == "infer" and len(words) > 3:
        offered = _inputs(workspace(), words[2])
    elif words[0] == "%triton" and words[1] == "golden" and len(words) == 3:
        offered = iter(VERBS)
    elif words[0] == "%triton" and words[1] == "golden" and len(words) == 4:
        offered = iter(workspace().names())
    elif words[0] == "%triton" and words[1:3] == ["golden", "add"]:
        offered = _inputs(workspace(), words[3])
    elif words[0] == "%triton" and len(words) > 2 and words[1] in COMMANDS:
        offered = _arguments(COMMANDS[words[1]].parser, words[2:], workspace)
    else:
        return None
    return fragment, [word for word in offered if word.startswith(fragment)]


def _arguments(parser: LineParser, words: list[str], workspace: Callable[[], Workspace]) -> Iterator[str]:
    """Return what the last of `words` may be: a value of the option before it, an option, or at first a model's
    name."""
    options = parser.options
    before = options.get(words[-2]) if len(words) > 1 else None
    last = next((options[word] for word in reversed(words[:-1]) if word in options), None)
    name, colon, datatype = words[-1].rpartition(":")
    if before is not None and before.single and before.choices:
        yield from before.choices
    elif last is not None and last.dest in ("input", "output") and colon and "[" not in datatype:
        yield from (f"{name}:{known.name}[" for known in DataType if known is not DataType.INVALID)
    elif words[-1].startswith("-"):
        yield from (flag for flag, option in options.items() if flag not in words[:-1] or option.repeats)
    elif parser.prog == "triton view" and len(words) == 2:
        yield from KINDS
    elif len(words) == 1:
        yield from workspace().names() if parser.prog != "triton help" else COMMANDS


def _inputs(workspace: Workspace, model: str) -> Iterator[str]:
    with contextlib.suppress(TritonError):
        yield from (f"{tensor['name']}=" for tensor in workspace.server.model(model).config()["input"])


def _tensors(line: str, kind: str, magics: Any, workspace: Workspace) -> list[str]:
    """Return the names of the tensors, `input` or `output`, of the model that the line of a `%%triton_model` cell
    writes: those of its options, else of its config's cell, else of the version that serves."""
    try:
        arguments = parse(line_parser(magics.triton_model), line.partition(" ")[2])
    except UsageError:
        return []
    if specs := getattr(arguments, kind):
        return [spec.rpartition(":")[0] for spec in specs]
    with contextlib.suppress(ConfigError):
        if named := [tensor.name for tensor in getattr(workspace.draft(arguments.name).config.message, kind)]:
            return named
    with contextlib.suppress(TritonError):
        return [str(tensor["name"]) for tensor in workspace.server.model(arguments.name).config()[kind]]
    return []


def config_cell(text: str, workspace: Callable[[], Workspace]) -> tuple[str, list[str]] | None:
    """Do what `completions` does, for the body of a `%%triton_config` cell, which ends at the cursor."""
    line, newline, body = text.lstrip().partition("\n")
    if not newline or not line.startswith("%%triton_config "):
        return None
    return config_words(body, lambda: workspace().names())
