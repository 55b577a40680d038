from __future__ import annotations

import ast

import pytest

from tritonlab.core.source.guards import never_run

OLD, NEW = (3, 10), (3, 12)


@pytest.mark.parametrize(
    ("test", "python", "runs"),
    [
        ("sys.version_info >= (3, 11)", OLD, "else"),
        ("sys.version_info >= (3, 11)", NEW, "body"),
        ("sys.version_info >= (3, 11)", (), "both"),
        ("sys.version_info >= (3, 10, 2)", OLD, "body"),
        ("sys.version_info[:2] < (3, 11)", OLD, "body"),
        ("sys.version_info[0] < 3", NEW, "else"),
        ("version_info.minor >= 11", NEW, "body"),
        ("__name__ == '__main__'", (), "else"),
        ("not TYPE_CHECKING", (), "body"),
        ("TYPE_CHECKING or use_it", (), "both"),
        ("sys.platform.startswith('win')", (), "else"),
        ("platform.system() == 'Linux' and sys.version_info < (3, 9)", OLD, "else"),
        ("os.name == 'nt' and use_it", (), "else"),
        ("sys.version_info > '3'", OLD, "both"),
        ("hasattr(np, 'concat')", OLD, "both"),
        ("use_it", OLD, "both"),
    ],
)
def test_the_branch_that_runs(test: str, python: tuple[int, ...], runs: str) -> None:
    tree = ast.parse(f"if {test}:\n    body\nelse:\n    other\n")
    left_out = {node.id for node in never_run(tree, python) if isinstance(node, ast.Name)}
    assert left_out == {"else": {"body"}, "body": {"other"}, "both": set()}[runs]
