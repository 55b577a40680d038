"""What an author can ask of `triton_python_backend_utils`, as snippets that run on both sides. Data only.

Each snippet is executed inside `execute` of a model, in a namespace of its own after PRELUDE, with these names:
`pb_utils`, `np`, `json`, `gc`, `sys`, and `request`, the received request that carries the snippet. It sets `result`;
what is compared is `repr(result)`, or `!<Type>: <text>` if it raises. Model control is explicit, no other model is needed.

`kind` gives an exception's type alone: the texts of the binding's own TypeErrors are imitated loosely (rule 0.4).
"""

from __future__ import annotations

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
"""

#: `seen` takes in a capsule of the array with fields of its DLTensor changed, and says what the tensor is then.
_DLPACK = """
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

_DTYPES = "'?', 'b', 'B', 'h', 'H', 'i', 'I', 'q', 'Q', 'e', 'f', 'd'"

#: (id, rule, snippet)
CASES: list[tuple[str, str, str]] = [
    # -- 1.1 the module
    ("names", "1.1.3", "result = sorted(n for n in dir(pb_utils) if not n.startswith('_'))"),
    ("leaked-modules", "1.1.1", "result = pb_utils.np is np, pb_utils.json is json, pb_utils.struct.__name__"),
    (
        "native-names",
        "1.1.4",
        """
import c_python_backend_utils as c
names = ['InferenceResponseSender', 'ResponseIterator', 'InferenceTrace', 'Metric', 'MetricKind', 'MemoryType', 'SharedMemory']
result = [(hasattr(c, n), hasattr(pb_utils, n)) for n in names]""",
    ),
    ("no-sender-class", "1.1.4", "pb_utils.InferenceResponseSender"),
    (
        "native-same-objects",
        "1.1.4",
        """
import c_python_backend_utils as c
result = [getattr(c, n) is getattr(pb_utils, n) for n in ('Tensor', 'InferenceRequest', 'TritonError', 'Logger')]""",
    ),
    (
        "native-kinds",
        "1.1.4",
        """
import c_python_backend_utils as c
result = c.COUNTER, c.GAUGE, c.HISTOGRAM, c.TRITONSERVER_MEMORY_CPU, c.MetricKind(1), c.MemoryType(0)""",
    ),
    (
        "shared-memory-object",
        "1.1.4",
        """
import c_python_backend_utils as c
n = c.shared_memory.free_memory()
result = type(c.shared_memory), type(n), n >= 0""",
    ),
    (
        "class-reprs",
        "1.1.6",
        """
result = [T, R, E, F, L, pb_utils.InferenceRequest, pb_utils.PreferredMemory, pb_utils.TritonModelException]""",
    ),
    (
        "object-reprs",
        "1.1.6",
        """
objects = [T('a', np.zeros(1)), R(), E('x'), built(), request, request.get_response_sender(), request.trace(),
           pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU)]
result = [repr(o).split(' object at 0x')[0] for o in objects]""",
    ),
    ("enum-reprs", "1.1.6", "result = E.INTERNAL, str(E.INTERNAL), L.ERROR, str(L.ERROR), F.GAUGE, str(F.GAUGE)"),
    ("model-dir", "1.1.5", "result = type(pb_utils.get_model_dir()), pb_utils.get_model_dir().split('/')[-1]"),
    ("model-dir-arguments", "1.1.5", "result = kind(pb_utils.get_model_dir, 1), kind(pb_utils.get_model_dir, a=1)"),
    (
        "no-new-attributes",
        "1.1.6",
        "result = kind(setattr, T('x', np.zeros(2)), 'foo', 1), kind(setattr, R(), 'foo', 1)",
    ),
    (
        "weak-references",
        "1.1.6",
        "import weakref; t = T('a', np.zeros(1)); r = R(); result = weakref.ref(t)() is t, weakref.ref(r)() is r",
    ),
    ("no-pickle", "1.1.6", "import pickle; pickle.dumps(T('a', np.zeros(1)))"),
    ("no-copy", "1.1.6", "import copy; copy.copy(T('a', np.zeros(1)))"),
    (
        "no-constructors",
        "1.1.4",
        """
import c_python_backend_utils as c
result = [attempt(k) for k in (c.InferenceResponseSender, c.InferenceTrace, c.Metric, c.Logger, c.SharedMemory)]""",
    ),
    # -- 1.2 constants
    (
        "constants",
        "1.2",
        """
result = [getattr(pb_utils, n) for n in dir(pb_utils) if n.startswith('TRITONSERVER_')]""",
    ),
    (
        "constant-types",
        "1.2",
        """
result = type(pb_utils.TRITONSERVER_REQUEST_RELEASE_ALL), type(pb_utils.TRITONSERVER_MEMORY_CPU)""",
    ),
    (
        "memory-numbers",
        "1.2.1",
        "result = int(pb_utils.TRITONSERVER_MEMORY_GPU), int(pb_utils.TRITONSERVER_MEMORY_CPU)",
    ),
    (
        "error-codes",
        "1.2",
        """
result = [(getattr(E, n), int(getattr(E, n))) for n in ('UNKNOWN', 'INTERNAL', 'NOT_FOUND', 'INVALID_ARG', 'UNAVAILABLE',
          'UNSUPPORTED', 'ALREADY_EXISTS', 'CANCELLED')]""",
    ),
    ("log-levels", "1.2", "result = [int(x) for x in (L.INFO, L.WARNING, L.ERROR, L.VERBOSE)], L.LogLevel(3)"),
    ("metric-kinds", "1.2", "result = [int(x) for x in (F.COUNTER, F.GAUGE, F.HISTOGRAM)]"),
    ("string-to-numpy", "1.2.2", "result = pb_utils.TRITON_STRING_TO_NUMPY"),
    (
        "enum-names",
        "1.2",
        "result = E.NOT_FOUND.name, E.NOT_FOUND.value, L.VERBOSE.name, pb_utils.TRITONSERVER_MEMORY_CPU.name",
    ),
    ("enum-members", "1.2", "result = type(E.INTERNAL).__members__"),
    (
        "enum-qualname",
        "1.2",
        "k = type(E.INTERNAL); result = k.__name__, k.__qualname__, k.__module__, L.LogLevel.__qualname__",
    ),
    (
        "enum-construct",
        "1.2",
        "k = type(E.INTERNAL); result = k(1), k(value=3), k(9), k(9).name, str(k(9)), kind(k, '1'), kind(k, 1.0)",
    ),
    (
        "enum-equality",
        "1.2",
        """
k = type(E.INTERNAL)
result = [E.INTERNAL == 1, E.INTERNAL == 1.0, E.INTERNAL == True, E.INTERNAL == k(1), E.INTERNAL != 2, E.INTERNAL == None,
          E.INTERNAL == 'x', E.INTERNAL == pb_utils.TRITONSERVER_MEMORY_CPU]""",
    ),
    (
        "enum-hash",
        "1.2",
        "result = hash(E.CANCELLED), {E.INTERNAL: 2}[1], bool(E.UNKNOWN), E.CANCELLED.__index__(), [5, 6, 7][E.INTERNAL]",
    ),
    ("enum-no-order", "1.2", "result = kind(lambda: E.INTERNAL < 2), kind(lambda: E.INTERNAL < E.NOT_FOUND)"),
    ("enum-fixed", "1.2", "result = kind(setattr, E.INTERNAL, 'name', 'x'), kind(setattr, E.INTERNAL, 'value', 2)"),
    (
        "enum-pickle",
        "1.2",
        "import copy, pickle; result = pickle.loads(pickle.dumps(pb_utils.TRITONSERVER_MEMORY_CPU)), copy.deepcopy(E.INTERNAL)",
    ),
    # -- 1.3 errors
    ("error-defaults", "1.3.1", "e = E('x'); result = e.message(), e.code()"),
    ("error-keywords", "1.3.1", "e = E(message='y', code=E.UNAVAILABLE); result = e.message(), e.code()"),
    (
        "error-bad-arguments",
        "1.3.1",
        """
result = kind(E), kind(E, None), kind(E, 1), kind(E, 'x', 3), kind(E, 'x', None), kind(E, code=E.INTERNAL), kind(E, 'x', L.ERROR)""",
    ),
    ("error-int-code-text", "1.3.1", "E('x', 3)"),
    ("error-unicode", "1.3.1", "result = E('é\\n').message(), E(b'x').message(), E('').message()"),
    ("error-not-exception", "1.3.2", "raise E('x')"),
    ("error-no-base-exception", "1.3.2", "result = isinstance(E('x'), BaseException)"),
    ("error-str", "1.3.2", "result = str(E('x')).split(' at ')[0]"),
    (
        "exception-class",
        "1.3.3",
        """
X = pb_utils.TritonModelException
result = X.__bases__, X('a', 1).args, str(X('a')), repr(X('a')), X.__module__, X().args""",
    ),
    ("exception-raised", "1.3.3", "raise pb_utils.TritonModelException('own words')"),
    (
        "exception-subclass",
        "1.3.3",
        "class A(pb_utils.TritonModelException): pass\nresult = repr(A('x')), A.__mro__[1]",
    ),
    # -- 1.4 Tensor
    (
        "tensor-no-list",
        "1.4.1",
        "result = [kind(T, 'a', v) for v in ([1], (1,), 1, 1.5, None, 'x', np.float32(1), np.bool_(True))]",
    ),
    ("tensor-list-text", "1.4.1", "T('a', [1])"),
    (
        "tensor-no-keywords",
        "1.4.1",
        "result = kind(T, name='a', ndarray=np.zeros(1)), kind(T, 'a', ndarray=np.zeros(1))",
    ),
    ("tensor-argument-count", "1.4.1", "result = kind(T), kind(T, 'a'), kind(T, 'a', np.zeros(1), 2)"),
    (
        "tensor-name-types",
        "1.4.1",
        "result = [attempt(lambda n: T(n, np.zeros(1)).name(), n) for n in ('é', b'a', np.str_('a'))]",
    ),
    ("tensor-name-bad", "1.4.1", "result = [kind(T, n, np.zeros(1)) for n in (1, None, 'a\\ud800', ['a'])]"),
    ("tensor-empty-name", "1.4.2", "T('', np.zeros(1))"),
    ("tensor-empty-name-first", "1.4.2", "T('', np.zeros(1, 'c8'))"),
    ("tensor-dtypes", "1.4.3", f"result = [T('a', np.zeros((2, 1), d)).shape() for d in ({_DTYPES}, 'O', 'S3', 'S1')]"),
    (
        "tensor-dtypes-aliases",
        "1.4.3",
        "result = [kind(T, 'a', np.zeros(1, d)) for d in ('l', 'L', 'longlong', 'intc', 'p', '|u1', '>u1', '>S3', '=f4')]",
    ),
    (
        "tensor-bad-dtypes",
        "1.4.3",
        """
result = [attempt(T, 'a', np.zeros(1, d)) for d in ('c8', 'c16', 'M8[s]', 'm8[s]', 'U3', 'g', 'V4', [('a', 'i4')],
          '>f4', '>i2', '>u8', '>f2')]""",
    ),
    ("tensor-datatypes", "1.4.4", f"result = [np.from_dlpack(T('a', np.zeros(2, d))).dtype.name for d in ({_DTYPES})]"),
    ("tensor-aliases", "1.4.5", "a = np.arange(4); t = T('x', a); a[0] = 9; result = t.as_numpy() is a, t.as_numpy()"),
    (
        "tensor-copies-strided",
        "1.4.5",
        """
a = np.arange(6.).reshape(2, 3).T
t = T('a', a); x = t.as_numpy(); a[0, 0] = 9
result = x is a, x is t.as_numpy(), x.flags.c_contiguous, x.flags.writeable, x, t.shape()""",
    ),
    (
        "tensor-slices",
        "1.4.5",
        "a = np.arange(8); result = T('a', a[::2]).as_numpy(), T('a', a[::-1]).as_numpy(), T('a', a[2:4]).as_numpy().base is a",
    ),
    (
        "tensor-read-only",
        "1.4.5",
        "a = np.arange(3); a.setflags(write=False); x = T('a', a).as_numpy(); result = x is a, x.flags.writeable",
    ),
    (
        "tensor-subclass",
        "1.4.5",
        "class B(np.ndarray): pass\na = np.zeros(2).view(B); t = T('x', a); result = t.as_numpy() is a",
    ),
    ("tensor-masked", "1.4.5", "result = T('a', np.ma.array([1.0, 2.0], mask=[False, True]))"),
    ("tensor-matrix", "1.4.5", "result = T('a', np.matrix([[1, 2]])).as_numpy()"),
    (
        "tensor-fortran",
        "1.4.5",
        "a = np.asfortranarray(np.arange(6).reshape(2, 3)); t = T('a', a); result = t.as_numpy() is a, t.as_numpy()",
    ),
    ("tensor-scalar", "1.4.6", "t = T('a', np.array(1.5)); result = t.shape(), t.as_numpy()"),
    (
        "tensor-empty",
        "1.4.6",
        "result = [(T('a', np.zeros(s)).shape(), T('a', np.zeros(s)).as_numpy().shape) for s in ((0,), (0, 3), (3, 0), (2, 0, 1))]",
    ),
    (
        "tensor-object-kept",
        "1.4.7",
        "a = np.array(['a', None, 5], dtype=object); t = T('a', a); a[0] = 'z'; result = t.as_numpy() is a, t.as_numpy()",
    ),
    (
        "tensor-object-strided",
        "1.4.7",
        "a = np.array(['a', None, 5], dtype=object)[::2]; t = T('a', a); result = t.as_numpy() is a, t.as_numpy()",
    ),
    (
        "tensor-s-array",
        "1.4.7",
        "t = T('a', np.array([b'ab\\0', b'c'])); result = t.as_numpy(), t.as_numpy().dtype, t.shape()",
    ),
    (
        "tensor-any-elements",
        "1.4.7",
        "t = T('x', np.array([1, None, 'é', b'\\xff', [1]], dtype=object)); result = t.as_numpy(), t.shape()",
    ),
    ("tensor-unencodable", "1.4.7", "T('x', np.array(['\\ud800'], dtype=object))"),
    (
        "tensor-methods",
        "1.4.8",
        "t = T('n', np.zeros((2, 3))); result = t.name(), t.shape(), type(t.shape()), t.is_cpu(), t.__dlpack_device__()",
    ),
    (
        "tensor-shape-copy",
        "1.4.8",
        "t = T('n', np.zeros((2, 3))); t.shape().append(4); result = t.shape(), t.shape() is t.shape()",
    ),
    ("tensor-shape-kept", "1.4.8", "a = np.zeros((2, 3)); t = T('n', a); a.shape = (3, 2); result = t.shape()"),
    ("tensor-triton-dtype", "1.4.9", "T('a', np.zeros(1)).triton_dtype()"),
    ("tensor-triton-dtype-listed", "1.4.9", "result = sorted(n for n in dir(T) if not n.startswith('_'))"),
    (
        "input-bytes",
        "1.4.11",
        """
t = request.inputs()[0]; x = t.as_numpy()
result = t.name(), t.shape(), x.dtype, x.shape, type(x.ravel()[0]), x is t.as_numpy(), t.is_cpu()""",
    ),
    ("input-flags", "1.4.11", "x = request.inputs()[0].as_numpy(); result = x.flags.writeable, x.flags.c_contiguous"),
    (
        "input-same-tensor",
        "1.4.11",
        "result = request.inputs()[0] is request.inputs()[0], request.inputs() is request.inputs()",
    ),
    (
        "tensor-subclassable",
        "1.4.8",
        "class A(T): pass\nt = A('a', np.zeros(2)); result = t.name(), R([t]).output_tensors()[0] is t",
    ),
    # -- 1.5 DLPack
    ("dlpack-not", "1.5.1", "T.from_dlpack('a', 1)"),
    ("dlpack-half", "1.5.1", "class A:\n    def __dlpack__(self, **k): return 1\nT.from_dlpack('a', A())"),
    ("dlpack-no-name", "1.4.2", "T.from_dlpack('', 1)"),
    (
        "dlpack-arguments",
        "1.5.1",
        "result = kind(T.from_dlpack, 1, T('a', np.zeros(1))), kind(T.from_dlpack), kind(T.from_dlpack, 'a')",
    ),
    (
        "dlpack-from-tensor",
        "1.5.1",
        f"""
result = []
for d in ({_DTYPES}):
    u = T.from_dlpack('b', T('a', np.arange(6).reshape(2, 3).astype(d)))
    result.append((u.name(), u.shape(), u.is_cpu(), u.as_numpy(), u.as_numpy().dtype.name))""",
    ),
    (
        "dlpack-copy",
        "1.4.7",
        """
t = T('a', np.arange(3.)); u = T.from_dlpack('b', t); x = u.as_numpy(); x[0] = 9
result = t.as_numpy(), u.as_numpy(), u.as_numpy() is x, x.flags.writeable, T.from_dlpack('c', u).as_numpy()""",
    ),
    (
        "dlpack-aliases-producer",
        "1.4.7",
        """
t = T('a', np.arange(3.)); u = T.from_dlpack('b', t); t.as_numpy()[0] = 7
result = T.from_dlpack('c', u).as_numpy()""",
    ),
    (
        "dlpack-scalar-and-empty",
        "1.5.5",
        "result = [T.from_dlpack('a', T('b', np.ones(s))).as_numpy() for s in ((), (0,), (0, 3), (3, 0), (1, 1))]",
    ),
    (
        "dlpack-strings",
        "1.5.8",
        "t = T('a', np.array([b'x'])); result = attempt(t.to_dlpack), attempt(t.__dlpack__), t.__dlpack_device__()",
    ),
    (
        "dlpack-capsule",
        "1.5.8",
        "result = repr(T('a', np.zeros(2)).to_dlpack())[:26], repr(T('a', np.zeros(2)).__dlpack__())[:26]",
    ),
    (
        "dlpack-stream",
        "1.5.8",
        "t = T('a', np.zeros(1)); result = [kind(t.__dlpack__, *a, **k) for a, k in (((), {}), ((5,), {}), ((), {'stream': None}), ((), {'stream': -1}))]",
    ),
    (
        "dlpack-newer-keywords",
        "1.5.8",
        "t = T('a', np.zeros(1)); result = kind(t.__dlpack__, max_version=(1, 0)), kind(t.__dlpack__, copy=True)",
    ),
    (
        "dlpack-device",
        "1.5.8",
        "result = T('a', np.zeros(1)).__dlpack_device__(), request.inputs()[0].__dlpack_device__()",
    ),
    (
        "dlpack-numpy-reads",
        "1.5.8",
        f"""
result = [(x.dtype.name, x.shape, x.tolist()) for x in (np.from_dlpack(T('a', np.ones((2, 1), d))) for d in ({_DTYPES}))]""",
    ),
    ("dlpack-numpy-shapes", "1.5.8", "result = [np.from_dlpack(T('a', np.ones(s))) for s in ((), (0, 3), (2, 2))]"),
    (
        "dlpack-read-only-source",
        "1.5.8",
        "a = np.arange(3.); a.setflags(write=False); result = np.from_dlpack(T('a', a))",
    ),
    ("dlpack-shares-memory", "1.5.8", "a = np.arange(3.); x = np.from_dlpack(T('a', a)); a[1] = 8; result = x"),
    (
        "dlpack-unused-capsules",
        "1.5.8",
        "t = T('a', np.arange(1000.)); c = [t.to_dlpack() for _ in range(50)]; del c; gc.collect(); result = float(t.as_numpy().sum())",
    ),
    ("dlpack-outlives-tensor", "1.5.8", "x = np.from_dlpack(T('a', np.arange(5.))); gc.collect(); result = x"),
    (
        "dlpack-holds-tensor",
        "1.5.10",
        """
import weakref
t = T('a', np.arange(3.)); n = sys.getrefcount(t); found = []
c = [t.to_dlpack(), t.__dlpack__()]; found.append(sys.getrefcount(t) - n)
del c; found.append(sys.getrefcount(t) - n)
x = np.from_dlpack(t); y = x[1:]; found.append(sys.getrefcount(t) - n)
del x; found.append(sys.getrefcount(t) - n)
del y; found.append(sys.getrefcount(t) - n)
i = request.inputs()[0]; n = sys.getrefcount(i); found.append(kind(i.to_dlpack)); found.append(sys.getrefcount(i) - n)
c = t.to_dlpack(); gone = weakref.ref(t); del t; found.append(gone() is None); del c; found.append(gone() is None)
result = found""",
    ),
    (
        "dlpack-holds-tensor-taken-in",
        "1.5.10",
        """
t = T('a', np.arange(3.)); n = sys.getrefcount(t)
sys.kept_too = [t.to_dlpack()]  # consumed capsules are never destroyed: that crashes Triton (rule 1.5.4)
u = T.from_dlpack('b', sys.kept_too[0]); found = [sys.getrefcount(t) - n]
del u; result = found + [sys.getrefcount(t) - n]""",
    ),
    (
        "dlpack-consumed-twice",
        "1.5.10",
        """
t = T('a', np.arange(3.)); n = sys.getrefcount(t); c = t.to_dlpack()
class Once:
    def __dlpack__(self, **k): return c
    def __dlpack_device__(self): return (1, 0)
x = np.from_dlpack(Once()); result = kind(np.from_dlpack, Once()), sys.getrefcount(t) - n""",
    ),
    (
        "dlpack-capsule-twice",
        "1.5.4",
        """
import ctypes
c = T('a', np.arange(3)).to_dlpack()
ctypes.pythonapi.Py_IncRef(ctypes.py_object(c))
sys.kept = [T.from_dlpack('a', c), T.from_dlpack('b', c)]  # never destroyed either
result = [t.as_numpy() for t in sys.kept]""",
    ),
    ("dlpack-types", "1.5.7", _DLPACK + f"result = [seen(np.ones(2, d)) for d in ({_DTYPES})]"),
    (
        "dlpack-bool",
        "1.5.7",
        _DLPACK + "result = seen(np.ones(2, 'b'), code=6), seen(np.ones(2, 'b'), code=6, bits=16)",
    ),
    ("dlpack-bfloat16", "1.5.7", _DLPACK + "result = seen(np.ones(2, 'H'), code=4), seen(np.ones(2, 'I'), code=4)"),
    ("dlpack-bfloat16-no-numpy", "1.4.10", _DLPACK + "T.from_dlpack('a', capsule(np.ones(2, 'H'), code=4)).as_numpy()"),
    (
        "dlpack-bad-types",
        "1.5.7",
        _DLPACK
        + "result = [seen(np.ones(2, 'f'), **k) for k in (dict(lanes=2), dict(lanes=0), dict(code=5), dict(bits=24))]",
    ),
    (
        "dlpack-devices",
        "1.5.6",
        _DLPACK + "result = [seen(np.ones(2, 'f'), device=d) for d in (1, 2, 3, 4, 7, 8, 10, 0, -1)]",
    ),
    ("dlpack-gpu-tensor", "1.5.9", _DLPACK + "result = seen(np.ones(2, 'f'), device=2, id=3)"),
    # -- 1.6, 1.16 BYTES helpers
    (
        "serialize",
        "1.6.4",
        """
f = pb_utils.serialize_byte_tensor
result = [f(x) for x in (np.array([], object), np.array([1]), np.array([b'a', b'bc\\0']), np.array([[b'a'], ['é']], object),
          np.array([None, 5, b'\\0', np.bytes_(b'q'), bytearray(b'x')], object), np.array(b'x'), np.array(['a']), np.array([], int),
          np.zeros((0, 2), object))]""",
    ),
    (
        "serialize-order",
        "1.6.1",
        "a = np.array([[b'1', b'2'], [b'3', b'4']], object); f = pb_utils.serialize_byte_tensor; result = f(a), f(a.T), f(a[:, 1])",
    ),
    (
        "serialize-lists",
        "1.6.4",
        "result = kind(pb_utils.serialize_byte_tensor, [b'a']), kind(pb_utils.serialize_byte_tensor, None)",
    ),
    ("serialize-surrogates", "1.6.2", "pb_utils.serialize_byte_tensor(np.array([['\\ud800']], object))"),
    (
        "serialize-many",
        "1.6.1",
        """
a = np.array([b'%020d' % i for i in range(500)], object); b = np.array([b'x' * i for i in range(300)], object)
f, g = pb_utils.serialize_byte_tensor, pb_utils.deserialize_bytes_tensor
result = len(f(a)), g(f(a)).tolist() == a.tolist(), len(f(b)), g(f(b)).tolist() == b.tolist()""",
    ),
    (
        "deserialize",
        "1.6.4",
        """
f, g = pb_utils.serialize_byte_tensor, pb_utils.deserialize_bytes_tensor
result = [g(x) for x in (b'', f(np.array([b'a', b'bc\\0', b''], object)), bytearray(b'\\1\\0\\0\\0x'), memoryview(b'\\1\\0\\0\\0y'))]""",
    ),
    ("deserialize-cut", "1.6.4", "pb_utils.deserialize_bytes_tensor(b'\\5\\0\\0\\0a')"),
    ("deserialize-cut-length", "1.6.4", "pb_utils.deserialize_bytes_tensor(b'\\5\\0')"),
    ("deserialize-cut-later", "1.6.4", "pb_utils.deserialize_bytes_tensor(b'\\1\\0\\0\\0a\\2')"),
    (
        "deserialize-cut-type",
        "1.6.4",
        """
try: pb_utils.deserialize_bytes_tensor(b'\\5\\0')
except Exception as e: result = type(e).__module__, type(e) is pb_utils.struct.error""",
    ),
    ("deserialize-text", "1.6.4", "result = kind(pb_utils.deserialize_bytes_tensor, 'a')"),
    (
        "deserialize-odd",
        "1.6.4",
        """
f, one = pb_utils.deserialize_bytes_tensor, b'\\1\\0\\0\\0a'
a = np.array([1, 0x61626364], np.uint32)
result = [attempt(f, x) for x in (
    None, 5, 1.5, '', 'abcd', [], {}, [1, 2], [one], np.int32(0), np.array(5), a, memoryview(a), bytearray(one),
    memoryview(one), np.frombuffer(one, np.uint8), np.zeros((2, 4), np.uint8), np.zeros((4, 4), np.uint8)[:, 1],
    memoryview(one + b'bcdefgh')[::2], np.array([], object))]""",
    ),
    (
        "config-readers-odd",
        "1.16",
        """
f = pb_utils.get_input_config_by_name
result = [attempt(f, c, 'x') for c in (None, [], 5, 'input', ['input'], {'input': None}, {'input': [{}]}, '{}')]
result += [attempt(pb_utils.get_output_config_by_name, ['output'], 'x')]""",
    ),
    (
        "datatype-without-hash",
        "1.16",
        """
f = pb_utils.triton_to_numpy_type
result = attempt(f, []), f(np.array(11)) is np.float32, f(11.0) is np.float32, f('x'), f(0), f(14)""",
    ),
    (
        "policy-odd",
        "1.17.6",
        """
f = lambda p, **k: attempt(config(**k).set_model_transaction_policy, p)
result = [f(p) for p in ([], (), None, '', 'decoupled', ['decoupled'], ['x'], {'decoupled'}, True, {}, {1: 2})]
result += [f({'decoupled': True}, model_transaction_policy=p) for p in (None, [], {})]""",
    ),
    (
        "tensor-odd",
        "1.17.6",
        """
def f(kind, d):
    c = config()
    return attempt(getattr(c, 'add_' + kind), d), c.as_dict()[kind]
result = [f(k, {'name': n, 'data_type': t, 'dims': [3]}) for k, n in (('input', 'I'), ('output', 'O'), ('input', 'N'))
          for t in (11, None, 'x')]
result += [f('input', d) for d in ({'name': b'x', 1: 2}, {'name': 5}, {'name': 5, 'data_type': 'x'}, [], None, 5)]""",
    ),
    (
        "numbers",
        "0.7",
        """
values = (np.array(1), np.array([1, 2]), np.array([]), np.float32(1), np.bool_(True), np.array(1.5),
          np.array('1'), np.array('x'), [1], None, '1', b'1', 1.0, 1j, np.array(-1))
get = lambda v: built(flags=v, timeout=v, model_version=v).flags()
result = [kind(get, v) if kind(get, v) != 'accepted' else get(v) for v in values]
def again(v):
    r = built(); r.set_flags(v); return r.flags()
result += [kind(again, v) if kind(again, v) != 'accepted' else again(v) for v in values]
result += [kind(pb_utils.PreferredMemory, pb_utils.TRITONSERVER_MEMORY_CPU, v) for v in values]""",
    ),
    (
        "text-not-utf8",
        "0.6",
        """
a = np.zeros(1)
result = [attempt(lambda: f(t)) for t in (b'\\xff', b'a\\xc3', bytearray(b'b'), b'c') for f in (
    lambda t: T(t, a).name(), lambda t: E(t).message(), lambda t: built(request_id=t).request_id(),
    lambda t: built(requested_output_names=[t]).requested_output_names())]
result += [kind(f, '\\ud800') for f in (
    lambda t: T(t, a), E, lambda t: built(request_id=t), lambda t: built(model_name=t), L.log_info, L.log,
    lambda t: built(requested_output_names=[t]), lambda t: built(correlation_id=t))]
result += [kind(L.log_info, b'\\xff'), kind(L.log, bytearray(b'a\\xff')), kind(L.log_warn, None)]""",
    ),
    (
        "numpy-to-triton",
        "1.16",
        """
result = [pb_utils.numpy_to_triton_type(x) for x in (np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16,
          np.int32, np.int64, np.float16, np.float32, np.float64, np.object_, np.bytes_, np.dtype('f4'), np.dtype('O'),
          np.dtype('S3'), np.dtype('>f4'), np.intc, np.longlong, np.str_, np.complex64, bool, float, int, str, object,
          'float32', None, 5)]""",
    ),
    (
        "triton-to-numpy",
        "1.16",
        "result = [t and np.dtype(t).str for t in map(pb_utils.triton_to_numpy_type, (*range(16), -1, 1.0, '1', None, True))]",
    ),
    (
        "string-lookup",
        "1.16",
        "f = pb_utils.triton_string_to_numpy; result = f('TYPE_FP32'), f('TYPE_BOOL'), attempt(f, 'FP32'), attempt(f, 'TYPE_BF16'), attempt(f, '')",
    ),
    (
        "config-by-name",
        "1.16",
        """
c = {'input': [{'name': 'a'}, {'name': 'a', 'x': 1}], 'output': [{'name': 'o'}]}
i, o = pb_utils.get_input_config_by_name, pb_utils.get_output_config_by_name
result = i(c, 'a'), i(c, 'a') is c['input'][0], i(c, 'b'), o(c, 'o'), o(c, 'a'), i({}, 'a'), o({}, 'a')""",
    ),
    ("config-by-name-broken", "1.16", "result = attempt(pb_utils.get_input_config_by_name, {'input': [{}]}, 'a')"),
    (
        "decoupled-policy",
        "1.16",
        """
f = pb_utils.using_decoupled_model_transaction_policy
result = [attempt(f, c) for c in ({}, {'model_transaction_policy': {'decoupled': True}},
          {'model_transaction_policy': {'decoupled': 0}}, {'model_transaction_policy': {}})]""",
    ),
    (
        "tensor-by-name",
        "1.16",
        """
class Q:
    def inputs(self): return [a, b, c]
    output_tensors = inputs
a, b, c = T('a', np.zeros(1)), T('b', np.zeros(1)), T('a', np.zeros(2))
i, o = pb_utils.get_input_tensor_by_name, pb_utils.get_output_tensor_by_name
result = i(Q(), 'a') is a, o(Q(), 'b') is b, i(Q(), 'c'), o(Q(), ''), o(R([a, b]), 'b') is b, kind(i, 3, 'a')""",
    ),
    (
        "helper-signatures",
        "1.16",
        """
import inspect
names = ['deserialize_bytes_tensor', 'get_input_config_by_name', 'get_input_tensor_by_name', 'get_output_config_by_name',
         'get_output_tensor_by_name', 'numpy_to_triton_type', 'serialize_byte_tensor', 'triton_string_to_numpy',
         'triton_to_numpy_type', 'using_decoupled_model_transaction_policy']
result = [list(inspect.signature(getattr(pb_utils, n)).parameters) for n in names]""",
    ),
    # -- 1.7 InferenceRequest
    (
        "request-defaults",
        "1.7.1",
        """
r = built()
result = (r.request_id(), r.correlation_id(), r.flags(), r.timeout(), r.parameters(), r.requested_output_names(), r.inputs(),
          r.trace().get_context())""",
    ),
    (
        "request-required",
        "1.7.1",
        """
Q = pb_utils.InferenceRequest
result = [kind(Q, **k) for k in ({}, dict(model_name='m'), dict(inputs=[], model_name='m'), dict(inputs=[], requested_output_names=[]),
          dict(requested_output_names=[], model_name='m'), dict(inputs=[], requested_output_names=[], model_name='m'))]""",
    ),
    (
        "request-positional",
        "1.7.1",
        """
r = pb_utils.InferenceRequest('r', 3, [], ['o'], 'm', 1, 2, 5)
result = r.request_id(), r.correlation_id(), r.requested_output_names(), r.flags(), r.timeout()""",
    ),
    ("request-unknown-keyword", "1.7.1", "result = kind(built, colour=1)"),
    (
        "request-inputs",
        "1.7.1",
        """
t = T('a', np.zeros(1))
result = [attempt(lambda i: len(built(inputs=i).inputs()), i) for i in ([t], (t,), [], ())] + [
    kind(built, inputs=i) for i in ([1], None, {t}, {t: 1}, iter([t]), 'a', t, [[t]])]""",
    ),
    (
        "request-inputs-kept",
        "1.7.1",
        "t = T('a', np.zeros(1)); l = [t]; r = built(inputs=l); l.clear(); r.inputs().clear(); result = r.inputs()[0] is t",
    ),
    ("request-none-input", "1.7.2", "built(inputs=[None], request_id='7')"),
    ("request-empty-output", "1.7.2", "built(requested_output_names=['a', ''], request_id='7')"),
    (
        "request-correlation-ids",
        "1.7.2",
        """
result = [attempt(lambda c: built(correlation_id=c).correlation_id(), c) for c in (0, 5, 'x', '', True, 2**64 - 1, 1.5, b'x', [],
          np.int64(3), -1, 2**64)]""",
    ),
    ("request-correlation-none", "1.7.2", "result = kind(built, correlation_id=None)"),
    (
        "request-flags",
        "1.7.2",
        """
result = [kind(built, flags=f) for f in (0, 3, 7, 2**32 - 1, True, np.int32(1), -1, 2**32, 1.0, None, '1')]""",
    ),
    (
        "request-timeout",
        "1.7.2",
        "result = [kind(built, timeout=f) for f in (0, 2**31, 2**64 - 1, -1, 2**64, 1.0, None, '1')]",
    ),
    (
        "request-version",
        "1.7.2",
        "result = [kind(built, model_version=f) for f in (-1, 0, -5, 2**63 - 1, 2**63, 1.0, None, '1')]",
    ),
    (
        "request-texts",
        "1.7.2",
        """
result = [kind(built, request_id=i) for i in ('é', b'x', 1, None)], [kind(built, model_name=i) for i in ('é', b'x', 1, None, '')]""",
    ),
    ("request-parameters-kind", "1.7.2", "result = [attempt(built, parameters=p) for p in ([], 'x', 1, ())]"),
    (
        "request-parameters-keys",
        "1.7.2",
        "result = [attempt(built, parameters=p) for p in ({1: 1}, {b'a': 1}, {None: 1})]",
    ),
    (
        "request-parameters-values",
        "1.7.2",
        """
result = [attempt(built, parameters={'a': v}) for v in (1.5, None, [1], {}, b'x', np.int64(1), np.float32(1))], kind(built, parameters={'a': np.bool_(True)})""",
    ),
    (
        "request-check-order",
        "1.7.2",
        """
result = [attempt(built, **k) for k in (
    dict(parameters=[], correlation_id=1.5, inputs=[None], requested_output_names=['']),
    dict(correlation_id=1.5, inputs=[None], requested_output_names=['']), dict(inputs=[None], requested_output_names=['']),
    dict(correlation_id=-1, inputs=[None]))], kind(built, parameters=[], flags=-1)""",
    ),
    (
        "request-output-names",
        "1.7.3",
        """
result = [attempt(lambda n: sorted(built(requested_output_names=n).requested_output_names()), n) for n in (
    [], ['a', 'a'], ('a',), ['a', b'b'], np.array(['a']))], [kind(built, requested_output_names=n) for n in ('ab', b'ab', [1], None, {'a'}, iter('a'))]""",
    ),
    ("request-methods", "1.7.4", "result = sorted(n for n in dir(pb_utils.InferenceRequest) if not n.startswith('_'))"),
    (
        "request-set-flags",
        "1.7.4",
        "r = built(); r.set_flags(7); result = r.flags(), kind(r.set_flags, -1), kind(r.set_flags, 1.0), kind(r.set_flags, None), r.flags()",
    ),
    (
        "request-parameters-json",
        "1.7.5",
        """
result = [built(parameters=p).parameters() for p in (None, {}, {'a': 1}, {'a': True, 'b': 'x', 'c': -5}, {'é': 'é'}, {'b': 1, 'a': 2},
          {'a': 2**70})]""",
    ),
    (
        "received-request",
        "1.7.4",
        """
result = (request.correlation_id(), request.flags(), request.timeout(), type(request.requested_output_names()),
          request.trace().get_context(), request.is_cancelled())""",
    ),
    ("received-parameters", "1.7.5", "result = type(request.parameters())"),
    ("received-set-flags", "1.7.4", "request.set_flags(3); result = request.flags()"),
    (
        "received-release-flags",
        "1.7.12",
        "result = [kind(request.set_release_flags, n) for n in (7, 0, 1, -1, 1.0, None)]",
    ),
    (
        "output-names-copy",
        "1.7.6",
        "n = request.requested_output_names(); n.add('zz'); result = 'zz' in request.requested_output_names()",
    ),
    (
        "sender-same",
        "1.7.9",
        "r = built(); result = r.get_response_sender() is r.get_response_sender(), request.get_response_sender() is request.get_response_sender()",
    ),
    ("sender-of-built", "1.7.9", "built().get_response_sender().send(R())"),
    ("cancelled-sender", "1.7.11", "result = request.get_response_sender().is_cancelled()"),
    ("async-without-loop", "1.7.13", "built().async_exec()"),
    (
        "exec-arguments",
        "4.1.1",
        "result = [kind(built().exec, d) for d in (None, 'x', [1], object())], kind(built().exec, True, 1), kind(built().exec, other=1)",
    ),
    # -- 1.8 InferenceResponse
    ("response-defaults", "1.8.1", "r = R(); result = r.output_tensors(), r.has_error(), r.error()"),
    (
        "response-tensors",
        "1.8.1",
        """
t = T('a', np.zeros(1))
result = [kind(R, x) for x in ([t], (t,), [], None, [1], t, {t}, {t: 1}, 'a', [t, 2])]""",
    ),
    (
        "response-keywords",
        "1.8.1",
        "t = T('a', np.zeros(1)); r = R(output_tensors=[t], error=None); result = r.output_tensors()[0] is t",
    ),
    (
        "response-error",
        "1.8.1",
        "e = E('x'); r = R(error=e); result = r.has_error(), r.error() is e, r.output_tensors()",
    ),
    (
        "response-error-and-tensors",
        "1.8.4",
        "t = T('a', np.zeros(1)); r = R([t], E('x')); result = r.has_error(), len(r.output_tensors())",
    ),
    (
        "response-text-error",
        "1.8.1",
        "result = kind(R, error='x'), kind(R, [], 'x'), kind(R, [], 1), kind(R, [], pb_utils.TritonModelException('x'))",
    ),
    ("response-array", "1.8.1", "result = kind(R, np.zeros(2)), kind(R, np.zeros((2, 2))), kind(R, [np.zeros(2)])"),
    ("response-none", "1.8.2", "R([None])"),
    ("response-none-later", "1.8.2", "R([T('a', np.zeros(1)), None])"),
    ("response-none-with-error", "1.8.2", "R([None], E('x'))"),
    ("response-none-and-bad", "1.8.2", "result = kind(R, [None, 1]), kind(R, [None], 'x')"),
    (
        "response-list-kept",
        "1.8.3",
        "t = T('a', np.zeros(1)); l = [t]; r = R(l); l.clear(); r.output_tensors().clear(); result = len(r.output_tensors())",
    ),
    # -- 1.9 sender (checks that send nothing)
    (
        "sender-wrong-type",
        "1.9.2",
        "s = request.get_response_sender(); result = [kind(s.send, *a) for a in ((1,), ([R()],), (R(), '1'), (R(), -1), (R(), 1.0), (R(), None), (R(), 2**40))]",
    ),
    (
        "sender-unsupported-flag",
        "1.9.2",
        "s = request.get_response_sender(); result = attempt(s.send, R(), 2), attempt(s.send, None, 3), attempt(s.send, flags=2)",
    ),
    (
        "sender-nothing",
        "1.9.2",
        "s = request.get_response_sender(); result = attempt(s.send), attempt(s.send, None), attempt(s.send, flags=0)",
    ),
    ("sender-final-first", "1.9.2", "request.get_response_sender().send(flags=1)"),
    (
        "sender-built-order",
        "1.9.2",
        "s = built().get_response_sender(); result = attempt(s.send), attempt(s.send, R(), 2), attempt(s.send, R()), attempt(s.send, flags=1)",
    ),
    # -- 1.11, 1.12
    (
        "trace-methods",
        "1.11.1",
        "t = request.trace(); result = t.get_context(), [n for n in dir(t) if not n.startswith('_')]",
    ),
    (
        "trace-as-parent",
        "1.11.1",
        "result = kind(built, trace=request.trace()), kind(built, trace=None), kind(built, trace=1)",
    ),
    (
        "preferred-memory",
        "1.12.1",
        """
P, M = pb_utils.PreferredMemory, pb_utils.TRITONSERVER_MEMORY_CPU
result = [kind(P, *a) for a in ((M,), (M, 3), (M, -1), (1,), (), (M, 1.0), (E.INTERNAL,), (M, None))], [n for n in dir(P) if not n.startswith('_')]""",
    ),
    (
        "preferred-memory-keywords",
        "1.12.1",
        "result = kind(pb_utils.PreferredMemory, preferred_memory_type=pb_utils.TRITONSERVER_MEMORY_GPU, preferred_device_id=1)",
    ),
    (
        "preferred-memory-in-request",
        "1.12.1",
        """
P, M = pb_utils.PreferredMemory, pb_utils.TRITONSERVER_MEMORY_CPU
result = [kind(built, preferred_memory=p) for p in (P(M), None, 1, M)]""",
    ),
    # -- 1.13 Logger
    (
        "logger",
        "1.13.1",
        "result = L.log('a'), L.log('a', L.WARNING), L.log(message='a', level=L.ERROR), L.log_info('é'), L.log_warn('a'), L.log_error(message='a'), L.log_verbose('a')",
    ),
    (
        "logger-bad",
        "1.13.1",
        """
result = [kind(f, *a) for f, a in ((L.log, ('a', 1)), (L.log, ('a', E.INTERNAL)), (L.log, (1,)), (L.log_info, (None,)), (L.log_info, ()),
          (L.log_info, ('a', 'b')), (L.log_warn, (1,)))]""",
    ),
    ("logger-text", "1.13.1", "L.log_info(1)"),
    ("logger-members", "1.13.1", "result = sorted(n for n in dir(L) if not n.startswith('_'))"),
    # -- 1.14 metrics without refusals of the server
    (
        "family-arguments",
        "1.14.1",
        """
result = [kind(F, *a) for a in ((), ('cm_a',), ('cm_a', 'd'), ('cm_a', 'd', 0), (None, 'd', F.COUNTER), ('cm_a', None, F.COUNTER), ('cm_a', 'd', None),
          ('cm_a', 'd', L.INFO))]""",
    ),
    (
        "family-keywords",
        "1.14.1",
        "f = F(name='cm_b', description='d', kind=F.COUNTER); result = repr(f).split(' at ')[0], repr(f.Metric()).split(' at ')[0]",
    ),
    (
        "counter",
        "1.14.2",
        "f = F('cm_counter', 'd', F.COUNTER); m = f.Metric({'a': 'b'}); m.increment(2); m.increment(True); m.increment(np.float32(1.5)); result = m.value(), type(m.value())",
    ),
    (
        "gauge",
        "1.14.2",
        "f = F('cm_gauge', 'd', F.GAUGE); m = f.Metric(); m.set(5); m.increment(-2); m.increment(np.int8(1)); result = m.value()",
    ),
    (
        "gauge-extremes",
        "1.14.2",
        "f = F('cm_gauge2', 'd', F.GAUGE); m = f.Metric(); m.set(1e308); a = m.value(); m.set(2**70); result = a, m.value()",
    ),
    (
        "histogram",
        "1.14.2",
        "f = F('cm_hist', 'd', F.HISTOGRAM); m = f.Metric(buckets=[1, 2.5, np.float32(3), 10]); m.observe(1); m.observe(99); result = 'ok'",
    ),
    (
        "histogram-no-buckets",
        "1.14.3",
        "f = F('cm_hist2', 'd', F.HISTOGRAM); f.Metric(buckets=[]).observe(1); result = 'ok'",
    ),
    (
        "metric-bad-numbers",
        "1.14.2",
        "f = F('cm_c', 'd', F.COUNTER); m = f.Metric(); result = [kind(m.increment, x) for x in ('1', None, [1], b'1', 1j)], kind(m.increment), m.value()",
    ),
    (
        "metric-labels",
        "1.14.3",
        "f = F('cm_d', 'd', F.COUNTER); result = [attempt(lambda l: kind(f.Metric, l), l) for l in (None, {}, {'a': 'b'})], [attempt(f.Metric, l) for l in ([], 'a', ('a', 'b'), 1)]",
    ),
    (
        "metric-buckets",
        "1.14.3",
        "f = F('cm_e', 'd', F.COUNTER); result = [attempt(f.Metric, buckets=b) for b in ([1], (1,), 'x', 1)], attempt(f.Metric, [], (1,))",
    ),
    (
        "metric-buckets-missing",
        "1.14.3",
        "f = F('cm_f', 'd', F.HISTOGRAM); result = attempt(f.Metric), attempt(f.Metric, {'a': 'b'}), attempt(f.Metric, [])",
    ),
    (
        "metric-buckets-casts",
        "1.14.3",
        "f = F('cm_g', 'd', F.HISTOGRAM); result = [attempt(f.Metric, None, b) for b in (['x'], [None], [1, 'x'])]",
    ),
    (
        "metric-same-labels",
        "1.14.6",
        "f = F('cm_h', 'd', F.GAUGE); f.Metric({'a': 'b'}).set(4); m = f.Metric({'a': 'b'}); result = m.value(), f.Metric({'a': 'c'}).value(), f.Metric().value()",
    ),
    (
        "family-joined",
        "1.14.6",
        "f = F('cm_i', 'd', F.GAUGE); g = F('cm_i', 'other', F.GAUGE); m = f.Metric(); m.set(4); result = g.Metric().value()",
    ),
    (
        "metric-outlives-object",
        "1.14.7",
        "f = F('cm_j', 'd', F.GAUGE); m = f.Metric(); m.set(4); del m; gc.collect(); result = f.Metric().value()",
    ),
    (
        "family-orphans",
        "1.14.7",
        "f = F('cm_k', 'd', F.GAUGE); m = f.Metric(); m.set(4); del f; gc.collect(); m.set(3)",
    ),
    ("family-orphans-value", "1.14.7", "f = F('cm_l', 'd', F.GAUGE); m = f.Metric(); del f; gc.collect(); m.value()"),
    (
        "family-anew",
        "1.14.7",
        "f = F('cm_m', 'd', F.GAUGE); m = f.Metric(); m.set(4); del f; gc.collect(); f = F('cm_m', 'd', F.GAUGE); result = f.Metric().value()",
    ),
    (
        "family-subclass",
        "1.14.1",
        "class A(F): pass\nf = A('cm_n', 'd', A.GAUGE); m = f.Metric(); m.set(2); result = m.value()",
    ),
    (
        "metric-methods",
        "1.14.2",
        "import c_python_backend_utils as c\nresult = sorted(n for n in dir(c.Metric) if not n.startswith('_')), sorted(n for n in dir(F) if not n.startswith('_'))",
    ),
    ("metric-unserializable-label", "1.14.4", "f = F('cm_o', 'd', F.GAUGE); f.Metric({'a': object()})"),
    # -- 1.15 model control
    (
        "load-arguments",
        "1.15.1",
        "f = pb_utils.load_model; result = [kind(f, *a) for a in ((), (1,), (None,), ('a', 1), ('a', None), ('a', '', None, 4))], kind(f, name='a')",
    ),
    (
        "load-files-kind",
        "1.15.2",
        "result = [attempt(pb_utils.load_model, model_name='x', files=f) for f in ([], 'x', 1)]",
    ),
    ("load-files-text", "1.15.2", "pb_utils.load_model('x', files={'file:a': 'text'})"),
    ("load-files-key", "1.15.2", "result = kind(pb_utils.load_model, 'x', files={1: b'x'})"),
    (
        "unload-unknown",
        "1.15.6",
        "result = pb_utils.unload_model('no_such_model'), pb_utils.unload_model('no_such_model', 1), pb_utils.unload_model(b'no_such_model', unload_dependents=True)",
    ),
    (
        "unload-arguments",
        "1.15.1",
        "f = pb_utils.unload_model; result = [kind(f, *a) for a in ((), (1,), ('no_such_model', None), ('no_such_model', 'x'))]",
    ),
    (
        "ready-arguments",
        "1.15.1",
        "f = pb_utils.is_model_ready; result = [kind(f, *a) for a in ((), (1,), ('a', 1), ('a', None))]",
    ),
    # -- 1.17 ModelConfig
    (
        "config-dict",
        "1.17.1",
        "c = config(); c.as_dict()['x'] = 1; result = c.as_dict()['x'], c.as_dict() is c.as_dict()",
    ),
    (
        "config-text",
        "1.17.1",
        "result = attempt(pb_utils.ModelConfig, 'x'), kind(pb_utils.ModelConfig), pb_utils.ModelConfig('{}').as_dict()",
    ),
    (
        "config-batch-size",
        "1.17.2",
        """
def f(n, **k):
    c = config(**k); return c.set_max_batch_size(n), c.as_dict()['max_batch_size']
result = attempt(f, 3), attempt(f, 4), attempt(f, 9), attempt(f, 2, max_batch_size=0), attempt(f, 0, max_batch_size=0)""",
    ),
    ("config-batch-size-missing", "1.17.2", "pb_utils.ModelConfig('{}').set_max_batch_size(1)"),
    (
        "config-dynamic",
        "1.17.2",
        """
def f(**k):
    c = config(**k); return c.set_dynamic_batching(), c.as_dict()['dynamic_batching']
result = attempt(f), attempt(f, dynamic_batching={'a': 1}), attempt(f, sequence_batching={}), attempt(f, ensemble_scheduling={})""",
    ),
    (
        "config-add-input",
        "1.17.2",
        """
def f(d):
    c = config(); return c.add_input(d), c.as_dict()['input']
result = [attempt(f, d) for d in ({'name': 'q', 'x': 1}, {}, {'name': 'q'}, {'name': 'q', 'data_type': 'TYPE_FP32'}, {'name': 'q', 'dims': [1]},
    {'name': 'I', 'data_type': 'TYPE_FP16', 'dims': [3]}, {'name': 'I', 'data_type': 'TYPE_FP32', 'dims': [4]},
    {'name': 'I', 'data_type': 'TYPE_FP32', 'dims': [3], 'optional': True}, {'name': 'I', 'data_type': 'TYPE_FP32', 'dims': [3]},
    {'name': 'J', 'data_type': 'TYPE_FP32', 'dims': [3], 'optional': True}, {'name': 'K', 'data_type': 'FP32', 'dims': []},
    {'name': 'I', 'data_type': 'TYPE_FP32', 'dims': (3,)})]""",
    ),
    (
        "config-add-output",
        "1.17.2",
        """
def f(d):
    c = config(); return c.add_output(d), c.as_dict()['output']
result = [attempt(f, d) for d in ({'name': 'q', 'x': 1}, {}, {'name': 'q'}, {'name': 'q', 'data_type': 'TYPE_FP32'}, {'name': 'q', 'dims': [1]},
    {'name': 'O', 'data_type': 'TYPE_FP16', 'dims': [-1]}, {'name': 'O', 'data_type': 'TYPE_FP32', 'dims': [4]},
    {'name': 'O', 'data_type': 'TYPE_FP32', 'dims': [-1], 'optional': True}, {'name': 'O', 'data_type': 'TYPE_FP32', 'dims': [-1]},
    {'name': 'K', 'data_type': 'FP32', 'dims': []}, {'data_type': 'TYPE_FP32', 'dims': [2]})]""",
    ),
    (
        "config-no-name-unknown-key",
        "1.17.3",
        "result = attempt(config().add_input, {'x': 1}), attempt(config().add_output, {'x': 1})",
    ),
    (
        "config-added-itself",
        "1.17.2",
        "c = config(); d = {'name': 'q', 'data_type': 'x', 'dims': []}; c.add_input(d); result = c.as_dict()['input'][-1] is d",
    ),
    (
        "config-optional-filled",
        "1.17.5",
        "c = config(input=[{'name': 'a', 'data_type': 'x', 'dims': [1]}]); c.add_input({'name': 'a', 'data_type': 'x', 'dims': [1], 'optional': True}); result = c.as_dict()['input']",
    ),
    (
        "config-broken-entries",
        "1.17.2",
        "d = {'name': 'a', 'data_type': 'b', 'dims': [1]}; result = [attempt(config(input=i).add_input, d) for i in ([{}], [{'name': 'a'}])]",
    ),
    (
        "config-missing-sections",
        "1.17.2",
        "d = {'name': 'a', 'data_type': 'b', 'dims': [1]}; c = pb_utils.ModelConfig('{\"name\": \"m\"}'); result = attempt(c.add_input, d), attempt(c.add_output, d)",
    ),
    (
        "config-policy",
        "1.17.2",
        """
def f(d, **k):
    c = config(**k); return c.set_model_transaction_policy(d), c.as_dict().get('model_transaction_policy')
p = lambda v: {'model_transaction_policy': v}
result = [attempt(f, {'decoupled': True}), attempt(f, {'x': True}), attempt(f, {}), attempt(f, {'decoupled': 0, 'y': 2}),
    attempt(f, {'decoupled': False}, **p({'decoupled': True})), attempt(f, {'decoupled': True}, **p({'decoupled': True})),
    attempt(f, {}, **p({'decoupled': True})), attempt(f, {'decoupled': 1}, **p({}))]""",
    ),
    (
        "config-signatures",
        "1.17.2",
        """
import inspect
result = {n: list(inspect.signature(getattr(pb_utils.ModelConfig, n)).parameters) for n in dir(pb_utils.ModelConfig) if not n.startswith('_')}""",
    ),
]

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
