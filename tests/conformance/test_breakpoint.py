"""What `breakpoint()` in a model does where nobody can type."""

from __future__ import annotations

import numpy as np
import pytest

from .clients import Client
from .models import SCRIPTED, config, model
from .real_client import RealClient
from .rules import rule

MODELS = {"stops": model(SCRIPTED, config("CODE STRING 1", "OUT INT32 -1"))}
OUT = 'return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([7], dtype=np.int32))])]'


@rule("3.5.6")
@pytest.mark.parametrize("stop", ["breakpoint()", "import pdb; pdb.set_trace()", "import pdb; pdb.Pdb().set_trace()"])
def test_a_breakpoint_where_nobody_can_type(client: Client, stop: str) -> None:
    script = {"CODE": np.array([f"{stop}\nx = 1\n{OUT}".encode()], dtype=np.object_)}
    answer = client.infer("stops", script)
    if isinstance(client, RealClient):
        assert "message: BdbQuit: <EMPTY MESSAGE>" in answer.error
    else:
        assert answer.outputs["OUT"].tolist() == [7]
