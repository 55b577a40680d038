from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tritonlab.export.environment.lock import Distribution, EnvironmentRefused, Pin, imported, lock_text, pins
from tritonlab.export.environment.python_prefix import own_python
from tritonlab.export.loaded_modules import third_party_modules

NUMPY_2 = Distribution("numpy", "2.4.6", 7, "numpy")


def test_modules_lead_to_the_distributions_that_they_came_from(tmp_path: Path) -> None:
    modules = {
        "json": __import__("json").__file__,
        "numpy": np.__file__,
        "numpy.linalg": np.linalg.__file__,
        "_distutils_hack": str(Path(np.__file__).parents[1] / "_distutils_hack" / "__init__.py"),
        "helper": str(tmp_path / "model" / "1" / "helper.py"),
        "beside": str(tmp_path / "beside.py"),
    }
    found = imported(third_party_modules(modules, [tmp_path / "model"]))
    ((name, version, size, why),) = found.distributions
    assert (name, version, why) == ("numpy", np.__version__, "numpy")
    assert size > 10_000_000
    assert found.loose == {"beside": str(tmp_path / "beside.py")}


def test_numpy_is_1_for_releases_whose_stub_was_compiled_for_it() -> None:
    assert [pin.version for pin in pins([NUMPY_2], "2.51", "3.12")] == ["1.26.4"]
    assert [pin.version for pin in pins([NUMPY_2], "2.51", "3.8")] == ["1.24.4"]
    assert [pin.version for pin in pins([NUMPY_2], "2.52", "3.12")] == ["2.4.6"]
    assert [pin.version for pin in pins([NUMPY_2._replace(version="1.25.0")], "2.36", "3.11")] == ["1.25.0"]
    assert [pin.name for pin in pins([], "2.51", "3.11")] == ["numpy"]  # the stub itself needs it
    with pytest.raises(EnvironmentRefused, match=r"numpy < 2, which has no release for Python 3\.13") as refused:
        pins([NUMPY_2], "2.51", "3.13")
    assert refused.value.fix == "use a Python up to 3.12, or a later release of Triton"


def test_the_lock_says_why() -> None:
    local = Distribution("torch", "2.9.0+cpu", 9, "torch")
    text = lock_text(pins([NUMPY_2, local], "2.51", "3.11"), "2.51", own_python())
    assert "# numpy < 2: the stubs of Triton up to 2.51 were compiled for numpy 1." in text
    assert "numpy==1.26.4  #" in text and "2.4.6 here" in text
    assert "torch==2.9.0  # import torch; 2.9.0+cpu here, a local build" in text
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in text
    assert Pin("a", "1").line == "a==1"
