from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engines.models import DOUBLE, DOUBLE_CONFIG, SLEEPER, SLEEPER_CONFIG, TOTAL, TOTAL_CONFIG
from tests.models import executes
from tests.ray_modules import Dataset, fake_ray
from tests.serving import config, write_model
from tritonlab.core.status import InvalidArgumentError

#: A table of two equal rows, and the numbers as texts.
TABLES = executes("""
    answers = []
    for request in requests:
        x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        texts = np.array([str(each).encode() for each in x], dtype=object)
        error = pb_utils.TritonError("negative") if x[0] < 0 else None
        outputs = [pb_utils.Tensor("OUT", np.stack([x, x])), pb_utils.Tensor("TEXT", texts)]
        answers.append(pb_utils.InferenceResponse([] if error else outputs, error))
    return answers
""")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("batches")
    write_model(found, "double", DOUBLE, DOUBLE_CONFIG)
    write_model(found, "sleeper", SLEEPER, SLEEPER_CONFIG)
    write_model(found, "total", TOTAL, TOTAL_CONFIG)
    write_model(found, "one", DOUBLE, DOUBLE_CONFIG.replace("-1", "1"))
    write_model(found, "tables", TABLES, config("IN FP32 -1", "OUT FP32 2, -1; TEXT STRING -1"))
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
    assert np.isnan(found["OUT"][failed]).all() and (found["OUT"] == values[:, np.newaxis] * 2)[~failed].all()


def test_a_model_without_a_batch_dimension_gets_rows(monkeypatch: pytest.MonkeyPatch, models: Path) -> None:
    x = np.arange(6, dtype=np.float64).reshape(3, 2)  # the model has 32 bits
    found = mapped(monkeypatch, models / "sleeper", {"x": x}, columns={"IN": "x"})
    assert (found["OUT"] == x * 2).all() and found["SEEN"].shape == (3,)


def test_rows_that_all_fail_have_what_the_config_declares(monkeypatch: pytest.MonkeyPatch, models: Path) -> None:
    found = mapped(monkeypatch, models / "double", {"IN": np.float32([[-1, 1], [-2, 2]])}, error_column="why")
    assert found["why"].tolist() == ["negative"] * 2 and found["OUT"].shape == (2, 0)


@pytest.mark.parametrize(("model", "dimensions"), [("double", 2), ("one", 1)])
def test_a_column_is_of_one_kind_whatever_the_rows_of_a_batch(
    monkeypatch: pytest.MonkeyPatch, models: Path, model: str, dimensions: int
) -> None:
    for values in ([1, 2], [-1, -2], [-1, 2]):
        found = mapped(monkeypatch, models / model, {"IN": np.array(values)})
        assert found["OUT"].ndim == dimensions and found["OUT"].dtype == np.float32, values


def test_rows_of_several_shapes_and_lists_of_texts(monkeypatch: pytest.MonkeyPatch, models: Path) -> None:
    x = np.empty(3, dtype=object)
    x[:] = [np.ones(2), np.ones(3), -np.ones(2)]
    found = mapped(monkeypatch, models / "tables", {"IN": x})
    assert [each.shape for each in found["OUT"]] == [(2, 2), (2, 3), (2, 2)] and found["error"][2] == "negative"
    assert found["TEXT"].tolist() == [[b"1.0"] * 2, [b"1.0"] * 3, [b""] * 2]


def test_what_cannot_be_mapped_is_refused(monkeypatch: pytest.MonkeyPatch, models: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="'total' keeps sequences"):
        mapped(monkeypatch, models / "total", {"IN": np.float32([1])})
    with pytest.raises(InvalidArgumentError, match="no column 'IN' for the input 'IN'; `columns` names another"):
        mapped(monkeypatch, models / "double", {"x": np.float32([1])})
