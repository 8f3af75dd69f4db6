"""Numeric operations on whole columns without monoids; the only package with compiled code.

- ``native``: the compiled kernels, if they are installed. The C sources are ``monoids.h`` (partials
  and combine), ``folds.h`` (scans, Two-Stacks, ranges), ``keys.c`` (searches for keys in pages),
  ``ranges.c`` (ranges of many buffers), ``single.c`` (single events), ``times.c`` (searches in
  times) and ``module.c`` (the Python interface)
- ``ranges``: ranges of many buffers, and shortened integers
- ``scans``: scans with a ufunc, and columns of ones
- ``segments``: operations on the segments of many keys together, and searches in times
- ``wavelets``: order statistics of many ranges of a column
"""
