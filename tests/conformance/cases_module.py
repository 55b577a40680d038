"""What an author can ask of `triton_python_backend_utils`, as snippets that run on both sides.

Each snippet is executed inside `execute` of a model, in a namespace of its own after PRELUDE, with these names:
`pb_utils`, `np`, `json`, `gc`, `sys`, and `request`, the received request that carries the snippet. It sets `result`;
what is compared is `repr(result)`, or `!<Type>: <text>` if it raises. Model control is explicit, no other model is needed.

`kind` gives an exception's type alone: the texts of the binding's own TypeErrors are imitated loosely (rule 0.4).
"""

from __future__ import annotations

import re
from pathlib import Path

PRELUDE = """
def attempt(f, *a, **k):
    try:
        return f(*a, **k)
    except Exception as e:
        return type(e).__name__ + ": " + str(e)

def kind(f, *a, **k):
    try:
        f(*a, **k)
    except Exception as e:
        return type(e).__name__
    return "accepted"

def built(**k):
    return pb_utils.InferenceRequest(**{**dict(inputs=[], requested_output_names=[], model_name="m"), **k})

def config(**k):
    return pb_utils.ModelConfig(json.dumps({**{
        "name": "m", "max_batch_size": 4,
        "input": [{"name": "I", "data_type": "TYPE_FP32", "dims": [3], "optional": False},
                  {"name": "J", "data_type": "TYPE_INVALID", "dims": []}],
        "output": [{"name": "O", "data_type": "TYPE_FP32", "dims": [-1]}]}, **k}))

T = pb_utils.Tensor
R = pb_utils.InferenceResponse
E = pb_utils.TritonError
F = pb_utils.MetricFamily
L = pb_utils.Logger
DTYPES = '?', 'b', 'B', 'h', 'H', 'i', 'I', 'q', 'Q', 'e', 'f', 'd'

# `seen` takes in a capsule of the array with fields of its DLTensor changed, and says what the tensor is then.
import ctypes
class DLTensor(ctypes.Structure):
    _fields_ = [('data', ctypes.c_void_p), ('device', ctypes.c_int32), ('id', ctypes.c_int32), ('ndim', ctypes.c_int32),
                ('code', ctypes.c_uint8), ('bits', ctypes.c_uint8), ('lanes', ctypes.c_uint16)]
def capsule(array, **fields):
    c = array.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    t = DLTensor.from_address(pointer(c, b'dltensor'))
    for k, v in fields.items(): setattr(t, k, v)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(c))  # never destroyed: that crashes Triton (rule 1.5.3)
    return c
def seen(array, **fields):
    t = attempt(T.from_dlpack, 'a', capsule(array, **fields))
    return t if type(t) is str else [attempt(f) for f in (t.shape, t.is_cpu, t.as_numpy, t.__dlpack_device__)]
"""

_SNIPPETS = Path(__file__).with_name("module_snippets.txt").read_text()
#: (id, rule, snippet)
CASES: list[tuple[str, str, str]] = re.findall(r"^# %% (\S+) (\S+)\n((?:(?!# %%).*\n)+)", _SNIPPETS, re.MULTILINE)

