"""Settings under the names of the last release: read from files, accepted in Python for now."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from typing import Any

import pytest

from xtcl import config
from xtcl.config import (
    RENAMED,
    BatchConfig,
    EncoderConfig,
    EnsembleConfig,
    FitConfig,
    SamplerConfig,
    TrainingConfig,
    to_builtin,
)
from xtcl.errors import UsageError
from xtcl.tasks import make_task

KINDS = (BatchConfig, TrainingConfig, SamplerConfig, EncoderConfig, EnsembleConfig, FitConfig)
OLD_FIELDS: dict[Any, dict[str, Any]] = {
    FitConfig: {
        "least_chance": 0.8,
        "draws": 2,
        "link_draws": 3,
        "plans": (EnsembleConfig(attributes=0.3),),
        "doubt": 0.1,
        "sure": 0.9,
    },
    EnsembleConfig: {"members": (EncoderConfig({"width": 4}),)},
    EncoderConfig: {"caution": 2.0},
}


def with_old_names(value: Any) -> Any:
    """Plain settings as the last release wrote them."""
    old_of = {new: old for old, new in RENAMED.items()}
    if isinstance(value, dict):
        return {old_of.get(name, name): with_old_names(entry) for name, entry in value.items()}
    return [with_old_names(entry) for entry in value] if isinstance(value, list) else value


def test_every_old_name_leads_to_one_that_is_there() -> None:
    names = {name for kind in KINDS for name in dir(kind)}
    names |= {each.name for kind in KINDS for each in fields(kind)}
    assert set(RENAMED.values()) <= names
    assert not RENAMED.keys() & {each.name for kind in KINDS for each in fields(kind)}
    assert not RENAMED.keys() & set(RENAMED.values())


@pytest.mark.parametrize("task", ["nodes", "links"])
@pytest.mark.parametrize("encoder", ["gcn", "gat"])
def test_settings_that_the_last_release_stored_are_read(task: str, encoder: str) -> None:
    recipe = make_task(task).recipe(encoder)
    stored = json.loads(json.dumps(to_builtin(asdict(recipe))))
    old = with_old_names(stored)
    assert "plans" in old
    assert FitConfig.from_dict(old) == FitConfig.from_dict(stored) == recipe


def test_one_setting_under_both_names_is_refused() -> None:
    stored = to_builtin(asdict(FitConfig())) | {"doubt": 0.5}
    with pytest.raises(UsageError, match="'doubt' is the old name of 'downweight'"):
        FitConfig.from_dict(stored)


@pytest.mark.parametrize("kind", OLD_FIELDS)
def test_old_keywords_still_work_and_warn(kind: Any) -> None:
    for old, value in OLD_FIELDS[kind].items():
        message = f"{kind.__name__}: '{old}' is called '{RENAMED[old]}' now"
        new = kind(**{RENAMED[old]: value})
        with pytest.warns(DeprecationWarning, match=message) as heard:
            assert kind(**{old: value}) == new
        assert heard[0].filename == __file__
        with pytest.warns(DeprecationWarning, match=message):
            assert replace(kind(), **{old: value}) == new
        with pytest.warns(DeprecationWarning, match=message) as heard:
            assert getattr(new, old) == value
        assert heard[0].filename == __file__


def test_old_methods_still_work_and_warn() -> None:
    recipe = FitConfig()
    with pytest.warns(DeprecationWarning, match="'checked' is called 'validated' now"):
        assert recipe.checked() is recipe  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match="'each' is called 'map_encoders' now"):
        assert recipe.each(lambda each: each) == recipe
    with pytest.warns(DeprecationWarning, match="'literal' is called 'as_in_paper' now"):
        assert recipe.literal("gcn") == recipe.as_in_paper("gcn")
    with pytest.warns(DeprecationWarning, match="'from_plain' is called 'from_dict' now"):
        assert FitConfig.from_plain(asdict(recipe)) == recipe  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match="'steps' is called 'steps_per_epoch' now"):
        assert TrainingConfig().steps(9000) == 2  # type: ignore[attr-defined]


def test_an_unknown_keyword_is_still_an_error() -> None:
    with pytest.raises(TypeError, match="luck"):
        FitConfig(luck=1)  # type: ignore[call-arg]
    assert not hasattr(FitConfig(), "luck")
    assert config.__doc__
