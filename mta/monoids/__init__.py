"""Monoids: what a window computes. The module ``mta.aggregations`` exports the public ones.

- ``base``, ``columnar``, ``summary``: base classes for plain functions, numpy columns and summaries
- ``ranges``, ``holistic``: results computed from ranges of events, or from all values of a window
- ``basic``, ``text``: counts, sums, extremes, first and last values, lists
- ``decimals``: sums of long decimals
- ``deviations``, ``shape``, ``regression``: statistics from central moments
- ``logical``, ``positional``: truth values, bits and products; values by their position
- ``quantiles``, ``distinct``: exact quantiles, ranks and distinct counts
- ``timeseries``: aggregations that read the times of events
- ``parts``, ``product``: several aggregations in one structure; columns that were added later
- ``catalogue``: aggregations by name
- ``following``: aggregations that take the type of the first values
- ``nulls``: null values and filters
- ``moments``, ``bloom``, ``sketches``: approximate results in bounded space
- ``increasing_run``: the longest run of increasing values
- ``equality``: comparing partials
"""