#: As CASES, but the server refuses, and Triton crashes at random where it does (rule 1.14.9, and measured with model
#: control as well): run it last, and again if the server went away.
REFUSALS: list[tuple[str, str, str]] = [
    ("counter-down", "1.14.5", "f = F('cr_a', 'd', F.COUNTER); f.Metric().increment(-1)"),
    ("counter-set", "1.14.5", "f = F('cr_b', 'd', F.COUNTER); f.Metric().set(1)"),
    ("counter-observe", "1.14.5", "f = F('cr_c', 'd', F.COUNTER); f.Metric().observe(1)"),
    ("gauge-observe", "1.14.5", "f = F('cr_d', 'd', F.GAUGE); f.Metric().observe(1)"),
    ("histogram-increment", "1.14.5", "f = F('cr_e', 'd', F.HISTOGRAM); f.Metric(buckets=[1]).increment(1)"),
    ("histogram-set", "1.14.5", "f = F('cr_f', 'd', F.HISTOGRAM); f.Metric(buckets=[1]).set(1)"),
    ("histogram-value", "1.14.5", "f = F('cr_g', 'd', F.HISTOGRAM); f.Metric(buckets=[1]).value()"),
    ("family-name", "1.14.4", "F('bad name', 'd', F.GAUGE)"),
    ("family-empty-name", "1.14.4", "F('', 'd', F.GAUGE)"),
    ("family-reserved-name", "1.14.8", "F('__name', 'd', F.GAUGE)"),
    ("family-other-kind", "1.14.4", "f = F('cr_h', 'd', F.GAUGE); F('cr_h', 'd', F.COUNTER)"),
    ("label-value", "1.14.4", "f = F('cr_i', 'd', F.GAUGE); f.Metric({'a': 1})"),
    ("label-name", "1.14.4", "f = F('cr_j', 'd', F.GAUGE); f.Metric({'bad-label': 'x'})"),
    ("label-key", "1.14.4", "f = F('cr_k', 'd', F.GAUGE); f.Metric({1: 'a'})"),
    ("buckets-unsorted", "1.14.4", "f = F('cr_l', 'd', F.HISTOGRAM); f.Metric(buckets=[2, 1])"),
    ("buckets-equal", "1.14.4", "f = F('cr_m', 'd', F.HISTOGRAM); f.Metric(buckets=[1, 1])"),
    ("load-unknown", "1.15.3", "pb_utils.load_model('no_such_model')"),
    ("load-files-without-config", "1.15.4", "pb_utils.load_model('no_such_model', files={'file:1/model.py': b'x'})"),
    ("ready-bad-version", "1.15.7", "pb_utils.is_model_ready('no_such_model', 'abc')"),
    ("ready-negative-version", "1.15.7", "pb_utils.is_model_ready('no_such_model', '-3')"),
]

#: (id, rule, snippet, our outcome): Triton crashes, aborts or gives wrong data here, and we do not, on purpose.
OURS: list[tuple[str, str, str, str]] = [
    ("dlpack-from-numpy", "1.5.3", "result = T.from_dlpack('a', np.arange(3)).as_numpy()", "array([0, 1, 2])"),
    (
        "dlpack-from-numpy-capsule",
        "1.5.3",
        "c = np.arange(3).__dlpack__(); t = T.from_dlpack('a', c); del c; gc.collect(); result = t.as_numpy()",
        "array([0, 1, 2])",
    ),
    (
        "dlpack-capsule-twice-and-gone",
        "1.5.4",
        "c = T('a', np.arange(3)).to_dlpack(); a, b = T.from_dlpack('a', c), T.from_dlpack('b', c)\n"
        "del c; gc.collect(); result = a.as_numpy(), b.as_numpy()",
        "(array([0, 1, 2]), array([0, 1, 2]))",
    ),
    (
        "dlpack-outer-stride",
        "1.5.5",
        "result = [attempt(T.from_dlpack, 'a', x) for x in (np.arange(6)[::2], np.arange(12).reshape(4, 3)[::2])]",
        repr(
            [
                "TritonModelException: DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in "
                "C-Order are supported."
            ]
            * 2
        ),
    ),
    (
        "dlpack-inner-stride",
        "1.5.5",
        "T.from_dlpack('a', np.arange(6.).reshape(2, 3).T)",
        "!TritonModelException: DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order "
        "are supported.",
    ),
    (
        "dlpack-bad-dtype",
        "1.5.7",
        "T.from_dlpack('a', np.zeros(2, complex))",
        "!TritonModelException: Dtype is invalid.",
    ),
    (
        "cancelled-built",
        "1.7.10",
        "built().is_cancelled()",
        "!TritonModelException: Cannot determine request cancellation: the model built this request itself, and only a "
        "received one has a client.",
    ),
    ("release-flags-built", "1.7.12", "result = built().set_release_flags(2)", "None"),
]
