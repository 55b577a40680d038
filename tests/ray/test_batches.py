from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engines.models import DOUBLE, DOUBLE_CONFIG, SLEEPER, SLEEPER_CONFIG, TOTAL, TOTAL_CONFIG
from tests.ray_modules import Dataset, fake_ray
from tests.serving import write_model
from tritonlab.core.status import InvalidArgumentError


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("batches")
    write_model(found, "double", DOUBLE, DOUBLE_CONFIG)
    write_model(found, "sleeper", SLEEPER, SLEEPER_CONFIG)
    write_model(found, "total", TOTAL, TOTAL_CONFIG)
    return found


def mapped(monkeypatch: pytest.MonkeyPatch, model: Path, block: dict[str, Any], **options: Any) -> dict[str, Any]:
    fake_ray(monkeypatch)
    from tritonlab.ray import map_batches

    dataset = Dataset(block)
    found: dict[str, Any] = map_batches(dataset, model, **options)
    assert dataset.context.execution_options.preserve_order
    return found


def test_order_and_failures_are_kept(monkeypatch: pytest.MonkeyPatch, models: Path) -> None:
    values = np.arange(20, dtype=np.float32)
    values[[3, 17]] = -1
    found = mapped(monkeypatch, models / "double", {"IN": values, "k": np.arange(20)}, batch_size=20)
    failed = np.isin(np.arange(20), [3, 17])
    assert found["k"].tolist() == list(range(20))
    assert [text != "" for text in found["error"]] == failed.tolist() and found["error"][3] == "negative"
    assert np.isnan(found["OUT"][failed]).all() and (found["OUT"] == values * 2)[~failed].all()


def test_a_model_without_a_batch_dimension_gets_rows(monkeypatch: pytest.MonkeyPatch, models: Path) -> None:
    x = np.arange(6, dtype=np.float64).reshape(3, 2)  # the model has 32 bits
    found = mapped(monkeypatch, models / "sleeper", {"x": x}, columns={"IN": "x"})
    assert (found["OUT"] == x * 2).all() and found["SEEN"].shape == (3,)


def test_rows_that_all_fail_have_what_the_config_declares(monkeypatch: pytest.MonkeyPatch, models: Path) -> None:
    found = mapped(monkeypatch, models / "double", {"IN": np.float32([[-1, 1], [-2, 2]])}, error_column="why")
    assert found["why"].tolist() == ["negative"] * 2 and found["OUT"].shape == (2, 0)


def test_what_cannot_be_mapped_is_refused(monkeypatch: pytest.MonkeyPatch, models: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="'total' keeps sequences"):
        mapped(monkeypatch, models / "total", {"IN": np.float32([1])})
    with pytest.raises(InvalidArgumentError, match="no column 'IN' for the input 'IN'; `columns` names another"):
        mapped(monkeypatch, models / "double", {"x": np.float32([1])})
