"""Normalizations recognized from arithmetic, and what they take in or share.

m, v are mean and variance of x along the axes of the norm, s and t weights.

    (x - m)·1/√(v + ε)      =  layer_norm(x)             layer_norm_written_out, ..._by_variance
    x·1/√(mean(x·x) + ε)    =  rms_norm(x)               rms_norm_written_out
    norm(x; γ, β)·s         =  norm(x; γs, βs)           scaled_norm, scaled_rms_norm
    norm(x; γ, β) + t       =  norm(x; γ, β + t)         shifted_norm
    norms of one x          =  scales, shifts of one     norms_of_one_input
    exp(x)/Σ exp(x)         =  softmax(x)                softmax_written_out
    softmax(x - c)          =  softmax(x)                softmax_of_difference
    log(softmax(x))         =  log_softmax(x)            log_of_softmax

Quotients by roots and squares become products and reciprocal roots first (`elementwise`). All are
`REAL`: TVM's norms compute the variance as mean(x²) - mean(x)², in one pass.

Good for: models whose exporters know no norms (ONNX before opset 17, HuggingFace's RMSNorm): five
kernels become one, 128 x 768 on one core 0.134 -> 0.036 ms (layer_norm), 0.091 -> 0.034 (rms_norm),
512 x 512 1.5 -> 0.9 (softmax).

Left out: γ and β moved into the product that follows a single norm. The kernel of the norm reads
them for nothing, so it saves no time.
"""

from __future__ import annotations

from collections.abc import Hashable

from tvm_tensat.egraph.rule import REAL, Rule, Term, group_rule, refuse, rule
from tvm_tensat.rules.common import Apply, for_each, need_inputs, need_weights
from tvm_tensat.rules.operators import (
    add,
    broadcast_to,
    divide,
    exp,
    group_norm,
    instance_norm,
    layer_norm,
    log,
    log_softmax,
    mean,
    moved,
    multiply,
    rms_norm,
    rsqrt,
    scalar,
    softmax,
    subtract,
    sum_,
    variance,
)

NORMED = ("float16", "float32")  # dtypes of which TVM lowers norms with a mean


def _need_kept(*reductions: Term) -> None:
    """Refuse reductions that drop their axes, or that are not all over the same last axes."""
    x = reductions[0].operands[0]
    for each in reductions:
        if not each.keepdims or each.axis != reductions[0].axis:
            refuse("reduced along different axes, or axes are dropped")
    if reductions[0].axis != tuple(range(x.ndim - len(reductions[0].axis), x.ndim)):
        refuse("not along the last axes")


def _epsilon(c: Term) -> float:
    if c.value is None or not 0 <= c.value < float("inf"):
        refuse("no constant is added to the variance")
    return float(c.value)


def _full(number: float, x: Term, axes: tuple[int, ...]) -> Term:
    """Return a weight that fills these axes of x with a number."""
    return broadcast_to(scalar(number, x.dtype), shape=tuple(x.sizes[axis] for axis in axes))


@rule(keeps=REAL, dtypes=NORMED)
def layer_norm_written_out(x, eps):
    """What is less its mean, over the root of its mean square, is a layer norm."""
    center = mean(x)
    centered = subtract(x, center)
    spread = mean(multiply(centered, centered))
    yield multiply(centered, rsqrt(add(spread, eps)))
    _need_kept(center, spread)
    yield _layer_norm(x, center.axis, eps)


@rule(keeps=REAL, dtypes=NORMED)
def layer_norm_by_variance(x, eps):
    """What is less its mean, over the root of its variance, is a layer norm."""
    center, spread = mean(x), variance(x)
    yield multiply(subtract(x, center), rsqrt(add(spread, eps)))
    _need_kept(center, spread)
    yield _layer_norm(x, center.axis, eps)


def _layer_norm(x: Term, axes: tuple[int, ...], eps: Term) -> Term:
    ones, zeros = _full(1.0, x, axes), _full(0.0, x, axes)
    return layer_norm(x, ones, zeros, axes=list(axes), epsilon=_epsilon(eps))


