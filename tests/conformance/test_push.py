"""A model of a notebook that is pushed to a running server, under traffic: it comes, is proved, and goes again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.exchanges.remote.certificates import CertificateAuthority
from tests.models import answers
from tritonlab import Server
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import UnavailableError
from tritonlab.exchanges.exchange import Exchange, arrivals_of
from tritonlab.exchanges.golden import GoldenSet
from tritonlab.exchanges.remote.remote_server import connect
from tritonlab.notebook.model import Model
from tritonlab.tools.capture.push.push_result import PushState

from .clients import Client
from .models import config, model
from .raw_http import RawHTTP
from .real_client import RealClient
from .reference import ReferenceServer

CONFIG = config("IN INT32 1", "OUT INT32 1")
MODELS = {"scale": model(answers("x * 10"), CONFIG)}


class Traffic:
    """A client that sends one request after the other while it is open. `seen`: the answers to 2, each once in a row;
    `failed`: the errors."""

    def __init__(self, address: str) -> None:
        self.seen: list[int] = []
        self.failed: list[str] = []
        self.count = 0
        self._halt = threading.Event()
        self._server = connect(f"grpc://{address}")
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        scale = self._server.model("scale")
        while not self._halt.is_set():
            self.count += 1
            found = scale.send(request(), decoupled=False)
            if found.error is not None:
                self.failed.append(found.error.message)
            elif self.seen[-1:] != [answer := int(found.outputs["OUT"].numpy()[0])]:
                self.seen.append(answer)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._halt.set()
        self._thread.join()
        self._server.close()


def request() -> InferenceRequest:
    return InferenceRequest("scale", {"IN": Tensor.from_numpy(np.array([2], np.int32))})


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("notebook"), model_control_mode="explicit") as server:
        yield server


@pytest.fixture
def edit(notebook: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Model]:
    """Return a function that loads the notebook's model with a factor, and a statement of its `initialize`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def load(factor: int, initialize: str = "pass") -> Model:
        first = f"class TritonPythonModel:\n    def initialize(self, args):\n        {initialize}\n\n"
        source = answers(f"x * {factor}").replace("class TritonPythonModel:\n", first)
        folder = Path(notebook.core.repository.repositories[0]) / "scale"
        (folder / "1").mkdir(parents=True, exist_ok=True)
        (folder / "1" / "model.py").write_text(source)
        (folder / "config.pbtxt").write_text(CONFIG)
        return notebook.load("scale")

    return load


@pytest.fixture
def golden(tmp_path: Path) -> GoldenSet:
    """Return a golden set with one case: 2 becomes 6."""
    found = GoldenSet(tmp_path / "golden")
    found.add(Exchange(request(), arrivals_of([{"OUT": Tensor.from_numpy(np.array([6], np.int32))}])))
    return found


def test_a_push_under_traffic(
    client: Client, grpc_address: str, edit: Callable[..., Model], golden: GoldenSet, tmp_path: Path
) -> None:
    with connect(f"grpc://{grpc_address}") as server, Traffic(grpc_address) as traffic:
        first = server.push(edit(3), proof=golden)
        assert first.targets[0].state is PushState.PROVED, first
        wrong = server.push(edit(4), proof=golden)  # in place of the first push
        assert wrong.targets[0].state is PushState.UNDONE, wrong
        here = tmp_path / "here"
        here.touch()
        broken = edit(5, f"open({str(here)!r})")
        here.unlink()
        refused = server.push(broken, proof=golden)
        assert refused.targets[0].state is PushState.REFUSED, refused
        assert "No such file or directory" in refused.targets[0].reason
        assert server.model("scale").send(request()).outputs["OUT"].numpy().tolist() == [6]
        undone = first.undo()
        assert undone.targets[0].state is PushState.UNDONE, undone
        assert undone.targets[0].again is not None and undone.targets[0].again.passed
    assert traffic.failed == []
    assert traffic.seen == [20, 6, 8, 6, 20]


def test_a_model_that_was_not_there(http: RawHTTP, edit: Callable[..., Model], golden: GoldenSet) -> None:
    with connect(f"http://{http.address}") as server:
        server.unload("scale")
        pushed = server.push(edit(3), proof=False)
        assert pushed.targets[0].state is PushState.LOADED, pushed
        assert pushed.undo().targets[0].state is PushState.REMOVED, pushed
        assert server.push(edit(4), proof=golden).targets[0].state is PushState.REMOVED
        server.load("scale")
        assert server.model("scale")(IN=[2])["OUT"].tolist() == [20]


def test_the_second_replica_fails(
    real: RealClient,
    reference_server: Callable[..., ReferenceServer],
    edit: Callable[..., Model],
    golden: GoldenSet,
    tmp_path: Path,
) -> None:
    """The second one has TLS, and requires certificates of clients."""
    real.load_all(MODELS)
    here, ca = tmp_path / "here", CertificateAuthority(tmp_path / "ca")
    here.touch()
    certificate, key = ca.issue("server", "DNS:triton")
    flags = [f"--grpc-server-cert={certificate}", f"--grpc-server-key={key}", f"--grpc-root-cert={ca.certificate}"]
    (tmp_path / "other").mkdir()
    other = reference_server(tmp_path / "other", ["--grpc-use-ssl=true", "--grpc-use-ssl-mutual=true", *flags])
    address, named = f"grpcs://{other.grpc}", {"ca": ca.certificate, "server_name": "triton"}
    for wrong, options, reason in (
        (address, named, "it requires a client's certificate: give `certificate` and `key`"),
        (address, {"ca": ca.certificate}, "its certificate is not for '127.0.0.1': give a name that is in it as"),
        (other.grpc, {}, "that port has TLS: write https:// or grpcs://"),
        (f"grpcs://{real.server.grpc}", named, "that port has no TLS: write http:// or grpc://"),
        (f"https://{real.server.http}", named, "that port has no TLS: write http:// or grpc://"),
    ):
        with pytest.raises(UnavailableError, match=reason):
            connect(wrong, **options)
    client, client_key = ca.issue("client", "DNS:client")
    with (
        connect(real.server.grpc) as one,
        connect(address, certificate=client, key=client_key, **named) as two,  # type: ignore[arg-type]
    ):
        broken = edit(3, f"open({str(here)!r})")

        def step(text: str) -> None:
            if f"{two.address}: load" in text:
                here.unlink()

        result = one.push(broken, targets=[two], proof=golden, say=step)
        assert [target.state for target in result.targets] == [PushState.UNDONE, PushState.REFUSED], result
        assert one.model("scale")(IN=[2])["OUT"].tolist() == [20]
    real.unload("scale")
