"""Settings as clients read and write them, and which requests they choose. Values and texts measured on 2.51."""

from __future__ import annotations

import pytest

from tritonlab.core.observe.trace_settings import TraceSetting, TraceSettings
from tritonlab.core.status import InvalidArgumentError, UnsupportedError

DEFAULTS = {
    "trace_level": ["OFF"],
    "trace_rate": ["1000"],
    "trace_count": ["-1"],
    "log_frequency": ["0"],
    "trace_file": [""],
    "trace_mode": ["triton"],
}


def ready(name: str) -> bool:
    return name == "add"


def make(setting: TraceSetting | None = None) -> TraceSettings:
    return TraceSettings(setting or TraceSetting(), ready, lambda: None)


def tracing(rate: int = 1, count: int = -1) -> TraceSettings:
    return make(TraceSetting(("TIMESTAMPS",), rate, count, file="t.json"))


def test_the_defaults() -> None:
    settings = make()
    assert settings.get() == settings.get("add") == DEFAULTS
    assert list(settings.get()) == list(DEFAULTS)
    assert not settings.active()


def test_opentelemetry_shows_its_options_and_no_file() -> None:
    settings = make(TraceSetting(("TIMESTAMPS",), 1, mode="opentelemetry", options=(("url", "localhost:1"),)))
    assert settings.get() == {
        "trace_level": ["TIMESTAMPS"],
        "trace_rate": ["1"],
        "trace_count": ["-1"],
        "trace_mode": ["opentelemetry"],
        "url": ["localhost:1"],
    }
    assert settings.active()


def test_a_model_overrides_and_clears() -> None:
    settings = tracing()
    settings.update("add", {"trace_rate": ["7"], "log_frequency": ["9"]})
    settings.update("", {"trace_rate": ["8"], "log_frequency": ["11"], "trace_count": ["4"]})
    assert settings.get("add")["trace_rate"] == ["7"]
    assert settings.get("add")["trace_count"] == ["4"]
    settings.update("add", {"trace_rate": None})
    assert (settings.get("add")["trace_rate"], settings.get("add")["log_frequency"]) == (["8"], ["9"])
    settings.update("", {"trace_rate": None})
    assert settings.get()["trace_rate"] == settings.get("add")["trace_rate"] == ["1"]


@pytest.mark.parametrize("levels", [["FOO"], []])
def test_levels_that_do_not_exist_change_nothing(levels: list[str]) -> None:
    settings = tracing()
    settings.update("", {"trace_level": ["TENSORS", "FOO"]})
    assert settings.get()["trace_level"] == ["TENSORS"]
    settings.update("", {"trace_level": levels, "foo": ["bar"]})
    assert settings.get()["trace_level"] == ["TENSORS"]


def test_numbers_are_read_as_c_reads_them() -> None:
    settings = tracing()
    settings.update("", {"trace_rate": ["12x"], "log_frequency": ["-1"], "trace_count": ["-1"]})
    found = settings.get()
    assert (found["trace_rate"], found["log_frequency"], found["trace_count"]) == (["12"], ["4294967295"], ["-1"])


@pytest.mark.parametrize(
    ("field", "values", "text"),
    [
        ("trace_level", ["OFF", "TENSORS"], "Expect only one trace level 'OFF' is specified"),
        ("trace_rate", ["abc"], "Unable to parse 'trace_rate', got: abc"),
        ("trace_rate", [""], "Unable to parse 'trace_rate', got: "),
        ("trace_rate", ["1", "2"], "expect only 1 value for 'trace_rate'"),
        ("trace_rate", ["0"], "Attempting to set invalid trace setting :sample rate must be non-zero"),
        (
            "trace_rate",
            ["4294967296"],
            "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: 4294967296",
        ),
        ("trace_count", ["-2"], "Unable to parse 'trace_count'. Expecting value >= -1, got:-2"),
        (
            "trace_count",
            ["2147483648"],
            "Unable to parse 'trace_count', value is out of range [ -1, 2147483647 ], got: 2147483648",
        ),
        ("log_frequency", ["x"], "Unable to parse 'log_frequency', got: x"),
    ],
)
def test_what_cannot_be_set(field: str, values: list[str], text: str) -> None:
    settings = tracing()
    before = settings.get()
    with pytest.raises(InvalidArgumentError) as error:
        settings.update("", {"trace_count": ["3"], field: values})
    assert error.value.message == text
    assert settings.get() == before


