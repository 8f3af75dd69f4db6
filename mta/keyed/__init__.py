"""Very many keys: the small windows of all of them as columns, evaluated together.

- ``key_types``: the types of keys, and their bytes
- ``keys``: columns of keys of every library, as distinct keys in order of their hashes
- ``table``: keys and their events, column by column; where windows begin, and their results
- ``kind``: what all windows have in common, and which events a key retains
- ``leaves``: tables as pages, out of which the keys of a batch are taken
- ``pages``: the pages above: indexes, and lists of pending deletions
- ``lsm``: which tables there are, when they are merged, and what is to be deleted
- ``snapshot``: all that is not in pages
- ``corrections``: events that replace or join others, and retractions
- ``work``: a batch beside what is known of its keys, and the results of both
- ``standalone``: keys with windows of their own
- ``questions``: rows of a batch that are answered and never become events
- ``moments``: keys' windows as of any moment, for many keys and moments at once
- ``bucket``: windows of many keys at work: events in, results out, idle keys expired
- ``changes``: other windows and aggregations for retained events
- ``coverage``: which results are incomplete since such a change, and until when
- ``windows``: what users hold
- ``repartitioning``: keys redistributed over other snapshots
- ``as_of``: windows as of the times of the rows of another table
- ``rolling``: the same over a data frame
"""
