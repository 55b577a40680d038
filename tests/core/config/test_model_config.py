from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tritonlab.core.config import model_config
from tritonlab.core.config.model_config import (
    ConfigError,
    ModelConfig,
    config_bytes,
    dims_text,
    from_json,
    parse_pbtxt,
    print_pbtxt,
    read_config,
    read_config_text,
    to_dict,
    to_json,
)
from tritonlab.core.config.model_config_rules import autofill, normalize_instance_groups

#: config.pbtxt and what tritonserver 2.51 answered to `GET /v2/models/<name>/config`
DOCUMENTS = sorted(Path(__file__).with_name("config_documents").glob("*.pbtxt"))


@pytest.fixture(params=DOCUMENTS, ids=lambda path: str(path.stem))
def document(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def served(document: Path) -> ModelConfig:
    config = parse_pbtxt(document.read_text(), str(document))
    return normalize_instance_groups(autofill(config, model_name=document.stem, files=["model.py"]), gpu_ids=())


def test_json_equals_the_real_server_byte_for_byte(document: Path) -> None:
    assert to_json(served(document)) + "\n" == document.with_suffix(".json").read_text()


def test_json_reads_back(document: Path) -> None:
    config = served(document)
    assert from_json(to_json(config)) == config
    assert from_json(to_dict(config)) == config


def test_printed_text_reads_back(document: Path) -> None:
    config = served(document)
    assert parse_pbtxt(print_pbtxt(config), "") == config


def test_printed_text_is_readable() -> None:
    config = parse_pbtxt('max_batch_size:4 input{name:"ä" data_type:TYPE_FP32 dims:-1 dims:4}', "")
    expected = 'max_batch_size: 4\ninput {\n  name: "ä"\n  data_type: TYPE_FP32\n  dims: [-1, 4]\n}\n'
    assert print_pbtxt(config) == expected


ENSEMBLE = """
platform: "ensemble"
input { name: "X" data_type: TYPE_FP32 dims: [1] }
output { name: "Y" data_type: TYPE_FP32 dims: [1] }
ensemble_scheduling { step {
  model_name: "mm" model_version: -1 input_map { key: "IN" value: "X" } output_map { key: "OUT" value: "Y" }
} }
model_transaction_policy { decoupled: false }
"""
#: As 2.51 served it.
ENSEMBLE_JSON = (
    '{"name":"e","platform":"ensemble","backend":"","runtime":"","version_policy":{"latest":{"num_versions":1}},'
    '"max_batch_size":0,"input":[{"name":"X","data_type":"TYPE_FP32","format":"FORMAT_NONE","dims":[1],'
    '"is_shape_tensor":false,"allow_ragged_batch":false,"optional":false,"is_non_linear_format_io":false}],'
    '"output":[{"name":"Y","data_type":"TYPE_FP32","dims":[1],"label_filename":"","is_shape_tensor":false,'
    '"is_non_linear_format_io":false}],"batch_input":[],"batch_output":[],"ensemble_scheduling":{"step":[{'
    '"model_name":"mm","model_version":-1,"input_map":{"IN":"X"},"output_map":{"OUT":"Y"},"model_namespace":""}]},'
    '"instance_group":[],"default_model_filename":"","cc_model_filenames":{},"metric_tags":{},"parameters":{},'
    '"model_warmup":[],"model_transaction_policy":{"decoupled":false}}'
)


def test_an_ensemble_has_neither_backend_nor_optimization() -> None:
    """Rule 5.2.4."""
    config = autofill(parse_pbtxt(ENSEMBLE, ""), model_name="e", files=[])
    found = to_json(normalize_instance_groups(config, gpu_ids=(0,)))
    assert found.replace(',"max_inflight_requests":0', "") == ENSEMBLE_JSON  # that field came with 25.11


def test_maps_have_a_stable_order() -> None:
    config = ModelConfig()
    for key in ("zz", "aa", "mm"):
        config.metric_tags[key] = key
    assert list(to_dict(config)["metric_tags"]) == ["aa", "mm", "zz"]


@pytest.mark.parametrize(("value", "text"), [(0.3, "0.3"), (1.0, "1"), (0.1, "0.1"), (1 / 3, "0.33333334")])
def test_floats_are_the_shortest_that_mean_the_same(value: float, text: str) -> None:
    config = ModelConfig()
    config.sequence_batching.direct.minimum_slot_utilization = value
    assert f'"minimum_slot_utilization":{text}}}' in to_json(config)


def test_to_dict_is_the_callers_own() -> None:
    config = parse_pbtxt("input { name: 'a' dims: [1] }", "")
    to_dict(config)["input"][0]["dims"].append(2)
    assert list(config.input[0].dims) == [1]


def test_parse_error_says_where() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_pbtxt('backend: "python"\nmax_batch: 4\n', "m/config.pbtxt")
    assert str(caught.value) == "failed to read text proto from m/config.pbtxt"
    assert caught.value.detail.startswith("2:1 :")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r"\?", "?"),
        (r"\\d", r"\d"),
        (r"\ud83d\ude00", "\U0001f600"),
        (r"\\ud83d", r"\ud83d"),
        (r"\x41\102", "AB"),
        ("#", "#"),
    ],
)
def test_an_escape_is_read_as_triton_reads_it(written: str, value: str) -> None:  # measured
    text = f"# it's a \\d\nparameters {{ key: 'k' value {{ string_value: \"{written}\" }} }}"
    assert parse_pbtxt(text, "").parameters["k"].string_value == value


