"""Connections with TLS, tokens and forwarded ports, and the reasons of failed ones."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import tritonlab
from tests.models import answers
from tests.serving import config
from tritonlab.core.status import UnavailableError, UnsupportedError
from tritonlab.exchanges.remote.remote_server import connect
from tritonlab.frontends.endpoints import Endpoints

from .certificates import CertificateAuthority, TlsProxy

TOKEN = "of-the-test"
LOCAL = "DNS:localhost,IP:127.0.0.1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    """Return the ports of a server with a model, for clients that have the token."""
    repository = tmp_path_factory.mktemp("repository")
    (repository / "m" / "1").mkdir(parents=True)
    (repository / "m" / "1" / "model.py").write_text(answers("x + 1"))
    (repository / "m" / "config.pbtxt").write_text(config("IN INT32 1", "OUT INT32 1"))
    with (
        tritonlab.Server(repository) as server,
        tritonlab.serve(server, http_port=0, grpc_port=0, metrics=False, token=TOKEN) as endpoints,
    ):
        yield endpoints


@pytest.fixture
def front(ports: Endpoints) -> Iterator[Callable[..., str]]:
    """Return a function that puts TLS in front of the ports: of a protocol, with a certificate, for whose clients."""
    with ExitStack() as stack:

        def place(protocol: str, certificate: tuple[Path, Path], clients: Path | None = None) -> str:
            proxy = TlsProxy(ports.http if protocol.startswith("http") else ports.grpc, certificate, clients)
            stack.callback(proxy.close)
            return f"{protocol}://{proxy.address}"

        yield place


def reason(*arguments: Any, **options: Any) -> str:
    with pytest.raises(UnavailableError) as caught:
        connect(*arguments, timeout=5, **options)
    return caught.value.message


@pytest.mark.parametrize("protocol", ["https", "grpcs"])
def test_certificates(protocol: str, authority: CertificateAuthority, front: Callable[..., str]) -> None:
    ca, local = authority.certificate, authority.issue("local", LOCAL)
    address = front(protocol, local)
    with connect(address, token=TOKEN, ca=ca) as server:
        model = server.model("m")
        assert model(IN=[1])["OUT"].tolist() == [2]
        row = model.load_test(seconds=0.5, warmup=0, progress=False).rows[0]
        assert row.requests and not row.errors
        assert TOKEN not in repr(server) + repr(model.link.transport) + repr(server.to_dict())
    assert "the certificate of its authority, a PEM file, as `ca`" in reason(address)
    other = CertificateAuthority(authority.folder / "other")
    assert f"its certificate is not from {other.certificate}: " in reason(address, ca=other.certificate)
    expired = front(protocol, authority.issue("expired", LOCAL, days=-1))
    assert reason(expired, ca=ca).endswith("its certificate has expired, or the clock of this machine is wrong")
    named = front(protocol, authority.issue("named", "DNS:triton.example"))
    assert "its certificate is not for '127.0.0.1': give a name that is in it as `server_name`" in reason(named, ca=ca)
    with connect(named, token=TOKEN, ca=ca, server_name="triton.example") as server:
        assert server.model("m")(IN=[2])["OUT"].tolist() == [3]


@pytest.mark.parametrize("protocol", ["https", "grpcs"])
def test_certificates_of_clients(protocol: str, authority: CertificateAuthority, front: Callable[..., str]) -> None:
    ca = authority.certificate
    address = front(protocol, authority.issue("local", LOCAL), ca)
    certificate, key = authority.issue("client", "DNS:client")
    with connect(address, token=TOKEN, ca=ca, certificate=certificate, key=key) as server:
        assert server.model("m")(IN=[1])["OUT"].tolist() == [2]
    assert "it requires a client's certificate: give `certificate` and `key`" in reason(address, ca=ca)
    other = CertificateAuthority(authority.folder / "other")
    stranger, stranger_key = other.issue("client", "DNS:client")
    refused = reason(address, ca=ca, certificate=stranger, key=stranger_key)
    assert f"it refuses the client's certificate {stranger}: " in refused


def test_ports_with_and_without_tls(
    authority: CertificateAuthority, front: Callable[..., str], ports: Endpoints
) -> None:
    for protocol in ("https", "grpcs"):
        address = front(protocol, authority.issue("local", LOCAL)).removeprefix(f"{protocol}://")
        assert "that port has TLS: write https:// or grpcs://" in reason(f"{protocol.removesuffix('s')}://{address}")
        assert "that port has TLS: write https:// or grpcs://" in reason(address)
    for plain in (f"https://{ports.http}", f"grpcs://{ports.grpc}"):
        assert "that port has no TLS: write http:// or grpc://" in reason(plain, ca=authority.certificate)


def test_the_protocol_is_found_with_tls(authority: CertificateAuthority, front: Callable[..., str]) -> None:
    for protocol in ("https", "grpcs"):
        address = front(protocol, authority.issue("local", LOCAL)).partition("://")[2]
        with connect(address, token=TOKEN, ca=authority.certificate) as server:
            assert server.protocol == {"https": "HTTP", "grpcs": "gRPC"}[protocol]


@pytest.mark.parametrize("address", ["localhost:abc", "http://localhost:abc", "http://localhost:1/v2"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises((ValueError, UnavailableError), match=r"abc|localhost:1/v2"):
        connect(address)


def test_options_that_do_not_fit(authority: CertificateAuthority) -> None:
    key = authority.key
    for words, options in {
        r"http:// has no certificates: write https://": {"address": "http://a:1", "ca": authority.certificate},
        "every certificate is checked: give the server's own": {"address": "https://a:1", "verify": False},
        "a key without a certificate": {"address": "https://a:1", "key": key},
        "is not a PEM file of certificates": {"address": "https://a:1", "ca": key},
        "are not a certificate and its key": {"address": "https://a:1", "certificate": authority.certificate},
        "give either `token` or the header": {"address": "a:1", "token": "x", "headers": {"AUTHORIZATION": "y"}},
        "has a character that no header can have": {"address": "a:1", "headers": {"x": "a\r\ny: b"}},
        "kube://namespace/service:port": {"address": "a:1", "kubernetes": {}},
        "is not a service": {"address": "kube://a:1"},
    }.items():
        with pytest.raises(ValueError, match=words):
            connect(**options)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        connect("https://a:1", ca="no-such.pem")


class Forward:
    """A forwarded port of kr8s, to a port that is open already."""

    def __init__(self, port: int) -> None:
        self.port, self.is_open = port, False

    def __enter__(self) -> int:
        self.is_open = True
        return self.port

    def __exit__(self, *error: object) -> None:
        self.is_open = False


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, ports: Endpoints) -> dict[str, Any]:
    """Put a kr8s in place that knows one service with one pod; it returns what was requested of it."""
    seen: dict[str, Any] = {"pods": 1}

    def portforward(remote_port: int, local_port: str) -> Forward:
        seen["remote_port"] = remote_port
        seen["forward"] = Forward(int(ports.grpc.rpartition(":")[2]))
        return seen["forward"]  # type: ignore[no-any-return]

    containers = [{"ports": [{"name": "grpc-port", "containerPort": 18001}]}]
    pod = SimpleNamespace(portforward=portforward, raw={"spec": {"containers": containers}})
    offered = [
        {"name": "http", "port": 80, "targetPort": 8000},
        {"name": "grpc", "port": 8001, "targetPort": "grpc-port"},
    ]

    def get(name: str, namespace: str, api: Any) -> Any:
        seen.update(name=name, namespace=namespace, api=api)
        return SimpleNamespace(raw={"spec": {"ports": offered}}, ready_pods=lambda: [pod] * seen["pods"])

    package, objects = ModuleType("kr8s"), ModuleType("kr8s.objects")
    package.api = lambda **options: options  # type: ignore[attr-defined]
    objects.Service = SimpleNamespace(get=get)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kr8s", package)
    monkeypatch.setitem(sys.modules, "kr8s.objects", objects)
    return seen


def test_a_port_of_a_service(cluster: dict[str, Any]) -> None:
    numbers = random.getstate()
    for port in ("8001", "grpc"):
        with connect(f"kube://models/triton:{port}", token=TOKEN, kubernetes={"context": "dev"}) as server:
            assert server.model("m")(IN=[1])["OUT"].tolist() == [2]
            assert server.address == f"kube://models/triton:{port}"
            assert cluster["forward"].is_open
        assert not cluster["forward"].is_open
    assert (cluster["namespace"], cluster["name"], cluster["api"]) == ("models", "triton", {"context": "dev"})
    assert cluster["remote_port"] == 18001
    assert random.getstate() == numbers  # those of the notebook
    with pytest.raises(ValueError, match="the service has no port '9', but http, 80, grpc, 8001"):
        connect("kube://models/triton:9")
    cluster["pods"] = 0
    with pytest.raises(UnavailableError, match="kube://models/triton:80: no pod of the service is ready"):
        connect("kube://models/triton:80")


def test_without_kr8s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kr8s", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'tritonlab\[kubernetes\]'"):
        connect("kube://models/triton:8001")
