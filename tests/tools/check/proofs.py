"""The answers of each model of the corpus to a few requests, without the checker: the planted bugs are real, and the
right models answer properly.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.serving import eventually, instances
from tests.tools.check.corpus.table import LEFT_BLOCKS, RIGHT_MODELS, WRONG_MODELS
from tritonlab import Model, Server
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.status import TritonError

#: How long a batch waits for more requests here, in microseconds: requests sent together are one batch.
GATHERS = 60_000
START, END = 1, 2

Inputs = Mapping[str, Any]


@dataclass
class Answer:
    """The responses to one request, as a client has them."""

    responses: list[InferenceResponse]

    def __getitem__(self, name: str) -> Any:
        (response,) = self.responses
        return response[name]

    def each(self, name: str) -> list[Any]:
        """Return an output of every response, flat ones as a plain list of their values."""
        return [value for response in self.responses if not response.empty for value in response[name].reshape(-1)]

    @property
    def error(self) -> str:
        """The text of the error, empty if there is none."""
        errors = [str(response.error) for response in self.responses if response.error is not None]
        return errors[0] if errors else ""


class ModelClient:
    """The requests to one model of the corpus."""

    def __init__(self, server: Server, model: Model) -> None:
        self.server = server
        self.model = model

    def send(self, inputs: Inputs, **fields: Any) -> Any:
        """Start a request and return the iterator over its responses."""
        return self.model.infer(inputs=inputs, raise_on_error=False, **fields)

    def __call__(self, **inputs: Any) -> Answer:
        return Answer(list(self.send(inputs)))

    def together(self, *requests: Inputs, **fields: Any) -> list[Answer]:
        """Send requests at once, so that the batcher makes one batch of them."""
        waiting = [self.send(inputs, **fields) for inputs in requests]
        return [Answer(list(iterator)) for iterator in waiting]

    def step(self, correlation_id: int, flags: int, inputs: Inputs) -> Answer:
        """Send one request of a sequence."""
        return Answer(list(self.send(inputs, correlation_id=correlation_id, flags=flags)))

    @property
    def process(self) -> psutil.Process:
        pid = instances(self.model)[0].pid
        assert pid is not None
        return psutil.Process(pid)


class Stage:
    """A server on copies of the corpus whose batches wait for company."""

    def __init__(self, directory: Path) -> None:
        self.repositories = {}
        for models in (WRONG_MODELS, RIGHT_MODELS):
            copy = self.repositories[models.name] = directory / models.name
            for file in sorted(models.rglob("*")):
                if file.suffix in (".py", ".pbtxt"):
                    place = copy / file.relative_to(models)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    source = file.read_text()
                    place.write_text(source.replace("delay_microseconds: 2000", f"delay_microseconds: {GATHERS}"))
        self.server = Server(list(self.repositories.values()), model_control_mode="explicit")

    @contextmanager
    def client(self, name: str, needs: Sequence[str] = ()) -> Iterator[ModelClient]:
        """Load a model, and those that it needs, and unload it after."""
        for needed in needs:
            self.server.load(needed)
        try:
            yield ModelClient(self.server, self.server.load(name))
        finally:
            self.server.unload(name, timeout=1)

    def directory(self, name: str) -> Path:
        return next(place / name for place in self.repositories.values() if (place / name).exists())


def f32(*rows: Any) -> Any:
    return np.array(rows, np.float32)


def text(*rows: bytes) -> Any:
    return np.array([[row] for row in rows], np.object_)


def same(a: Any, b: Any) -> bool:
    return bool(np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True))


# ---------------------------------------------------------------------------------------------------- planted bugs


def mean_pooling(client: ModelClient) -> None:
    short, long = {"TOKENS": np.int32([[5, 6]])}, {"TOKENS": np.int32([[7, 8, 9, 10, 11, 12]])}
    alone = client(**short)["EMBEDDING"]
    assert same(client.together(short, short)[0]["EMBEDDING"], alone)
    beside, _ = client.together(short, long)
    assert not same(beside["EMBEDDING"], alone)


def detector(client: ModelClient) -> None:
    two, one = {"IMAGE": np.ones((2, 3, 4, 4), np.float32)}, {"IMAGE": np.full((1, 3, 4, 4), 2, np.float32)}
    alone = client(**one)["SCORES"]
    assert same(client.together(one, two)[0]["SCORES"], alone)
    assert not same(client.together(two, one)[1]["SCORES"], alone)


def length_sorted(client: ModelClient) -> None:
    short, long = {"TEXT": text(b"a")}, {"TEXT": text(b"b c d")}
    assert client(**short)["TOKEN_COUNT"].tolist() == [[1]]
    assert client.together(long, short)[1]["TOKEN_COUNT"].tolist() == [[1]]
    assert client.together(short, long)[0]["TOKEN_COUNT"].tolist() == [[3]]


def train_mode_norm(client: ModelClient) -> None:
    one, other = {"FEATURES": f32([1, 2, 3, 4])}, {"FEATURES": f32([9, 0, -3, 2])}
    alone = client(**one)["RISK"]
    assert same(alone, [[0.5 - 2 + 0.75 + 8]] / np.sqrt(1.001))
    assert not same(client.together(one, other)[0]["RISK"], alone)


def sampler(client: ModelClient) -> None:
    logits = f32(np.arange(16) / 4)
    one, other = ({"LOGITS": logits, "SEED": np.int64([[seed]])} for seed in (1, 2))
    alone = client(**other)["TOKENS"].tolist()
    assert client(**other)["TOKENS"].tolist() == alone
    assert client.together(one, other)[1]["TOKENS"].tolist() != alone


def attention_buckets(client: ModelClient) -> None:
    assert client(QUERY=f32([1, 2]))["PEAK"].tolist() == [[2]]
    assert client(QUERY=f32([9, 1, 7]))["PEAK"].tolist() == [[9]]
    assert client(QUERY=f32([1, 2]))["PEAK"].tolist() == [[7]]


def sticky_threshold(client: ModelClient) -> None:
    scores = f32([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert client(SCORES=scores)["KEPT"].sum() == 3
    assert client(SCORES=scores, THRESHOLD=f32([0.9]))["KEPT"].sum() == 1
    assert client(SCORES=scores)["KEPT"].sum() == 1


def cached_by_prompt(client: ModelClient) -> None:
    first = client(PROMPT=text(b"a"), TEMPERATURE=f32([1]))["LOGIT"].item()
    assert client(PROMPT=text(b"b"), TEMPERATURE=f32([2]))["LOGIT"].item() == pytest.approx(
        zlib.crc32(b"b") % 1000 / 2e3
    )
    assert client(PROMPT=text(b"a"), TEMPERATURE=f32([2]))["LOGIT"].item() == first > 0


def calibrates_itself(client: ModelClient) -> None:
    one, large = f32([1, -1, 0.5, 0]), f32([100, 0, 0, 0])
    assert client(X=one)["Q"].tolist() == [[127, -127, 64, 0]]
    client.server.unload(client.model)
    client.server.load(client.model.name)
    client(X=large)
    assert client(X=one)["Q"].tolist() == [[1, -1, 1, 0]]


def number_parser(client: ModelClient) -> None:
    good, bad = {"TEXT": text(b"1,200.5")}, {"TEXT": text(b"12 euros")}
    assert client(**good)["VALUE"].tolist() == [[1200.5]]
    assert "could not convert" in client(**bad).error
    assert "could not convert" in client.together(good, bad)[0].error


def finite_guard(client: ModelClient) -> None:
    good, bad = {"SENSOR": f32([1, 2, 3])}, {"SENSOR": f32([1, math.nan, 3])}
    assert same(client(**good)["ALARM"], [[math.tanh(2.3)]])
    assert "not finite" in client(**bad).error
    assert "not finite" in client.together(good, bad)[0].error


def skips_the_bad_one(client: ModelClient) -> None:
    good, bad = {"AGE": np.int32([[33]])}, {"AGE": np.int32([[-1]])}
    assert client(**good)["GROUP"].tolist() == [[2]]
    assert client.together(good, bad)[0].error


def cancels_all(client: ModelClient) -> None:
    steps = {"STEPS": np.int32([[19]])}
    assert client(**steps)["ENERGY"].shape == (1, 1)
    kept, gone = client.send(steps), client.send(steps)
    time.sleep(GATHERS / 1e6 + 0.02)
    gone.cancel()
    assert Answer(list(kept)).error == "the request was cancelled" == Answer(list(gone)).error


def shortest_deadline(client: ModelClient) -> None:
    x = {"X": f32([1, 2])}
    assert client(**x)["Y"].tolist() == [[2, 4]]
    patient, hasty = client.send(x), client.send(x, timeout=100)
    assert Answer(list(patient)).error == "the deadline is too short" == Answer(list(hasty)).error


def double_precision(client: ModelClient) -> None:
    brightness = client(PIXELS=np.full((1, 12), 51, np.uint8))["BRIGHTNESS"]
    assert same(brightness, [[0.2]])
    assert brightness.dtype == np.float64


def squeezed(client: ModelClient) -> None:
    assert client(IMAGE=np.zeros((2, 1, 6), np.float32))["PROBABILITIES"].shape == (2, 6)
    assert client(IMAGE=np.zeros((1, 1, 6), np.float32))["PROBABILITIES"].shape == (6,)


def silent_when_empty(client: ModelClient) -> None:
    assert client(PROMPT=np.array([b"two words"], np.object_)).each("WORD") == [b"two", b"words"]
    assert "without the final flag" in client(PROMPT=np.array([b" "], np.object_)).error


def usage_after_final(client: ModelClient) -> None:
    assert client(COUNT=np.int32([3])).each("NUMBER") == [0, 1, 2]
    eventually(lambda: any("usage is not sent" in record.text for record in client.model.logs()))


def in_place_mean(client: ModelClient) -> None:
    answer = client(IMAGE=f32([1, 2, 3, 4, 5, 9]))
    assert same(answer["CENTRED"], [[-3, -2, -1, 0, 1, 5]])
    assert answer["RANGE"].tolist() == [[5]]  # 9 is the largest value of the picture


def cut_text(client: ModelClient) -> None:
    assert client(TITLE=text(b"Underground"))["SHORT"].tolist() == [[b"Undergro"]]
    with pytest.raises(UnicodeDecodeError):
        client(TITLE=text("Straßenwärter".encode()[:7] + "ßä".encode()))["SHORT"].item().decode()


def deaf_generator(client: ModelClient) -> None:
    iterator = client.send({"MAX_TOKENS": np.int32([30])})
    next(iterator)
    iterator.cancel()
    assert len(list(iterator)) == 29


def chunks_in_a_pool(client: ModelClient) -> None:
    spoken = [bytes(np.uint8(response["AUDIO"])) for response in client(TEXT=np.array([b"b.a"], np.object_)).responses]
    assert sorted(spoken) == [b"a", b"b"]
    long, short = b"x" * 30, b"y"
    answer = client(TEXT=np.array([long + b"." + short], np.object_))
    assert [len(response["AUDIO"]) for response in answer.responses if not response.empty] == [1, 30]


def one_position_for_all(client: ModelClient) -> None:
    assert client(START=np.int32([10])).each("VALUE") == [10, 11, 12, 13, 14]
    first, second = client.together({"START": np.int32([10])}, {"START": np.int32([500])})
    assert first.each("VALUE") != [10, 11, 12, 13, 14] or second.each("VALUE") != [500, 501, 502, 503, 504]


def cancelled_and_open(client: ModelClient) -> None:
    assert client(MAX_TOKENS=np.int32([3])).each("TOKEN") == [0, 1, 2]
    iterator = client.send({"MAX_TOKENS": np.int32([100])})
    next(iterator)
    iterator.cancel()
    rest = Answer(list(iterator))
    assert "without the final flag" in rest.error
    assert len(rest.responses) < 50


def state_by_place(client: ModelClient) -> None:
    def frames(ident: int, *values: float) -> list[Any]:
        flags = [START, *[0] * (len(values) - 2), END]
        return [
            client.step(ident, flag, {"FRAME": f32([v, v])})["AVERAGE"][0, 0]
            for v, flag in zip(values, flags, strict=True)
        ]

    assert frames(1, 2, 4, 6) == [2, 3, 4]
    client.step(1, START, {"FRAME": f32([2, 2])})
    client.step(2, START, {"FRAME": f32([100, 100])})
    assert client.step(1, 0, {"FRAME": f32([4, 4])})["AVERAGE"][0, 0] != 3


def restart_goes_on(client: ModelClient) -> None:
    amount = {"AMOUNT": np.int32([[5]])}
    assert [client.step(1, flags, amount)["BALANCE"].item() for flags in (START, 0, END, START)] == [5, 10, 15, 5]
    assert client.step(1, START, amount)["BALANCE"].item() == 10


def state_by_modulo(client: ModelClient) -> None:
    assert client.step(1, START, {"CHUNK": text(b"ab")})["TRANSCRIPT"].item() == b"ab"
    assert client.step(2, START, {"CHUNK": text(b"z")})["TRANSCRIPT"].item() == b"z"
    assert client.step(1, 0, {"CHUNK": text(b"cd")})["TRANSCRIPT"].item() == b"abcd"
    assert client.step(5, START, {"CHUNK": text(b"x")})["TRANSCRIPT"].item() == b"x"
    assert client.step(1, 0, {"CHUNK": text(b"ef")})["TRANSCRIPT"].item() == b"xef"


def many(client: ModelClient, inputs: Callable[[int], Inputs], count: int) -> None:
    """Send `count` requests, 8 in flight."""
    for start in range(0, count, 8):
        client.together(*(inputs(start + index) for index in range(8)))


def memory_growth(client: ModelClient, inputs: Callable[[int], Inputs], count: int) -> float:
    """Return how many bytes the model's process grows by per request."""
    many(client, inputs, 64)
    before = client.process.memory_info().rss
    many(client, inputs, count)
    return (client.process.memory_info().rss - before) / count


