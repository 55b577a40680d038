"""Completion in a cell: of the magics' lines (options, subcommands, model names, values), of the bodies of cells with a
model or a config.pbtxt, and of calls of models."""

from __future__ import annotations

import contextlib
import inspect
import io
import itertools
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from IPython.core.error import UsageError

from ...core.config.model_config import ConfigError
from ...core.config.model_config_rules import MODEL_ARGS
from ...core.inference.data_type import DataType
from ...core.status import TritonError
from ...server.api.model import Model
from ...stub.c_python_backend_utils import InferenceRequest
from ...tool_table import magic_commands
from ..authoring.cell_text import split_cell
from ..authoring.hints import PB_UTILS
from ..authoring.workspace import Workspace
from ..views.record.record_view import KINDS
from .commands import parser_of
from .config_completion import config_words
from .parsing import LineParser, line_parser, parse
from .request_commands import VERBS

CELL_MAGICS = ("triton_model", "triton_config", "triton_file")

_OPEN, _CLOSE = "([{", ")]}"
_METHODS = ("infer", "async_infer", "create_request")

#: A name with `.` and the beginning of an attribute, at the end of the text.
_ATTRIBUTE = re.compile(r"(?<![\w.])(?P<object>\w+(?:\[[\w-]+\])?)\.(?P<typed>\w*)\Z")
_INPUT = re.compile(r"""get_input_tensor_by_name\(\s*[\w.\[\]]+\s*,\s*["'](?P<typed>[^"'\n]*)\Z""")
_OUTPUT = re.compile(r"""\bTensor\(\s*["'](?P<typed>[^"'\n]*)\Z""")
_ARGS = re.compile(r"""\bargs\[\s*["'](?P<typed>[^"'\n]*)\Z""")
_REQUESTS = re.compile(r"\bfor\s+(?:\w+\s*,\s*)?(\w+)\s+in\s+(?:enumerate\()?requests\b")
#: The beginning of a key in the dict of a request's inputs.
_KEY = re.compile(
    r"""(?<![\w.])(?P<model>\w+)\.(?:infer|async_infer|create_request)\(\s*(?:[^{}]*,\s*)?inputs\s*=\s*\{"""
    r"""(?P<before>(?:[^{}]*,)?\s*)["'](?P<typed>[^"'\n]*)\Z"""
)
_GIVEN = re.compile(r"""["']([^"'\n]*)["']\s*:""")

_REQUEST = [name for name in dir(InferenceRequest) if not name.startswith("_")]


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
        head, body = split_cell(text.lstrip("\n"))
        found = (
            completions(context.text_until_cursor if body is not None else head, magics, workspace)
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
            "suppress": alone,  # besides the keywords of a call, values may come from other matchers
            "ordered": True,
        }

    matchers = shell.Completer.custom_matchers
    matchers[:] = [m for m in matchers if getattr(m, "matcher_identifier", "") != identifier] + [matcher]


def completions(line: str, magics: Any, workspace: Callable[[], Workspace]) -> tuple[str, list[str]] | None:
    """Return the word at the end of `line` and its completions; None if the line is not one of our magics."""
    words = line.lstrip().split(" ")
    fragment = words[-1]
    commands = magic_commands()
    offered: Iterable[str]
    match words:
        case [magic, *rest] if rest and magic.startswith("%%") and magic[2:] in CELL_MAGICS:
            offered = _arguments(line_parser(getattr(type(magics), magic[2:])), rest, workspace)
        case ["%triton", _]:
            offered = commands
        case ["%triton", "serve", *_]:
            offered = workspace().ports.flags()
        case ["%triton", "golden", _]:
            offered = VERBS
        case ["%triton", "golden", _, _]:
            offered = workspace().names()
        case ["%triton", "infer", name, _, *_] | ["%triton", "golden", "add", name, *_]:
            offered = _inputs(workspace(), name)
        case ["%triton", name, *rest] if rest and name in commands:
            offered = _arguments(parser_of(commands[name]), rest, workspace)
        case _:
            return None
    return fragment, [word for word in offered if word.startswith(fragment)]


def _arguments(parser: LineParser, words: list[str], workspace: Callable[[], Workspace]) -> Iterator[str]:
    """Return the completions of the last of `words`: values of the option before it, options, or for the first word the
    names of models."""
    options = parser.options
    before = options.get(words[-2]) if len(words) > 1 else None
    last = next((options[word] for word in reversed(words[:-1]) if word in options), None)
    name, colon, datatype = words[-1].rpartition(":")
    if before is not None and before.nargs is None and before.choices:
        yield from before.choices
    elif last is not None and last.dest in ("inputs", "outputs") and colon and "[" not in datatype:
        yield from (f"{name}:{known.name}[" for known in DataType if known is not DataType.INVALID)
    elif words[-1].startswith("-"):
        yield from (flag for flag in options if flag not in words[:-1] or flag in parser.repeated)
    elif parser.prog == "triton view" and len(words) == 2:
        yield from KINDS
    elif len(words) == 1:
        yield from workspace().names() if parser.prog != "triton help" else magic_commands()


def _inputs(workspace: Workspace, model: str) -> Iterator[str]:
    with contextlib.suppress(TritonError):
        yield from (f"{tensor['name']}=" for tensor in workspace.server.model(model).config()["input"])


