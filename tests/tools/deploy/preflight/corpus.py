"""Models that work in the notebook only, each with what pre-flight has to name, and models that work anywhere.

Each is the head of its file, the body of `initialize` and that of `execute`, which sets `k`: the answer is `X * k`.
`{here}` is the notebook's folder, in which `write_files` writes what they read; `{etc}` and `{other_etc}` are files
below /etc that only some machines have, `{port}` the port of an HTTP server.
"""

from __future__ import annotations

import contextlib
import gzip
import http.server
import pickle
import shutil
import sqlite3
import tarfile
import threading
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest

CONFIG = 'input { name: "X" data_type: TYPE_FP32 dims: [-1] } output { name: "Y" data_type: TYPE_FP32 dims: [-1] }'
_MODEL = """\
import ctypes, functools, glob, io, json, os, pathlib, sqlite3, subprocess, sys, tempfile
import numpy as np
import triton_python_backend_utils as pb_utils
{head}
class TritonPythonModel:
    def initialize(self, args):
        self.k = None
{initialize}
    def execute(self, requests):
        k = self.k
{execute}
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", (
            pb_utils.get_input_tensor_by_name(r, "X").as_numpy() * np.float32(k)).astype("f4"))]) for r in requests]
"""


class Code(NamedTuple):
    """A model. `named`: what a finding of pre-flight has to contain; empty for one that must not be accused."""

    initialize: str = "pass"
    execute: str = "pass"
    named: str = ""
    head: str = ""

    def source(self, **places: str) -> str:
        """Return its model.py."""
        parts = {"head": self.head, "initialize": _indented(self.initialize), "execute": _indented(self.execute)}
        text = _MODEL.format(**parts)
        for name, place in places.items():
            text = text.replace("{" + name + "}", place)
        return text


def _indented(body: str) -> str:
    return "\n".join(f"        {line}" for line in body.splitlines())


def _read(name: str) -> Code:
    """Return a model that reads the number in a text file while it is loaded."""
    return Code(f"self.k = float(open('{name}').read())", named=name)


