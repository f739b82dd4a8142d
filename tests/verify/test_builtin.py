"""Examples can be drawn for every built-in rule, so that `tvmc rules verify` speaks of it."""

from __future__ import annotations

import pytest

from tvm_tensat.rules import all_rules
from tvm_tensat.verify import HOLDS, verify

# Rules for which no example is proposed yet. Their own tests in tests/rules draw examples by hand.
NOT_DRAWN = {
    "wants particular numbers among its constants": (
        "fast_gelu_written_out",
        "gelu_written_out",
        "gelu_tanh_written_out",
        "power_of_three",
    ),
    "convolutions of volumes are not proposed": (
        "pointwise_convolution[conv3d]",
        "scaled_convolution[conv3d]",
        "convolution_of_scaled_channels[conv3d]",
        "shift_moves_outward[conv3d]",
        "padded_convolution[conv3d]",
    ),
    "these norms are not proposed": (
        "scaled_norm[group_norm]",
        "scaled_norm[instance_norm]",
        "shifted_norm[group_norm]",
        "shifted_norm[instance_norm]",
    ),
    "wants a number in place of an operand, one constant index, or one scale": (
        "number_as_constant",
        "take_of_one",
        "permuted_dequantized",
        "quantized_permutation",
        "reshaped_dequantized",
        "sliced_dequantized",
        "joined_dequantized",
        "quantized_again",
    ),
    "wants shapes, dtypes or subscripts that fit by rare chance": (
        "einsum_as_product",
        "product_of_casts",
        "product_with_repeated_batches",
        "product_with_repeated_transposes",
    ),
}


def why_not_drawn(name: str) -> str:
    """Return why no example of a rule is drawn; empty where one is."""
    family = name.split("[")[0]
    reasons = [why for why, names in NOT_DRAWN.items() if name in names or family in names]
    return reasons[0] if reasons else ""


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_an_example_is_drawn_and_the_rule_holds_on_it(rule):
    if why := why_not_drawn(rule.name):
        pytest.skip(why)
    verdict = verify(rule, examples=1, compiled=0, seconds=60.0)
    assert verdict.status == HOLDS, str(verdict)
