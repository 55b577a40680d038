"""The answers of the probe in the copy of a model."""

from __future__ import annotations

import json
from pathlib import Path

from tritonlab.stub._pb_stub.process.model_probe import ModelProbe


def test_it_counts_the_objects_that_are_held(tmp_path: Path) -> None:
    probe = ModelProbe(str(tmp_path / "m" / "1" / "model.py"), str(tmp_path))

    def count() -> int:
        (tmp_path / "order").write_text("count")
        probe.obey()
        return int(json.loads((tmp_path / "answer").read_text()))

    before = count()
    kept = [object() for _ in range(1000)]
    assert before > 1000
    assert 900 < count() - before < 1500
    assert len(kept) == 1000
