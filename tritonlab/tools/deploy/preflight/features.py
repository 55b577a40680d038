"""P7: names of pb_utils, fields of the config and kinds of coroutines that the target's release lacks."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from ....core.config.model_config import ModelConfig, messages
from ....core.source.source_file import SourceFile
from ..releases import Feature, Release, features
from .finding import Finding, Prediction
from .subject import Subject, has_response_parameters, last_name, line_of

#: The effects of features that are lacking; requests of others fail.
_LOAD = (
    *("metric_family", "histogram", "iterative_sequence", "environment_directory", "non_linear_format"),
    *("max_inflight_requests", "model_metrics", "growable_state", "oldest_ordering"),
)
_OUTCOMES = dict.fromkeys(_LOAD, Prediction.LOAD)
_OUTCOMES |= dict.fromkeys(("timeout", "is_ready", "iterative_stream"), Prediction.DIFFERS)
#: Features that matter only together with the other one.
_PART_OF = {"iterative_stream": "iterative_sequence"}


def missing_features(subject: Subject, release: Release) -> Iterator[Finding]:
    """Yield the features that the model uses and the release lacks, or is not known to have."""
    table = features()
    for key, line in used_features(subject).items():
        feature = table[key]
        if key in _PART_OF and table[_PART_OF[key]].state(release) is not True:
            continue
        state = feature.state(release)
        if state is False:
            text = f"it uses {feature.name}, which Triton {release} lacks: {feature.effect}"
            yield Finding(
                row="P7",
                sentence=text,
                remedy=feature.remedy,
                source_line=line,
                outcome=_OUTCOMES.get(key, Prediction.FAILS),
            )
        elif state is None:
            yield Finding("P7", f"it uses {feature.name}, and {_unknown(feature, release)}", feature.remedy, line)


def _unknown(feature: Feature, release: Release) -> str:
    return (
        f"whether Triton {release} has it is not known: {feature.since.value} has it, {feature.lacking.value} does not"
    )


def used_features(subject: Subject) -> dict[str, str]:
    """Return the features that the model uses, with the line of the first use; empty for features of the config."""
    found = {key: "" for key, uses in _IN_CONFIG.items() if uses(subject.config)}
    if subject.has_environment_directory:
        found["environment_directory"] = ""
    for source in subject.sources:
        for key, line in _in_source(source, subject.is_decoupled):
            found.setdefault(key, line)
    return found


def _in_source(source: SourceFile, decoupled: bool) -> Iterator[tuple[str, str]]:
    tree = source.tree
    if tree is None:
        return
    iterators = _iterators(tree)
    for node in ast.walk(tree):
        line = line_of(source, node)
        if isinstance(node, ast.Attribute):
            if node.attr in _ATTRIBUTES:
                yield _ATTRIBUTES[node.attr], line
            elif node.attr == "get_response_sender" and not decoupled:
                yield "sender_in_default_mode", line
            elif node.attr == "cancel" and isinstance(node.value, ast.Name) and node.value.id in iterators:
                yield "iterator_cancel", line
        elif isinstance(node, ast.ImportFrom) and node.module == "triton_python_backend_utils":
            yield from ((_ATTRIBUTES[alias.name], line) for alias in node.names if alias.name in _ATTRIBUTES)
        elif has_response_parameters(node):
            yield "response_parameters", line
        elif isinstance(node, ast.Call) and last_name(node.func) == "timeout" and not node.args and not node.keywords:
            if isinstance(node.func, ast.Attribute):
                yield "timeout", line
        elif isinstance(node, ast.ClassDef) and _is_model(node, source):
            yield from _in_class(node, source, decoupled)


#: Attributes that only pb_utils, a request or a sender has.
_ATTRIBUTES = {
    "MetricFamily": "metric_family",
    "HISTOGRAM": "histogram",
    "is_cancelled": "is_cancelled",
    "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE": "reschedule",
}


def _in_class(node: ast.ClassDef, source: SourceFile, decoupled: bool) -> Iterator[tuple[str, str]]:
    for member in node.body:
        name = getattr(member, "name", "")
        if name == "is_ready":
            yield "is_ready", line_of(source, member)
        elif name == "execute" and isinstance(member, ast.AsyncFunctionDef) and decoupled:
            yield "async_decoupled", line_of(source, member)


def _is_model(node: ast.ClassDef, source: SourceFile) -> bool:
    """Return whether it is the model's class, or may be a base or another name of TritonPythonModel."""
    return (
        node.name == "TritonPythonModel"
        or f"TritonPythonModel = {node.name}" in source.text
        or (f"TritonPythonModel({node.name})" in source.text)
    )


def _iterators(tree: ast.Module) -> set[str]:
    """Return the names that hold the result of a decoupled BLS call."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Call, ast.Await)):
            call = node.value.value if isinstance(node.value, ast.Await) else node.value
            if isinstance(call, ast.Call) and any(keyword.arg == "decoupled" for keyword in call.keywords):
                found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


#: Features that the config shows.
_IN_CONFIG: dict[str, Callable[[ModelConfig], bool]] = {
    "bf16": lambda config: any(each.data_type == messages.TYPE_BF16 for each in (*config.input, *config.output)),
    "iterative_stream": lambda config: bool(config.sequence_batching.iterative_sequence),
    "iterative_sequence": lambda config: bool(config.sequence_batching.iterative_sequence),
    "non_linear_format": lambda config: any(each.is_non_linear_format_io for each in (*config.input, *config.output)),
    "model_metrics": lambda config: config.HasField("model_metrics"),
    "growable_state": lambda config: any(
        each.use_growable_memory or each.use_same_buffer_for_input_output for each in config.sequence_batching.state
    ),
    "oldest_ordering": lambda config: bool(config.sequence_batching.oldest.preserve_ordering),
    "max_inflight_requests": lambda config: bool(getattr(config.ensemble_scheduling, "max_inflight_requests", 0)),
}