@pytest.mark.parametrize("written", [r"\d+", r"C:\models", r"\8", r"\ "])
def test_a_backslash_for_itself_is_refused(written: str) -> None:  # measured
    with pytest.raises(ConfigError, match="failed to read text proto from m") as error:
        parse_pbtxt(f"backend: 'python'\nparameters {{ key: 'k' value {{ string_value: '{written}' }} }}", "m")
    place, _, message = error.value.detail.partition(" : ")
    assert place == f"2:{46 + written.index(chr(92))}"
    assert message.endswith(r"is not an escape of this format; write a backslash as \\")


def test_a_file_is_read_whatever_bytes_are_in_its_comments(tmp_path: Path) -> None:
    file = tmp_path / "config.pbtxt"
    assert (read_config_text(file), read_config(file)) == ("", ModelConfig())
    file.write_bytes(b'# caf\xe9\r\nbackend: "python"')
    assert read_config(file).backend == "python"
    assert config_bytes(read_config_text(file)) == file.read_bytes()
    file.write_bytes(b'# names\nbackend: "caf\xe9"')
    with pytest.raises(ConfigError) as caught:
        read_config(file)
    assert caught.value.detail == "line 2 is not UTF-8; save the file as UTF-8"


def test_the_messages_are_those_of_tritonclient_without_its_grpc_client() -> None:
    """A fresh interpreter: others import tritonclient.grpc into this one."""
    code = """
import sys
from tritonlab.core.config.model_config import ModelConfig
assert "grpc" not in sys.modules and "tritonclient" not in sys.modules
from tritonclient.grpc import model_config_pb2
assert model_config_pb2.DESCRIPTOR.serialized_pb == ModelConfig.DESCRIPTOR.file.serialized_pb
"""
    # The package's own __init__ imports more; only this layer is tested.
    bare = f"""
import sys, types
sys.modules["tritonlab"] = types.ModuleType("tritonlab")
sys.modules["tritonlab"].__path__ = [{str(Path(model_config.__file__).parents[2])!r}]
"""
    done = subprocess.run([sys.executable, "-c", bare + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_dims_text() -> None:
    assert dims_text((-1, 4)) == "[-1,4]"
    assert dims_text(()) == "[]"


@pytest.mark.parametrize("value", ["99999999999999999999", "18446744073709551615", "\udcffYPE_FP32"])
def test_a_value_that_no_enum_has_is_refused(value: str) -> None:  # measured: protobuf raises three kinds of errors
    with pytest.raises(ConfigError, match="failed to read text proto from m"):
        parse_pbtxt(f'input {{ name: "I" data_type: {value} dims: [1] }}', "m")


def test_a_hash_within_quotes_is_not_a_comment() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_pbtxt('# ${comment}\nname: "a#\udc80 ${name}"', "config.pbtxt")
    assert caught.value.detail.endswith("; not filled in: ${name}")
    with pytest.raises(ConfigError) as caught:
        parse_pbtxt('name: "a#\udc80"', "config.pbtxt")
    assert caught.value.detail == "line 1 is not UTF-8; save the file as UTF-8"
