"""Completion of the arguments of calls of a model in plain Python: the inputs in `add_sub(`, the fields of a
request in `add_sub.infer(`."""

from __future__ import annotations

import inspect
import io
import itertools
import tokenize
from collections.abc import Mapping
from typing import Any

from ...server.api.model import Model

_METHODS = ("infer", "async_infer", "create_request")
_OPEN, _CLOSE = "([{", ")]}"


def call_arguments(text: str, namespace: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """Return the word at the end of `text` and the keywords that it may become; None if `text` does not end in the
    arguments of a call of a model in `namespace`."""
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
    """Return the tokens of text that may be unfinished, as far as it can be read."""
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
    """Return which token opens the innermost open bracket, if that is a parenthesis."""
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.string in _OPEN:
            opened.append(index)
        elif token.string in _CLOSE and opened:
            opened.pop()
    return opened[-1] if opened and tokens[opened[-1]].string == "(" else None


def _function(before: list[tokenize.TokenInfo], namespace: Mapping[str, Any]) -> Any:
    """Return the model, or the method of one, whose name is the end of `before`. Only names are looked up; nothing is
    called."""
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
