from __future__ import annotations

import numpy as np

from tests.record.events import RecorderHooks, make_request
from tritonlab.core.inference.tensor import Tensor
from tritonlab.record.tensor_peek import TensorPeek
from tritonlab.testing import MS


def add_peek(hooks: RecorderHooks) -> TensorPeek:
    peek = TensorPeek("add")
    hooks.instruments.add(peek)
    return peek


def test_the_values_of_a_request_and_its_answer_are_kept() -> None:
    hooks = RecorderHooks()
    peek = add_peek(hooks)
    out = np.array([[1.5, 4.0]], np.float32)
    hooks.respond(make_request(7), at=1, outputs={"OUT": Tensor.from_numpy(out)})
    hooks.respond(make_request(8, model="other"), at=1, outputs={"OUT": Tensor.from_numpy(out)})
    out[:] = 0  # the memory of an answer is used again
    assert peek.lines(7) == [
        "got IN = <Tensor INT32 [1, 2] [[0, 0]]>, 0 to 0",
        "sent OUT = <Tensor FP32 [1, 2] [[1.5, 4. ]]>, 1.5 to 4.0",
    ]
    assert peek.lines(8) == peek.lines(99) == []


def test_of_much_only_the_first_is_kept() -> None:
    hooks = RecorderHooks()
    peek = add_peek(hooks)
    large = {"OUT": Tensor.from_numpy(np.arange(1_000_000, dtype=np.float32))}
    text = {"OUT": Tensor.from_numpy(np.array([b"x" * 1000] * 50, object))}
    request = make_request(1)
    hooks.respond(request, at=1, outputs=large, final=False)
    for _ in range(5):
        hooks.respond(request, at=1, outputs=text, final=False)
    lines = peek.lines(1)
    assert lines[1].startswith("sent OUT = <Tensor FP32 [1000000] [0., 1., ")
    assert lines[1].endswith(", …]> in response 1")
    assert lines[2].startswith("sent OUT = <Tensor BYTES [50] [b'xxx")
    assert lines[-1] == "and 2 more responses"
    assert sum(tensor.data.nbytes for outputs in peek._seen[1].responses for tensor in outputs.values()) < 2000


def test_no_more_is_looked_at_than_can_be_afforded() -> None:
    hooks = RecorderHooks()
    peek = add_peek(hooks)
    for serial in range(1, 200):
        hooks.respond(make_request(serial), at=100)
    assert [serial for serial in range(1, 200) if peek.lines(serial)] == list(range(1, 51))
    hooks.respond(make_request(500), at=100 + 51)
    assert peek.lines(500)
    assert hooks.clock.now() == 151 * MS
    for serial in range(1000, 4000):
        hooks.respond(make_request(serial), at=serial)
    assert len(peek._seen) <= 2000 and not peek.lines(1)
