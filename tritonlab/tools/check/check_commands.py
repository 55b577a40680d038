"""`%triton check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...notebook.shell.subcommand import Context

if TYPE_CHECKING:
    from .check_result import CheckResult


def check(context: Context, name: str, **options: Any) -> CheckResult:
    """Check a model and return the result. An interrupt ends it with the findings so far."""
    return context.model(name).check(progress=False if context.json else None, **options)
