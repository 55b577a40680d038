"""A public class is known by its name, and so is a module: the package, the stub included, has none of them twice."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.test_layering import PACKAGE

#: What programs know by these names: NVIDIA's package `tritonserver`.
FACADE = "tritonserver/"
#: Models of Triton's, each alone in its process: their class has the name that Triton wants.
BACKENDS = "backends/"
#: What authors know by these names in pb_utils, and notebooks in tritonlab.
IN_PB_UTILS = {"InferenceRequest", "InferenceResponse", "ResponseIterator", "Tensor", "TritonError"}
#: `Server` and `Model` of a notebook extend those of `server.api`; another `Server` is what grpcio calls so.
TWICE = {"Model", "Server", *IN_PB_UTILS}
#: Modules that Triton or Python names, and those that each protocol, or the link, has of its own.
MODULES_TWICE = {
    "__init__",
    "__main__",
    "c_python_backend_utils",
    "triton_python_backend_utils",
    "infer_request",
    "infer_response",
    "model",
    "server",
    "connection",
    "errors",
}


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if place.startswith((FACADE, BACKENDS)):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(place)
    assert {name: found for name, found in places.items() if len(found) > 1 and name not in TWICE} == {}


def test_no_two_modules_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if not place.startswith(FACADE):
            places[path.stem].append(place)
    assert {name: found for name, found in places.items() if len(found) > 1 and name not in MODULES_TWICE} == {}