def request_history(client: ModelClient) -> None:
    features = np.random.default_rng(0).random((1, 64)).astype(np.float32)
    assert same(client(FEATURES=features)["SCORE"], features @ np.linspace(-1, 1, 64)[:, None])
    assert memory_growth(client, lambda index: {"FEATURES": features}, 800) > 1000


def unbounded_cache(client: ModelClient) -> None:
    assert same(client(TEXT=text(b"a"))["VECTOR"], client(TEXT=text(b"a"))["VECTOR"])
    pad = b"x" * 4000
    assert memory_growth(client, lambda index: {"TEXT": text(b"same" + pad)}, 240) < 2000
    # some half a megabyte of it fits into memory that the requests above have freed
    assert memory_growth(client, lambda index: {"TEXT": text(b"%d" % index + pad)}, 1200) > 3000


def keeps_errors(client: ModelClient) -> None:
    assert client(RGB=np.uint8([[1, 2, 3, 3, 4, 5]]))["MEAN"].tolist() == [[2, 3, 4]]
    assert "no multiple of 3" in client(RGB=np.uint8([[1, 2]])).error
    assert memory_growth(client, lambda index: {"RGB": np.zeros((1, 3000), np.uint8)}, 240) < 2000
    assert memory_growth(client, lambda index: {"RGB": np.zeros((1, 3001), np.uint8)}, 400) > 300