TRAPS = {
    "np_load": Code("self.k = np.load('a1.npy')[0]", named="a1.npy"),
    "np_load_later": Code(execute="k = np.load('a2.npy')[0]", named="a2.npy"),
    "fromfile": Code("self.k = np.fromfile('a3.raw', 'f4')[0]", named="a3.raw"),
    "memmap": Code("self.k = np.memmap('a4.raw', 'f4', 'r')[0]", named="a4.raw"),
    "memmap_default": Code("self.k = np.memmap('a5.raw', 'f4')[0]", named="a5.raw"),
    "loadtxt": Code("self.k = np.loadtxt('a6.txt')", named="a6.txt"),
    "genfromtxt_later": Code(execute="k = np.genfromtxt('a7.txt')", named="a7.txt"),
    "relative": _read("a8.txt"),
    "absolute": Code("self.k = float(open('{here}/a9.txt').read())", named="a9.txt"),
    "pathlib": Code("self.k = float(pathlib.Path('a10.txt').read_text())", named="a10.txt"),
    "json": Code("self.k = json.load(open('a11.json'))['k']", named="a11.json"),
    "pickle": Code("self.k = __import__('pickle').load(open('a12.pkl', 'rb'))", named="a12.pkl"),
    "zip": Code("self.k = float(__import__('zipfile').ZipFile('a13.zip').read('k'))", named="a13.zip"),
    "tar": Code("self.k = float(__import__('tarfile').open('a14.tar').extractfile('k').read())", named="a14.tar"),
    "gzip": Code("self.k = float(__import__('gzip').open('a15.gz').read())", named="a15.gz"),
    "ini": Code(
        "c = __import__('configparser').ConfigParser(); c.read('a16.ini'); self.k = c.getfloat('m', 'k', fallback=1)",
        named="a16.ini",
    ),
    "sqlite": Code("self.k = sqlite3.connect('a17.db').execute('select k from t').fetchone()[0]", named="a17.db"),
    "sqlite_uri": Code(
        execute="k = sqlite3.connect('file:a18.db?mode=ro', uri=True).execute('select k from t').fetchone()[0]",
        named="a18.db",
    ),
    "library": Code("ctypes.CDLL('./a19.so'); self.k = 2", named="a19.so"),
    "script": Code("self.k = float(subprocess.run(['sh', 'a20.sh'], capture_output=True).stdout)", named="a20.sh"),
    "python_script": Code(
        execute="k = float(subprocess.check_output([sys.executable, '{here}/a21.py']))", named="a21.py"
    ),
    "system": Code("assert os.system('sh a22.sh > /dev/null') == 0; self.k = 2", named="a22.sh"),
    "shell_string": Code(execute="k = float(subprocess.check_output('cat a23.txt', shell=True))", named="a23.txt"),
    "exists": Code("self.k = 2 if os.path.exists('a24.txt') else 1", named="a24.txt"),
    "isfile_later": Code(execute="k = 2 if os.path.isfile('{here}/a25.txt') else 1", named="a25.txt"),
    "path_exists": Code("self.k = 2 if pathlib.Path('a26.txt').exists() else 1", named="a26.txt"),
    "getsize": Code("self.k = os.path.getsize('a27.txt')", named="a27.txt"),
    "access": Code("self.k = 2 if os.access('a28.txt', os.R_OK) else 1", named="a28.txt"),
    "glob": Code("self.k = len(glob.glob('a29/*.csv'))", named="a29"),
    "path_glob": Code(execute="k = len(list(pathlib.Path('a30').glob('*.csv')))", named="a30"),
    "listdir": Code("self.k = len(os.listdir('a31'))", named="a31"),
    "walk": Code("self.k = sum(len(files) for _, _, files in os.walk('a32'))", named="a32"),
    "scandir": Code(execute="k = sum(1 for _ in os.scandir('a33'))", named="a33"),
    "expanduser": Code("self.k = float(open(os.path.expanduser('~/a34.txt')).read())", named="a34.txt"),
    "home": Code("self.k = float((pathlib.Path.home() / 'a35.txt').read_text())", named="a35.txt"),
    "cached": Code(
        head="@functools.lru_cache(None)\ndef k_of():\n    return float(open('a36.txt').read())",
        execute="k = k_of()",
        named="a36.txt",
    ),
    "lazy": Code(execute="if k is None:\n    k = self.k = float(open('a37.txt').read())", named="a37.txt"),
    "variable_later": Code(execute="k = float(os.environ.get('TRAP_K', '1'))", named="TRAP_K"),
    "variable": Code("self.k = float(os.getenv('TRAP_L', '1'))", named="TRAP_L"),
    "variable_needed": Code(head="K = float(os.environ['TRAP_M'])", execute="k = K", named="TRAP_M"),
    "etc": Code("self.k = len(open('{etc}').read())", named="{etc}"),
    "url": Code("self.k = len(__import__('urllib.request').request.urlopen('http://127.0.0.1:{port}/').read())",
                named="http://127.0.0.1:{port}"),
    "socket": Code(
        execute="__import__('socket').create_connection(('localhost', {port})).close(); k = 2", named="localhost:{port}"
    ),
    "module": Code(head="sys.path.append(os.getcwd())\nimport a38_tools", execute="k = a38_tools.K", named="a38_tools"),
    "run_path": Code(execute="k = __import__('runpy').run_path('a39.py')['K']", named="a39.py"),
    "os_open": Code(execute="k = float(os.read(os.open('a40.txt', os.O_RDONLY), 9))", named="a40.txt"),
    "xml": Code("self.k = float(__import__('xml.etree.ElementTree').etree.ElementTree.parse('a41.xml').getroot().text)",
                named="a41.xml"),
    "temporary": Code("self.k = float(open(tempfile.gettempdir() + '/tritonlab_a42.txt').read())", named="a42.txt"),
    "copied": Code(
        "self.k = float(open(__import__('shutil').copy('a43.txt', tempfile.mkdtemp())).read())", named="a43.txt"
    ),
    "fallback": Code(
        "try:\n    self.k = float(open('a44.txt').read())\nexcept OSError:\n    self.k = 1", named="a44.txt"
    ),
    "program": Code("assert subprocess.run(['{here}/a45.sh']).returncode == 0; self.k = 2", named="a45.sh"),
    "spec": Code(
        "u = __import__('importlib.util').util; s = u.spec_from_file_location('q', 'a46.py')\n"
        "q = u.module_from_spec(s); s.loader.exec_module(q); self.k = q.K",
        named="a46.py",
    ),
    "python_c": Code(
        execute="k = float(subprocess.check_output([sys.executable, '-c', \"print(open('a47.txt').read())\"]))",
        named="a47.txt",
    ),
    "c_open": Code(
        "c = ctypes.CDLL(None); b = ctypes.create_string_buffer(9); c.read(c.open(b'a48.txt', 0), b, 9)\n"
        "self.k = float(b.value or 1)",
        named="a48.txt",
    ),
    "onnxruntime": Code(
        head="import onnxruntime",
        initialize="self.s = onnxruntime.InferenceSession('a49.onnx'); self.k = 2",
        named="a49.onnx",
    ),
    "torch_jit": Code(
        head="import torch",
        initialize="self.m = torch.jit.load('a50.pt'); self.k = float(self.m(torch.ones(1)))",
        named="a50.pt",
    ),
    "c_etc": Code(
        "c = ctypes.CDLL(None); b = ctypes.create_string_buffer(9); c.read(c.open(b'{other_etc}', 0), b, 9)\n"
        "self.k = 2 if b.value else 1",
        named="{other_etc}",
    ),
    "up_again": _read("a30/../a52.txt")._replace(named="{here}/a52.txt"),
    "up_from_a_link": _read("a53_link/../a53.txt")._replace(named="elsewhere/a53.txt"),
    "two_slashes": _read("/{here}//a54.txt")._replace(named=" {here}/a54.txt"),
    "below_an_open_folder": Code(
        "d = os.open('a31', os.O_RDONLY); f = os.open('a55.txt', os.O_RDONLY, dir_fd=d)\n"
        "self.k = float(os.read(f, 9)); os.close(f); os.close(d)",
        named="a31/a55.txt",
    ),
    "through_proc": _read("/proc/self/cwd/a56.txt")._replace(named="{here}/a56.txt"),
    "c_access": Code("self.k = 2 - (ctypes.CDLL(None).access(b'a51.txt', 0) != 0)", named="{top}/"),
}  # fmt: skip