@pytest.mark.parametrize("values", [["x"], None])
def test_no_client_sets_the_file(values: list[str] | None) -> None:
    with pytest.raises(UnsupportedError, match=r"^trace file location can not be updated through network protocol$"):
        make().update("", {"trace_file": values})


def test_only_off_may_stay_without_a_file() -> None:
    settings = make()
    settings.update("", {"trace_rate": ["0"]})
    with pytest.raises(InvalidArgumentError, match=r":sample rate must be non-zero$"):
        settings.update("", {"trace_level": ["TIMESTAMPS"]})
    with pytest.raises(InvalidArgumentError, match=r":trace file name is not given$"):
        settings.update("", {"trace_level": ["TIMESTAMPS"], "trace_rate": None})


def test_a_model_must_be_there() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^Request for unknown model : nope$"):
        make().get("nope")
    with pytest.raises(InvalidArgumentError, match=r"^Request for unknown model : nope$"):
        make().update("nope", {"trace_rate": ["x"]})


def test_one_request_of_rate_is_traced_until_the_count_has_run_out() -> None:
    settings = tracing(rate=2, count=2)
    assert [settings.sample("add") is not None for _ in range(6)] == [False, True, False, True, False, False]
    assert settings.get()["trace_count"] == ["0"]
    assert not settings.active()


def test_a_forced_request_is_traced_in_mode_opentelemetry() -> None:
    settings = make(TraceSetting(("TIMESTAMPS",), 3, mode="opentelemetry"))
    assert settings.sample("add", forced=True) is not None
    assert settings.sample("add") is None
    settings.update("", {"trace_count": ["0"]})
    assert settings.sample("add", forced=True) is not None
    assert settings.active()
    assert tracing(rate=3).sample("add", forced=True) is None


def test_a_count_that_ran_down_is_whole_again_after_any_update() -> None:
    settings = tracing(count=5)
    settings.sample("add")
    settings.update("add", {"log_frequency": ["3"]})
    assert settings.get()["trace_count"] == settings.get("add")["trace_count"] == ["4"]
    settings.update("", {"trace_rate": ["1"]})
    assert settings.get()["trace_count"] == settings.get("add")["trace_count"] == ["5"]


def test_models_without_an_override_share_the_count_of_requests() -> None:
    settings = tracing(rate=2)
    settings.update("add", {"trace_rate": ["1"]})
    assert [settings.sample(name) is not None for name in ("a", "b", "add", "a", "b")] == [
        False,
        True,
        True,
        False,
        True,
    ]


def test_the_owner_starts_and_stops() -> None:
    settings = make()
    settings.start(TraceSetting(("TENSORS",), 1, file="x.json"))
    assert settings.get()["trace_file"] == ["x.json"]
    assert settings.active()
    settings.stop()
    assert settings.get() == DEFAULTS
    with pytest.raises(InvalidArgumentError, match="file name is not given"):
        settings.start(TraceSetting(("TENSORS",), 1))


def test_changes_are_reported_and_a_count_that_runs_out() -> None:
    counts = []
    settings = TraceSettings(
        TraceSetting(("TIMESTAMPS",), 1, 2, file="x"), ready, lambda: counts.append(settings.get()["trace_count"])
    )
    settings.sample("add")
    assert counts == []
    settings.sample("add")
    assert counts == [["0"]]
    settings.update("", {"trace_count": ["5"]})
    assert counts == [["0"], ["5"]]
