from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import tritonlab
from tests.models import ADD_SUB, ADD_SUB_CONFIG
from tritonlab import runtime
from tritonlab.core.status import InvalidArgumentError


@pytest.fixture(autouse=True)
def end() -> Iterator[None]:
    yield
    tritonlab.reset()


def test_the_next_default_server_has_the_options_of_the_reset() -> None:
    first = tritonlab.default_server()
    tritonlab.reset(cache_config="local,size=4096")
    assert not first.live()
    model = tritonlab.load("cached", ADD_SUB, config=ADD_SUB_CONFIG + "response_cache { enable: true }\n")
    for _ in range(2):
        assert model(INPUT0=[1.0] * 4, INPUT1=[2.0] * 4)["OUTPUT0"].tolist() == [3.0] * 4
    assert model.statistics()["model_stats"][0]["inference_stats"]["cache_hit"]["count"] == 1
    tritonlab.reset()
    model = tritonlab.load("cached", ADD_SUB, config=ADD_SUB_CONFIG + "response_cache { enable: true }\n")
    (warning,) = [record.text for record in model.logs() if record.level == "WARNING"]
    assert warning == (
        "response_cache has no effect: the server has no cache. In a notebook `tritonlab.reset(cache_config="
        "'local,size=<bytes>')` makes one that has, elsewhere Server(…, cache_config=…) or --cache-config."
    )


def test_an_unknown_option_ends_nothing() -> None:
    server = tritonlab.default_server()
    with pytest.raises(TypeError, match="cache_size"):
        tritonlab.reset(cache_size=5)
    assert server.live() and tritonlab.default_server() is server


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("simulated_gpus", -1),
        ("cache_config", "x"),
        ("rate_limit", "x"),
        ("model_control_mode", "x"),
        ("backend_config", {"shm-default-byte-size": "x"}),
    ],
)
def test_an_option_that_no_server_can_have_ends_nothing(name: str, value: Any) -> None:
    server = tritonlab.default_server()
    with pytest.raises(InvalidArgumentError):
        tritonlab.reset(**{name: value})
    assert server.live() and tritonlab.default_server() is server


def test_a_server_that_does_not_record_begins_on_request() -> None:
    tritonlab.reset(recording=False)
    server = tritonlab.default_server()
    assert list(server.instruments) == []
    assert tritonlab.recording() is tritonlab.recording()
    assert len(list(server.instruments)) == 1


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_that_is_forked_while_a_server_is_made_can_make_its_own() -> None:
    with runtime._lock:
        child = os.fork()
        if not child:
            os._exit(0 if runtime._lock.acquire(timeout=5) else 1)
    assert os.waitpid(child, 0)[1] == 0
