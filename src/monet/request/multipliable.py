"""Whether some core multiplies what a microscaling policy asks for: said before anything is scheduled."""

from __future__ import annotations

from monet.errors import OptionError, nearest
from monet.hardware.accelerator import Accelerator
from monet.request.request import Request
from monet.transforms.precision import POLICIES, Precision, precision_named
from monet.transforms.product_formats import OPERANDS


def check_formats(request: Request) -> None:
    """Raise if no core of the hardware multiplies the formats of a product of the policy, with policies that it can."""
    policy = precision_named(request.inlined().precision or "fp32")
    if policy.products is None or "*" in policy.products.exempt:
        return
    accelerator, inference = request.accelerator(), request.mode == "inference"
    missing = _missing(policy, accelerator, inference)
    if not missing:
        return
    able = [name for name, other in POLICIES.items() if other.products and not _missing(other, accelerator, inference)]
    has = dict.fromkeys("×".join(rate.inputs) for core in accelerator.cores for rate in core.core.rates)
    hint = nearest(policy.name, able)
    more = f"; {hint}" if hint.startswith("did") else ""
    instead = (
        f"policies that it can: {', '.join(able)}{more}" if able else f"its arrays have {', '.join(has) or 'none'}"
    )
    raise OptionError("precision", policy.name, f"no core of {accelerator.name} multiplies {missing}; {instead}")


def _missing(policy: Precision, accelerator: Accelerator, inference: bool) -> str:
    """Formats of the first product that no core multiplies, on its array or on lanes; empty if there is none."""
    assert policy.products is not None
    for product, operands in OPERANDS.items():
        narrow = [policy.products.format_of(product, operand) for operand in operands]
        first, second = (name or policy.working for name in narrow)
        if any(narrow) and all(instance.core.cannot_multiply(first, second) for instance in accelerator.cores):
            return f"{first}×{second}"
        if inference:
            break
    return ""
