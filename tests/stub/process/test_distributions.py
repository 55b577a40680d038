from __future__ import annotations

from importlib import metadata

import pytest

from tritonlab.stub._pb_stub.process.distributions import distribution_of


@pytest.mark.parametrize(
    ("module", "distribution"), [("numpy", "numpy"), ("sklearn", "scikit-learn"), ("IPython", "ipython")]
)
def test_a_module_is_found_in_what_pip_wrote(module: str, distribution: str) -> None:
    file = __import__(module).__file__
    assert file is not None
    name, version = distribution_of(module, file)
    assert (name.lower(), version) == (distribution, metadata.version(distribution))
    assert distribution_of("no_such_module", file) == ("", "")
    assert distribution_of("os", "/nowhere/at/all/os.py") == ("", "")
