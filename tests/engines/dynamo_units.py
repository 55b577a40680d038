"""The unit tests that NVIDIA ships with its worker, run on `tritonlab.tritonserver` under the name `tritonserver`."""

from __future__ import annotations

import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

from tests.engines.environment import ENGINES, environment, python_of

#: `python -m dynamo.triton` and its tests import NVIDIA's package by this name.
SHIM = "import sys\n\nimport tritonlab.tritonserver\n\nsys.modules[__name__] = tritonlab.tritonserver\n"
#: What they want of the machine and not of the package: a directory of NVIDIA's container.
WANT_CONTAINER = {
    "test_config_options_passed_to_server",
    "test_argv_flows_through_parse_args_into_server[backend-directory]",
}
_NO_DIRECTORY = "'/opt/tritonserver/include' does not exist"


class UnitTests(NamedTuple):
    """The number of those that passed, and the failures by name with their texts."""

    passed: int
    failed: dict[str, str]

    @property
    def wrong(self) -> dict[str, str]:
        """The failures that are ours."""
        return {
            name: text for name, text in self.failed.items() if name not in WANT_CONTAINER or _NO_DIRECTORY not in text
        }


def write_shim(directory: Path) -> Path:
    """Write the module `tritonserver` into a directory for PYTHONPATH."""
    directory.mkdir(exist_ok=True)
    (directory / "tritonserver.py").write_text(SHIM)
    return directory


def run() -> UnitTests:
    """Run them all and return their results."""
    (tests,) = ENGINES.glob("dynamo/lib/python3*/site-packages/dynamo/triton/tests")
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        (here / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
        report = here / "report.xml"
        subprocess.run(
            [python_of("dynamo"), "-m", "pytest", "-q", "-c", "pytest.ini", "--rootdir", ".", "-p", "no:cacheprovider",
             "--disable-warnings", f"--junit-xml={report}", f"--ignore={tests / 'qa'}", str(tests)],
            cwd=here, env=environment(write_shim(here / "shim")), check=False, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        cases = list(ElementTree.parse(report).iter("testcase"))
    failed = {
        str(case.get("name")): "".join(each.text or "" for each in case)
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    }
    skipped = sum(case.find("skipped") is not None for case in cases)
    return UnitTests(len(cases) - len(failed) - skipped, failed)