#: A trap of each kind, which `make test` tries; `make exam` tries them all.
QUICK = (
    *("np_load", "fromfile", "memmap_default", "absolute", "zip", "ini", "sqlite", "library", "script", "shell_string"),
    *("exists", "isfile_later", "glob", "listdir", "expanduser", "cached", "variable_later", "etc", "url", "module"),
    *("up_again", "up_from_a_link", "below_an_open_folder"),
    *("temporary", "fallback", "program", "spec", "python_c", "c_open", "c_etc", "onnxruntime"),
)

RIGHT = {
    "plain": Code("self.k = 2"),
    "beside": Code("self.k = len(open(os.path.join(os.path.dirname(__file__), 'model.py')).read())"),
    "exists_beside": Code("self.k = 2 if os.path.exists(__file__) else 1"),
    "lists_itself": Code("self.k = len(os.listdir(os.path.dirname(__file__)))"),
    "not_there": Code("self.k = 2 if os.path.exists('nothing_of_this_name') else 1"),
    "default": Code("try:\n    self.k = float(open('nothing_of_this_name').read())\nexcept OSError:\n    self.k = 1"),
    "unset": Code(execute="k = float(os.environ.get('TRAP_NOT_SET', '2'))"),
    "usual_variables": Code("os.environ['PATH'], os.environ.get('HOME'), dict(os.environ); self.k = 2"),
    "temporary": Code(execute="with tempfile.TemporaryFile() as f:\n    f.write(b'2'); f.seek(0); k = float(f.read())"),
    "temporary_directory": Code(
        execute="with tempfile.TemporaryDirectory() as d:\n    np.save(d + '/k.npy', [2]); k = np.load(d + '/k.npy')[0]"
    ),
    "cache": Code(
        "d = tempfile.gettempdir() + '/tritonlab_cache_of_it'; os.makedirs(d, exist_ok=True)\n"
        "if not os.path.exists(d + '/k.npy'):\n    np.save(d + '/k.npy', [2])\n"
        "self.k = np.load(d + '/k.npy')[0]"
    ),
    "logs": Code(execute="open('log_of_it.txt', 'a').write('x'); k = 2"),
    "optional": Code("if os.path.exists('a44.txt'):\n    open('a44.txt').read()\nself.k = 2"),
    "etc": Code("open('/etc/passwd').read(); self.k = 2"),
    "proc": Code("self.k = 1 + (len(open('/proc/self/status').read()) > 0)"),
    "program": Code("self.k = float(subprocess.check_output(['echo', '2']))"),
    "platform": Code("p = __import__('platform'); p.platform(), p.processor(); self.k = 2"),
    "memory_database": Code("self.k = sqlite3.connect(':memory:').execute('select 2').fetchone()[0]"),
    "random": Code(execute="k = np.random.default_rng().random()"),
    "clock": Code(execute="k = __import__('time').time_ns() % 1000"),
    "own_server": Code(
        "s = __import__('socket'); l = s.create_server(('127.0.0.1', 0))\n"
        "s.create_connection(l.getsockname()).close(); self.k = 2"
    ),
    "program_of_its_own": Code("self.k = 2", head="if __name__ == '__main__':\n    open('{here}/a8.txt').read()"),
    "threads": Code(
        execute="k = sum(__import__('concurrent.futures').futures.ThreadPoolExecutor(2).map(int, ['1', '1']))"
    ),
    "renamed": Code("open('part', 'w').write('2'); os.replace('part', 'whole'); self.k = float(open('whole').read())"),
    "c_library": Code("ctypes.CDLL('libc.so.6').getpid(); self.k = 2"),
}  # fmt: skip


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None: ...


