"""The rows of pre-flight, each on a model directory that shows it; then served models that run in the notebook and
nowhere else, each with its one sentence, and models that draw none."""

from __future__ import annotations

import importlib
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

from tests.serving import write_model
from tritonlab import Server, export
from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.plain_facts import MOST_LINES
from tritonlab.exchanges.exchange import Exchange
from tritonlab.ipc.processes.interpreter import STUB
from tritonlab.ipc.processes.own_stub import NAME
from tritonlab.stub._pb_stub.wire.message_bodies import ReadsRecorded
from tritonlab.tools.deploy.preflight.finding import Finding, Prediction, Preflight, say_once
from tritonlab.tools.deploy.preflight.judge import judge, preflight, subject_in
from tritonlab.tools.deploy.preflight.relocatable import NOTHING, needs_of
from tritonlab.tools.deploy.preflight.subject import Subject, version_of
from tritonlab.tools.deploy.preflight.trial import ModelTrial, try_models
from tritonlab.tools.deploy.preflight.versions import _GONE, _NAME_SINCE, _NUMPY_2

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
    assert judge(replace(seen, pins={"torch": "2.13.0"}), "2.51").findings == ()  # the lock that is exported has it


@pytest.mark.parametrize(
    ("source", "outcome"),
    [
        ("import torch\n", Prediction.LOAD),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\n", Prediction.ATTENTION),
        ("try:\n    import torch\nexcept ImportError:\n    raise SystemExit('install torch')\n", Prediction.LOAD),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\nimport torch.nn\n", Prediction.LOAD),
    ],
)
def test_an_import_that_the_model_can_do_without_does_not_stop_it(
    directory: Path, source: str, outcome: Prediction
) -> None:
    site = directory.parent / "site-packages"
    seen = replace(subject(directory, source), modules={"torch": str(site / "torch" / "__init__.py")})
    (found,) = judge(seen, "2.51").findings
    assert (found.row, found.outcome) == ("P2", outcome)


LAZY = "class TritonPythonModel:\n    def {}(self, x):\n        {}\n    def helper(self):\n        import torch\n"


@pytest.mark.parametrize(
    ("method", "body", "outcome"),
    [
        ("execute", "import torch", Prediction.FAILS),
        ("initialize", "import torch", Prediction.LOAD),
        ("execute", "self.helper()", Prediction.FAILS),
        ("initialize", "self.helper()", Prediction.LOAD),
    ],
)
def test_a_lazy_import_fails_where_it_runs(directory: Path, method: str, body: str, outcome: Prediction) -> None:
    text = LAZY.format(method, body)
    for name, row in {"torch": "P2", "torch_here": "P4"}.items():
        file = directory.parent / ("site-packages" if row == "P2" else "here") / name / "__init__.py"
        seen = replace(subject(directory, text.replace("torch", name), python="3.10.1"), modules={name: str(file)})
        assert rows(judge(seen, "2.51")) == [(row, outcome)]
        at_the_top = replace(
            subject(directory, f"import {name}\n{text}".replace("torch ", f"{name} ")), modules=seen.modules
        )
        assert rows(judge(at_the_top, "2.51")) == [(row, Prediction.LOAD)]


#: What comes between the import of pb_utils and the end of a file, and the names that are missing in it.
NAMES = {
    "def f():\n    x: Unknown = 1\n    return x\nclass A:\n    def g(self):\n        self.x: Other = 1": [],
    "def f(x: Unknown): pass": ["Unknown"],
    "globals()['K'] = 1\ndef f(): return K": [],
    "globals().update(K=1)\ndef f(): return K": [],
    "def f(): return globals().get('K', K)": ["K"],
    "if __name__ == '__main__':\n    run(arguments)": [],
    "import sys\ntext = unicode if sys.version_info[0] < 3 else str": [],
    "PY2 = False\nif PY2:\n    text = unicode\ndef f(): return unicode": ["unicode"],
    "try:\n    text = unicode\nexcept Exception:\n    text = str": [],
    "def execute():\n    try:\n        return K\n    except Exception as error:\n        return str(error)": ["K"],
    "def execute():\n    try:\n        return RATE\n    except NameError:\n        return 1": [],
    "def execute():\n    try:\n        return RATE\n    except NameError:\n        raise": ["RATE"],
    "def initialize():\n    global json\n    import json\ndef execute(): return json.dumps(1)": [],
    "def initialize():\n    global os\n    import os.path\ndef execute(): return os.path": [],
    "def initialize():\n    global dumps\n    from json import dumps\ndef execute(): return dumps(1)": [],
    "def initialize():\n    import json\ndef execute(): return json.dumps(1)": ["json"],
    "class A:\n    where = __module__, __qualname__": [],
    "import sys\nsys.modules[__name__].K = 1\ndef f(): return K": [],
    "import builtins\nbuiltins.K = 1\ndef f(): return K": [],
    "names = globals()\nnames['K'] = 1\ndef f(): return K": [],
}


