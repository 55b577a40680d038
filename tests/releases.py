"""`make releases`: models on every release of Triton that can be had as a wheel, printed as a table.

python -m tests.releases [2.51 2.36 ...]
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.conformance.test_verify import VALUE, write_models
from tritonlab.clients.golden_files import GoldenCase
from tritonlab.export.verify.verification import verify
from tritonlab.export.verify.wheels import CACHE_VARIABLE, wheels


def main(releases: list[str]) -> int:
    """Verify the models on the releases, and print a row for each model. Return 1 if a release was not verified."""
    os.environ.setdefault(CACHE_VARIABLE, str(Path("build/cache").absolute()))
    with tempfile.TemporaryDirectory() as scratch:
        repository = Path(scratch) / "models"
        write_models(repository, Path(scratch) / "notebook")
        names = sorted(path.name for path in repository.iterdir())
        cases = [GoldenCase(name, "ok", {"IN": VALUE}, {}) for name in names]
        hide = [Path(scratch) / "notebook"]
        found = verify(repository, triton=releases or list(wheels()), requests=cases, hide=hide, say=print)
        rows = {
            each.release: {model.name: model.symbol + "*" * model.passed for model in each.models}
            for each in found.releases
        }
    print("model".ljust(12), *(release.ljust(6) for release in rows))
    for name in names:
        print(name.ljust(12), *(row.get(name, "-").ljust(6) for row in rows.values()))
    print("*: passed; = equal, t an error's wording, D differs, X does not load, - not verified")
    return 0 if all(each.verified for each in found.releases) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
