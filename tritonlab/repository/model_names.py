"""Names of models: those that the stub of every Triton runs, and those that a notebook gives (rules 2.9.2, 5.11.4)."""

from __future__ import annotations

from typing import Final

#: Characters refused in model, instance and region names: Triton once passed them to a shell (rule 2.9.2).
REFUSED: Final = frozenset(";|&$`<>()[]{}\\\"'*?~#!")

#: The remedy for an invalid name.
ADVICE: Final = "use letters from a to z, digits, '_' and, within it, '-' and '.'"


def stub_fault(name: str) -> str:
    """Return why the Python backend of some release cannot run a model of this name, as a sentence whose subject is the
    name; "" if all can.
    """
    if blank := next(filter(str.isspace, name), ""):
        return f"has {'a space' if blank == ' ' else repr(blank)}, and Triton's stub does not start on such a path"
    if not name.isascii():
        return "is not ASCII, and Triton's stub imports nothing from such a path"
    if refused := sorted(REFUSED.intersection(name)):
        return f"has {' and '.join(map(repr, refused))}, which Triton's Python backend refuses"
    return ""


def name_fault(name: str, has_stub: bool = True) -> str:
    """Return why no model can be written under this name, as a sentence whose subject is the name; "" if it can.
    `has_stub`: whether it is a model of the Python backend, and not an ensemble."""
    if name in ("", ".", "..") or "/" in name:
        return "is not that of a directory in a repository"
    if marks := [each for each in dict.fromkeys(name) if not each.isprintable()]:
        return f"has {' and '.join(map(repr, marks))}, which no line shows"
    if name.startswith("-"):
        return "would be an option for commands"
    if name.startswith("."):
        return "would be that of a hidden directory"
    return stub_fault(name) if has_stub else ""
