"""The label files of a model's outputs, for classification (rule 6.6.2)."""

from __future__ import annotations

import os
from pathlib import Path

from ..core.config.model_config import ModelConfig
from ..core.status import InternalError, UnsupportedError
from .layout import read_file

#: Output -> the label of each index.
Labels = dict[str, tuple[str, ...]]


def read_labels(config: ModelConfig, directory: Path, base: Path | None = None) -> Labels:
    """Return the labels of every output with a label file, which has one label per line. `base`: the directory whose
    files are linked into the model directory.

    Raises InternalError for a file that cannot be read, UnsupportedError for a file outside of both directories (rule
    5.3.4).
    """
    labels: Labels = {}
    roots = [os.path.realpath(place) for place in (directory, base) if place is not None]
    for output in config.output:
        if not output.label_filename:
            continue
        path = directory / output.label_filename
        if not any(Path(os.path.realpath(path)).is_relative_to(root) for root in roots):
            raise UnsupportedError(
                f"label file path '{output.label_filename}' for output '{output.name}' in model '{config.name}' is "
                "outside model directory"
            )
        try:
            text = read_file(path).decode("utf-8", "surrogateescape")
        except OSError as error:
            raise InternalError(f"failed to open text file for read {path}: {error.strerror}") from None
        labels[output.name] = tuple(text.split("\n"))  # Triton leaves the \r of a file from Windows there (measured)
    return labels
