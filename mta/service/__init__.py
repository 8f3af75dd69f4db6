"""Windows that many processes add to and ask at once: the writing side of ``mta serve``.

- ``declaration``: windows that are declared in a file
- ``log``: the head and the log of a shard, and how owners exclude each other
- ``garbage``: which pages of declared windows nothing needs
- ``retries``: the ids of recent events
- ``rows``: events as rows, and how they are read and checked
- ``shard``: the windows of some keys, which one process owns
- ``commits``: a thread for each shard, which commits together whatever waits
- ``members``, ``forwarding``: the processes that live, and events on their way between them
- ``owners``: which process owns which shard, and publishing; creates windows
- ``app``, ``openapi``: the paths that take events, and their description

The command is in ``mta.cli.serving``.
"""
