"""Pictures of models and e-graphs as SVG, for notebooks and reports.

>>> from tvm_tensat.draw import draw_change
>>> draw_change(before, after).save("change.svg")

`Picture` is what they return: notebooks show it, ``picture.save("file.svg")`` writes it. `svg` has
the elements, `layered` the layout, `graph` the two together.
"""

from tvm_tensat.draw.change import draw_change, draw_function
from tvm_tensat.draw.egraph import draw_egraph
from tvm_tensat.draw.svg import Picture

__all__ = ["Picture", "draw_change", "draw_egraph", "draw_function"]
