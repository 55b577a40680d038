"""promtool, Prometheus' own judge of rules and expressions: unit tests on series that are written out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_BUILT = Path(__file__).parents[4] / "build" / "promtool"
PROMTOOL = shutil.which("promtool") or (str(_BUILT) if os.access(_BUILT, os.X_OK) else None)
#: One series: its name with labels, and its values, one for each minute, in promtool's notation.
Series = Mapping[str, str]


def failures(folder: Path, groups: Sequence[Mapping[str, Any]], rules: str | None = None) -> str:
    """Return what promtool says of test groups that fail; empty if they pass.

    Args:
        folder: a directory for the files.
        groups: as `tests` of promtool, with an interval of a minute.
        rules: the text of a file of rules.
    """
    document: dict[str, Any] = {"evaluation_interval": "1m", "tests": [{"interval": "1m", **each} for each in groups]}
    if rules is not None:
        (folder / "rules.yaml").write_text(rules)
        document["rule_files"] = ["rules.yaml"]
    (folder / "tests.yaml").write_text(json.dumps(document))
    command = [str(PROMTOOL), "test", "rules", "tests.yaml"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return "" if result.returncode == 0 else result.stdout + result.stderr


def series(values: Series) -> list[dict[str, str]]:
    return [{"series": name, "values": text} for name, text in values.items()]
