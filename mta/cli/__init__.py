"""The command ``mta`` as far as it needs no Spark; ``spark_integration.cli`` adds the rest.

- ``commands``: options in, exit code out
- ``snapshots``: ``inspect``, ``check`` and ``gc`` of snapshots saved in files
- ``serving``, ``planning``: the server's command; what windows will take
- ``console``, ``output``: what the commands print, and in which form
- ``exits``: the exit codes, and which error has which
"""
