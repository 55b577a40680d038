from __future__ import annotations

import pytest

from tritonlab.core.status import InvalidArgumentError
from tritonlab.ipc.visible_gpus import VisibleGpus


def test_simulated_ones_stand_in_the_place_of_the_machines() -> None:
    gpus = VisibleGpus(2)
    assert gpus.ordinals == (0, 1) and gpus.simulated and all(gpu.simulated for gpu in gpus.all)
    assert len({gpu.uuid for gpu in gpus.all}) == 2
    assert gpus.uuid(1) == gpus.all[1].uuid and gpus.uuid(2) == ""


@pytest.mark.parametrize("count", [-1, 1000])
def test_a_number_that_cannot_be_meant_is_refused(count: int) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"simulated_gpus is {count}, expected 0 to \d+"):
        VisibleGpus(count)
