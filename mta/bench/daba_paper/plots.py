"""The plots that only the in-order experiments have: rounds one by one."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from mta.bench.frame.experiment import Rows, where
from mta.bench.frame.plots import dress, legend, look

OPERATORS = ("Sum", "GeoMean", "Bloom")
#: Whose rounds are drawn: the paper's three, and Two-Stacks, which they do without.
SHOWN = ("TwoStacks", "FOA", "IOA", "DABA", "DABALite")


def draw_rounds(rows: Rows) -> Figure:
    """Figure 13, top: the slowest round of each stretch of rounds."""
    figure = Figure(figsize=(13, 4))
    for axes, operator in zip(figure.subplots(1, 3), OPERATORS, strict=True):
        for number, name in enumerate(SHOWN):
            (row,) = where(rows, operator=operator, algorithm=name)
            slowest = [int(text) for text in str(row["slowest"]).split()]
            at = np.linspace(0, row["rounds"], len(slowest), endpoint=False)
            axes.plot(at, slowest, lw=0.8, label=name, **look(number))
        dress(axes, ("round", "slowest of a stretch, ns"), ("linear", "log"))
        axes.set_title(operator)
    legend(figure)
    return figure