@pytest.mark.parametrize("source", NAMES)
def test_names_that_nothing_defines(directory: Path, source: str) -> None:
    found = judge(subject(directory, source, python="3.10.1"), "2.51").findings
    assert [each.sentence.partition(" is used")[0] for each in found] == NAMES[source]


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
        ("import sys\nif sys.version_info >= (3, 11):\n    import tomllib", "2.51", None),
        ("from enum import StrEnum", "2.51", "it uses enum.StrEnum, which Python has since 3.11"),
        ("from enum import StrEnum", "24.12", None),
        ("try:\n    from enum import StrEnum\nexcept ImportError:\n    StrEnum = str", "2.51", None),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from typing import Self", "2.51", None),
        ("import datetime as dt\nnow = dt.datetime.now(dt.UTC)", "2.51", "it uses datetime.UTC, which Python has"),
        ("from datetime import datetime\ndef f(): return datetime.UTC", "2.51", None),
        ("import asyncio\nasync def f(): return asyncio.timeout(1)", "2.51", "it uses asyncio.timeout, which"),
        ("def f(): raise ExceptionGroup('', [])", "2.51", "it uses ExceptionGroup, which Python has since 3.11"),
        ("from datetime import datetime as d\nX = d.fromisoformat('2024-01-01T00:00Z')", "2.51", "it uses fromisofo"),
        ("from datetime import datetime as d\nX = d.fromisoformat('2024-01-01T00:00Z')", "24.12", None),
        ("from datetime import datetime as d\nX = d.fromisoformat('2024-01-01T00:00:00+00:00')", "2.51", None),
        ("import shutil\ndef f(): shutil.rmtree('x', onexc=print)", "24.10", "it uses rmtree(onexc=), which"),
        ("import sys\nif sys.version_info >= (3, 11):\n    import tomllib\nelse:\n    tomllib = None", "2.51", None),
        ("import sys\nif sys.version_info < (3, 11):\n    import tomllib", "2.51", "it imports tomllib, which Python"),
        ("import sys\nif not sys.version_info[:2] >= (3, 11):\n    import tomllib", "2.51", "it imports tomllib, wh"),
        ("import imp", "24.12", "it imports imp, which Python has no longer since 3.12, and the stub of Triton"),
        ("import imp", "2.51", None),
        ("import telnetlib", "24.12", None),
    ],
)  # fmt: skip
def test_a_python_that_is_older_there(directory: Path, source: str, target: str, expected: str | None) -> None:
    found = judge(subject(directory, source), target).findings
    assert [finding.row for finding in found] == (["P6"] if expected else [])
    assert not expected or (found[0].sentence.startswith(expected) and found[0].source_line[-11:-1] == "/model.py:")


def test_a_branch_that_runs_with_the_older_python_only_is_looked_at(directory: Path) -> None:
    text = "import sys\nif sys.version_info >= (3, 11):\n    import tomllib\nelse:\n    import tomli as tomllib\n"
    (found,) = judge(subject(directory, text), "2.51").findings
    assert (found.row, found.outcome) == ("P2", Prediction.LOAD)
    assert found.sentence == "it imports tomli, which Triton's image does not bring"
    assert judge(subject(directory, text), "24.12").findings == ()


