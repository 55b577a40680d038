"""The version in a path."""

from __future__ import annotations

from ...core.status import InvalidArgumentError

_MAX = 2**63 - 1


def version_number(text: str) -> int:
    """Return the version in a path as a number; `""` is -1, the latest. Raises InvalidArgumentError for more than 64
    bits."""
    number = int(text.lstrip("0")[:20] or 0) if text else -1
    if number > _MAX:
        raise InvalidArgumentError(
            f"failed to get model version from specified version string '{text}' (details: stol), version should be an "
            "integral value > 0"
        )
    return number
