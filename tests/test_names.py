"""A public class is known by its name: no two modules of the package, the stub's included, have one of the same."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.test_layering import PACKAGE

#: What programs know by these names: NVIDIA's package `tritonserver`.
FACADE = "tritonserver/"
#: What authors know by these names in pb_utils, and notebooks in tritonlab.
IN_PB_UTILS = {"InferenceRequest", "InferenceResponse", "ResponseIterator", "Tensor", "TritonError"}
#: The other one is what grpcio calls so.
TWICE = {"Server", *IN_PB_UTILS}


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if place.startswith(FACADE):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(place)
    assert {name: found for name, found in places.items() if len(found) > 1 and name not in TWICE} == {}
