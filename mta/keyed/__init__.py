"""Windows of very many keys, stored as columns and evaluated together.

- ``key_types``: the types of keys, and their bytes
- ``keys``: columns of keys of every library, as distinct keys in order of their hashes
- ``table``: keys and their events, column by column; the starts of windows, and their results
- ``kind``: what all windows share, and which events a key retains
- ``leaves``: tables as pages, from which the keys of a batch are read
- ``pages``: the pages above: indexes, and lists of pending deletions
- ``lsm``: the tables, when they are merged, and which pages are deleted
- ``snapshot``: everything that is not in pages
- ``corrections``: events that replace or join others, and retractions
- ``work``: combines a batch with the stored events of its keys, and computes results
- ``standalone``: keys with a standalone window
- ``questions``: rows of a batch that are questions and never become events
- ``moments``: keys' windows as of any moment, for many keys and moments at once
- ``bucket``: adds batches, returns results, and expires idle keys
- ``changes``: other windows and aggregations for retained events
- ``coverage``: which results are incomplete after such a change, and until when
- ``windows``: the public class
- ``repartitioning``: keys redistributed over other snapshots
- ``as_of``: windows as of the times of the rows of another table
- ``rolling``: the same over a data frame
"""
