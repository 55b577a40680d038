"""The record of an export, `export.json`: its version, its files, and the features of Triton that it uses.

It has neither times nor paths of this machine, so that equal exports have equal records. A verdict is added later.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...core.config.model_config import ConfigError, read_config
from ...core.version import VERSION
from ...core.whole_file import write_file
from ...ipc.processes.execution_env import PARAMETER
from ...ipc.processes.own_stub import NAME as STUB
from ...repository.layout import CONFIG_FILE
from .exported_files import FileFacts
from .releases import Release

#: Fields of a config that are no features.
_EVERYWHERE = {"name", "backend", "platform", "max_batch_size", "input", "output", "instance_group", "version_policy"}


def record_of(root: Path) -> Path:
    """Return the path of the record of an export: in `root` if it has `models/`, otherwise next to it."""
    return root / "export.json" if (root / "models").is_dir() else root.with_name(f"{root.name}.export.json")


def record_facts(
    models: Iterable[Path], *, version: str, release: Release, files: FileFacts, environment: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the content of a record. `models`: the models' directories; of two with one name, the last one counts."""
    return {
        "version": version,
        "tritonlab": VERSION,
        "target": [release.triton.value],
        "image": release.image,
        "environment": environment,
        "features": dict(sorted((path.name, features_of(path)) for path in models)),
        "files": files,
    }


def record_text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def write_record(path: Path, content: Mapping[str, Any]) -> None:
    """Write a record as JSON. After an error or an interrupt, an earlier record is there as before."""
    earlier = path.read_bytes() if path.is_file() else None
    try:
        write_file(path, record_text(content).encode(errors="backslashreplace"))  # names that are not UTF-8
    except BaseException:
        if earlier is None:
            path.unlink(missing_ok=True)
        else:
            write_file(path, earlier)
        raise


def features_of(model: Path) -> list[str]:
    """Return the features of Triton that a model uses, as far as its config shows them."""
    try:
        config = read_config(model / CONFIG_FILE)
    except ConfigError:
        return []
    found = [field.name for field, _ in config.ListFields() if field.name not in _EVERYWHERE]
    found += [PARAMETER] if PARAMETER in config.parameters else []
    return [*found, *([STUB] if (model / STUB).exists() else [])]
