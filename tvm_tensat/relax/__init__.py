"""Relax functions to e-graphs and back.

`plan` divides a function into segments, `reader` makes a segment e-nodes of the `language`,
`writer` makes chosen e-nodes bindings again; `fold` computes on weights; `kernels` makes one
operator a module that can be timed.
"""
