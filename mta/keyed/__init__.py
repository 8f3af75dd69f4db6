"""Windows of very many keys, stored as columns and evaluated together.

- ``key_types``: the types of keys, and how each type is encoded
- ``keys``: reads key columns of all libraries as distinct keys, sorted by hash
- ``attributes``: where delta windows start
- ``table``: keys and their events as columns; where windows start, and their results
- ``kind``: the settings that all windows share, and which events a key retains
- ``values``: the columns of values in pages, and how ranges of events are read from them
- ``leaves``: tables as pages, from which the keys of a batch are read; indexes and lists of pages
- ``lsm``: the LSM tree: when tables are merged, and which pages are deleted
- ``snapshot``: the part of the state that is not in pages
- ``corrections``: retractions, and events that replace or combine with others
- ``work``: combines a batch with the stored events of its keys, and computes results
- ``standalone``: keys with a standalone window
- ``moments``: windows as of any moment, for many keys together, and questions in batches
- ``bucket``: adds batches, returns results, and expires idle keys
- ``reading``: reads keys, values and times as batches
- ``changes``: restores snapshots with other windows or aggregations
- ``coverage``: which results are incomplete after such a change, and until when
- ``windows``: the public class
- ``repartitioning``: redistributes keys over other snapshots
- ``admission``: limits that check and add events in one step
- ``rolling``: windows over a data frame, also as of the times of another table
"""
