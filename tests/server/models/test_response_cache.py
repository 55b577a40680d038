from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.engine.schedulers.batching import services
from tritonlab.core.inference.infer_request import InferenceRequest, RequestEvent, RequestState
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.metrics.infer_stats import InferStats
from tritonlab.core.observe.instrument import Instruments
from tritonlab.core.status import InvalidArgumentError, ModelError, UnavailableError
from tritonlab.server.models.response_cache import CachedModel, ResponseCache, parse_cache_config, request_key
from tritonlab.testing import FakeTimer, MockClock, RecordingInstrument, collect

#: All outputs of a model.
OUTPUTS = frozenset({"X", "Y"})


def tensor(*values: float, shape: tuple[int, ...] | None = None, dtype: Any = np.float32) -> Tensor:
    array = np.array(values, dtype)
    return Tensor.from_numpy(array.reshape(shape) if shape is not None else array)


def asking(*values: float, request_id: str = "", **more: Any) -> InferenceRequest:
    return InferenceRequest("m", {"IN": tensor(*values)}, request_id=request_id, **more)


def answering(*values: float, **more: Any) -> InferenceResponse:
    return InferenceResponse("m", 1, outputs={"OUT": tensor(*values)}, **more)


class Bench:
    """A cached model whose scheduler is the test."""

    def __init__(self, size: int = 10_000) -> None:
        self.clock = MockClock()
        self.cache = ResponseCache(size)
        self.stats = InferStats()
        self.events = RecordingInstrument()
        self.instruments = Instruments()
        self.instruments.add(self.events)
        self.warnings: list[str] = []
        self.executed: list[InferenceRequest] = []
        self.model = self.load()

    def load(self, execute: Callable[[InferenceRequest], None] | None = None) -> CachedModel:
        warn = self.warnings.append
        more = services(self.clock, FakeTimer(self.clock), instruments=self.instruments, stats=self.stats, warn=warn)
        return CachedModel(self.cache, "m", 1, ["OUT"], execute or self._execute, more)

    def _execute(self, request: InferenceRequest) -> None:
        self.clock.advance(100)
        request.advance(RequestEvent.ENQUEUE)
        self.executed.append(request)

    def send(self, request: InferenceRequest) -> list[InferenceResponse]:
        responses = collect(request)
        self.model.enqueue(request)
        return responses

    def answered(self, request: InferenceRequest, response: InferenceResponse) -> list[InferenceResponse]:
        """Return what the client gets for a request that is executed."""
        responses = self.send(request)
        assert self.executed.pop() is request
        request.respond(response)
        return responses

    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of hits, misses and successes."""
        stats = self.stats.to_dict("m", 1)["inference_stats"]
        return stats["cache_hit"]["count"], stats["cache_miss"]["count"], stats["success"]["count"]


def test_an_equal_request_is_answered_without_an_execution() -> None:
    bench = Bench()
    bench.answered(asking(1, 2, request_id="first"), answering(5, 6))
    request = asking(1, 2, request_id="second")
    (response,) = bench.send(request)
    assert bench.executed == []
    assert (response.request_id, response.model_name, response.model_version) == ("second", "m", 1)
    assert response.final
    np.testing.assert_array_equal(response.outputs["OUT"].numpy(), [5, 6])
    assert request.state is RequestState.RELEASED
    assert bench.counts() == (1, 1, 1)
    assert [event[0] for event in bench.events.events] == ["response_sent", "request_released"]


@pytest.mark.parametrize(
    "other",
    [
        InferenceRequest("m", {"IN": tensor(1, 3)}),
        InferenceRequest("m", {"IN": tensor(1, 2, shape=(2, 1))}),
        InferenceRequest("m", {"IN": tensor(*np.array([1, 2], np.float32).view(np.int32), dtype=np.int32)}),
        InferenceRequest("m", {"OTHER": tensor(1, 2)}),
        InferenceRequest("m", {"IN": tensor(1, 2), "MORE": tensor()}),
        InferenceRequest("m", {"IN": tensor(1, 2)}, requested_outputs=["X"]),
        InferenceRequest("m", {"IN": tensor(1, 2)}, parameters={"t": 1}),
        InferenceRequest("m", {"IN": tensor(1, 2)}, correlation_id=3),
        InferenceRequest("m", {"IN": tensor(1, 2)}, flags=1),
    ],
)
def test_what_a_model_may_answer_by_makes_another_request(other: InferenceRequest) -> None:
    assert request_key(other, OUTPUTS) != request_key(asking(1, 2), OUTPUTS)


def test_what_it_may_not_answer_by_does_not() -> None:
    one = InferenceRequest("m", {"A": tensor(1), "B": tensor(2)}, requested_outputs=["X", "Y"])
    two = InferenceRequest("m", {"B": tensor(2), "A": tensor(1)}, requested_outputs=["Y", "X"], request_id="r")
    two.priority, two.timeout = 2, 100
    three = InferenceRequest("m", dict(one.inputs))
    assert request_key(one, OUTPUTS) == request_key(two, OUTPUTS) == request_key(three, OUTPUTS)


def test_bytes_do_not_move_from_one_input_to_the_next() -> None:
    one = InferenceRequest("m", {"A": tensor(1, 2), "B": tensor(3)})
    two = InferenceRequest("m", {"A": tensor(1), "B": tensor(2, 3)})
    assert request_key(one, OUTPUTS) != request_key(two, OUTPUTS)


def test_errors_are_not_stored() -> None:
    bench = Bench()
    for _ in range(2):
        (response,) = bench.answered(asking(1), InferenceResponse(error=ModelError("no")))
        assert response.error is not None
    assert bench.counts() == (0, 2, 0)


def test_parameters_are() -> None:
    bench = Bench()
    bench.answered(asking(1), answering(2, parameters={"cost": 3}))
    (response,) = bench.send(asking(1))
    assert response.parameters == {"cost": 3}


def test_nobody_can_change_what_is_stored() -> None:
    bench = Bench()
    answer = answering(2)
    bench.answered(asking(1), answer)
    answer.outputs["OUT"].data[0] = 7
    for _ in range(2):
        (response,) = bench.send(asking(1))
        assert response.outputs["OUT"].data.tolist() == [2]
        response.outputs["OUT"].data[0] = 9
        response.parameters["p"] = 1


def test_an_answer_and_a_final_one_through_a_sender() -> None:
    bench = Bench()
    responses = bench.answered(asking(1), answering(2, final=False))
    assert len(responses) == 1
    bench.send(asking(3))
    sent = bench.executed.pop()
    sent.respond(InferenceResponse(final=True, empty=True))  # nothing to store
    (response,) = bench.send(asking(1))
    assert response.final
    assert bench.send(asking(3)) == []


def test_of_equal_requests_in_execution_the_first_is_a_miss() -> None:  # measured on 2.51
    bench = Bench()
    both = [bench.send(asking(1)) for _ in range(2)]
    for request in bench.executed:
        request.respond(answering(4))
    assert [len(responses) for responses in both] == [1, 1]
    assert bench.counts() == (0, 1, 0)
    assert bench.cache.metrics()["num_entries"] == 1


def test_a_refused_request_is_as_before() -> None:
    bench = Bench()

    def refuse(request: InferenceRequest) -> None:
        raise UnavailableError("full")

    bench.model = bench.load(refuse)
    request = asking(1)
    responses = collect(request)
    callback = request.on_response
    with pytest.raises(UnavailableError):
        bench.model.enqueue(request)
    assert request.on_response is callback
    assert responses == []


def test_of_memory_of_a_gpu_no_key_is_made() -> None:
    bench = Bench()
    request = asking(1)
    request.inputs["IN"].memory_type = 2
    bench.answered(request, answering(2))
    assert bench.cache.used == 0


# -- room


def test_the_least_recently_used_entry_goes() -> None:
    bench = Bench(size=3 * (128 + 3 + 8 + 400))
    values = [float(v) for v in range(100)]
    for number in (1, 2, 3):
        bench.answered(asking(number), answering(*values))
    assert len(bench.send(asking(1))) == 1
    bench.answered(asking(4), answering(*values))
    assert [len(bench.send(asking(number))) for number in (1, 2, 3, 4)] == [1, 0, 1, 1]
    size = bench.cache.used
    assert repr(bench.cache) == f"<ResponseCache [3 entries | {size} of {size} bytes]>"
    metrics = bench.cache.metrics()
    assert {key: metrics[key] for key in metrics if not key.endswith("duration")} == {
        "util": 1.0,
        "num_entries": 3,
        "num_hits": 4,
        "num_misses": 5,
        "num_lookups": 9,
        "num_evictions": 1,
    }
    assert metrics["insertion_duration"] == metrics["lookup_duration"] == 0  # the clock stands still


def test_one_that_is_too_large_is_answered_all_the_same() -> None:
    bench = Bench(size=200)
    assert len(bench.answered(asking(1), answering(*range(100)))) == 1
    (warning,) = bench.warnings
    assert warning.endswith("response cache: Requested byte_size: 539 is greater than total cache size: 200")
    assert bench.counts() == (0, 1, 0)


def test_what_a_load_stored_goes_with_it() -> None:
    bench = Bench()
    bench.answered(asking(1), answering(2))
    old, bench.model = bench.model, bench.load()
    assert bench.send(asking(1)) == []  # other code may answer otherwise
    old.close()
    assert bench.cache.used == 0


@pytest.mark.parametrize(("text", "size"), [("", 0), ("local,size=1048576", 1048576)])
def test_the_size_of_the_local_cache(text: str, size: int) -> None:
    assert parse_cache_config(text) == size


@pytest.mark.parametrize("text", ["local", "local,", "local,size", ",size=5", "local,size="])
def test_a_configuration_that_is_none(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        parse_cache_config(text)
    assert refused.value.message == f"--cache-config option format is '<cache name>,<setting>=<value>'. Got {text}"


@pytest.mark.parametrize("text", ["redis,host=x", "local,size=0", "local,size=many", "local,size=-4", "local,room=5"])
def test_a_cache_that_cannot_be_made(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="local"):
        parse_cache_config(text)
