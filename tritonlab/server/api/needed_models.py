"""The models that an exported model needs for its answers: its steps, and the models it calls (BLS)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.config.model_config import parse_pbtxt
from ...core.source.source_file import UNPARSABLE
from ...core.status import TritonError
from ...repository.layout import LEFT_BEHIND
from ..models.backend_choice import choice_words

if TYPE_CHECKING:
    from .model import Model


@dataclass(frozen=True)
class NeededModels:
    """The models that another one needs. `loaded` has each once, in the order of discovery; `missing` has (the model
    that needs it, its name) for each that the server does not serve.
    """

    loaded: tuple[Model, ...]
    missing: tuple[tuple[str, str], ...]


def needed_models(model: Model) -> NeededModels:
    """Return the models that `model` needs, directly or not."""
    found: dict[str, Model] = {model.name: model}
    missing: list[tuple[str, str]] = []
    waiting = [model]
    while waiting:
        user = waiting.pop(0)
        for name in names_needed(user):
            if name in found:
                continue
            other = model.server.model(name)
            try:
                other.config()
            except TritonError:
                missing.append((user.name, name))
                continue
            found[name] = other
            waiting.append(other)
    return NeededModels(tuple(found.values())[1:], tuple(missing))


def stood_in(model: Model) -> dict[str, str]:
    """Return in plain words the substitutes that answer for the model and for the models it needs, by name; real models
    are left out.
    """
    configs = {each.name: parse_pbtxt(each.config_pbtxt(), "") for each in (model, *needed_models(model).loaded)}
    return {name: words for name, config in configs.items() if (words := choice_words(config))}


def stood_in_words(model: Model) -> str:
    """Return a sentence about such substitutes, why an answer may differ from the real one; "" without any."""
    return "; ".join(f"'{name}' did not answer itself: {words}" for name, words in stood_in(model).items())


def names_needed(model: Model) -> list[str]:
    """Return the names in an ensemble's steps, or the names in BLS calls: calls made since the model was loaded, and
    calls with a literal name in its files.
    """
    steps = model.config().get("ensemble_scheduling", {}).get("step", ())
    names = [str(step["model_name"]) for step in steps] or [*_named_in_files(model), *model.called()]
    return list(dict.fromkeys(name for name in names if name != model.name))


def _named_in_files(model: Model) -> Iterator[str]:
    for version in model.metadata()["versions"]:
        for path in sorted((Path(model.directory) / version).rglob("*.py")):
            if not set(path.parts).intersection(LEFT_BEHIND):
                yield from named_in(path.read_bytes())


def named_in(source: bytes) -> Iterator[str]:
    """Return the constant names in `InferenceRequest(model_name="…")`; none if this Python cannot parse the source."""
    try:
        tree = ast.parse(source)
    except UNPARSABLE:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) == "InferenceRequest":
            for keyword in node.keywords:
                if keyword.arg == "model_name" and isinstance(keyword.value, ast.Constant):
                    yield str(keyword.value.value)


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
