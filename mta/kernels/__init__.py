"""Number work without a monoid, by whole columns: the place for compiled code.

- ``ranks``: many keys in sorted times
- ``scans``: a ufunc folded up to each row, and counts
- ``segments``: columns of many keys, one after the other, handled all at once
"""
