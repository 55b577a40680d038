"""Which code runs a model: the Python backend, and Python-based backends made of one model.py (section 2.11 of the
rule book)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..core.model_config import ModelConfig
from ..core.status import Code, InvalidArgumentError, TritonError
from ..instances.model_stub import ModelSource
from ..ipc.stub_launcher import ShmSettings

_GPUS = Path("/proc/driver/nvidia/gpus")


def visible_gpus() -> tuple[int, ...]:
    """Ordinals of the NVIDIA GPUs a stub will see, without importing anything that would create a CUDA context."""
    try:
        count = len(list(_GPUS.iterdir()))
    except OSError:
        return ()
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return tuple(range(count))
    return tuple(range(len([part for part in chosen.split(",") if part.strip() and part.strip() != "-1"])))


def model_source(config: ModelConfig, directory: Path, version: int) -> ModelSource:
    """Where the model's code is. Raises InvalidArgumentError if no backend of ours runs it (rule 2.5.7)."""
    if config.backend != "python":
        raise InvalidArgumentError(
            f"unable to find backend library for backend '{config.backend}', "
            "try specifying runtime on the model configuration."
        )
    if "EXECUTION_ENV_PATH" in config.parameters:
        raise TritonError.of(
            Code.UNSUPPORTED,
            "EXECUTION_ENV_PATH is not supported yet: the model runs in the notebook's environment. Remove the parameter.",
        )
    file = config.default_model_filename
    if not file.endswith(".py"):
        raise TritonError.of(Code.INTERNAL, f"Model name must end with '.py'. Model name is \"{file}\".")
    version_directory = directory / str(version)
    return ModelSource(
        model=config.name,
        version=version,
        module=f"{version}.{file.removesuffix('.py')}",
        path=os.path.abspath(version_directory / file),
        paths=(str(version_directory), str(directory)),
        model_dir=str(version_directory),
    )


#: key -> (what it sets, smallest value, text for a smaller one); rule 2.9
_SIZES = {
    "shm-default-byte-size": ("default_byte_size", 1 << 20, "shm-default-byte-size can't be smaller than 4 MiBs"),
    "shm-growth-byte-size": ("growth_byte_size", 1, "shm-growth-byte-size can't be smaller than or equal to zero."),
    # ours: bounds a stub's region, to reproduce the peer's behaviour in a small /dev/shm
    "shm-limit-byte-size": ("limit", 1 << 20, "shm-limit-byte-size can't be smaller than 1 MiB"),
}


def shm_settings(backend_config: Mapping[str, str]) -> ShmSettings:
    """The region sizes of `--backend-config=python,<key>=<value>`. Raises InvalidArgumentError."""
    values: dict[str, int] = {}
    for key, text in backend_config.items():
        if key not in _SIZES:
            continue
        field, smallest, message = _SIZES[key]
        try:
            values[field] = int(text)
        except ValueError:
            raise InvalidArgumentError(f"{key} must be a number of bytes, got '{text}'") from None
        if values[field] < smallest:
            raise InvalidArgumentError(message)
    return ShmSettings(**values)
