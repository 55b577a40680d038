"""The response cache, which answers repeated requests to a model with `response_cache { enable: true }` (rule 5.9).

It differs from Triton on purpose where Triton's answers are wrong (rules 5.9.2, 5.9.3). Triton's key is the bytes of
the inputs, so a request with another shape, or for another output, gets a wrong answer; Triton stores errors as empty
successes, drops the parameters of responses, and uses answers of earlier loads of the model. Here the key has
everything that may affect an answer, parameters are stored, errors are not, and the answers of a load are dropped with
it.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ...core.inference.delivery import deliver
from ...core.inference.infer_request import InferenceRequest, ResponseCallback
from ...core.inference.infer_response import InferenceResponse, ParameterValue
from ...core.inference.tensor import Tensor
from ...core.status import InvalidArgumentError, TritonError
from ...engine.schedulers.scheduler import SchedulerServices

#: Bytes an entry costs besides its tensors; Triton's has 165 for three small outputs.
_OVERHEAD = 128


def parse_cache_config(text: str) -> int:
    """Return the bytes of `--cache-config=local,size=<bytes>`; 0 for an empty text. Raises InvalidArgumentError."""
    if not text:
        return 0
    name, _, setting = text.partition(",")
    key, equals, value = setting.partition("=")
    if not (name and key and equals and value):
        raise InvalidArgumentError(f"--cache-config option format is '<cache name>,<setting>=<value>'. Got {text}")
    if name != "local":
        raise InvalidArgumentError(f"cache '{name}' does not exist: the only one is 'local'")
    if key != "size" or not value.isdecimal() or not int(value):
        raise InvalidArgumentError(f"the local cache needs a size in bytes, 'local,size=1048576'. Got {text}")
    return int(value)


@dataclass(slots=True)
class _Entry:
    outputs: dict[str, Tensor]
    parameters: dict[str, ParameterValue]
    size: int


class ResponseCache:
    """The answers by key, at most `size` bytes of them; the least recently used one is dropped first. Any thread may
    call any method. Entries are copies, which keep no stub's region and which clients cannot change.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()  # guards all fields below
        self._entries: OrderedDict[tuple[object, bytes], _Entry] = OrderedDict()
        self._used = 0
        self._hits = self._misses = self._evictions = 0
        self._lookup_ns = self._insertion_ns = 0

    def lookup(self, owner: object, key: bytes) -> InferenceResponse | None:
        """Return a response with the stored tensors and parameters, None if the key is not stored."""
        with self._lock:
            entry = self._entries.get((owner, key))
            if entry is None:
                self._misses += 1
                return None
            self._hits += 1
            self._entries.move_to_end((owner, key))
        return InferenceResponse(outputs=_copy_tensors(entry.outputs), parameters=dict(entry.parameters))

    def insert(self, owner: object, key: bytes, response: InferenceResponse) -> bool:
        """Store an answer; returns False if the key has one. Raises InvalidArgumentError above the cache's size."""
        size = _OVERHEAD + sum(len(name) + 8 * len(t.shape) + t.byte_size for name, t in response.outputs.items())
        size += sum(len(str(item)) for pair in response.parameters.items() for item in pair)
        if size > self._size:
            raise InvalidArgumentError(
                f"Requested byte_size: {size} is greater than total cache size: {self._size}"  # Triton's words
            )
        entry = _Entry(_copy_tensors(response.outputs), dict(response.parameters), size)
        with self._lock:
            if (owner, key) in self._entries:
                return False
            self._entries[owner, key] = entry
            self._used += size
            while self._used > self._size:
                _, oldest = self._entries.popitem(last=False)
                self._used -= oldest.size
                self._evictions += 1
        return True

    def forget(self, owner: object) -> None:
        """Drop all answers stored for `owner`."""
        with self._lock:
            for entry in [entry for entry in self._entries if entry[0] is owner]:
                self._used -= self._entries.pop(entry).size

    def took(self, lookup_ns: int = 0, insertion_ns: int = 0) -> None:
        """Add the time of a look-up, for the metrics."""
        with self._lock:
            self._lookup_ns += lookup_ns
            self._insertion_ns += insertion_ns

    @property
    def used(self) -> int:
        """The bytes of the entries."""
        return self._used

    def metrics(self) -> dict[str, float]:
        """Return the server's `nv_cache_` metrics without that prefix (rule 5.13.4); times are microseconds."""
        with self._lock:
            return {
                "util": self._used / self._size,
                "num_entries": len(self._entries),
                "num_hits": self._hits,
                "num_misses": self._misses,
                "num_lookups": self._hits + self._misses,
                "num_evictions": self._evictions,
                "lookup_duration": self._lookup_ns // 1000,
                "insertion_duration": self._insertion_ns // 1000,
            }

    def __repr__(self) -> str:
        return f"<ResponseCache [{len(self._entries)} entries | {self._used} of {self._size} bytes]>"


