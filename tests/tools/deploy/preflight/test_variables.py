from __future__ import annotations

from pathlib import Path

from tests.serving import write_model
from tritonlab.tools.deploy.preflight.judge import subject_in
from tritonlab.tools.deploy.preflight.variables import Variable, variables_of

SOURCE = """
import os
from os import environ, getenv

RATE = float(os.environ.get("RATE", "0.5"))
TABLE = os.environ["TABLE"]
TOKEN = getenv("HF_TOKEN")
LEVEL = environ.get("LEVEL", RATE)
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
print(os.environ["OMP_NUM_THREADS"], os.environ["HOME"], {}.get("other"))
"""


def test_variables_are_read_with_their_defaults_and_own_ones_are_left_out(tmp_path: Path) -> None:
    write_model(tmp_path, "m", SOURCE, "")
    write_model(tmp_path, "n", 'import os\nos.environ["RATE"]', "")
    one, other = subject_in(tmp_path / "m"), subject_in(tmp_path / "n")
    assert variables_of([one]) == [
        Variable("HF_TOKEN"),
        Variable("LEVEL"),
        Variable("RATE", "0.5"),
        Variable("TABLE", is_required=True),
    ]
    assert variables_of([one, other])[2] == Variable("RATE", "0.5", is_required=True)
    assert [each.is_secret for each in variables_of([one])] == [True, False, False, False]
