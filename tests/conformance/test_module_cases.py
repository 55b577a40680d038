"""The snippets of `cases_module.py`: what `triton_python_backend_utils` does inside a model, on both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from .cases_module import CASES, OURS, PRELUDE, REFUSALS
from .clients import Client
from .models import config, model
from .real_client import RealClient
from .reference import ReferenceServer
from .rules import rule

RUNNER = (
    """
import gc
import json
import sys

import numpy as np
import triton_python_backend_utils as pb_utils

PRELUDE = """
    + repr(PRELUDE)
    + '''


def outcome(request):
    """The repr of the snippet's result, or the exception it ended with."""
    code = pb_utils.get_input_tensor_by_name(request, "CODE").as_numpy()[0].decode()
    scope = {"pb_utils": pb_utils, "np": np, "json": json, "gc": gc, "sys": sys, "request": request}
    try:
        exec(PRELUDE + code, scope)
    except Exception as error:
        return "!%s: %s" % (type(error).__name__, error)
    return repr(scope.get("result"))


class TritonPythonModel:
    def execute(self, requests):
        answers = [np.array([outcome(request)], dtype=object) for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("RESULT", answer)]) for answer in answers]
'''
)
MODELS = {"snippets": model(RUNNER, config("CODE STRING 1", "RESULT STRING 1"))}


def run(client: Client, code: str) -> str:
    answer = client.infer("snippets", {"CODE": np.array([code.encode()], dtype=np.object_)})
    return answer.error or str(answer.outputs["RESULT"][0].decode())


@pytest.fixture(scope="module")
def loaded(real: Client, lab: Client) -> Iterator[tuple[Client, Client]]:
    for side in (real, lab):
        assert side.load_all(MODELS) == {"snippets": None}
    yield real, lab
    for side in (real, lab):
        side.unload("snippets")


def parameters(cases: list[tuple[str, str, str]]) -> list[object]:
    return [pytest.param(code, marks=rule(number), id=name) for name, number, code in cases]


@pytest.mark.parametrize("code", parameters(CASES))
def test_a_snippet_comes_to_the_same(loaded: tuple[Client, Client], code: str) -> None:
    theirs, ours = (run(side, code) for side in loaded)
    assert ours == theirs


class Frail:
    """A real server of its own: it crashes at random where it refuses (rule 1.14.9), and is then started again."""

    def __init__(self, server: ReferenceServer) -> None:
        self._client = RealClient(server)
        self._client.load_all(MODELS)

    def run(self, code: str) -> str:
        for _ in range(8):
            answer = run(self._client, code)
            if answer == "Deadline Exceeded":
                self._client.server.stop()
            if self._client.revive():
                self._client.load_all(MODELS)
            elif "is not healthy" in answer or "ocket" in answer:
                self._client.placed("snippets", MODELS["snippets"])
            else:
                return answer
        pytest.skip("Triton crashed at each of eight tries")

    def close(self) -> None:
        self._client.close()


@pytest.fixture(scope="module")
def frail(
    reference_server: Callable[[Path], ReferenceServer], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Frail]:
    frail = Frail(reference_server(tmp_path_factory.mktemp("frail")))
    yield frail
    frail.close()


@pytest.mark.parametrize("code", parameters(REFUSALS))
def test_a_refusal_of_the_server_reads_the_same(loaded: tuple[Client, Client], frail: Frail, code: str) -> None:
    assert run(loaded[1], code) == frail.run(code)


@pytest.mark.parametrize(("code", "expected"), [pytest.param(c, e, marks=rule(n), id=i) for i, n, c, e in OURS])
def test_where_triton_crashes_ours_gives_the_right_answer(lab: Client, code: str, expected: str) -> None:
    if not lab.ready("snippets"):
        assert lab.load_all(MODELS) == {"snippets": None}
    assert run(lab, code) == expected
