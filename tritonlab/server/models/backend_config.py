"""The settings of `--backend-config=[<backend>,]<key>=<value>` (rule 2.9), with the settings of the Python backend
among them.

Triton reads them when the first model loads and fails that load; here an invalid one fails the server's construction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from ...core.status import InvalidArgumentError
from ...ipc.processes.stub_launcher import ShmSettings
from ...repository.model_names import REFUSED

#: The settings of a server: of single backends by their name, and, next to them, of all backends by their keys.
WrittenConfig: TypeAlias = "Mapping[str, str | Mapping[str, str]]"

#: key -> (field of ShmSettings or None, smallest value, text for a smaller one). Settings without a field control
#: Triton's queues, threads and timeouts, and nothing here; they are checked, so that a command line that works here
#: works there.
_NUMBERS: dict[str, tuple[str | None, int, str]] = {
    "shm-default-byte-size": ("default_byte_size", 1 << 20, "shm-default-byte-size can't be smaller than 4 MiBs"),
    "shm-growth-byte-size": ("growth_byte_size", 1, "shm-growth-byte-size can't be smaller than or equal to zero."),
    "stub-timeout-seconds": (None, 1, "stub-timeout-seconds can't be smaller than or equal to zero."),
    "thread-pool-size": (None, 1, "thread-pool-size can't be less than 1."),
    "shm_message_queue_size": (None, 1, "shm_message_queue_size can't be less than 1."),
    # tritonlab's own: bounds a stub's region, to reproduce Triton's behaviour in a small /dev/shm
    "shm-limit-byte-size": ("limit", 1 << 20, "shm-limit-byte-size can't be smaller than 1 MiB"),
}


def settings_of(backend_config: WrittenConfig, backend: str) -> dict[str, str]:
    """Return the settings of a backend: its own precede the settings of all backends. Raises InvalidArgumentError."""
    for_all = {key: value for key, value in backend_config.items() if not isinstance(value, Mapping)}
    own = backend_config.get(backend, {})
    found = {**for_all, **(own if isinstance(own, Mapping) else {})}
    for key, value in found.items():
        if not isinstance(value, str):
            raise InvalidArgumentError(f"the backend setting {key} is {value!r}, expected a text")
    return found


def shm_settings(backend_config: WrittenConfig) -> ShmSettings:
    """Return the sizes of the stubs' regions. Raises InvalidArgumentError; like Triton, unknown keys are ignored."""
    values: dict[str, int] = {}
    for key, text in settings_of(backend_config, "python").items():
        if key == "shm-region-prefix-name":
            if not text:
                raise InvalidArgumentError("shm-region-prefix-name must at least contain one character.")
            if not REFUSED.isdisjoint(text):
                raise InvalidArgumentError("Invalid shared memory region name: contains invalid characters")
        elif key in _NUMBERS:
            field, smallest, message = _NUMBERS[key]
            try:
                number = int(text)
            except ValueError:
                raise InvalidArgumentError(f"{key} must be a whole number, got '{text}'") from None
            if number < smallest:
                raise InvalidArgumentError(message)
            if field is not None:
                values[field] = number
    return ShmSettings(**values)


def check_stub_name(name: str) -> None:
    """Check the name of a model or an instance (rule 2.9.2). Raises InvalidArgumentError."""
    if not REFUSED.isdisjoint(name):
        raise InvalidArgumentError("Invalid stub name: contains invalid characters")
