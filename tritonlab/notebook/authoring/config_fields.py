"""The purpose of each field of config.pbtxt, in one sentence, which an editor shows under the pointer.

The keys are the messages of Triton's model_config.proto by their own names, then their fields. If the Python backend
ignores a field, the sentence says so.
"""

from __future__ import annotations

from typing import Any

_TENSORRT = "For TensorRT models; the Python backend does nothing with it."
_OTHERS = "For backends other than Python, which does nothing with it."

FIELDS: dict[str, dict[str, str]] = {
    "ModelConfig": {
        "name": "The model's name; if it is given, it must be the name of the model's directory.",
        "platform": "An older way to name the backend: `ensemble` for ensembles; leave it out for a Python model.",
        "backend": "Which backend runs the model: `python`, or the directory of a backend written in Python.",
        "runtime": "The library or script that runs the model, if it is not the backend's own.",
        "version_policy": "Which of the model's version directories are served: the latest ones, all, or those listed.",
        "max_batch_size": "How many rows an execution has at most; 0 means that requests have no batch dimension.",
        "input": "A tensor that every request brings, unless it is optional.",
        "output": "A tensor that the model answers with.",
        "batch_input": "A tensor that the server adds to each batch, computed from the requests in it.",
        "batch_output": "An output that the server takes apart with the help of an input's shape.",
        "optimization": "How memory is copied and which accelerators are used; most of it is for other backends.",
        "dynamic_batching": "Lets the server put requests together into one execution, within the limits you choose.",
        "sequence_batching": "Sends all requests of one sequence to the same instance, for models that keep a state.",
        "ensemble_scheduling": "Makes the model a graph of other models, whose tensors are connected by name.",
        "instance_group": "How many copies of the model run, and on which devices; each is a process of its own.",
        "default_model_filename": "The file to load in a version's directory; `model.py` if not set.",
        "cc_model_filenames": "Which file to load on GPUs of which compute capability.",
        "metric_tags": "Labels that the model's metrics get in addition.",
        "parameters": "Settings of the model's own, which `initialize` finds in `args['model_config']`.",
        "model_warmup": "Requests that every new instance executes before it serves.",
        "model_operations": "Libraries of custom operations, loaded before the model.",
        "model_transaction_policy": "Whether a request may be answered other than once.",
        "model_repository_agents": "Programs that prepare the model's files before it is loaded.",
        "response_cache": "Whether equal requests are answered from the server's cache.",
        "model_metrics": "How some of the server's own metrics are kept for this model.",
    },
    "ModelVersionPolicy": {
        "latest": "Serve the versions with the highest numbers.",
        "all": "Serve every version there is.",
        "specific": "Serve exactly these versions.",
    },
    "Latest": {"num_versions": "How many of the highest versions are served; 1 if not set."},
    "Specific": {"versions": "The numbers of the versions to serve."},
    "ModelInput": {
        "name": "The tensor's name, as requests give it.",
        "data_type": "The type of its elements, such as TYPE_FP32; TYPE_STRING takes text and bytes.",
        "format": "Whether pictures come with the channels first or last; it is only a note to clients.",
        "dims": "Its shape without the batch dimension; -1 stands for any length.",
        "reshape": "The shape that the model gets, if it is another one than clients send.",
        "is_shape_tensor": _TENSORRT,
        "allow_ragged_batch": "Whether requests of different shapes may share a batch.",
        "optional": "Whether a request may leave it out.",
        "is_non_linear_format_io": _TENSORRT,
    },
    "ModelTensorReshape": {"shape": "The shape, without the batch dimension; it must have as many elements as `dims`."},
    "ModelOutput": {
        "name": "The tensor's name, as the model's responses give it.",
        "data_type": "The type of its elements, such as TYPE_FP32.",
        "dims": "Its shape without the batch dimension; -1 stands for any length.",
        "reshape": "The shape that clients get, if it is another one than the model produces.",
        "label_filename": "A file with one label a line, for clients that request classes.",
        "is_shape_tensor": _TENSORRT,
        "is_non_linear_format_io": _TENSORRT,
    },
    "BatchInput": {
        "kind": "What is computed from the requests of a batch, such as their element counts.",
        "target_name": "The names of the model's inputs that get it.",
        "data_type": "The type of its elements.",
        "source_input": "The inputs that it is computed from.",
    },
    "BatchOutput": {
        "target_name": "The outputs that are taken apart.",
        "kind": "How an output is taken apart.",
        "source_input": "The inputs whose shapes say where to cut.",
    },
    "ModelOptimizationPolicy": {
        "graph": _OTHERS,
        "priority": _OTHERS,
        "cuda": _OTHERS,
        "execution_accelerators": _OTHERS,
        "input_pinned_memory": "Whether inputs on their way to a GPU go through pinned memory.",
        "output_pinned_memory": "Whether outputs on their way from a GPU go through pinned memory.",
        "gather_kernel_buffer_threshold": _OTHERS,
        "eager_batching": _OTHERS,
    },
    "Graph": {"level": _OTHERS},
    "Cuda": dict.fromkeys(("graphs", "busy_wait_events", "graph_spec", "output_copy_stream"), _OTHERS),
    "GraphSpec": dict.fromkeys(("batch_size", "input", "graph_lower_bound"), _OTHERS),
    "Shape": {"dim": _OTHERS},
    "LowerBound": dict.fromkeys(("batch_size", "input"), _OTHERS),
    "ExecutionAccelerators": dict.fromkeys(("gpu_execution_accelerator", "cpu_execution_accelerator"), _OTHERS),
    "Accelerator": {"name": "The accelerator's name.", "parameters": "The accelerator's own settings."},
    "PinnedMemoryBuffer": {"enable": "Whether pinned memory is used; it is if not set."},
    "ModelDynamicBatching": {
        "preferred_batch_size": "Sizes at which a batch closes at once instead of waiting for more; better left out.",
        "max_queue_delay_microseconds": "How long the first request of a batch may wait for others.",
        "preserve_ordering": "Whether responses leave in the order in which the requests came.",
        "priority_levels": "How many priorities requests may have; 1 is the highest.",
        "default_priority_level": "The priority of requests that name none.",
        "default_queue_policy": "How long requests may wait, how many, and what happens to one that waits too long.",
        "priority_queue_policy": "The same for single priorities, by their number.",
    },
    "ModelQueuePolicy": {
        "timeout_action": "REJECT refuses a request that waited too long, DELAY serves it after the others.",
        "default_timeout_microseconds": "How long a request may wait; 0 means for ever.",
        "allow_timeout_override": "Whether a request may set a shorter time than that.",
        "max_queue_size": "How many requests may wait; more are refused, and 0 sets no limit.",
    },
    "ModelSequenceBatching": {
        "direct": "Each sequence keeps one slot of a batch for as long as it lasts.",
        "oldest": "Batches are made of the oldest waiting requests, each of another sequence.",
        "max_sequence_idle_microseconds": "After how long without a request a sequence is given up.",
        "control_input": "A tensor that tells the model of a sequence's start, end, readiness or id.",
        "state": "A tensor that the server keeps between the requests of a sequence.",
        "iterative_sequence": "Whether the model may have a request scheduled again until it is done.",
    },
    "StrategyDirect": {
        "max_queue_delay_microseconds": "How long a batch may wait for further slots to be filled.",
        "minimum_slot_utilization": "The share of slots, from 0 to 1, that must be filled before the delay is over.",
    },
    "StrategyOldest": {
        "max_candidate_sequences": "How many sequences an instance works on at the same time.",
        "preferred_batch_size": "Sizes at which a batch closes at once instead of waiting for more.",
        "max_queue_delay_microseconds": "How long the first request of a batch may wait for others.",
        "preserve_ordering": "Whether responses leave in the order in which the requests came.",
    },
    "ControlInput": {
        "name": "The name of the tensor that the model gets.",
        "control": "What the tensor means, and with which values.",
    },
    "Control": {
        "kind": "Which fact it is: the sequence's start, its end, whether the slot is filled, or the sequence's id.",
        "int32_false_true": "The two INT32 values that stand for false and true.",
        "fp32_false_true": "The two FP32 values that stand for false and true.",
        "bool_false_true": "The two BOOL values that stand for false and true.",
        "data_type": "The type of a sequence's id.",
    },
    "State": {
        "input_name": "The input through which the model gets the state.",
        "output_name": "The output through which the model gives the next state.",
        "data_type": "The type of its elements.",
        "dims": "Its shape without the batch dimension.",
        "initial_state": "What a new sequence begins with; zeros if not set.",
        "use_same_buffer_for_input_output": "Whether the old and the new state share their memory.",
        "use_growable_memory": "Whether the state's memory grows in place; it lies on a GPU then.",
    },
    "InitialState": {
        "data_type": "The type of its elements.",
        "dims": "Its shape without the batch dimension.",
        "zero_data": "Whether it begins with zeros.",
        "data_file": "A file in the model's `initial_state` directory to begin with.",
        "name": "What this initial state is called.",
    },
    "ModelEnsembling": {
        "step": "One of the models, and how its tensors are connected.",
        "max_inflight_requests": "How many responses of a decoupled step may be on their way to the next one.",
    },
    "Step": {
        "model_name": "The model that this step runs.",
        "model_version": "Its version; -1 takes the latest.",
        "input_map": "For each input of the model the ensemble's tensor that goes in.",
        "output_map": "For each output of the model the ensemble's tensor that it becomes.",
        "model_namespace": "The repository the model is looked for in, if names are kept apart by repository.",
    },
    "ModelInstanceGroup": {
        "name": "What the group is called in logs; the model's name and a number if not set.",
        "kind": "KIND_CPU, KIND_GPU, or KIND_MODEL, which leaves it to the model; GPUs, if any, when not set.",
        "count": "How many instances there are, for each GPU if the group runs on GPUs.",
        "rate_limiter": "Which resources an execution needs, if the server's rate limiter is on.",
        "gpus": "The GPUs by their numbers; all that there are if not set.",
        "secondary_devices": _OTHERS,
        "profile": _TENSORRT,
        "passive": "Whether the group only loads the model and is given no requests.",
        "host_policy": "The name of the host's settings, such as the processors to run on.",
    },
    "ModelRateLimiter": {
        "resources": "What an execution takes, and gives back at its end.",
        "priority": "How often the instance is chosen: one with 2 half as often as one with 1.",
    },
    "Resource": {
        "name": "The resource's name, which you choose.",
        "global": "Whether it is shared by all devices.",
        "count": "How many of it an execution takes.",
    },
    "SecondaryDevice": {"kind": _OTHERS, "device_id": _OTHERS},
    "ModelParameter": {"string_value": "The value; it is always text."},
    "ModelWarmup": {
        "name": "What the request is called in logs.",
        "batch_size": "How many such requests make the batch.",
        "inputs": "The request's tensors, by their names.",
        "count": "How often it is executed; once if not set.",
    },
    "Input": {
        "data_type": "The type of its elements.",
        "dims": "Its shape without the batch dimension; no -1 here.",
        "zero_data": "Fill it with zeros.",
        "random_data": "Fill it with random values.",
        "input_data_file": "Fill it from this file in the model's `warmup` directory.",
    },
    "ModelOperations": {"op_library_filename": "Libraries of custom operations; the Python backend loads none."},
    "ModelTransactionPolicy": {
        "decoupled": "Whether the model may send any number of responses to a request, at any time."
    },
    "ModelRepositoryAgents": {"agents": "The programs, in the order in which they run."},
    "Agent": {"name": "The program's name.", "parameters": "The program's own settings."},
    "ModelResponseCache": {"enable": "Whether equal requests are answered from the cache; the server needs one, too."},
    "ModelMetrics": {"metric_control": "How one family of metrics is kept."},
    "MetricControl": {
        "metric_identifier": "Which family of metrics it is about.",
        "histogram_options": "How a histogram is kept.",
    },
    "MetricIdentifier": {"family": "The family's name, such as nv_inference_first_response_histogram_ms."},
    "HistogramOptions": {"buckets": "The upper bounds of the histogram's buckets."},
}

#: Of the entries of a map, such as `parameters { key: … value: … }`.
MAP_ENTRY = {"key": "The entry's name.", "value": "What stands under this name."}


def sentence_of(descriptor: Any, field: str) -> str:
    """Return the sentence about a field of a message of model_config.proto; "" for a field it does not have."""
    if descriptor.GetOptions().map_entry:
        return MAP_ENTRY.get(field, "")
    return FIELDS.get(descriptor.name, {}).get(field, "")