def log_handlers(client: ModelClient) -> None:
    assert client(X=f32([1, 2]))["Y"].tolist() == [[0.5, 1]]
    before = client.process.num_fds()
    for _ in range(3):
        client(X=f32([1, 2]))
    assert client.process.num_fds() == before + 3


def watchdog_after_error(client: ModelClient) -> None:
    good, bad = {"MATRIX": np.eye(3, dtype=np.float32)[None]}, {"MATRIX": np.zeros((1, 3, 3), np.float32)}
    assert same(client(**good)["INVERSE"], good["MATRIX"])
    time.sleep(0.05)
    before = client.process.num_threads()
    client.together(*[good] * 8)
    eventually(lambda: client.process.num_threads() <= before)
    assert all("ingular" in answer.error for answer in client.together(*[bad] * 8))
    assert client.process.num_threads() >= before + 6


def shared_blocks(client: ModelClient) -> None:
    frame = np.arange(256, dtype=np.uint8)[None]
    assert client(FRAME=frame)["CHECKSUM"].item() == zlib.crc32(frame.tobytes())
    client(FRAME=frame)
    left = list(Path("/dev/shm").glob(f"{LEFT_BLOCKS}{client.process.pid}_*"))
    for block in left:
        block.unlink()
    assert len(left) == 2


