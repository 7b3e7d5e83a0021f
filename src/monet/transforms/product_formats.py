"""Policies of microscaling training: the format of every operand of a product, when it is made, what is kept of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from monet.block_scaling import RULES
from monet.errors import MonetError, nearest
from monet.formats import FORMATS, is_format, unknown_format

KEEP = ("narrow", "both", "wide")
PLACES = ("consumer", "producer")
IM2COL = ("before", "after")
WEIGHT_GRADIENTS = ("batch", "positions")
OPERANDS = {
    "forward": ("input", "weight"),
    "input_gradient": ("gradient", "weight"),
    "weight_gradient": ("input", "gradient"),
}


@dataclass(frozen=True, slots=True)
class ProductFormats:
    """What operands of products are held in. Everything else (master weights, optimizer state, norms, softmax, sums of
    products, gradients of weights) stays in the wide format of the ``Precision``.

    ``formats`` has, for each product, the format of each operand; "" leaves it wide. Of a format in runs (1x32) a run
    lies along what the product sums over; a square lies over that and the axis across it, so one serves both.

    ``keep_inputs`` and ``keep_weights`` say what waits for the backward pass where that needs another copy than the
    forward pass: ``both`` copies are made from the wide value in the forward pass, ``narrow`` makes the second one from
    the first (values are rounded twice), ``wide`` makes it from the wide value when it is needed. ``place``: a copy is
    made before its first ``consumer``, or behind its ``producer``.

    ``im2col``: a convolution's operands are grouped before (along channels) or after the patches are laid out
    (along channels and taps). ``weight_gradients`` of a convolution in runs are grouped along the ``batch``, or
    along all ``positions`` of all samples, which lays out patches.
    """

    formats: Mapping[tuple[str, str], str]
    keep_inputs: str = "both"
    keep_weights: str = "both"
    place: str = "consumer"
    rule: str = "floor"
    stochastic: tuple[str, ...] = ()
    seed: int = 0
    accumulator: tuple[int, int] | None = None
    im2col: str = "before"
    weight_gradients: str = "batch"
    exempt: tuple[str, ...] = ()
    padding: bool = True

    def __hash__(self) -> int:
        return hash((tuple(self.formats.items()), self.place, self.rule, self.exempt))

    def format_of(self, product: str, operand: str) -> str:
        """The format of an operand ("input", "weight" or "gradient") of a product, or "" if it stays wide."""
        return self.formats.get((product, operand), "")

    @property
    def narrow(self) -> tuple[str, ...]:
        """All formats of operands, each once."""
        return tuple(dict.fromkeys(filter(None, self.formats.values())))


def everywhere(family: str, *, gradient: str = "", weight: str = "", **more: Any) -> ProductFormats:
    """Every operand in one format; operands that are gradients or weights in another, if it is given."""
    own = {"input": family, "gradient": gradient or family, "weight": weight or family}
    pairs = ((product, operand) for product, operands in OPERANDS.items() for operand in operands)
    return ProductFormats({pair: FORMATS[own[pair[1]]].mode for pair in pairs}, **more)


def _named() -> dict[str, ProductFormats]:
    """Vector and square flavours. MXFP8 has E4M3 for all operands (arXiv 2506.08027), the mixed one E5M2 for gradients
    (arXiv 2209.05433). NVFP4 as in arXiv 2509.25149: weights in squares of 16, gradients rounded stochastically; its
    Hadamard transform is left out."""
    families = {
        "mxfp8": ("mxfp8_e4m3", ""), "mxfp8-e5m2": ("mxfp8_e5m2", ""), "mxfp8-mixed": ("mxfp8_e4m3", "mxfp8_e5m2"),
        "mxfp6": ("mxfp6_e3m2", ""), "mxfp6-e2m3": ("mxfp6_e2m3", ""), "mxfp4": ("mxfp4_e2m1", ""),
        "mxint8": ("mxint8", ""), "mx9": ("mx9", ""), "mx6": ("mx6", ""), "mx4": ("mx4", ""),
    }  # fmt: skip
    found = {}
    for name, (family, gradient) in families.items():
        found[name] = everywhere(family, gradient=gradient)
        square = everywhere(f"{family}[8x8]", gradient=f"{gradient}[8x8]" if gradient else "")
        found[f"{name}-square"] = square
    found["nvfp4"] = everywhere("nvfp4", weight="nvfp4[16x16]", stochastic=("gradient",))
    found["nvfp4-square"] = everywhere("nvfp4[16x16]", stochastic=("gradient",))
    return found


NAMED = _named()


# --- plain values -----------------------------------------------------------------------------------------------------

KEYS = (
    "like", *OPERANDS, "keep", "place", "scale_rule", "stochastic", "seed", "accumulator_bits", "accumulator_terms",
    "im2col", "weight_gradients", "exempt", "padding",
)  # fmt: skip


class PolicyError(MonetError):
    """A policy that cannot be, with the place where it says so."""


def product_formats_of(values: Mapping[str, Any], source: str) -> ProductFormats:
    """From plain values; ``like`` names a policy to begin with. Anything unknown is an error that names its place."""
    for key in values:
        _one_of(key, KEYS, f"{source}: unknown key")
    base = ProductFormats({})
    if "like" in values:
        base = NAMED[_one_of(values["like"], NAMED, f"{source}: like")]
    formats = dict(base.formats)
    for product, operands in OPERANDS.items():
        for operand, name in _mapping(values.get(product, {}), f"{source}: {product}").items():
            where = f"{source}: {product}.{operand}"
            formats[product, _one_of(operand, operands, where)] = _operand_format(name, where)
    keep = _mapping(values.get("keep", {}), f"{source}: keep")
    for key in keep:
        _one_of(key, ("inputs", "weights"), f"{source}: keep")
    changed: dict[str, Any] = {"formats": formats}
    for field, given, allowed, key in (
        ("keep_inputs", keep.get("inputs"), KEEP, "keep.inputs"),
        ("keep_weights", keep.get("weights"), KEEP, "keep.weights"),
        ("place", values.get("place"), PLACES, "place"), ("rule", values.get("scale_rule"), RULES, "scale_rule"),
        ("im2col", values.get("im2col"), IM2COL, "im2col"),
        ("weight_gradients", values.get("weight_gradients"), WEIGHT_GRADIENTS, "weight_gradients"),
    ):  # fmt: skip
        if given is not None:
            changed[field] = _one_of(given, allowed, f"{source}: {key}")
    if "stochastic" in values:
        named = _texts(values["stochastic"], f"{source}: stochastic")
        changed["stochastic"] = tuple(_one_of(name, _ROLES, f"{source}: stochastic") for name in named)
    if "exempt" in values:
        changed["exempt"] = _texts(values["exempt"], f"{source}: exempt")
    if "padding" in values:
        changed["padding"] = _one_of(values["padding"], ("allowed", "refused"), f"{source}: padding") == "allowed"
    if "seed" in values:
        changed["seed"] = _whole(values["seed"], 0, 2**32, f"{source}: seed")
    bits = values.get("accumulator_bits")
    if bits is not None:
        terms = _whole(values.get("accumulator_terms", 1), 1, 4096, f"{source}: accumulator_terms")
        changed["accumulator"] = (_whole(bits, 1, 52, f"{source}: accumulator_bits"), terms)
    elif "accumulator_terms" in values:
        raise PolicyError(f"{source}: accumulator_terms: give accumulator_bits too, the bits of fraction that are kept")
    return replace(base, **changed)


def plain_values(policy: ProductFormats) -> dict[str, Any]:
    """What ``product_formats_of`` makes the same policy of."""
    values: dict[str, Any] = {
        product: {operand: policy.format_of(product, operand) for operand in operands}
        for product, operands in OPERANDS.items()
    }
    values |= {
        "keep": {"inputs": policy.keep_inputs, "weights": policy.keep_weights}, "place": policy.place,
        "scale_rule": policy.rule, "stochastic": list(policy.stochastic), "seed": policy.seed, "im2col": policy.im2col,
        "weight_gradients": policy.weight_gradients, "exempt": list(policy.exempt),
        "padding": "allowed" if policy.padding else "refused",
    }  # fmt: skip
    if policy.accumulator:
        values |= {"accumulator_bits": policy.accumulator[0], "accumulator_terms": policy.accumulator[1]}
    return values


_ROLES = ("input", "weight", "gradient")


def _operand_format(name: Any, where: str) -> str:
    if name in ("", "wide", None):
        return ""
    grouped = [known for known, entry in FORMATS.items() if entry.element]
    if not isinstance(name, str) or not is_format(name):
        raise PolicyError(f"{where}: {unknown_format(str(name))}")
    entry = FORMATS[name]
    if entry.element is None:
        raise PolicyError(f"{where}: {name} shares no scales; allowed are {', '.join(grouped)}, or wide")
    return entry.mode


def _one_of(given: Any, allowed: Any, where: str) -> str:
    names = tuple(allowed)
    if given not in names:
        hint = nearest(str(given), names)
        more = "" if hint.startswith("allowed") else f"allowed are {', '.join(names)}; "
        raise PolicyError(f"{where} {given!r}: {more}{hint}")
    return str(given)


def _mapping(given: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise PolicyError(f"{where}: expected a mapping, got {given!r}")
    return given


def _texts(given: Any, where: str) -> tuple[str, ...]:
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise PolicyError(f"{where}: expected a list of texts, got {given!r}")
    return tuple(listed)


def _whole(given: Any, least: int, most: int, where: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= most:
        raise PolicyError(f"{where}: a whole number from {least} to {most} is needed, got {given!r}")
    return given
