"""The metadata of the server, and how its clients name versions."""

from __future__ import annotations

import re

from ..core.status import InvalidArgumentError

SERVER_NAME = "triton"
#: The release whose newest behaviour the rule book describes (rule 0.1).
SERVER_VERSION = "2.73.0"
#: The server's extensions (rule 6.2), in Triton's order.
EXTENSIONS = (
    "classification",
    "sequence",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    "system_shared_memory",
    "cuda_shared_memory",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
)

_NUMBER = re.compile(r"[ \t-\r]*[+-]?[0-9]{1,99}")


def parse_version(text: str) -> int:
    """Return the number of a version in a client's text; `""` is -1, the latest. Raises InvalidArgumentError with
    Triton's texts (rule 1.15.7).

    Triton reads only the leading number: `1x` is 1 (measured).
    """
    if not text:
        return -1
    digits = _NUMBER.match(text)
    if digits is None or not -(1 << 63) <= int(digits[0]) < 1 << 63:
        detail = " (details: stol)"
    elif (number := int(digits[0])) >= 0:
        return number
    else:
        detail = ""
    raise InvalidArgumentError(
        f"failed to get model version from specified version string '{text}'{detail}, "
        "version should be an integral value > 0"
    )