def metrics_socket(client: ModelClient) -> None:
    assert client(X=f32([3, 4]))["Y"].tolist() == [[9, 16]]
    file = client.model.directory / "1" / "model.py"
    file.write_text(file.read_text() + "\n")
    with pytest.raises(TritonError, match="Address already in use"):
        client.server.load(client.model.name)


def endless_flusher(client: ModelClient) -> None:
    assert client(EVENT=text(b"click"))["ACCEPTED"].tolist() == [[True]]
    start = time.monotonic()
    client.server.unload(client.model, timeout=0.7)
    assert time.monotonic() - start > 0.6  # its stub was killed


def unpacks_twice(client: ModelClient) -> None:
    assert client(WORD=text(b"and"))["RANK"].tolist() == [[2]]
    two = {**client.model.config(), "instance_group": [{"kind": "KIND_CPU", "count": 2}]}
    client.server.unload(client.model)
    with pytest.raises(TritonError, match=r"the vocabulary has \d+ words|No such file"):
        client.server.load(client.model.name, two)


def empty_signal(client: ModelClient) -> None:
    assert client(SIGNAL=np.float32([1, 5, 2]))["PEAK"].tolist() == [5]
    assert "zero-size array" in client(SIGNAL=np.zeros(3, np.float32)).error


def plain_softmax(client: ModelClient) -> None:
    assert same(client(LOGITS=f32([0, 0, 0, 0, 0]))["PROBABILITIES"], [[0.2] * 5])
    assert np.isnan(client(LOGITS=f32([100, 0, 0, 0, 0]))["PROBABILITIES"]).any()


