"""Very many keys: the small windows of all of them as columns, vectorized together.

- ``key_types``: the types of keys, and their bytes
- ``key_columns``: columns of keys of every library
- ``keys``: distinct keys, in order of their hashes
- ``table``: keys and their events, column by column
- ``lanes``: where windows begin, and their results
- ``retention``: which events of a key are retained, and which it still accepts
- ``sizes``: how large the groups of one of many windows are
- ``kind``, ``work``: what all windows have in common, and a batch beside what is known
- ``leaves``: tables as pages, out of which the keys of a batch are taken
- ``pages``: indexes, and lists of what is to be deleted, as pages
- ``corrections``: events that replace or join others, and retractions
- ``lsm``: which tables there are, and when they are merged
- ``deletions``: what is to be deleted, and after how many snapshots
- ``snapshot``: all that is not in pages
- ``windows``: what users hold
- ``bucket``: windows of many keys at work: events in, results out, idle keys expired
- ``changes``: other windows and aggregations for what is kept
- ``coverage``: which results are incomplete since such a change, and until when
- ``repartitioning``: keys repartitioned to other snapshots
- ``rolling``: the same over a data frame
"""
