"""The line of a `%%triton_model` cell that has all that a draft has."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from google.protobuf import text_format

from .config_options import ConfigOptions
from .draft import Draft
from .model_file import ModelFile

#: A word that a line may have without quotes.
_BARE = re.compile(r"[^\s'\"\\]+")
#: How many directories up a relative path may lead.
_FAR = 2


def model_line(draft: Draft) -> tuple[str, list[str]]:
    """Return the line, with the options, config and files that were given with the last source, and the names of those
    files that no line can give, because they were given as bytes or lie elsewhere under another name.
    """
    words = ["%%triton_model", draft.name, *_options(draft.options)]
    if draft.base is not None:
        words += ["--base", shown_path(draft.base.path)]
    config = draft.given_config
    if config.says_something:
        words += ["--config", config.source if Path(config.source).is_file() else _one_line(draft)]
    paths = {name: path for name, file in draft.given_files.items() if (path := _path(name, file))}
    if paths:
        words += ["--file", *paths.values()]
    if draft.version != (draft.base.newest() if draft.base is not None else 1):
        words += ["--version", str(draft.version)]
    return joined(words), [name for name in draft.given_files if name not in paths]


def joined(words: Iterable[str]) -> str:
    """Return the line of these words, with quotes where they need some."""
    return " ".join(word if _BARE.fullmatch(word) else shlex.quote(word) for word in words)


def shown_path(path: Path, start: Path | None = None) -> str:
    """Return the path as a cell names it: seen from `start`, the directory of the notebook, if it is not far away."""
    relative = os.path.relpath(path, start or Path.cwd())
    return str(path) if relative.count("..") > _FAR else relative


def _options(options: ConfigOptions) -> Iterator[str]:
    if options.max_batch_size is not None:
        yield from ("--max-batch-size", str(options.max_batch_size))
    if options.dynamic_batching is True:
        yield "--dynamic-batching"
    elif options.dynamic_batching is not None and options.dynamic_batching is not False:  # 0 is a delay
        yield from ("--dynamic-batching", str(options.dynamic_batching))
    if options.instances is not None:
        yield from ("--instances", str(options.instances))
    if options.kind is not None:
        yield from ("--kind", options.kind)
    if options.decoupled:
        yield "--decoupled"
    for option, values in (
        ("--preferred-batch-size", options.preferred_batch_size),
        ("--gpus", options.gpus),
        ("--input", options.inputs),
        ("--output", options.outputs),
        ("--param", [f"{key}={value}" for key, value in options.parameters.items()]),
    ):
        if values:
            yield from (option, *map(str, values))


def _one_line(draft: Draft) -> str:
    return str(text_format.MessageToString(draft.given_config.message, as_one_line=True))


def _path(name: str, file: ModelFile) -> str:
    """Return the path that `--file` takes for a file; "" if it takes none."""
    return str(file.content) if isinstance(file.content, Path) and file.content.name == name else ""
