"""Numeric operations on whole columns without monoids; the only package with compiled code.

- ``native``: folds, scans, ranges of buffers and segments, in C if compiled, otherwise in numpy.
  The C sources are ``monoids.h`` (partials and combine), ``folds.h`` (scans, Two-Stacks, ranges),
  ``keys.c`` (searches for keys in pages), ``ranges.c`` (ranges of many buffers), ``single.c``
  (single events), ``times.c`` (searches in times) and ``module.c`` (the Python interface)
"""
