"""An engine with the names of `vllm` that NVIDIA's vLLM backend uses, which invents its tokens.

A token is a word. `values` of the choice says which: `echo` those of the prompt, `random` any, the same for the same
prompt and seed, `zeros` one word over and over; or `answers` names a JSON file of prompts and texts. `delay_ms` is the
time to the first token, `delay_ms_per_element` that of each token after it.

There are no postponed annotations here: NVIDIA's code reads those of SamplingParams as types.
"""

import asyncio
import contextlib
import enum
import itertools
import json
import sys
import time
import types
import uuid
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

_WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa")
_EMBEDDING_SIZE = 16
_settings: Mapping[str, Any] = {}

T = TypeVar("T")


# -- what a request says


class SamplingParams:
    """The parameters of a generation. Unknown ones are refused, as vLLM does."""

    n: int = 1
    best_of: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    structured_outputs: Any = None
    guided_decoding: Any = None

    def __init__(self, **settings: Any) -> None:
        known = {name for kind in type(self).__mro__ for name in getattr(kind, "__annotations__", ())}
        for name, value in settings.items():
            if name not in known:
                raise TypeError(f"Unexpected keyword argument '{name}'")
            setattr(self, name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        for name, least in (("n", 1), ("max_tokens", 1), ("temperature", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}.")

    def __repr__(self) -> str:
        return f"SamplingParams({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class StructuredOutputsParams:
    """What a generated text has to be like. The stand-in carries it and does not follow it."""

    def __init__(self, **settings: Any) -> None:
        for name in ("json", "regex", "choice", "grammar", "json_object", "whitespace_pattern", "backend"):
            setattr(self, name, settings.get(name))


class PoolingParams:
    def __init__(self, dimensions: int | None = None, task: str | None = None, **more: Any) -> None:
        self.dimensions, self.task = dimensions, task


class TokensPrompt(dict[str, Any]):
    """A prompt of token ids."""


class LoRARequest:
    def __init__(self, lora_name: str, lora_int_id: int, lora_path: str = "", **more: Any) -> None:
        self.lora_name, self.lora_int_id, self.lora_path = lora_name, lora_int_id, lora_path


# -- what an engine answers


@dataclass
class Logprob:
    logprob: float
    rank: int
    decoded_token: str


@dataclass
class CompletionOutput:
    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    cumulative_logprob: float = 0.0
    logprobs: list[dict[int, Logprob]] | None = None
    finish_reason: str | None = None


@dataclass
class RequestOutput:
    request_id: str
    prompt: str
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool


@dataclass
class EmbeddingOutput:
    embedding: list[float]


@dataclass
class PoolingRequestOutput(Generic[T]):
    request_id: str
    outputs: Any
    prompt_token_ids: list[int]
    finished: bool = True


class EmbeddingRequestOutput(PoolingRequestOutput[EmbeddingOutput]):
    @staticmethod
    def from_base(base: PoolingRequestOutput[EmbeddingOutput]) -> "EmbeddingRequestOutput":
        return EmbeddingRequestOutput(base.request_id, base.outputs, base.prompt_token_ids, base.finished)


# -- configuration and metrics


class AsyncEngineArgs:
    """The arguments of an engine, from model.json. Whatever they are, nothing of a model is read."""

    def __init__(self, **settings: Any) -> None:
        self.model = ""
        self.disable_log_stats = False
        self.enable_log_requests = False
        self.aggregate_engine_logging = False
        self.max_model_len: int | None = None
        for name, value in settings.items():
            setattr(self, name, value)

    def create_engine_config(self, *arguments: Any, **more: Any) -> "VllmConfig":
        return VllmConfig(self)


class VllmConfig:
    def __init__(self, arguments: AsyncEngineArgs) -> None:
        self.arguments = arguments
        self.model_config = types.SimpleNamespace(model=arguments.model, max_model_len=arguments.max_model_len or 2048)


class StatLoggerBase:
    """The base of what gets an engine's statistics."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        pass


class UsageContext(enum.Enum):
    OPENAI_API_SERVER = "OPENAI_API_SERVER"


def build_1_2_5_buckets(max_value: int) -> list[int]:
    found = (mantissa * 10**power for power in itertools.count() for mantissa in (1, 2, 5))
    return list(itertools.takewhile(lambda bound: bound <= max_value, found))


def random_uuid() -> str:
    return uuid.uuid4().hex


# -- the engine


class Engine:
    """The engine. `generate` gives the text so far with each token, as vLLM does by default."""

    def __init__(self, config: VllmConfig, stat_loggers: Any = None) -> None:
        self.config = config
        self._aborted: set[str] = set()
        self._loggers = [each(config, 0) for each in stat_loggers or ()]
        self.is_running, self.is_stopped, self.errored = True, False, False

    @classmethod
    def from_vllm_config(cls, vllm_config: VllmConfig, stat_loggers: Any = None, **more: Any) -> "Engine":
        return cls(vllm_config, stat_loggers)

    @classmethod
    def from_engine_args(cls, engine_args: AsyncEngineArgs, stat_loggers: Any = None, **more: Any) -> "Engine":
        return cls(engine_args.create_engine_config(), stat_loggers)

    async def get_supported_tasks(self) -> tuple[str, ...]:
        return ("generate", "embed")

    async def check_health(self) -> None:
        pass

    async def reset_mm_cache(self) -> None:
        pass

    async def abort(self, request_id: str) -> None:
        self._aborted.add(request_id)

    def shutdown(self) -> None:
        self.is_running, self.is_stopped = False, True

    async def generate(
        self, prompt: Any, sampling_params: SamplingParams, request_id: str, **more: Any
    ) -> AsyncIterator[RequestOutput]:
        text, ids = _prompt(prompt)
        wanted = [_Completion(index, text, sampling_params) for index in range(sampling_params.n)]
        began, last = time.monotonic(), 0.0
        await asyncio.sleep(_settings.get("delay_ms", 0) / 1000)
        while True:
            if request_id in self._aborted:
                self._aborted.discard(request_id)
                return
            for each in wanted:
                each.step()
            finished = all(each.output.finish_reason for each in wanted)
            now = time.monotonic()
            self._report(len(ids), wanted, began=began, last=last, now=now, finished=finished)
            yield RequestOutput(
                request_id,
                prompt=text,
                prompt_token_ids=ids,
                outputs=[each.copy() for each in wanted],
                finished=finished,
            )
            if finished:
                return
            last = now
            await asyncio.sleep(_settings.get("delay_ms_per_element", 0) / 1000)

    async def encode(
        self, prompt: Any, pooling_params: PoolingParams, request_id: str, **more: Any
    ) -> AsyncIterator[PoolingRequestOutput[EmbeddingOutput]]:
        text, ids = _prompt(prompt)
        await asyncio.sleep(_settings.get("delay_ms", 0) / 1000)
        values = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(
            pooling_params.dimensions or _EMBEDDING_SIZE
        )
        found = (values / np.linalg.norm(values)).tolist()
        yield PoolingRequestOutput(request_id, EmbeddingOutput(found), ids)

    def _report(
        self, prompt_tokens: int, wanted: Any, *, began: float, last: float, now: float, finished: bool
    ) -> None:
        """Give the loggers the statistics of one step."""
        generated = sum(len(each.output.token_ids) for each in wanted)
        done = types.SimpleNamespace(
            e2e_latency=now - began, num_prompt_tokens=prompt_tokens, num_generation_tokens=generated
        )
        stats = types.SimpleNamespace(
            num_prompt_tokens=0 if last else prompt_tokens,
            num_generation_tokens=sum(each.has_stepped for each in wanted),
            time_to_first_tokens_iter=[] if last else [now - began],
            inter_token_latencies_iter=[now - last] if last else [],
            n_params_iter=[len(wanted)] if finished else [],
            finished_requests=[done] if finished else [],
        )
        for logger in self._loggers:
            logger.record(scheduler_stats=None, iteration_stats=stats, engine_idx=0)


@contextlib.asynccontextmanager
async def build_async_engine_client_from_engine_args(
    engine_args: AsyncEngineArgs, *arguments: Any, stat_loggers: Any = None, **more: Any
) -> AsyncIterator[Engine]:
    yield Engine.from_engine_args(engine_args, stat_loggers)


class _Completion:
    """One text that grows by a word a step."""

    def __init__(self, index: int, prompt: str, parameters: SamplingParams) -> None:
        self.output = CompletionOutput(index, logprobs=None if parameters.logprobs is None else [])
        self.has_stepped = False
        self._parameters = parameters
        self._words = _words(prompt, index, parameters)

    def step(self) -> None:
        output, parameters = self.output, self._parameters
        self.has_stepped = output.finish_reason is None
        if not self.has_stepped:
            return
        word = next(self._words, None)
        if word is None:
            output.finish_reason = "stop"
            self.has_stepped = False
            return
        token = _token(word)
        output.text += word
        output.token_ids = [*output.token_ids, token]
        output.cumulative_logprob -= 0.1
        if output.logprobs is not None:
            output.logprobs = [*output.logprobs, {token: Logprob(-0.1, 1, word)}]
        stops = [parameters.stop] if isinstance(parameters.stop, str) else parameters.stop or []
        found = [at for stop in stops if (at := output.text.find(stop)) >= 0]
        if found:
            output.text, output.finish_reason = output.text[: min(found)], "stop"
        elif parameters.max_tokens is not None and len(output.token_ids) >= parameters.max_tokens:
            output.finish_reason = "length"

    def copy(self) -> CompletionOutput:
        return CompletionOutput(**vars(self.output))


def _prompt(prompt: Any) -> tuple[str, list[int]]:
    """Return the text of a prompt and its tokens."""
    if isinstance(prompt, Mapping):
        if "prompt_token_ids" in prompt:
            ids = list(prompt["prompt_token_ids"])
            return " ".join(map(str, ids)), ids
        prompt = prompt["prompt"]
    return str(prompt), [_token(word) for word in str(prompt).split()]


def _words(prompt: str, index: int, parameters: SamplingParams) -> Iterator[str]:
    """Yield the words of a text, each with the space before it."""
    rule = _settings.get("values", "zeros")
    if "answers" in _settings:
        with open(_settings["answers"], encoding="utf-8") as file:
            answers = json.load(file)
        if prompt not in answers:
            raise ValueError(f"{_settings['answers']} has no answer for the prompt {prompt!r}")
        yield from (f" {word}" for word in answers[prompt].split())
    elif rule == "echo":
        yield from (f" {word}" for word in prompt.split())
    elif rule == "random":
        seed = parameters.seed if parameters.seed is not None else _settings.get("seed", 0)
        random = np.random.default_rng([seed, index, zlib.crc32(prompt.encode())])
        while True:
            yield f" {_WORDS[random.integers(len(_WORDS))]}"
    else:
        while True:
            yield " token"


def _token(word: str) -> int:
    return zlib.crc32(word.encode()) % 50_000


# -- the names of vllm

_MODULES: dict[str, dict[str, Any]] = {
    "vllm": {"SamplingParams": SamplingParams, "AsyncLLMEngine": Engine, "AsyncEngineArgs": AsyncEngineArgs},
    "vllm.config": {"VllmConfig": VllmConfig},
    "vllm.engine": {},
    "vllm.engine.arg_utils": {"AsyncEngineArgs": AsyncEngineArgs},
    "vllm.engine.async_llm_engine": {"AsyncLLMEngine": Engine},
    "vllm.engine.protocol": {"EngineClient": Engine},
    "vllm.entrypoints": {},
    "vllm.entrypoints.openai": {},
    "vllm.entrypoints.openai.api_server": {
        "build_async_engine_client_from_engine_args": build_async_engine_client_from_engine_args
    },
    "vllm.inputs": {"TokensPrompt": TokensPrompt},
    "vllm.inputs.data": {"TokensPrompt": TokensPrompt},
    "vllm.lora": {},
    "vllm.lora.request": {"LoRARequest": LoRARequest},
    "vllm.outputs": {
        "CompletionOutput": CompletionOutput,
        "EmbeddingOutput": EmbeddingOutput,
        "EmbeddingRequestOutput": EmbeddingRequestOutput,
        "PoolingRequestOutput": PoolingRequestOutput,
        "RequestOutput": RequestOutput,
    },
    "vllm.pooling_params": {"PoolingParams": PoolingParams},
    "vllm.sampling_params": {
        "GuidedDecodingParams": StructuredOutputsParams,
        "SamplingParams": SamplingParams,
        "StructuredOutputsParams": StructuredOutputsParams,
    },
    "vllm.usage": {},
    "vllm.usage.usage_lib": {"UsageContext": UsageContext},
    "vllm.utils": {"random_uuid": random_uuid},
    "vllm.v1": {},
    "vllm.v1.engine": {},
    "vllm.v1.engine.async_llm": {"AsyncLLM": Engine},
    "vllm.v1.metrics": {},
    "vllm.v1.metrics.loggers": {
        "StatLoggerBase": StatLoggerBase,
        "StatLoggerFactory": Any,
        "build_1_2_5_buckets": build_1_2_5_buckets,
    },
    "vllm.v1.metrics.stats": {
        "IterationStats": types.SimpleNamespace,
        "MultiModalCacheStats": types.SimpleNamespace,
        "SchedulerStats": types.SimpleNamespace,
    },
}


def install(settings: Mapping[str, Any]) -> None:
    """Let `import vllm` find this module's names, also where a real vllm is installed."""
    global _settings
    _settings = settings
    for name, names in _MODULES.items():
        module = types.ModuleType(name, "The stand-in of tritonlab for vllm.")
        module.__path__ = []
        vars(module).update(names)
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