def test_what_is_not_run_as_a_model_is_not_looked_at(directory: Path) -> None:
    path = directory.parent / "x.txt"
    path.touch()
    text = "if __name__ == '__main__':\n    open('{0}')\nelse:\n    pass\n"
    assert judge(subject(directory, text.format(path), python="3.10.1"), "2.51").findings == ()
    other = text.format(path).replace("==", "!=")
    assert [row for row, _ in rows(judge(subject(directory, other, python="3.10.1"), "2.51"))] == ["P3"]


def test_the_numpy_of_this_process_is_named_once_and_not_where_a_lock_has_another(directory: Path) -> None:
    here = subject(directory, python="3.10.1", numpy="2.4.6")
    found = judge(here, "2.51")
    first, second = say_once([found, replace(found, model="other")])
    assert rows(first) == [("P5", Prediction.ATTENTION)] and second.findings == ()
    assert judge(replace(here, pins={"numpy": "1.26.4"}), "2.51").findings == ()


def test_a_newer_python_is_needed_to_load_or_to_answer(directory: Path) -> None:
    text = "import itertools\nclass TritonPythonModel:\n    def {}(self, x): return itertools.batched(x, 2)"
    for name, outcome in {"initialize": Prediction.LOAD, "execute": Prediction.FAILS}.items():
        assert rows(judge(subject(directory, text.format(name)), "2.51")) == [("P6", outcome)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import numpy as np\ndef f(x): return x.astype(np.bool)", ["numpy.bool"]),
        ("import numpy as np\ndef f(x): return x.astype(np.bool_)", []),
        ("import numpy as np\ndef f(x): return np.trapezoid(x)", ["numpy.trapezoid"]),
        ("import numpy as np\ndef f(x): return (np.trapezoid if hasattr(np, 'trapezoid') else np.trapz)(x)", []),
        ("from numpy import linalg\ndef f(x): return linalg.vector_norm(x)", ["numpy.linalg.vector_norm"]),
        ("import numpy.linalg as la\ndef f(x): return la.norm(x)", []),
        ("from numpy import concat", ["numpy.concat"]),
        ("import numpy as np\ndef f(x): return x.mT", ["the attribute .mT of an array"]),
        ("import numpy as np\ndef f(x): return x.T", []),
        ("import torch\nimport numpy as np\ndef f(x): return x.mT", []),
        ("import numpy as np\ndef f(x): return x.reshape(shape=(-1,))", ["reshape(shape=)"]),
        ("import numpy as np\ndef f(x): return np.reshape(x, shape=(-1,))", ["reshape(shape=)"]),
        ("import numpy as np\ndef f(x): return x.reshape(-1, order='C')", []),
        ("import numpy as np\ndef f(x): return np.asarray(x, copy=True)", ["asarray(copy=)"]),
        ("import numpy as np\ndef f(x): return np.array(x, copy=True)", []),
        ("import numpy as np\ndef f(x): return np.sort(x, stable=True)", ["sort(stable=)"]),
        ("import numpy as np\ndef f(x):\n    try: return x.mT\n    except AttributeError: return x.swapaxes(0, 1)", []),
    ],
)
def test_names_of_numpy_2(directory: Path, source: str, expected: list[str]) -> None:
    found = judge(subject(directory, source, python="3.10.1"), "2.51").findings
    assert [each.sentence.removeprefix("it uses ").partition(", which")[0] for each in found] == expected
    assert judge(subject(directory, source), "24.12").findings == ()


def test_the_tables_of_names_are_those_of_python_and_numpy() -> None:
    for name, since in _NAME_SINCE.items():
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute) is (sys.version_info[:2] >= since), name
    for module, gone in _GONE.items():
        assert (module in sys.stdlib_module_names) is (sys.version_info[:2] < gone), module
    if version_of(np.__version__) >= (2, 2):
        assert all(attrgetter(name)(np) for name in _NUMPY_2)
    assert all(attrgetter(instead)(np) for instead in _NUMPY_2.values() if instead and instead != "trapz")


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


def test_files_that_only_their_owner_may_read(directory: Path) -> None:
    """A mounted directory is read by a container's user, 1000."""
    here = subject(directory, "x = 1")
    assert rows(judge(here, "2.51")) == []
    (directory / "1" / "model.py").chmod(0o600)
    (finding,) = judge(here, "2.51").findings
    assert (finding.row, finding.outcome) == ("P11", Prediction.ATTENTION)
    assert finding.sentence == "1/model.py may be read by its owner only" and "chmod a+r" in finding.remedy


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