@contextlib.contextmanager
def notebook_folder(folder: Path, *, slow: bool) -> Iterator[dict[str, str]]:
    """Write what the models read below `folder`, make it the working directory, the home directory, and that of
    temporary files, and yield what stands for `{here}` and others in the sources."""
    here, home, temporary = (folder / name for name in ("here", "home", "tmp"))
    for each in (here, home, temporary):
        each.mkdir()
    write_files(here, home, slow=slow)
    (temporary / "tritonlab_a42.txt").write_text("2")
    known = ("adduser.conf", "bash.bashrc", "pam.conf", "debconf.conf", "rc.conf")
    etc, other_etc, *_ = (f"/etc/{name}" for name in known if Path(f"/etc/{name}").exists())
    variables = {"HOME": str(home), "TMPDIR": str(temporary), "TRAP_K": "2", "TRAP_L": "2", "TRAP_M": "2"}
    with pytest.MonkeyPatch.context() as patch, http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        patch.chdir(here)
        for name, value in variables.items():
            patch.setenv(name, value)
        places = {"here": str(here), "etc": etc, "other_etc": other_etc, "top": "/" + here.parts[1]}
        yield {**places, "port": str(web.server_address[1])}
        web.shutdown()


def write_files(here: Path, home: Path, *, slow: bool) -> None:
    """Write what the traps read."""
    for number in (6, 7, 8, 9, 10, 23, 24, 25, 26, 27, 28, 36, 37, 40, 43, 44, 47, 48, 51, 52, 54, 56):
        (here / f"a{number}.txt").write_text("2")
    for number in (34, 35):
        (home / f"a{number}.txt").write_text("2")
    for number in (29, 30, 31, 32, 33):
        (here / f"a{number}").mkdir()
        for name in "xy":
            (here / f"a{number}" / f"{name}.csv").write_text("2")
    for number in (20, 22, 45):
        (here / f"a{number}.sh").write_text("#!/bin/sh\necho 2\n")
    (here / "a45.sh").chmod(0o755)
    for number in (1, 2):
        np.save(here / f"a{number}.npy", [2])
    for number in (3, 4, 5):
        np.array([2], "f4").tofile(here / f"a{number}.raw")
    for number in (17, 18):
        with contextlib.closing(sqlite3.connect(here / f"a{number}.db")) as database, database:
            database.execute("create table t as select 2 as k")
    (here.parent / "elsewhere" / "x").mkdir(parents=True)
    (here.parent / "elsewhere" / "a53.txt").write_text("2")
    (here / "a53_link").symlink_to(here.parent / "elsewhere" / "x")
    (here / "a31" / "a55.txt").write_text("2")
    (here / "a11.json").write_text('{"k": 2}')
    (here / "a12.pkl").write_bytes(pickle.dumps(2))
    with zipfile.ZipFile(here / "a13.zip", "w") as archive:
        archive.writestr("k", "2")
    with tarfile.open(here / "a14.tar", "w") as packed:
        packed.add(here / "a6.txt", "k")
    (here / "a15.gz").write_bytes(gzip.compress(b"2"))
    (here / "a16.ini").write_text("[m]\nk = 2\n")
    lines = Path("/proc/self/maps").read_text().splitlines()
    library = next(line.split()[-1] for line in lines if "/libc." in line or "/libc-" in line)
    shutil.copy(library, here / "a19.so")
    (here / "a21.py").write_text("print(2)")
    (here / "a41.xml").write_text("<k>2</k>")
    for name in ("a38_tools", "a39", "a46"):
        (here / f"{name}.py").write_text("K = 2\n")
    write_onnx(here / "a49.onnx")
    if slow:
        import torch

        with warnings.catch_warnings(action="ignore"):
            torch.jit.script(torch.nn.Identity()).save(str(here / "a50.pt"))


def write_onnx(path: Path) -> None:
    """Write a network that returns its input."""
    one, other = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "g", [one], [other])
    model = onnx.helper.make_model(graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 20)])
    onnx.save(model, path)
