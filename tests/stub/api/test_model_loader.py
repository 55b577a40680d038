from __future__ import annotations

from typing import Any

import pytest

from tests.stub.fake_bridge import FakeBridge, refusal
from tritonlab.stub._pb_stub.api.errors import TritonModelException
from tritonlab.stub._pb_stub.api.model_loader import is_model_ready, load_model, unload_model


@pytest.mark.rule("1.15.1", "1.15.2")
def test_what_a_load_asks_for(fake_bridge: FakeBridge) -> None:
    load_model("a")
    load_model("b", "{}", {"file:1/model.py": b"\xff\x00"})
    load_model(model_name="c", config="", files={})
    assert fake_bridge.calls == [
        ("LOAD_MODEL", ["a", "", {}]),
        ("LOAD_MODEL", ["b", "{}", {"file:1/model.py": "/wA="}]),
        ("LOAD_MODEL", ["c", "", {}]),
    ]


@pytest.mark.rule("1.15.2")
@pytest.mark.parametrize("files", [[], "x", 1])
def test_files_are_a_dictionary(fake_bridge: FakeBridge, files: Any) -> None:
    with pytest.raises(TritonModelException) as error:
        load_model("x", files=files)
    assert str(error.value) == (
        "failed to load model 'x', files should be a dictionary of file paths and file contents"
    )


@pytest.mark.rule("1.15.2")
def test_contents_are_bytes_and_paths_text(fake_bridge: FakeBridge) -> None:
    with pytest.raises(TypeError, match=r"^Object of type 'str' is not an instance of 'bytes'$"):
        load_model("x", files={"file:a": "text"})  # type: ignore[dict-item]
    with pytest.raises(RuntimeError, match=r"^Unable to cast Python instance"):
        load_model("x", files={1: b"x"})  # type: ignore[dict-item]
    assert fake_bridge.calls == []


@pytest.mark.rule("1.15.1")
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (load_model, (1,)),
        (load_model, ("a", None)),
        (unload_model, (None,)),
        (unload_model, ("a", None)),
        (unload_model, ("a", "x")),
        (is_model_ready, (1,)),
        (is_model_ready, ("a", 1)),
        (is_model_ready, ()),
    ],
)
def test_arguments_of_other_types(fake_bridge: FakeBridge, function: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        function(*arguments)
    assert fake_bridge.calls == []


@pytest.mark.rule("1.15.3", "1.15.7")
@pytest.mark.parametrize(
    ("function", "prefix"),
    [
        (load_model, "Failed to load model: "),
        (unload_model, "Failed to unload model: "),
        (is_model_ready, "Failed to check model readiness: "),
    ],
)
def test_the_servers_reason_is_raised(fake_bridge: FakeBridge, function: Any, prefix: str) -> None:
    for command in ("LOAD_MODEL", "UNLOAD_MODEL", "IS_MODEL_READY"):
        fake_bridge.answers[command] = refusal("the reason")
    with pytest.raises(TritonModelException) as error:
        function("a")
    assert str(error.value) == prefix + "the reason"


@pytest.mark.rule("1.15.1")
def test_readiness_and_unloading(fake_bridge: FakeBridge) -> None:
    fake_bridge.answers["IS_MODEL_READY"] = lambda body: body == ["a", "2"]
    assert is_model_ready("a", "2") is True
    assert is_model_ready("a") is False
    unload_model("a", unload_dependents=1)  # type: ignore[arg-type]
    assert fake_bridge.calls[-1] == ("UNLOAD_MODEL", ["a", True])
