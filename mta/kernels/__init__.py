"""Number work without a monoid, by whole columns: the place for compiled code.

- ``native``: the compiled kernels, if they are there, and which are in use; in C:
  ``monoids.h`` (what a partial is, and combine), ``folds.h`` (scans, Two-Stacks, ranges),
  ``keys.c`` (keys among those of pages), ``ranges.c`` (ranges out of many buffers), ``single.c``
  (single events), ``times.c`` (searches), ``module.c`` (as Python calls them)
- ``ranges``: ranges out of many buffers, and short integers
- ``scans``: a ufunc folded up to each row, and counts
- ``segments``: columns of many keys, one after the other, handled all at once; searches in times
- ``wavelets``: order statistics of many ranges of a column
"""
