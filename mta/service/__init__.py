"""Windows that many processes add to and ask at once: the writing side of ``mta serve``.

- ``declaration``: windows that are declared in a file
- ``log``: the head and the log of a shard, and how owners exclude each other
- ``retries``: the ids of recent events
- ``rows``: events as rows, and how they are read and checked
- ``shard``: the windows of some keys, which one process owns
"""
