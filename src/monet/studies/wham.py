"""WHAM's claims on our evaluator: mining for training, against designs made by hand, mined for inference, or found by
black-box search; one design for several models; core counts by criticality against an exact solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from monet.report.html.study import Panel
from monet.report.mining import parameters_text
from monet.report.quantities import percent, times
from monet.report.table import Heading, TextTable
from monet.search.mining.comparison import Beside, beside_of, within
from monet.search.mining.methods import mine_by
from monet.search.mining.mine import Mining, Problem, mine
from monet.search.mining.templates import load_template
from monet.sources import cache_directory
from monet.studies.findings import Finding, findings_html, findings_table
from monet.studies.study import Options, Outcome

TEMPLATE = "wham"
# The paper's single-device workloads, as remembered; the published list could not be read. Fewer at low effort.
MODELS = ("resnet18", "bert-base", "mobilenetv3", "vgg16", "resnext101", "bert-large", "inceptionv3", "gnmt")
MODELS_BY_EFFORT = {1: 2, 2: 2, 3: 3, 4: 4}
EVALUATIONS_BY_EFFORT = {1: 8, 2: 12, 3: 16, 4: 24}
CLOSE = 1.01


def run(options: Options) -> Outcome:
    """Mine every workload, set the paper's claims beside what comes out."""
    from monet.frontends.zoo import is_zoo

    models = [model for model in MODELS if is_zoo(model)][: MODELS_BY_EFFORT.get(options.effort, len(MODELS))]
    budget = EVALUATIONS_BY_EFFORT.get(options.effort, 40)
    mined, beside, others = {}, {}, {}
    for model in models:
        options.say(f"mining {TEMPLATE} for {model}")
        problem, store = _problem((model,)), _store(options, model)
        mined[model] = mine(problem, store, evaluations=budget, jobs=options.jobs, resume=True, front=False)
        beside[model] = beside_of(mined[model], store, options.jobs, hand=True, inference=True)
        options.say(f"the Bayesian search for {model}")
        others[model] = mine_by(
            "spotlight", problem, store, evaluations=budget, seed=options.seed, jobs=options.jobs, resume=True
        )
    options.say("one design for all of them")
    common = mine(
        _problem(models), _store(options, "common"), evaluations=budget, jobs=options.jobs, resume=True, front=False
    )
    findings = [
        _search(mined, others),
        _against(beside, mined, "mined for inference", "12×", "throughput over designs mined for inference"),
        _against(beside, mined, "tpu-like", "+12 %", "throughput over a TPU-like design"), _common(common, mined),
    ]  # fmt: skip
    rows = [_row(model, mined[model], beside[model]) for model in models]
    heads: Sequence[Heading | str] = (
        "model", "samples/s", "gap", "TPU-like", "A100-like", "NVDLA-like", "inference's", Heading("design", "prose"),
    )  # fmt: skip
    designs = TextTable("Mined designs; what others reach of their throughput", heads, rows)
    values: dict[str, Any] = {
        "findings": [asdict(each) for each in findings],
        "designs": {model: dict(found.best.values) for model, found in mined.items() if found.best},
    }
    title = f"WHAM's claims on {len(models)} of its models ({budget} evaluations each)"
    table = findings_table(title, findings)
    return Outcome(title, values, (table, designs), (), (Panel("Findings", body=findings_html(findings)),))


def _problem(models: Sequence[str]) -> Problem:
    template = load_template(TEMPLATE)
    workloads = {f"m_{model.replace('-', '_')}": template.workload({"model": model, "batch": 4}) for model in models}
    return Problem(template, workloads, template.limits)


def _store(options: Options, name: str) -> str:
    from monet.schedule.evaluation import model_version

    folder = Path(options.store) if options.store else cache_directory() / "studies"
    folder.mkdir(parents=True, exist_ok=True)
    version = model_version().replace("/", "-").replace(" ", "")
    return str(folder / f"wham-{name}-{version}.sqlite")


def _cost(found: Mining) -> float:
    assert found.best is not None
    return found.cost(found.best)


def _search(mined: dict[str, Mining], others: dict[str, Mining]) -> Finding:
    ratios, said = [], []
    for model, found in mined.items():
        target = CLOSE * min(_cost(found), _cost(others[model]))
        ours, theirs = (within(each.records, each.problem, target) for each in (found, others[model]))
        spent = theirs or len(others[model].records)
        ratios.append(spent / (ours or len(found.records)))
        said.append(f"{model} {ours or 'not'} against {theirs or f'over {spent}'}")
    mean = sum(ratios) / len(ratios)
    text = f"evaluations to within 1 %: {', '.join(said)}; {times(mean)} fewer at least"
    return Finding("search effort against a Spotlight-like search", "31× less", text, mean > 1, {"ratios": ratios})


def _against(
    beside: dict[str, list[Beside]], mined: dict[str, Mining], name: str, published: str, claim: str
) -> Finding:
    gains = {
        model: each.cost / _cost(mined[model]) for model, found in beside.items() for each in found if each.name == name
    }
    if not gains:
        return Finding(claim, published, "no such design within the limits", False, {})
    mean = sum(gains.values()) / len(gains)
    each = ", ".join(f"{model} {times(gain)}" for model, gain in gains.items())
    return Finding(claim, published, f"{times(mean)} in the mean: {each}", mean > CLOSE, {"gain": gains})


def _common(common: Mining, mined: dict[str, Mining]) -> Finding:
    assert common.best is not None
    losses = {}
    for name, (model, own) in zip(common.problem.workloads, mined.items(), strict=True):
        assert own.best is not None
        latency = next(value for key, value in own.best.metrics.items() if key.endswith(".latency_s"))
        losses[model] = 1 - latency / common.best.metrics[f"{name}.latency_s"]
    each = ", ".join(f"{model} loses {percent(max(0.0, loss))}" for model, loss in losses.items())
    return Finding(
        "one design for several models", "a common design comes close to individual ones", each,
        max(losses.values()) < 0.2, {"losses": losses},
    )  # fmt: skip


def _row(model: str, found: Mining, beside: Sequence[Beside]) -> tuple[str, ...]:
    assert found.best is not None
    reach = {each.name: percent(_cost(found) / each.cost) for each in beside}
    rate = 4 / next(value for key, value in found.best.metrics.items() if key.endswith(".latency_s"))
    others = (reach.get(name, "") for name in ("tpu-like", "a100-like", "nvdla-like", "mined for inference"))
    return model, f"{rate:,.4g}", percent(found.gap or 0.0), *others, parameters_text(found, found.best)
