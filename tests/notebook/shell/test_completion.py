from __future__ import annotations

from typing import Any

import pytest


def complete(notebook: Any, text: str) -> list[str]:
    from IPython.core.completer import provisionalcompleter

    with provisionalcompleter():
        return [found.text for found in notebook.shell.Completer.completions(text, len(text))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("%%triton_model m --max", ["--max-batch-size"]),
        ("%%triton_model m --kind g", ["gpu"]),
        ("%%triton_model m --in", ["--instances", "--input"]),
        ("%%triton_model m --input A:FP32[1] --inp", ["--input"]),
        ("%triton un", ["unload"]),
        ("%triton help exp", ["export"]),
        ("%triton export m --o", ["--overwrite"]),
    ],
)
def test_options_subcommands_and_values(notebook: Any, text: str, found: list[str]) -> None:
    assert complete(notebook, text) == found


def test_an_option_is_offered_once(notebook: Any) -> None:
    assert "--max-batch-size" not in complete(notebook, "%%triton_model m --max-batch-size 8 --m")


def test_models_by_name(notebook: Any) -> None:
    notebook.run("%%triton_file add_sub helper.py --quiet\nx = 1\n")
    notebook.run("%%triton_file other helper.py --quiet\nx = 1\n")
    names = complete(notebook, "%triton unload ")  # and what the shared server saw in other tests
    assert {"add_sub", "other"} <= set(names)
    assert complete(notebook, "%%triton_model add_s") == ["add_sub"]


def test_the_body_of_the_cell_is_not_ours(notebook: Any) -> None:
    assert "import" in complete(notebook, "%%triton_model m\nimp")
