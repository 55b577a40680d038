"""The corpus of the checker's exam: every planted bug is real, every right model answers properly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.tools.check.corpus.table import RELATIONS, RIGHT, RIGHT_MODELS, WRONG, WRONG_MODELS, PlantedBug, RightModel
from tests.tools.check.proofs import ANSWERS, BEHAVES, SHOWS, Stage, answers_as_alone


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("corpus"))
    yield stage
    stage.server.stop()


@pytest.mark.parametrize("bug", WRONG, ids=lambda bug: bug.name)
def test_a_planted_bug_is_real(stage: Stage, bug: PlantedBug) -> None:
    with stage.client(bug.name) as client:
        SHOWS[bug.name](client)


@pytest.mark.parametrize("model", RIGHT, ids=lambda model: model.name)
def test_a_right_model_answers_properly(stage: Stage, model: RightModel) -> None:
    with stage.client(model.name, model.needs) as client:
        if model.name in BEHAVES:
            BEHAVES[model.name](client)
        else:
            answers_as_alone(client, ANSWERS[model.name])


def test_the_table_has_every_model_and_every_model_a_proof() -> None:
    wrong, right = [bug.name for bug in WRONG], [model.name for model in RIGHT]
    assert sorted(wrong) == sorted(path.name for path in WRONG_MODELS.iterdir()) == sorted(SHOWS)
    assert sorted(right) == sorted(path.name for path in RIGHT_MODELS.iterdir()) == sorted([*ANSWERS, *BEHAVES])
    assert len(wrong) >= 28 and len(right) >= 30


def test_each_relation_is_broken_at_least_twice() -> None:
    broken = Counter(bug.relation for bug in WRONG)
    assert set(broken) == set(RELATIONS)
    assert min(broken.values()) >= 2


@pytest.mark.parametrize("bug", WRONG, ids=lambda bug: bug.name)
def test_the_line_of_a_defect_is_one_line_of_the_model(bug: PlantedBug) -> None:
    assert bug.line_numbers()
    assert set(bug.also) <= set(RELATIONS) - {bug.relation}