def token_table(client: ModelClient) -> None:
    assert client(TOKEN=np.int64([[0, 1, 2, 31999]]))["VECTOR"].shape == (1, 4, 3)
    assert "out of bounds" in client(TOKEN=np.int64([[0, 1, 2, 32000]])).error


def first_letter(client: ModelClient) -> None:
    assert client(NAME=text(b"ada"))["INITIAL"].tolist() == [[b"A"]]
    assert "index out of range" in client(NAME=text(b"")).error


def eight_rows(client: ModelClient) -> None:
    assert client(X=np.ones((8, 4), np.float32))["Y"].tolist() == [[0.5] * 4] * 8
    assert "could not be broadcast" in client(X=np.ones((9, 4), np.float32)).error


#: What shows each planted bug, by the name of its model.
SHOWS: dict[str, Callable[[ModelClient], None]] = {
    proof.__name__: proof
    for proof in (
        mean_pooling, detector, length_sorted, train_mode_norm, sampler, attention_buckets, sticky_threshold,
        cached_by_prompt, calibrates_itself, number_parser, finite_guard, skips_the_bad_one, cancels_all,
        shortest_deadline, double_precision, squeezed, silent_when_empty, usage_after_final, in_place_mean, cut_text,
        deaf_generator, chunks_in_a_pool, one_position_for_all, cancelled_and_open, state_by_place, restart_goes_on,
        state_by_modulo, request_history, unbounded_cache, keeps_errors, log_handlers, watchdog_after_error,
        shared_blocks, metrics_socket, endless_flusher, unpacks_twice, empty_signal, plain_softmax, token_table,
        first_letter, eight_rows,
    )
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------- right models


@dataclass
class Case:
    """A request to a right model: the outputs that it must give, or the text of its error."""

    inputs: Inputs
    outputs: Mapping[str, Any]
    error: str = ""


def good(inputs: Inputs, **outputs: Any) -> Case:
    return Case(inputs, outputs)


def refused(inputs: Inputs, error: str) -> Case:
    return Case(inputs, {}, error)


def softmax(row: Any) -> Any:
    return np.exp(row) / np.exp(row).sum()


TOKEN_VECTORS = np.random.default_rng(7).normal(size=(1000, 8)).astype(np.float32)
FIRST, SECOND = (lambda g: (g.normal(size=(96, 96)), g.normal(size=(96, 24))))(np.random.default_rng(5))
LAZY = np.random.default_rng(1).integers(-4, 5, (4, 2))


def two_layers(x: Any) -> Any:
    return np.tanh(x @ FIRST / 30) @ SECOND


def of_text(text_: bytes) -> Any:
    return np.random.default_rng(zlib.crc32(text_)).random(64)


RAMP = np.arange(96, dtype=np.float32)[None] / 96
PICTURE = np.arange(90, dtype=np.uint8).reshape(1, 6, 5, 3)
ORDER = json.dumps({"items": [{"price": 2.5, "count": 2}, {"price": 1, "count": 3}]}).encode()

#: Requests to right models that answer once, and what they must answer: alone, and all of a model in one batch.
ANSWERS: dict[str, list[Case]] = {
    "add_sub": [
        good({"INPUT0": f32([1, 2, 3, 4]), "INPUT1": f32([4, 3, 2, 1])}, OUTPUT0=[[5] * 4], OUTPUT1=[[-3, -1, 1, 3]]),
        good({"INPUT0": f32([0] * 4), "INPUT1": f32([1] * 4)}, OUTPUT0=[[1] * 4], OUTPUT1=[[-1] * 4]),
    ],
    "async_lookup": [good({"KEY": text(key)}, VALUE=[[zlib.crc32(key) % 1000]]) for key in (b"", b"a", b"long key")],
    "background_writer": [good({"EVENT": text(b"click")}, ACCEPTED=[[True]])] * 2,
    "batched_product": [good({"X": RAMP * k}, Y=two_layers(RAMP * k)) for k in (0, 1, -2)],
    "bounded_cache": [good({"TEXT": text(t)}, VECTOR=[of_text(t)]) for t in (b"a", b"b", b"a")],
    "by_parameter": [good({"TEXT": text(b"Aa")}, OUT=[[b"AA"]])] * 2,
    "bytes_reverse": [
        good({"TEXT": text(b"abc")}, REVERSED=[[b"cba"]]),
        good({"TEXT": text("äb".encode())}, REVERSED=[["bä".encode()]]),
        good({"TEXT": np.zeros((1, 0), np.object_)}, REVERSED=np.zeros((1, 0))),
    ],
    "calls_add_sub": [good({"X": f32(1, 2, 3, 4)}, DOUBLE=[2, 4, 6, 8])],
    "channels_first": [good({"IMAGE": PICTURE}, PREPARED=PICTURE.transpose(0, 3, 1, 2) / 127.5 - 1)] * 2,
    "counted": [good({"X": f32([1, 2])}, Y=[[-1, -2]])],
    "cyclic_garbage": [good({"DEPTH": np.int32([[d]])}, NODES=[[nodes]]) for d, nodes in ((-1, 1), (2, 7), (9, 63))],
    "flower_labels": [
        good({"FEATURES": f32([5, 3.4, 1.5, 0.2])}, LABEL=[[b"setosa"]], MARGIN=[[5.4]]),
        good({"FEATURES": f32([6.6, 3, 5.6, 2])}, LABEL=[[b"virginica"]], MARGIN=[[2.9]]),
    ],
    "grows_to_its_peak": [good({"FRAME": np.full((1, 64), k, np.uint8)}, MEAN=[[k]]) for k in (0, 7, 255)],
    "half_precision": [good({"X": np.float16([[1, -1, 60000, 0]])}, Y=[[2, 0, math.inf, 0]])],
    "in_place_on_a_copy": [
        good({"IMAGE": f32([1, 2, 3, 4, 5, 9])}, CENTRED=[[-3, -2, -1, 0, 1, 5]], LARGEST=[[9]])
    ] * 2,
    "json_orders": [good({"ORDER": text(ORDER)}, TOTAL=[[8]]), refused({"ORDER": text(b"{}")}, "ORDER: 'items'")],
    "lazy_weights": [good({"X": f32([1, 2, 3, 4])}, Y=f32([1, 2, 3, 4]) @ LAZY)] * 2,
    "masked_pooling": [
        good({"TOKENS": np.int32([tokens])}, EMBEDDING=[TOKEN_VECTORS[tokens].mean(axis=0)])
        for tokens in ([1], [5, 6], [7, 8, 9, 10, 11, 12])
    ],
    "masks": [
        good({"A": np.array([[1, 1, 0, 0, 1, 0, 0, 1]], bool), "B": np.ones((1, 8), bool)},
             BOTH=[[1, 1, 0, 0, 1, 0, 0, 1]], PACKED=[[0b11001001]])
    ],
    "matrix_power": [
        good({"M": np.int64([[1, 1], [1, 0]]), "POWER": np.int32([10])}, RESULT=[[89, 55], [55, 34]]),
        refused({"M": np.int64([[1, 1]]), "POWER": np.int32([1])}, "must be square"),
    ],
    "one_hot": [
        good({"CLASS": np.int64([[0, 9]])}, ONE_HOT=[[[1] + [0] * 9, [0] * 9 + [1]]]),
        refused({"CLASS": np.int64([[0, 10]])}, "classes are 0 to 9"),
        refused({"CLASS": np.int64([[-1, 1]])}, "CLASS has -1"),
    ],
    "optional_scale": [
        good({"X": f32([1, 2, 3])}, Y=[[1, 2, 3]]),
        good({"X": f32([1, 2, 3]), "SCALE": f32([2]), "SHIFT": f32([1])}, Y=[[3, 5, 7]]),
    ],
    "own_deadline": [good({"X": f32([1, 2])}, Y=[[2, 4]])] * 2,
    "ragged_sums": [
        good({"VALUES": np.int64([values])}, SUM=[[sum(values)]], COUNT=[[len(values)]])
        for values in ([1, 2, 3], [5], [10, -10, 2**40])
    ] + [good({"VALUES": np.zeros((1, 0), np.int64)}, SUM=[[0]], COUNT=[[0]])],
    "refuses_all_unsupported": [
        good({"LANGUAGE": np.array([b"de"], object), "TEXT": np.array([b"Welt"], object)}, GREETING=[b"Hallo Welt"]),
        refused({"LANGUAGE": np.array([b"fr"], object), "TEXT": np.array([b""], object)}, "LANGUAGE must be one of"),
    ],
    "refuses_negative": [
        good({"X": f32([1, 4, 9])}, ROOT=[[1, 2, 3]]),
        refused({"X": f32([1, -4, 9])}, "must not be negative"),
        refused({"X": f32([1, math.nan, 9])}, "must not be negative"),
    ],
    "scratch_files": [good({"BLOB": text(b)}, SIZE=[[len(b)]], SHA=[[hashlib.sha1(b).hexdigest().encode()]])
                      for b in (b"", b"abc")],
    "sender_in_a_thread": [good({"X": f32([k, 2])}, Y=[[-k, -2]]) for k in (1, 2, 3)],
    "sorts_and_unsorts": [good({"TEXT": text(t)}, LENGTH=[[len(t.decode())]]) for t in (b"a", b"abcd", "ä".encode())],
    "stable_softmax": [
        good({"LOGITS": f32([1, 2, 3, 4, 5])}, PROBABILITIES=[softmax(np.arange(5))]),
        good({"LOGITS": f32([1000, 0, 0, 0, 0])}, PROBABILITIES=[[1, 0, 0, 0, 0]]),
        good({"LOGITS": f32([math.nan, 0, 0, 0, 0])}, PROBABILITIES=[[math.nan] * 5]),
    ],
    "stops_when_cancelled": [good({"STEPS": np.int32([[k]])}, ENERGY=[[1 / (1 + k)]]) for k in (0, 1, 3)],
    "tokenizer": [
        good({"TEXT": text(b"")}, IDS=[[0] * 8], LENGTH=[[0]]),
        good({"TEXT": text(b"Ada !")}, IDS=[[zlib.crc32(b"ada") % 30000, zlib.crc32(b"!") % 30000] + [0] * 6],
             LENGTH=[[2]]),
    ],
    "top_three": [good({"SCORES": f32([0, 5, 5, 1, 9, 2, 0, 0, 0])}, INDEX=[[4, 1, 2]], VALUE=[[9, 5, 5]])],
    "two_instances": [good({"WORD": text(w)}, BUCKET=[[hashlib.sha256(w).digest()[0]]]) for w in (b"", b"a", b"b")],
}  # fmt: skip


def matches(answer: Answer, case: Case) -> bool:
    """Return whether an answer is what the case wants."""
    if case.error:
        return case.error in answer.error
    return not answer.error and all(equal(answer[name], value) for name, value in case.outputs.items())


def equal(found: Any, wanted: Any) -> bool:
    wanted = np.asarray(wanted)
    if found.dtype == np.object_:
        return bool(found.tolist() == wanted.tolist())
    return same(found, wanted)


def seeded_sampler(client: ModelClient) -> None:
    logits = f32(np.arange(16) / 4)
    one, other = ({"LOGITS": logits, "SEED": np.int64([[seed]])} for seed in (1, 2))
    alone = client(**one)["TOKENS"].tolist(), client(**other)["TOKENS"].tolist()
    assert alone[0] != alone[1]
    assert tuple(answer["TOKENS"].tolist() for answer in client.together(one, other)) == alone


def time_stamped(client: ModelClient) -> None:
    before = time.time()
    answer = client(X=f32([1, 2]))
    assert answer["Y"].tolist() == [[3, 6]]
    assert before <= answer["ANSWERED_AT"].item() <= time.time()


def trace_ids(client: ModelClient) -> None:
    first, second = client.together(*[{"TEXT": text(b"abc")}] * 2)
    assert first["UPPER"].item() == second["UPPER"].item() == b"ABC"
    assert first["TRACE_ID"].item() != second["TRACE_ID"].item()


def expiring_cache(client: ModelClient) -> None:
    first, again = client(CITY=text(b"Rome")), client(CITY=text(b"Rome"))
    assert first["DEGREES"].item() == again["DEGREES"].item() == np.float32(zlib.crc32(b"Rome") % 400 / 10 - 10)
    assert first["AGE_SECONDS"].item() == 0 < again["AGE_SECONDS"].item() < 2


def temperature_sampler(client: ModelClient) -> None:
    assert client(WEIGHTS=f32([0, 0, 1, 0]))["CHOICE"].item() == 2
    many_choices = client(WEIGHTS=np.ones((8, 4), np.float32))["CHOICE"]
    assert set(many_choices.reshape(-1).tolist()) <= {0, 1, 2, 3}


def repeat(client: ModelClient) -> None:
    for times in (0, 1, 3):
        assert client(IN=np.int32([7]), TIMES=np.int32([times])).each("OUT") == [7] * times


def threaded_streams(client: ModelClient) -> None:
    wanted = [75, 5625]
    first, second = client.together({"MAX_TOKENS": np.int32([2])}, {"MAX_TOKENS": np.int32([2])})
    assert first.each("TOKEN") == second.each("TOKEN") == wanted
    iterator = client.send({"MAX_TOKENS": np.int32([30])})
    next(iterator)
    iterator.cancel()
    assert len(list(iterator)) < 29


def ordered_chunks(client: ModelClient) -> None:
    answer = client(TEXT=np.array([b"x" * 30 + b".y"], np.object_))
    assert [len(response["AUDIO"]) for response in answer.responses if not response.empty] == [30, 1]
    assert client(TEXT=np.array([b""], np.object_)).each("AUDIO") == []


def stream_errors(client: ModelClient) -> None:
    assert client(PROMPT=np.array([b"two words"], np.object_)).each("WORD") == [b"two", b"words"]
    assert "has no words" in client(PROMPT=np.array([b" "], np.object_)).error


def running_sum(client: ModelClient) -> None:
    def add(ident: int, flags: int, amount: int) -> int:
        return int(client.step(ident, flags, {"AMOUNT": np.int32([[amount]])})["SUM"].item())

    assert [add(1, START, 5), add(2, START, 100), add(1, 0, 5), add(2, END, 1), add(1, END, 5)] == [5, 100, 10, 101, 15]
    assert [add(1, START, 5), add(1, START, 7)] == [5, 7]


def expiring_states(client: ModelClient) -> None:
    def largest(ident: int, flags: int, value: float) -> float:
        return float(client.step(ident, flags, {"FRAME": f32([value, -value])})["MAXIMUM"][0, 0])

    assert [largest(1, START, 5), largest(5, START, 1), largest(1, 0, 2), largest(5, END, 2)] == [5, 1, 5, 2]
    assert largest(1, START, 1) == 1


def implicit_state(client: ModelClient) -> None:
    def put(ident: int, flags: int, value: float) -> float:
        return float(client.step(ident, flags, {"INPUT": f32([value, 0])})["OUTPUT"][0, 0])

    # the Python backend gives every request the initial state and keeps none (rule 5.6.10)
    assert [put(1, START, 4), put(2, START, 100), put(1, 0, 4), put(1, END, 4), put(1, START, 4)] == [4, 100, 4, 4, 4]


def kept_copy(client: ModelClient) -> None:
    def moved(ident: int, flags: int, value: int) -> int:
        return int(client.step(ident, flags, {"FRAME": np.full((1, 8), value, np.uint8)})["MOVED"].item())

    assert [moved(1, START, 5), moved(2, START, 200), moved(1, 0, 9), moved(2, 0, 190), moved(1, END, 9)] == [
        0, 0, 4, 10, 0,
    ]  # fmt: skip


#: What shows that a right model answers properly, where values of single answers do not.
BEHAVES: dict[str, Callable[[ModelClient], None]] = {
    proof.__name__: proof
    for proof in (
        seeded_sampler, expiring_cache, time_stamped, trace_ids, temperature_sampler, repeat, threaded_streams,
        ordered_chunks, stream_errors, running_sum, expiring_states, implicit_state, kept_copy,
    )
}  # fmt: skip


def answers_as_alone(client: ModelClient, cases: Sequence[Case]) -> None:
    """Assert that each request is answered as wanted, alone, twice, and with the others in one batch."""
    for case in cases:
        assert matches(client(**case.inputs), case), case
    for answer, case in zip(client.together(*(case.inputs for case in cases)), cases, strict=True):
        assert matches(answer, case), case
