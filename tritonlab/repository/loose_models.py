"""Models in directories without versions, as NVIDIA's python_backend keeps its examples: their texts say to copy each
`<directory>/[<prefix>_]model.py` to `models/<name>/1/model.py`, and the config of the same prefix next to it."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ..core.config.model_config import ConfigError, read_config
from ..core.source.source_file import UNPARSABLE
from .layout import CONFIG_FILE, MODEL_FILE, version_numbers
from .model_tree import leads_out
from .place import scratch_name, scratch_place

#: `model.py`, `sync_model.py`
_FILE = re.compile(rf"(?P<prefix>.+_)?(?P<file>{re.escape(MODEL_FILE)}|{re.escape(CONFIG_FILE)})")


class LooseModel(NamedTuple):
    """A model that would be a repository's directory `name`. `helpers`: the files next to it that its file imports."""

    name: str
    config: Path | None
    model: Path | None
    helpers: tuple[Path, ...] = ()

    def write(self, directory: Path) -> None:
        """Copy it to a new model directory."""
        version = directory / "1"
        version.mkdir(parents=True)
        if self.config is not None:
            _copy(self.config, directory / CONFIG_FILE)
        if self.model is not None:
            _copy(self.model, version / MODEL_FILE)
        for helper in self.helpers:
            _copy(helper, version / helper.name)


def _copy(source: Path, target: Path) -> None:
    """Copy a file; a link to a file outside of the model's directory stays a link."""
    if leads_out(source, (source.parent,)):
        target.symlink_to(source.resolve())
    else:
        shutil.copy2(source, target)


def find_loose_models(directory: Path) -> list[LooseModel]:
    """Return the models without versions in a directory or its subdirectories; none if a subdirectory has versions, or
    if there is no model file.
    """
    within = sorted(path for path in directory.iterdir() if path.is_dir() and not path.name.startswith("."))
    places = [place for place in (directory, *within) if os.access(place, os.R_OK | os.X_OK)]
    if any(version_numbers(place) for place in places):
        return []
    found = [model for place in places for model in _models_in(place)]
    return found if any(model.model is not None for model in found) else []


def arrange(models: Iterable[LooseModel], repository: Path) -> None:
    """Copy models into a repository, each as a whole. Existing models stay unchanged."""
    repository.mkdir(parents=True, exist_ok=True)
    scratch = scratch_place(repository) / scratch_name()
    try:
        for model in models:
            if not (repository / model.name).exists():
                model.write(scratch / model.name)
                (scratch / model.name).rename(repository / model.name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _models_in(place: Path) -> list[LooseModel]:
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(place.iterdir()):
        if path.is_file() and (match := _FILE.fullmatch(path.name)):
            found.setdefault(match["prefix"] or "", {})[match["file"]] = path
    models = []
    for prefix, files in found.items():
        config, model = files.get(CONFIG_FILE), files.get(MODEL_FILE)
        name = _name_in(config) or prefix + place.name
        models.append(LooseModel(name, config, model, _helpers(model) if model is not None else ()))
    return models


def _name_in(config: Path | None) -> str:
    """Return the name in a config; "" if it has none that a directory could have."""
    if config is not None:
        with contextlib.suppress(ConfigError, OSError):
            name = str(read_config(config).name)
            return "" if "/" in name or name.startswith(".") else name
    return ""


def _helpers(model: Path) -> tuple[Path, ...]:
    try:
        tree = ast.parse(model.read_bytes())
    except UNPARSABLE:  # its load reports it
        return ()
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}
    beside = sorted({model.parent / f"{name.partition('.')[0]}.py" for name in imported if name})
    return tuple(path for path in beside if path.is_file() and path != model)
