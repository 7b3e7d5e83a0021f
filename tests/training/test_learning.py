"""Steps run over and over: seeded, on simulated dynamics or a file; the command draws what it found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import monet
from monet.cli import app
from monet.errors import MonetError
from monet.frontends import load_model
from monet.graph import Graph
from monet.numerics.dynamics import simulated
from monet.numerics.learning import LossCurve, data_for, initial_values, learn
from monet.report.learning import drawing, table

MLP = "mlp:widths=6-32-32-8"


def step_in(precision: Any = "fp32", model: str = MLP, **options: Any) -> Graph:
    return monet.training_step(load_model(model, batch=32), precision=precision, **{"optimizer": "adam", **options})


def curve(precision: Any, steps: int = 12, seed: int = 0) -> LossCurve:
    step = step_in(precision)
    return learn(step, data_for(step, seed=seed), steps, seed=seed)


def test_the_same_seed_gives_the_same_curve() -> None:
    policy = {"like": "mxfp4", "stochastic": ["gradient", "weight"]}
    assert curve(policy) == curve(policy)
    assert curve(policy).losses != curve(policy, seed=1).losses
    assert curve(policy).losses != curve({**policy, "seed": 3}).losses
    assert curve("mxfp8-square").losses != curve("mxfp8").losses


def test_a_cart_is_learned_and_coarser_formats_learn_less() -> None:
    """Targets have a variance of one, which is the loss of a model that knows nothing. Asked before it was run: below a
    third of it, MXFP8 within a fifth of fp32, MXFP4 no better than MXFP8."""
    exact, fine, coarse = (curve(name, 150) for name in ("fp32", "mxfp8", "mxfp4"))
    assert exact.losses[0] == pytest.approx(1.0, abs=0.4)
    assert exact.last() < 0.33
    assert fine.last() == pytest.approx(exact.last(), rel=0.2)
    assert coarse.last() > fine.last()


def test_draws_change_from_step_to_step() -> None:
    """With the same draws every time, what is rounded down would stay down: losses of a frozen step would be equal."""
    step = step_in({"like": "mxfp4", "stochastic": ["input"]}, learning_rate=0.0)
    data = {name: np.repeat(array[:1], 4, axis=0) for name, array in data_for(step).items()}
    assert len(set(learn(step, data, 4).losses)) == 4


def test_weights_start_as_pytorchs_do_whatever_the_formats() -> None:
    values = initial_values(step_in("fp32"))
    assert np.abs(values["2.weight"]).max() <= 32**-0.5
    assert values["2.weight"].std() == pytest.approx(32**-0.5 / 3**0.5, rel=0.1)
    for name, value in initial_values(step_in("mxfp8")).items():
        assert np.array_equal(value, values[name])
    norm = initial_values(monet.training_step(load_model("resnet18-cifar", batch=1)))
    scales = [name for name, value in norm.items() if name.endswith("bn1.weight") and (value == 1).all()]
    assert len(scales) > 3


def test_dynamics_are_those_of_their_equations() -> None:
    """A change of position is speed · time, exactly; one of the cart's speed goes with the force."""
    made = simulated("cart-pole", 6, 4, 5000, seed=0)
    features, targets = made
    assert features.mean(axis=0) == pytest.approx(np.zeros(6), abs=1e-9)
    assert targets.std(axis=0) == pytest.approx(np.ones(4))
    assert np.corrcoef(features[:, 1], targets[:, 0])[0, 1] == pytest.approx(1.0)
    assert np.corrcoef(features[:, 5], targets[:, 1])[0, 1] > 0.8
    arm = simulated("arm", 27, 40, 200, seed=1)
    assert arm.features.shape == (200, 27)
    assert arm.targets.shape == (200, 40)
    assert np.isfinite(arm.targets).all()


def test_data_of_a_file(tmp_path: Path) -> None:
    step, path = step_in(), tmp_path / "data.npz"
    x, label = step.inputs
    generator = np.random.default_rng(0)
    np.savez(path, **{x: generator.standard_normal((50, 6)), label: generator.standard_normal((50, 8))})
    assert len(learn(step, data_for(step, str(path)), 3).losses) == 3
    for arrays, said in (
        ({x: np.zeros((50, 6))}, f"has no array '{label}'; it has {x}"),
        ({x: np.zeros((50, 5)), label: np.zeros((50, 8))}, r"samples of \[6\] are needed"),
        ({x: np.zeros((50, 6)), label: np.zeros((40, 8))}, "different numbers of samples"),
        ({x: np.zeros((50, 6), int), label: np.zeros((50, 8))}, "holds int64, the model takes fp32"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(MonetError, match=said):
            data_for(step, str(path))
    path.write_text("no archive")
    with pytest.raises(MonetError, match="cannot read"):
        data_for(step, str(path))
    with pytest.raises(MonetError, match="it has 6 features"):
        data_for(step_in(model="mlp:widths=8-8-8"), "cart-pole")
    with pytest.raises(MonetError, match="allowed are cart-pole, arm"):
        data_for(step, "pendulum")
    with pytest.raises(MonetError, match="models from vectors to vectors"):
        data_for(monet.training_step(load_model("resnet18-cifar", batch=1)))


def test_a_loss_that_is_no_number_ends_it() -> None:
    step = step_in(optimizer="sgd", learning_rate=1e6)
    found = learn(step, data_for(step), 50, precision="fp32")
    assert found.diverged
    assert len(found.losses) < 50
    assert "diverged" in str(table([found]).rows)
    assert "steps 1 to" in drawing([found])


def test_the_command_compares_with_fp32(tmp_path: Path) -> None:
    path, page = tmp_path / "curve.json", tmp_path / "curve.html"
    given = ["train", MLP, "--precision", "mxfp8", "--steps", "5", "--json", str(path), "--report", str(page)]
    outcome = CliRunner().invoke(app, given)
    assert outcome.exit_code == 0, outcome.output
    written = json.loads(path.read_text())
    assert [one["precision"] for one in written["curves"]] == ["mxfp8", "fp32"]
    step = step_in("mxfp8")
    assert written["curves"][0]["losses"] == list(learn(step, data_for(step), 5).losses)
    assert "* mxfp8   · fp32" in outcome.output
    assert "mxfp8 ends at" in outcome.output
    assert "Plotly.newPlot" in page.read_text()
