"""A public class is known by its name: no two modules of the package have one of the same."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.test_layering import PACKAGE

#: What authors and programs know by these names: pb_utils in the stub, NVIDIA's package `tritonserver`.
FACADES = ("stub/_pb_stub/api/", "tritonserver/")
#: One thing with a half on each side of the process border; what a client asked, to a snippet and to gRPC; what grpcio
#: calls so.
TWICE = {"Asked", "LeftOut", "Zygote", "Server"}


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if place.startswith(FACADES):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(place)
    assert {name: found for name, found in places.items() if len(found) > 1 and name not in TWICE} == {}
