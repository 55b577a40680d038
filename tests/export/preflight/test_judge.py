"""The rows of pre-flight, each on a model directory that shows it; nothing is loaded."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.export.preflight.elf import NOTHING, needs_of
from tritonlab.export.preflight.finding import Finding, Prediction, Preflight
from tritonlab.export.preflight.judge import judge
from tritonlab.export.preflight.of_model import subject_in
from tritonlab.export.preflight.subject import Subject
from tritonlab.ipc.processes.own_stub import NAME
from tritonlab.stub._pb_stub.wire.message_bodies import ReadsRecorded

HEAD = "import triton_python_backend_utils as pb_utils\n"
ENVIRONMENT = 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env" } }'


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "m" / "1").mkdir(parents=True)
    return tmp_path / "m"


def subject(
    directory: Path, source: str = "", config: str = "", python: str = "3.11.2", numpy: str = "1.26.4"
) -> Subject:
    (directory / "1" / "model.py").write_text(HEAD + source)
    site = directory.parent / numpy / "site-packages"
    facts = site / f"numpy-{numpy}.dist-info"
    facts.mkdir(parents=True, exist_ok=True)
    (facts / "METADATA").write_text(f"Name: numpy\nVersion: {numpy}\n")
    (facts / "RECORD").write_text("numpy/__init__.py,,\n")
    return replace(
        subject_in(directory),
        config=parse_pbtxt(config, ""),
        reads=(ReadsRecorded(python, "/", [], []),),
        modules={"numpy": str(site / "numpy" / "__init__.py")},
    )


def test_a_local_build_is_named_as_an_index_has_it(directory: Path) -> None:
    site = directory.parent / "site-packages"
    facts = site / "torch-2.13.0+cpu.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Name: torch\nVersion: 2.13.0+cpu\n")
    (facts / "RECORD").write_text("torch/__init__.py,,\n")
    seen = replace(subject(directory, "import torch\n"), modules={"torch": str(site / "torch" / "__init__.py")})
    (found,) = judge(seen, "2.51").findings
    assert found.row == "P2" and found.remedy.endswith("`pip install torch==2.13.0`")


def rows(found: Preflight) -> list[tuple[str, Prediction]]:
    return [(finding.row, finding.outcome) for finding in found.findings]


@pytest.mark.parametrize(
    ("numpy", "config", "target", "expected"),
    [
        ("1.26.4", "", "2.51", []),
        ("2.4.6", "", "2.51", [("P5", Prediction.ATTENTION)]),
        ("2.4.6", ENVIRONMENT, "2.41", [("P5", Prediction.FAILS), ("P11", Prediction.ATTENTION)]),
        ("2.4.6", "", "24.12", []),
    ],
)
def test_numpy_2(directory: Path, numpy: str, config: str, target: str, expected: list[tuple[str, Prediction]]) -> None:
    if config:
        environment(directory)
    assert rows(judge(subject(directory, "", config, "3.10.1", numpy), target)) == expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("import tomllib", "2.51", "it imports tomllib, which Python has since 3.11"),
        ("import tomllib", "24.12", None),
        ("match 1:\n    case 1: pass", "2.33", "its syntax is newer (Pattern matching"),
        ("match 1:\n    case 1: pass", "2.36", None),
    ],
)  # fmt: skip
def test_a_python_that_is_older_there(directory: Path, source: str, target: str, expected: str | None) -> None:
    found = judge(subject(directory, source), target).findings
    assert [finding.row for finding in found] == (["P6"] if expected else [])
    assert not expected or (found[0].sentence.startswith(expected) and found[0].source_line[-11:-1] == "/model.py:")


def test_an_environment_of_another_python_than_the_stub(directory: Path) -> None:
    here = subject(directory, "", ENVIRONMENT, python="3.12.3")
    assert ("P9", Prediction.LOAD) in rows(judge(here, "2.51"))  # it is not there
    environment(directory)
    finding, _ = judge(here, "2.51").findings
    assert (finding.row, finding.outcome) == ("P6", Prediction.LOAD)
    assert (
        "of Python 3.12.3, and the stub of Triton 2.51 (24.10) of 3.10: the environment is ignored" in finding.sentence
    )
    assert rows(judge(here, "24.12")) == [("P11", Prediction.ATTENTION)]
    (directory / NAME).write_bytes(b"\x7fELF\0libpython3.12.so.1.0\0")
    found = judge(subject(directory, "", ENVIRONMENT, python="3.12.3"), "2.51")
    assert rows(found) == [("P6", Prediction.ATTENTION), ("P11", Prediction.ATTENTION)]


IN_SOURCE = {
    "class A:\n    f = pb_utils.MetricFamily": ("2.33", "2.36", Prediction.LOAD),
    "k = pb_utils.MetricFamily.HISTOGRAM": ("2.48", "2.49", Prediction.LOAD),
    "def f(r): return r.is_cancelled()": ("2.36", "2.39", Prediction.FAILS),
    "def f(r): return r.timeout()": ("2.39", "2.41", Prediction.DIFFERS),
    "def f(r): return r.get_response_sender()": ("2.46", "2.47", Prediction.FAILS),
    "k = pb_utils.InferenceResponse([], parameters={})": ("2.51", "25.02", Prediction.FAILS),
    "def f(r):\n    it = r.exec(decoupled=True)\n    it.cancel()": ("2.51", "25.05", Prediction.FAILS),
    "class TritonPythonModel:\n    def is_ready(self): return True": ("26.03", "26.04", Prediction.DIFFERS),
}


@pytest.mark.parametrize("source", IN_SOURCE)
def test_what_a_release_lacks_of_pb_utils(directory: Path, source: str) -> None:
    lacks, has, outcome = IN_SOURCE[source]
    found = judge(subject(directory, source), lacks).findings
    assert (found[-1].row, found[-1].outcome) == ("P7", outcome) and found[-1].remedy
    assert all(finding.row != "P7" for finding in judge(subject(directory, source), has).findings)


def test_what_a_release_lacks_of_the_config_and_of_coroutines(directory: Path) -> None:
    iterative = "sequence_batching { iterative_sequence: true }"
    bf16 = 'input { name: "IN" data_type: TYPE_BF16 dims: [1] }'
    decoupled = "model_transaction_policy { decoupled: true }"
    coroutine = "class TritonPythonModel:\n    async def execute(self, requests): pass"
    cases = [("", iterative, "2.39"), ("", bf16, "2.48"), (coroutine, decoupled, "2.44")]
    for source, config, lacks in cases:
        assert [row for row, _ in rows(judge(subject(directory, source, config), lacks))] == ["P7"]
        assert rows(judge(subject(directory, source, config), "2.51")) == []
    assert rows(judge(subject(directory, coroutine), "2.41")) == []
    (unknown,) = judge(subject(directory, "", iterative), "2.40").findings
    assert unknown.sentence.endswith("is not known: 23.12 has it, 23.10 does not")


def test_shared_memory(directory: Path) -> None:
    big = replace(subject(directory), shm_bytes=100 << 20)
    assert [str(each) for each in judge(big, "2.51").findings] == [
        "it took 100 MB of shared memory here, and a container has 64 MB unless it is given more: start it with "
        "--shm-size=200m, in Kubernetes with an emptyDir of medium Memory"
    ]
    assert rows(judge(big, "kserve")) == [("P8", Prediction.LOAD)]
    assert rows(judge(replace(big, shm_bytes=64 << 20), "kserve")) == []


def environment(directory: Path) -> Path:
    (directory / "env" / "bin").mkdir(parents=True)
    (directory / "env" / "bin" / "activate").write_text('VIRTUAL_ENV="$(dirname $0)/.."\n')
    (directory / "env" / "bin" / "python").write_bytes(b"\x7fELF")
    (directory / "env" / "lib" / "python3.10").mkdir(parents=True)
    for name in ("libpython3.10.so.1.0", "python3.10/os.py"):
        (directory / "env" / "lib" / name).touch()
    return directory / "env"


def test_an_environment_that_is_a_venv_or_names_this_machine(directory: Path) -> None:
    env = environment(directory)
    here = subject(directory, "", ENVIRONMENT, "3.10.1")
    assert rows(judge(here, "2.51")) == [("P11", Prediction.ATTENTION)]
    (env / "bin" / "activate").write_text('VIRTUAL_ENV="/home/me/env"\n')
    (env / "bin" / "pip").write_text("#!/home/me/env/bin/python\n")
    found = [finding.sentence for finding in judge(here, "2.51").findings if finding.row == "P9"]
    assert found == [
        "bin/activate of its environment names /home/me/env, a path of this machine",
        "the script bin/pip of its environment starts a Python of this machine",
    ]
    (env / "pyvenv.cfg").write_text("home = /usr/bin\n")
    first = judge(here, "2.51").findings[0]
    assert (first.row, first.outcome) == ("P9", Prediction.LOAD)
    assert first.sentence.startswith("its environment is a virtual environment: it has no interpreter")
    assert "only links to /usr/bin, which the target does not have" in first.sentence
    for name in ("pyvenv.cfg", "lib/libpython3.10.so.1.0"):
        (env / name).unlink()
    first = judge(here, "2.51").findings[0]
    assert (first.row, first.outcome) == ("P9", Prediction.ATTENTION)
    assert first.sentence == "its environment has no lib/libpython3.*.so, which Triton's stub needs"


def test_a_packed_venv(directory: Path) -> None:
    env = environment(directory)
    (env / "pyvenv.cfg").write_text("home = /usr/bin\n")
    with tarfile.open(directory / "env.tar.gz", "w:gz") as archive:
        archive.add(env, ".")
    here = subject(directory, "", ENVIRONMENT.replace("/env", "/env.tar.gz"), "3.10.1")
    first = judge(here, "2.51").findings[0]
    assert first.row == "P9" and "is a virtual environment" in first.sentence
    (directory / "env.tar.gz").write_bytes(b"no archive")
    assert "is not a tar archive" in next(each.sentence for each in judge(here, "2.51").findings if each.row == "P9")


def test_a_library_that_needs_a_newer_glibc(directory: Path) -> None:
    """A library of numpy, which is a manylinux wheel, as it is and with its needs raised."""
    library = next(Path(np.__file__).parent.rglob("_multiarray_umath*.so"))
    glibc = needs_of(library).newest("GLIBC")
    assert (2, 2) < glibc < (2, 35)
    env = environment(directory)
    data = library.read_bytes()
    (env / "lib" / "a.so").write_bytes(data)
    here = subject(directory, "", ENVIRONMENT, "3.10.1")
    assert [row for row, _ in rows(judge(here, "2.51"))] == ["P11"]
    named = f"GLIBC_{glibc[0]}.{glibc[1]}".encode() + b"\0"
    (env / "lib" / "a.so").write_bytes(data.replace(named, b"GLIBC_2." + b"9" * (len(named) - 9) + b"\0"))
    first = judge(here, "2.51").findings[0]
    assert first.row == "P9" and first.sentence.startswith("lib/a.so of its environment needs glibc 2.9")
    assert first.sentence.endswith("and Triton 2.51 (24.10) has 2.35")
    assert needs_of(Path(__file__)) == NOTHING


def test_secrets_and_clutter(directory: Path) -> None:
    (directory / ".env").write_text("TOKEN=1")
    (directory / "server.pem").write_text("key")
    found = judge(subject(directory), "2.51").findings
    assert [(each.row, each.outcome) for each in found] == [("P10", Prediction.ATTENTION)] * 2
    assert [str(each) for each in found] == [
        ".env is hidden and was left out: include=['.env'] (--include .env) exports it",
        "server.pem looks like a secret and would be exported: take it out of the model's directory, and mount it "
        "where the model runs",
    ]


def test_a_finding_is_json_and_text() -> None:
    finding = Finding("P1", "X is undefined", "define it", "/m/1/model.py:3", Prediction.FAILS)
    found = Preflight("m", "Triton 2.51 (24.10)", (finding,))
    assert str(found) == "m on Triton 2.51 (24.10): it fails there\n  P1  X is undefined: define it (/m/1/model.py:3)."
    assert found.to_dict()["findings"][0] == {
        "row": "P1",
        "sentence": "X is undefined",
        "remedy": "define it",
        "source_line": "/m/1/model.py:3",
        "outcome": "fails",
    }
    assert (found.outcome, found.passed) == ("fails", False)
    assert "X is undefined: define it (/m/1/model.py:3).</td>" in found._repr_html_()
    assert found._repr_html_().count("text-align:left") == 3
