"""What models read of the classes of the compiled module, and what Python's errors call them (rules 1.1.6, 2.5.2)."""

from __future__ import annotations

import numpy as np

from .lab_client import LabClient
from .models import config, model
from .real_client import RealClient
from .rules import rule

#: Expressions and statements, one a line, of the names in PROBE: `t` is a Tensor, `M` a Metric of the family `F`, `P` a
#: PreferredMemory. Left out are those in which functions show that they are Python's here (rule 1.1.6).
SNIPPETS = r"""
T.x
T.x()
T(1, 2)
t.x
t.name = 1
t()
t[0]
len(t)
iter(t)
t + 1
t + t
1 + t
"a" + t
t < t
float(t)
int(t)
bool(t)
-t
t @ t
next(t)
t in t
1 in t
t[0] = 1
del t[0]
del t.x
with_(t)
hash(t) and 0
sorted([t, t])
sum([t])
np.sqrt(t)
[1][t]
{}[t]
"%d" % t
json.dumps(t)
copy.copy(t)
copy.deepcopy(t)
"".join([t])
isinstance(1, t)
raise_(t)
raise_(T)
await_(t)
range(t)
os.path.join("a", t)
open(t)
request.x
request.inputs()[0].x
request()
request[0]
len(request)
for_(request)
request + 1
request.inputs() + 1
json.dumps(request)
pickle.dumps(request)
R.x
R([t]).x
R([t])[0]
R([t]).output_tensors()["OUT"]
len(R([t]))
for_(R([t]))
R() + 1
E.x
E("x").x
E("x") + 1
E("x")[0]
raise_(E("x"))
"e" + E("x")
E(1)
str(T)
repr(T)
repr(R)
repr(E)
repr(Q)
T.__name__
T.__qualname__
T.__module__
T.__mro__
str(type(T))
str(type(type(T)))
type(T).__name__
type(T).__module__
T.__bases__
type(E.INTERNAL)
type(E.INTERNAL).__name__
type(E.INTERNAL).__qualname__
type(E.INTERNAL).__module__
type(E.INTERNAL).__mro__
E.INTERNAL.x
E.INTERNAL + 1
E.INTERNAL[0]
E.INTERNAL()
repr(E.INTERNAL)
E.INTERNAL < E.INTERNAL
float(E.INTERNAL)
json.dumps(E.INTERNAL)
L
L.x
L()
L.__name__
L.__module__
L.LogLevel
L.LogLevel.x
L.LogLevel.INFO.x
L.INFO + 1
pb_utils.MetricFamily
pb_utils.MetricFamily.x
pb_utils.MetricFamily.COUNTER
type(pb_utils.MetricFamily.COUNTER)
pb_utils.MetricFamily.COUNTER.x
F.x
F()
F + 1
F[0]
len(F)
M
M.x
M + 1
type(M)
type(M).__qualname__
json.dumps(M)
P
P.x
pb_utils.PreferredMemory
pb_utils.PreferredMemory.__qualname__
pb_utils.TRITONSERVER_MEMORY_CPU
type(pb_utils.TRITONSERVER_MEMORY_CPU)
pb_utils.TRITONSERVER_MEMORY_CPU.x
type(request.trace())
request.trace().x
type(request.get_response_sender())
type(request.get_response_sender()).__qualname__
type(request).__mro__
type(request).__name__
pb_utils.InferenceResponseSender
pb_utils.ResponseIterator
pb_utils.TritonModelException
pb_utils.TritonModelException.__module__
pb_utils.TritonModelException.__mro__
pb_utils.x
type(pb_utils.shared_memory)
pb_utils.shared_memory.x
T.new = 1
T.__new__(T)
class_(T)
class_(T).x
class_(T)("OUT", np.zeros(1, np.float32)).x
class_(T)("OUT", np.zeros(1, np.float32))[0]
class_(T).__name__
class_(T).__qualname__
repr(class_(T))
class_(E)("x").x
type(class_(T))
Sub.__init__
isinstance(Sub("OUT", np.zeros(1, np.float32)), T)
copy.copy(E("x"))
np.array(t)
np.asarray(t).dtype
np.array([t]).dtype
np.concatenate([t, t])
t.as_numpy().x
round(t)
abs(t)
t.__dict__
vars(t)
functools.partial(t)
callable(t)
t == t
t == 1
t != 1
hash(t) == hash(t)
inspect.isclass(T)
"""

PROBE = """
import copy, functools, inspect, json, os, pickle, re
import numpy as np
import triton_python_backend_utils as pb_utils


def raise_(error):
    raise error


def for_(items):
    for _ in items:
        pass


def with_(context):
    with context:
        pass


def await_(awaitable):
    async def wait():
        await awaitable

    wait().send(None)


def class_(base):
    class Made(base):
        pass

    return Made


def told(line, names):
    try:
        try:
            code = compile(line, "line", "eval")
        except SyntaxError:
            code = compile(line, "line", "exec")
        found = eval(code, names)
        text = found if isinstance(found, str) else repr(found)
    except BaseException as error:
        text = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
    return f"{line} -> " + re.sub("0x[0-9a-f]+", "0x", text)


class TritonPythonModel:
    def initialize(self, args):
        self.family = pb_utils.MetricFamily("class_names", "d", pb_utils.MetricFamily.COUNTER)
        self.metric = self.family.Metric()

    def execute(self, requests):
        request, T, R, Q = requests[0], pb_utils.Tensor, pb_utils.InferenceResponse, pb_utils.InferenceRequest
        E, L, F, M = pb_utils.TritonError, pb_utils.Logger, self.family, self.metric
        P = pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU)

        class Sub(T):
            def __init__(self, *arguments):
                if arguments:
                    super().__init__(*arguments)

        lines = pb_utils.get_input_tensor_by_name(request, "LINES").as_numpy()
        texts = []
        for line in lines:
            t = T("OUT", np.zeros(1, np.float32))
            texts.append(told(line.decode(), {**globals(), **locals()}))
        return [R([T("TEXTS", np.array(texts, dtype=object))])]
"""


@rule("1.1.6", "2.5.2")
def test_classes_have_tritons_names(real: RealClient, lab: LabClient) -> None:
    lines = np.array([line.encode() for line in SNIPPETS.strip().splitlines()], dtype=np.object_)
    texts = []
    for client in (real, lab):
        assert client.placed("class_names", model(PROBE, config("LINES STRING -1", "TEXTS STRING -1"))) is None
        answer = client.infer("class_names", {"LINES": lines})
        assert answer.error == ""
        texts.append([text.decode() for text in answer.outputs["TEXTS"]])
        client.unload("class_names")
    assert texts[0] == texts[1]