@rule(keeps=REAL)
def rms_norm_written_out(x, eps):
    """What is divided by the root of its mean square is a norm by the root mean square."""
    square = mean(multiply(x, x))
    yield multiply(x, rsqrt(add(square, eps)))
    _need_kept(square)
    axes = square.axis
    if len(axes) == x.ndim:
        refuse("TVM lowers no norm by the root mean square along all axes")
    yield rms_norm(x, _full(1.0, x, axes), axes=list(axes), epsilon=_epsilon(eps))


# -- scales and shifts -------------------------------------------------------------------------


def _scale_axis(norm: Term) -> int:
    """Return the axis along which a norm scales; refuse several."""
    if norm.name in ("relax.nn.group_norm", "relax.nn.instance_norm"):
        return int(norm.channel_axis)
    if len(norm.axes) != 1:
        refuse("normalized along several axes")
    return int(norm.axes[0])


def _along(norm: Term, s: Term) -> Term:
    """Return a weight that meets a norm as a vector along the axis that it scales, or a scalar."""
    need_weights(s)
    return moved(s, norm.ndim, _scale_axis(norm), 1, 0)


def _scaled_norm(apply: Apply) -> Rule:
    @rule(keeps=REAL, dtypes=NORMED)
    def scaled_norm(x, gamma, beta, s):
        """A scale of a norm scales its own scale and shift."""
        norm = apply(x, gamma, beta)
        scaled = multiply(norm, s)
        yield scaled
        need_inputs(x)
        factor = _along(norm, s)
        yield norm.on(x, multiply(gamma, factor), multiply(beta, factor))

    return scaled_norm


def _shifted_norm(apply: Apply) -> Rule:
    @rule(keeps=REAL, dtypes=NORMED)
    def shifted_norm(x, gamma, beta, t):
        """A shift of a norm shifts its own shift."""
        norm = apply(x, gamma, beta)
        yield add(norm, t)
        need_inputs(x)
        yield norm.on(x, gamma, add(beta, _along(norm, t)))

    return shifted_norm


NORMS: tuple[Apply, ...] = (layer_norm, group_norm, instance_norm)
scaled_norm = for_each(NORMS, _scaled_norm)
shifted_norm = for_each(NORMS, _shifted_norm)


@rule(keeps=REAL)
def scaled_rms_norm(x, gamma, s):
    """A scale of a norm by the root mean square scales its own scale."""
    norm = rms_norm(x, gamma)
    yield multiply(norm, s)
    need_inputs(x)
    yield norm.on(x, multiply(gamma, _along(norm, s)))


def _alike(norm: Term) -> Hashable:
    need_inputs(norm.operands[0])
    need_weights(*norm.operands[1:])
    return _scale_axis(norm)


@group_rule(keeps=REAL, alike=_alike, dtypes=NORMED)
def norms_of_one_input(x, gamma, beta):
    """Norms of one input are one norm, scaled and shifted."""
    norms = yield layer_norm(x, gamma, beta)
    first = norms[0]
    plain = first.on(x, _full(1.0, x, first.axes), _full(0.0, x, first.axes))
    if first.axes != (x.ndim - 1,):
        refuse("not along the last axis")
    yield [add(multiply(plain, norm.operands[1]), norm.operands[2]) for norm in norms]


# -- softmax -----------------------------------------------------------------------------------


@rule(keeps=REAL)
def softmax_written_out(x):
    """Exponentials over their sum are a softmax."""
    powers = exp(x)
    total = sum_(powers)
    yield divide(powers, total)
    if not total.keepdims or len(total.axis) != 1:
        refuse("summed along several axes, or the axis is dropped")
    yield softmax(x, axis=total.axis[0])


@rule(keeps=REAL)
def softmax_of_difference(x, c):
    """What is taken from all elements that softmax compares makes no difference to it."""
    shifted = subtract(x, c)
    normalized = softmax(shifted)
    yield normalized
    if shifted.shape != x.shape:
        refuse("the shift broadcasts what it shifts")
    need_inputs(c)
    axis = normalized.axis - (x.ndim - c.ndim)
    if axis >= 0 and c.shape[axis] != 1:
        refuse("the shift varies along the axis of softmax")
    yield normalized.on(x)


@rule(keeps=REAL)
def log_of_softmax(x):
    """The logarithm of a softmax is a log_softmax."""
    normalized = softmax(x)
    yield log(normalized)
    yield log_softmax(x, axis=normalized.axis)
