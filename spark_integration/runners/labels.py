"""Labels of buckets, by which Spark spreads them evenly over its partitions.

Spark puts a group into the partition ``pmod(hash(key), partitions)``. The hashes of the numbers 0
to 63 are unevenly spread: of 64 buckets in 8 partitions, one partition would have 12, and the batch
would wait for it. So Spark does not group by the number of a bucket but by its label, the whole
number whose hash is the bucket's number. Then the partition is ``bucket % partitions``, for any
number of partitions.

The hash is Murmur3 (32 bits, seed 42) of the label's two words. Every step of the hash can be
inverted, so each number has exactly one label whose upper word is 0.
"""

from __future__ import annotations

from functools import cache

#: The type of labels, as Spark writes it.
LABEL_TYPE = "bigint"
_SEED, _BYTES, _WORD = 42, 8, 0xFFFFFFFF
#: The factors of a word, of the hash, and of the final mix; the number added to the hash.
_INTO, _ON, _STEP, _ONE, _OTHER, _ADDED = (
    0xCC9E2D51, 0x1B873593, 5, 0x85EBCA6B, 0xC2B2AE35, 0xE6546B64
)  # fmt: skip


@cache
def label_of(bucket: int) -> int:
    """Return the label of a bucket, from 0 to 2 ** 32 - 1.

    >>> label_of(0), label_of(1)
    (958104307, 3029212710)
    """
    found = bucket ^ bucket >> 16
    found = _divided(found, _OTHER)
    found ^= found >> 13 ^ found >> 26
    found = _divided(found, _ONE)
    found ^= found >> 16 ^ _BYTES
    for _ in range(2):  # the upper word, 0, adds nothing
        found = _turned(_divided(found - _ADDED, _STEP), -13)
    found = _turned(_divided(found ^ _SEED, _ON), -15)
    return _divided(found, _INTO)


def bucket_of(label: int) -> int:
    """Return the bucket of a label, which is the label's hash; the label may be a numpy integer.

    >>> bucket_of(label_of(63))
    63
    """
    found, label = _SEED, int(label)
    for word in (label & _WORD, label >> 32):
        found ^= _turned(word * _INTO & _WORD, 15) * _ON & _WORD
        found = (_turned(found, 13) * _STEP + _ADDED) & _WORD
    found ^= _BYTES
    found = (found ^ found >> 16) * _ONE & _WORD
    found = (found ^ found >> 13) * _OTHER & _WORD
    return found ^ found >> 16


def _turned(word: int, bits: int) -> int:
    """Rotate a word to the left, or to the right by a negative number of bits."""
    bits %= 32
    return (word << bits | word >> 32 - bits) & _WORD


def _divided(word: int, factor: int) -> int:
    """Return the word that gives ``word`` when it is multiplied by an odd factor."""
    return word * pow(factor, -1, _WORD + 1) & _WORD