def _tensors(line: str, kind: str, magics: Any, workspace: Workspace) -> list[str]:
    """Return the names of the tensors of a kind, `input` or `output`, of the model that the line of a `%%triton_model`
    cell writes: from its options, else from its config's cell, else from the serving version."""
    try:
        arguments = parse(line_parser(type(magics).triton_model), line.partition(" ")[2])
    except UsageError:
        return []
    if specs := getattr(arguments, f"{kind}s"):
        return [spec.rpartition(":")[0] for spec in specs]
    with contextlib.suppress(ConfigError):
        if named := [tensor.name for tensor in getattr(workspace.draft(arguments.name).config.message, kind)]:
            return named
    with contextlib.suppress(TritonError):
        return [str(tensor["name"]) for tensor in workspace.server.model(arguments.name).config()[kind]]
    return []


def config_cell(text: str, workspace: Callable[[], Workspace]) -> tuple[str, list[str]] | None:
    """Return the last word of a `%%triton_config` cell that ends at the cursor, and its completions."""
    line, body = split_cell(text.lstrip())
    if body is None or not line.startswith("%%triton_config "):
        return None
    return config_words(body, lambda: workspace().names())


def call_arguments(text: str, namespace: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """Return the word at the end of `text` and its keyword completions; None if `text` does not end in the arguments of
    a call of a model in `namespace`."""
    tokens = _tokens(text)
    fragment = ""
    if tokens and tokens[-1].type == tokenize.NAME and text.endswith(tokens[-1].string):
        fragment = tokens.pop().string
    opened = _innermost(tokens)
    if opened is None or tokens[-1].string not in ("(", ","):
        return None
    function = _function(tokens[:opened], namespace)
    if function is None:
        return None
    present = _keywords(tokens[opened + 1 :])
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return fragment, [f"{name}=" for name in names if name.startswith(fragment) and name not in present]


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    """Return the tokens of a text that may be unfinished, as far as it can be read."""
    found = []
    skipped = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.ERRORTOKEN and token.string in "'\"":
                return []  # in a string
            if token.type not in skipped and token.string.strip():
                found.append(token)
    except (tokenize.TokenError, SyntaxError):
        pass
    return found


def _innermost(tokens: list[tokenize.TokenInfo]) -> int | None:
    """Return the token that opens the innermost open bracket, if it is a parenthesis."""
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.string in _OPEN:
            opened.append(index)
        elif token.string in _CLOSE and opened:
            opened.pop()
    return opened[-1] if opened and tokens[opened[-1]].string == "(" else None


def _function(before: list[tokenize.TokenInfo], namespace: Mapping[str, Any]) -> Any:
    """Return the model, or the method of a model, whose name ends `before`. Only look names up; call nothing."""
    words = [token.string for token in before[-4:]]
    if words and isinstance(model := namespace.get(words[-1]), Model) and words[-2:-1] != ["."]:
        return model
    if words[-2:-1] == ["."] and words[-1] in _METHODS and words[-4:-3] != ["."]:
        model = namespace.get(words[-3]) if len(words) > 2 else None
        return getattr(model, words[-1]) if isinstance(model, Model) else None
    return None


def _keywords(tokens: list[tokenize.TokenInfo]) -> set[str]:
    """Return the names before a `=` that are not inside further brackets."""
    found, depth = set(), 0
    for token, following in itertools.pairwise(tokens):
        depth += (token.string in _OPEN) - (token.string in _CLOSE)
        if depth == 0 and token.type == tokenize.NAME and following.string == "=":
            found.add(token.string)
    return found


def model_cell(text: str, tensors_of: Callable[[str, str], Sequence[str]]) -> tuple[str, list[str]] | None:
    """Return the word at the end of the text of a `%%triton_model` cell and its completions; None if no completion of
    ours is expected. `tensors_of` returns the names of the tensors of a kind, `input` or `output`, of the model that
    such a line writes."""
    line, body = split_cell(text.lstrip())
    if body is None or not line.startswith("%%triton_model "):
        return None
    if found := _ATTRIBUTE.search(body):
        return _fitting(found["typed"], _attributes(found["object"], body))
    if found := _ARGS.search(body):
        return _fitting(found["typed"], MODEL_ARGS)
    for pattern, kind in ((_INPUT, "input"), (_OUTPUT, "output")):
        if found := pattern.search(body):
            return _fitting(found["typed"], tensors_of(line, kind))
    return None


def input_keys(text: str, namespace: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """Return the last word and its completions for a key in the inputs of a call of a model in `namespace`, such as
    `model.infer(inputs={"`."""
    found = _KEY.search(text)
    model = namespace.get(found["model"]) if found is not None else None
    if found is None or not isinstance(model, Model):
        return None
    try:
        names = [str(tensor["name"]) for tensor in model.config()["input"]]
    except TritonError:
        return None
    present = _GIVEN.findall(found["before"])
    return _fitting(found["typed"], [name for name in names if name not in present])


def _attributes(name: str, body: str) -> Sequence[str]:
    if name == "pb_utils":
        return PB_UTILS
    loops = _REQUESTS.findall(body)
    return _REQUEST if name == "request" or name.startswith("requests[") or name in loops else ()


def _fitting(typed: str, words: Sequence[str]) -> tuple[str, list[str]] | None:
    fitting = [word for word in words if word.startswith(typed)]
    return (typed, fitting) if fitting else None
