"""The optimal chunk size of PBA (KDD 2021 paper, section 4.3, theorems 1 and 2).

Write q for the slices that fit into a window whole, ⌊r/s⌋. At a boundary two tasks begin at once:
one folds the slices of the finished chunk from its end to its second one (b - 2 combines until
lcs[1] is there), the other goes on with the stream until the first window ends that needs lcs[1].
Until then q + 1 - b more slices arrive whole, and the r mod s of another. The chunk is as large as
it can be without the second task waiting for the first, and never larger than q, as a window must
not lie within one chunk:

- by count, time being the combine of a value: b - 2 <= (q + 1 - b) s - 1 + (r mod s). The first
  slice takes s - 1 combines, each later one another to join it to the csa;
- by time, a combine taking T_u: (b - 2) T_u <= (q + 1 - b) s + (q - b) T_u + C, where C, of a slice
  cut by the window's end, is (r mod s) + T_u. The printed C = "s(r mod s) + 1 T_u" has a factor s
  too many, with which it would not be a time.

>>> count_chunk_size(10, 2), count_chunk_size(16, 1), count_chunk_size(32, 1)
(4, 9, 17)
"""

from __future__ import annotations

from fractions import Fraction


def count_chunk_size(range: int, slide: int) -> int:
    """Theorem 1: slices a chunk for a window of ``range`` values that slides by ``slide``."""
    q, rest = divmod(range, slide)
    if q <= slide + rest + 1:
        return q
    return (slide * (q + 1) + rest + 1) // (slide + 1)


def time_chunk_size(range: int, slide: int, combine_time: float | Fraction) -> int:
    """Theorem 2: slices a chunk for a window of time; all three in the same unit.

    ``combine_time`` is T_u, what one combine takes.
    """
    q, rest = divmod(range, slide)
    unit = Fraction(combine_time)
    cut = rest + unit if rest else Fraction(0)
    if unit == 0 or q <= (slide + 2 * unit + cut) / unit:
        return q
    return int((q * (slide + unit) + slide + 2 * unit + cut) // (slide + 2 * unit))