class CachedModel:
    """The cache in front of the scheduler of a model version that uses it, made at its load, so that others pay
    nothing. `outputs` are the names of all its outputs, `execute` is the scheduler's `enqueue`.
    """

    def __init__(
        self,
        cache: ResponseCache,
        name: str,
        version: int,
        outputs: Iterable[str],
        execute: Callable[[InferenceRequest], None],
        services: SchedulerServices,
    ) -> None:
        self._cache = cache
        self._name = name
        self._version = version
        self._outputs = frozenset(outputs)
        self._execute = execute
        self._stats = services.stats
        self._clock = services.clock
        self._instruments = services.instruments
        self._warn = services.warn

    def enqueue(self, request: InferenceRequest) -> None:
        """Answer a checked request from the cache at once, or pass it on for execution. Answers from the cache do not
        wait for earlier requests, even with `preserve_ordering`, as in Triton (measured). Raises TritonError if the
        scheduler refuses it.
        """
        if any(tensor.memory_type for tensor in request.inputs.values()):
            self._execute(request)  # Triton makes no key of inputs in GPU memory either
            return
        started = self._clock.now()
        key = request_key(request, self._outputs)
        found = self._cache.lookup(self, key)
        took = self._clock.now() - started
        self._cache.took(lookup_ns=took)
        if found is not None:
            self._answer(request, found, took)
            return
        first = _FirstResponse(lambda response: self._store(key, response, took))
        first.below = request.push(first)
        try:
            self._execute(request)
        except TritonError:
            request.pop()
            raise

    def _answer(self, request: InferenceRequest, response: InferenceResponse, took: int) -> None:
        now = self._clock.now()
        self._stats.record_cache_hit(now - request.request_start, took, took, self._clock.wall() // 1_000_000)
        response.model_name, response.model_version = self._name, self._version
        response.request_id = request.request_id
        deliver(request, response, self._instruments, self._clock)

    def _store(self, key: bytes, response: InferenceResponse, lookup_ns: int) -> None:
        started = self._clock.now()
        new = True
        if response.error is None and not response.empty:
            try:
                new = self._cache.insert(self, key, response)
            except InvalidArgumentError as error:
                self._warn(f"Failed to insert a response into response cache: {error.message}")
        took = self._clock.now() - started
        self._cache.took(insertion_ns=took)
        if new:  # only the first of equal requests in execution is a miss (measured)
            self._stats.record_cache_miss(lookup_ns + took)

    def close(self) -> None:
        """Drop the answers of an ended version, because they may not be those of the next one."""
        self._cache.forget(self)


class _FirstResponse:
    """A request's first response, kept and passed on. It is the only one, except for an empty final one of a model that
    uses its response sender.
    """

    def __init__(self, keep: Callable[[InferenceResponse], None]) -> None:
        self.below: ResponseCallback | None = None
        self._keep: Callable[[InferenceResponse], None] | None = keep

    def __call__(self, request: InferenceRequest, response: InferenceResponse) -> None:
        keep, self._keep = self._keep, None
        if keep is not None:
            keep(response)
        if self.below is not None:
            self.below(request, response)


def request_key(request: InferenceRequest, outputs: frozenset[str]) -> bytes:
    """Return a key that is equal for requests that differ, for a model, only in request id and timeout. A request that
    names no output requests all of the model's `outputs`.
    """
    digest = hashlib.blake2b(digest_size=16)
    parts = (
        [(name, int(t.datatype), t.shape, t.byte_size) for name, t in sorted(request.inputs.items())],
        sorted(set(request.requested_outputs) or outputs),
        sorted((request.parameters or {}).items()),
        request.correlation_id,
        request.flags,
    )
    digest.update(repr(parts).encode())
    for _, tensor in sorted(request.inputs.items()):
        digest.update(tensor.data.reshape(-1).data)
    return digest.digest()


def _copy_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.copy() for name, tensor in tensors.items()}