@pytest.mark.parametrize(
    ("config", "lacks", "has"),
    [
        ("model_metrics { metric_control { metric_identifier { family: 'nv_a' } } }", "2.51", "24.12"),
        ("sequence_batching { state { use_growable_memory: true } }", "2.39", "2.41"),
        ("sequence_batching { oldest { preserve_ordering: true } }", "2.36", "2.39"),
    ],
)
def test_fields_that_a_release_does_not_parse(directory: Path, config: str, lacks: str, has: str) -> None:
    assert rows(judge(subject(directory, "", config), lacks)) == [("P7", Prediction.LOAD)]
    assert rows(judge(subject(directory, "", config), has)) == []


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
    whole = (directory / "env.tar.gz").read_bytes()
    for damaged in (b"no archive", whole[: len(whole) // 2]):
        (directory / "env.tar.gz").write_bytes(damaged)
        found = [each.sentence for each in judge(here, "2.51").findings if each.row == "P9"]
        assert "is not a tar archive" in found[0]


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
        "server.pem looks like a secret (its name) and was left out; mount it where the model runs: "
        "include=['server.pem'] (--include server.pem) exports it all the same",
    ]


@pytest.mark.parametrize(
    ("name", "problem"), [("a b", "has a space"), ("modèle", "is not ASCII"), ("a&b", "has '&'"), ("a.b-c_1", None)]
)
def test_a_name_that_the_stub_cannot_bear(directory: Path, name: str, problem: str | None) -> None:
    named = directory.rename(directory.with_name(name))
    found = judge(subject(named), "2.51")
    assert rows(found) == ([("P13", Prediction.LOAD)] if problem else [])
    assert all(problem in str(finding) for finding in found.findings if problem)
    assert rows(judge(subject(named, config='backend: "onnxruntime"'), "2.51")) == []
    assert rows(judge(subject(named), "ray")) == []


@pytest.mark.parametrize(
    "file",
    ["id_rsa", "service-account.json", "prod.env", "credentials", "secrets.yaml", "kubeconfig", "keystore.jks"],
)
def test_what_looks_like_a_secret(directory: Path, file: str) -> None:
    for name in ("tokenizer.json", "environment.yml", "id_rsa_loader.py", "secret_sauce.py", "keys.txt"):
        (directory / "1" / name).touch()
    assert judge(subject(directory), "2.51").findings == ()
    (directory / "1" / file).touch()
    (finding,) = judge(subject(directory), "2.51").findings
    assert finding.sentence.startswith(f"1/{file} looks like a secret (its name) and was left out")


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


CONFIG = 'input { name: "IN" data_type: TYPE_FP32 dims: [-1] } output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }'
MODEL = """\
import os
import numpy as np
import triton_python_backend_utils as pb_utils
{head}
class TritonPythonModel:
    def initialize(self, args):
        {initialize}
    def execute(self, requests):
        {execute}
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.zeros(1, "f4"))]) for r in requests]
"""


def source(head: str = "", initialize: str = "pass", execute: str = "pass") -> str:
    return MODEL.format(head=head, initialize=initialize, execute=execute)


#: Section 3's models that ran in the notebook and drew no warning: what they do, and the sentence of each now.
SILENT = {
    "constant": (source(execute="rate = RATE * 2"), "P1", "RATE is used and not defined in the model's own files"),
    "relative": (source(initialize="open('table.txt').close()"), "P3", "it opens {here}/table.txt, outside of its dir"),
    "module": (source("import tools_here"), "P4", "it imports tools_here from {here}/tools_here.py, where a deployed"),
    "absolute": (source(initialize="open('{here}/weights.bin').close()"), "P3", "it opens {here}/weights.bin, outside"),
    "variable": (source(initialize="os.environ['SILENT_HOME']"), "P3", "it reads the environment variable SILENT_HOME"),
    "concat": (source(execute="np.concat([np.zeros(1)])"), "P5", "it uses numpy.concat, which only numpy 2 has"),
    "ipython": (source("import IPython"), "P2", "it imports IPython, which Triton's image does not bring"),
}
#: Models that run anywhere.
SOUND = {
    "plain": source(),
    "beside": source("import beside", "open(os.path.join(os.path.dirname(__file__), 'beside.py')).close()"),
    "defaults": source(initialize="os.environ.get('NOT_SET_AT_ALL', '1'), os.environ.copy(), os.getenv('PATH')"),
    "guarded": source("try:\n    import tomllib\nexcept ImportError:\n    tomllib = None"),
    "caught": source(execute="\n        try:\n            ANY\n        except NameError:\n            pass"),
    "later": source(
        "def helper():\n    return LATER\nLATER = 1\n", execute="[x for x in range(3)]; __file__; helper()"
    ),
    "written": source(initialize="p = os.getcwd() + '/log.txt'; open(p, 'w').close(); open(p).close(); os.unlink(p)"),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the notebook's folder."""
    place = tmp_path_factory.mktemp("notebook")
    for name, text in {"table.txt": "1", "weights.bin": "1", "tools_here.py": "import json\n"}.items():
        (place / name).write_text(text)
    return place


@pytest.fixture(scope="module")
def server(here: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    repository = tmp_path_factory.mktemp("models")
    texts = {
        "default": source(initialize="os.environ.get('SILENT_HOME', '/')"),
        "late": source(execute="open('table.txt').close()"),
        **{name: text for name, (text, _, _) in SILENT.items()},
        **SOUND,
    }
    for name, text in texts.items():
        write_model(repository, name, text.replace("{here}", str(here)), CONFIG)
        (repository / name / "1" / "beside.py").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.setenv("SILENT_HOME", "/somewhere")
        with Server(repository, model_control_mode="none") as server:
            yield server


@pytest.mark.parametrize("name", SILENT)
def test_each_silent_model_draws_one_sentence_with_a_remedy(
    server: Server, here: Path, tmp_path: Path, name: str
) -> None:
    _, row, sentence = SILENT[name]
    report = export(server.model(name), tmp_path / "models")
    (warning,) = report.plan.warnings
    assert warning.startswith(sentence.replace("{here}", str(here))), warning
    assert f"  Attention: {warning}." in str(report).splitlines()
    assert report.preflight is not None and not report.preflight.passed
    found = [finding for finding in report.preflight.findings if finding.outcome is not Prediction.ATTENTION]
    assert [finding.row for finding in found] == [row]
    assert found[0].remedy and found[0].source_line.partition(":")[0].endswith("1/model.py")
    facts = report.to_dict()["models"][0]["preflight"]
    assert facts["findings"][0]["sentence"] in warning or facts["findings"][-1]["sentence"] in warning


def test_no_number_of_files_hides_what_is_to_be_done(server: Server, tmp_path: Path) -> None:
    report = export(server.model("constant"), tmp_path / "models")
    many = replace(report, plan=replace(report.plan, added=tuple(f"{n}/model.py" for n in range(90))))
    lines = repr(many).splitlines()
    assert len(lines) <= MOST_LINES and f"  Attention: {report.plan.warnings[0]}." in lines
    assert "more lines" in repr(many) and f"  {many.commands()[0]}" in lines


@pytest.fixture(scope="module")
def trials(server: Server) -> dict[str, ModelTrial]:
    return try_models([server.model(name) for name in (*SOUND, "default")], ())


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_model_draws_none(server: Server, trials: dict[str, ModelTrial], tmp_path: Path, name: str) -> None:
    assert export(server.model(name), tmp_path / "models").plan.warnings == ()
    assert preflight(server.model(name), "2.51", trial=trials[name]).passed


def test_a_variable_with_a_default_makes_it_differ(server: Server, trials: dict[str, ModelTrial]) -> None:
    found = preflight(server.model("default"), "24.12", trial=trials["default"])
    assert ([each.row for each in found.findings], found.outcome) == (["P3"], "differs")


def test_what_is_read_while_requests_are_sent_again_is_found(server: Server, here: Path) -> None:
    case = Exchange(InferenceRequest("late", {"IN": Tensor(DataType.FP32, (1,), np.zeros(1, np.float32))}), name="one")
    loaded, sent = (preflight(server.model("late"), "24.12", cases=cases) for cases in ((), [case]))
    assert loaded.findings == ()
    assert loaded.notes[-1].startswith("no request was sent, so what `execute` reads is not known")
    assert rows(sent) == [("P3", Prediction.FAILS)] and str(here / "table.txt") in sent.findings[0].sentence
    assert not any("no request" in note for note in sent.notes)


BESIDE = "open(os.path.join(args['model_repository'], '..', 'shared.txt')).close()"


def test_a_file_beside_the_model_goes_with_its_repository_and_not_with_the_model(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    write_model(repository, "beside", source(initialize=BESIDE), CONFIG)
    spelled = source(initialize=f"open('{repository}/shared.txt').close()")
    write_model(repository, "spelled", spelled, CONFIG)
    (repository / "shared.txt").write_text("1")
    with Server(repository, warm=0) as server:
        whole = preflight(server.model("beside"), "24.12")
        assert rows(whole) == [("P3", Prediction.ATTENTION)] and whole.outcome == "equal"
        assert whole.findings[0].sentence == (
            f"it opens {repository}/beside/../shared.txt, beside the model directory, which is there if the whole "
            "repository is"
        ).replace("/beside/..", "")
        assert preflight(server.model("spelled"), "24.12").outcome == "does not load"
        alone = export(server.model("beside"), tmp_path / "alone")
        (warning,) = alone.plan.warnings
        assert "which is not exported with the model: copy shared.txt into the repository there" in warning
        assert alone.preflight is not None and alone.preflight.outcome == "does not load"
        (tmp_path / "alone" / "shared.txt").write_text("1")
        again = export(server.model("beside"), tmp_path / "alone")
        assert again.plan.warnings == () and again.preflight is not None and again.preflight.outcome == "equal"


def test_a_file_that_the_working_directory_finds_is_not_beside_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path, "relative", source(initialize="open('shared.txt').close()"), CONFIG)
    (tmp_path / "shared.txt").write_text("1")
    with Server(tmp_path, model_control_mode="explicit", warm=0) as server:
        server.load("relative")
        assert rows(preflight(server.model("relative"), "24.12")) == [("P3", Prediction.LOAD)]


MADE = {
    "at import": ("os.makedirs('{made}', exist_ok=True)", "pass"),
    "by name": ("CACHE = '{made}'\nif not os.path.exists(CACHE):\n    os.mkdir(CACHE)", "pass"),
    "by a path": ("from pathlib import Path\nHERE = Path('{made}')", "HERE.mkdir(exist_ok=True)"),
    "with a file": ("", "os.mkdir('{made}'); os.system('touch {made}/a'); open('{made}/a').close()"),
    "a file": ("", "open('{made}', 'w').close(); open('{made}').close()"),
}


def test_what_the_model_makes_itself_is_not_missing(tmp_path: Path) -> None:
    made = {name: tmp_path / f"made{number}" for number, name in enumerate(MADE)}
    for name, parts in MADE.items():
        head, initialize = (text.format(made=made[name]) for text in parts)
        write_model(tmp_path / "models", made[name].name, source(head, initialize), CONFIG)
    with Server(tmp_path / "models", warm=0) as server:
        models = {name: server.model(path.name) for name, path in made.items()}
        tried = try_models(list(models.values()), ())
        for name, model in models.items():
            assert made[name].exists() and preflight(model, "24.12", trial=tried[model.name]).findings == (), name


def test_a_directory_that_was_there_before_does_not_bring_its_files(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "weights.bin").write_text("1")
    text = f"os.makedirs('{tmp_path}/there', exist_ok=True); open('{tmp_path}/there/weights.bin').close()"
    write_model(tmp_path / "models", "m", source(initialize=text), CONFIG)
    with Server(tmp_path / "models", warm=0) as server:
        assert rows(preflight(server.model("m"), "24.12")) == [("P3", Prediction.LOAD)]


def test_the_models_that_it_calls_are_named(tmp_path: Path) -> None:
    write_model(tmp_path, "inner", source(), CONFIG)
    call = "pb_utils.InferenceRequest(model_name='inner', inputs=[], requested_output_names=['OUT']).exec()"
    write_model(tmp_path, "outer", source(execute=call), CONFIG)
    with Server(tmp_path, model_control_mode="none") as server:
        assert not any("it needs" in note for note in preflight(server.model("inner"), "2.51").notes)
        *_, note = preflight(server.model("outer"), "2.51").notes
    assert note == "it needs inner, which pre-flight judges by name: %triton preflight NAME"


def test_a_model_that_is_not_loaded_is_judged_by_its_files(server: Server) -> None:
    directory = Path(server.model("ipython").directory)
    found = judge(subject_in(directory), "26.01")
    assert found.findings == ()
    assert found.notes == (
        "Triton 2.65 (26.01) is judged by the release table and rules only: it was not started here",
        "it is not loaded, so what it imports, opens and reads of the environment is not known",
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("2.bak", "read as version 2, which"),
        (" 4", "read as version 4, which"),
        ("+3", "read as version 3, which"),
        ("2x", "read as version 2, which"),
        ("2024-01-01", "read as version 2024, which"),
        ("9223372036854775808", "ends Triton"),
        ("9223372036854775807", ""),
        ("1.5", ""),  # version 1 is there
        ("02", ""),
        ("bak", ""),
    ],
)
def test_directories_that_triton_reads_as_versions(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / name).mkdir()
    (tmp_path / "m" / "config.pbtxt").write_text('backend: "python"')
    found = [each for each in judge(subject_in(tmp_path / "m")).findings if each.row == "P15"]
    assert [text in each.sentence and each.outcome is Prediction.LOAD for each in found] == [True] * bool(text)


def test_directories_that_the_version_policy_does_not_select(directory: Path) -> None:
    for name in ("3", "2.bak", "-4"):
        (directory / name).mkdir()
    policies = {"": [], "version_policy { latest { num_versions: 2 } }": ["2.bak"]}
    policies["version_policy { all {} }"] = ["-4", "2.bak"]
    for policy, selected in policies.items():
        (directory / "config.pbtxt").write_text(f'backend: "python" {policy}')
        found = {each.sentence: each.outcome for each in judge(subject_in(directory)).findings}
        assert [text for text, outcome in found.items() if outcome is Prediction.LOAD] == [
            text for text in found if any(f"'{name}'" in text for name in selected)
        ]
        assert len(found) == 2


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("", "which finds no deserialize_bytes_tensor in it"),
        ("from here import *", ""),
        ("def __getattr__(name): pass", ""),
        ("exec(open('x').read())", ""),
        ("deserialize_bytes_tensor = serialize_byte_tensor = 1\nfrom x import ModelConfig", ""),
        ("deserialize_bytes_tensor = serialize_byte_tensor = 1\nimport a.ModelConfig", "which finds no ModelConfig"),
        ("class Utils:\n    ModelConfig = 1\n    deserialize_bytes_tensor = 2", "finds no deserialize_bytes_tensor"),
    ],
)
def test_modules_in_the_place_of_the_stubs(directory: Path, text: str, outcome: str) -> None:
    (directory / "1" / "triton_python_backend_utils.py").write_text(text)
    (directory / "config.pbtxt").write_text('backend: "python"')
    (found,) = (each for each in judge(subject_in(directory)).findings if each.row == "P16")
    assert outcome in found.sentence
    assert found.outcome is (Prediction.LOAD if outcome else Prediction.ATTENTION)
    (directory / "config.pbtxt").write_text('backend: "of_ours"')  # whose models are not on the path (rule 2.11.2)
    assert not [each for each in judge(subject_in(directory)).findings if each.row == "P16"]


def test_a_module_of_the_working_directory_in_the_place_of_the_stubs(directory: Path) -> None:
    """Triton's file, kept next to a notebook for an editor's completion, is the one that a model imports."""
    (directory / "config.pbtxt").write_text('backend: "python"')
    name = "triton_python_backend_utils"
    ran = replace(subject(directory), modules={name: f"/somewhere/{name}.py"})
    (found,) = (each for each in judge(ran).findings if each.row == "P16")
    assert found.sentence == f"it ran with /somewhere/{name}.py as {name}, in the place of Triton's"
    assert not judge(replace(ran, modules={name: str(STUB.parent / f"{name}.py")})).findings
