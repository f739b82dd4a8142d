"""Normalization as it is at inference.

    batch_norm(x)[0]          =  x s + t            batch_norm_as_scale_and_shift
                                 s = γ / √(variance + ε)
                                 t = β - mean s
    batch_norm(x)[1], [2]     =  mean, variance     batch_norm_keeps_mean, batch_norm_keeps_variance
    dropout(x)[0]             =  x                  dropout_is_identity
    softmax(x + c)            =  softmax(x)         softmax_of_shifted

TVM computes batch_norm(x)[0] as (x - mean) / √(variance + ε) γ + β: the operations and their order
differ, so it is `REAL`. γ, β, mean and variance are usually weights, and so then are s and t.
"""

from __future__ import annotations

from math import isfinite

from tvm_tensat.egraph.rule import ANY, EXACT, REAL, Term, refuse, rule
from tvm_tensat.rules.operators import (
    add,
    batch_norm,
    divide,
    dropout,
    multiply,
    reshape,
    scalar,
    softmax,
    sqrt,
    subtract,
)


def _need_inference(norm: Term) -> None:
    if norm.training:
        refuse("normalizes by the statistics of the batch")


@rule(keeps=REAL)
def batch_norm_as_scale_and_shift(x, gamma, beta, mean, variance):
    """At inference, batch normalization scales and shifts each channel."""
    norm = batch_norm(x, gamma, beta, mean, variance)
    yield norm[0]
    _need_inference(norm)
    spread = sqrt(add(variance, scalar(norm.epsilon, variance.dtype)))
    factor = divide(gamma, spread) if norm.scale else divide(scalar(1.0, x.dtype), spread)
    shift = multiply(mean, factor)
    shift = subtract(beta, shift) if norm.center else subtract(scalar(0.0, x.dtype), shift)
    shape = tuple(x.shape[axis] if axis == norm.axis else 1 for axis in range(x.ndim))
    yield add(multiply(x, reshape(factor, shape=shape)), reshape(shift, shape=shape))


@rule(keeps=EXACT)
def batch_norm_keeps_mean(x, gamma, beta, mean, variance):
    """At inference, batch normalization returns the running mean as it was."""
    norm = batch_norm(x, gamma, beta, mean, variance)
    yield norm[1]
    _need_inference(norm)
    yield mean


@rule(keeps=EXACT)
def batch_norm_keeps_variance(x, gamma, beta, mean, variance):
    """At inference, batch normalization returns the running variance as it was."""
    norm = batch_norm(x, gamma, beta, mean, variance)
    yield norm[2]
    _need_inference(norm)
    yield variance


@rule(keeps=EXACT, dtypes=ANY)
def dropout_is_identity(x):
    """At inference, dropout drops nothing."""
    yield dropout(x)[0]
    yield x


@rule(keeps=REAL)
def softmax_of_shifted(x, c):
    """A shift of all elements that softmax compares makes no difference to it."""
    shifted = add(x, c)
    normalized = softmax(shifted)
    yield normalized
    if shifted.shape != x.shape:
        refuse("the shift broadcasts what it shifts")
    if c.value is not None and not isfinite(c.value):
        refuse("an infinite shift")
    axis = normalized.axis - (x.ndim - c.ndim)
    if axis >= 0 and c.shape[axis] != 1:
        refuse("the shift varies along the axis of softmax")
    yield normalized.on(x)
