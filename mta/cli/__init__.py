"""The commands of ``mta`` that need no Spark; ``spark_integration.cli`` adds the others.

- ``commands``: from options to an exit code
- ``snapshots``: ``inspect``, ``check`` and ``gc`` for snapshots in files
- ``serving``, ``planning``: the options of the server; plans of windows
- ``console``: what the commands print, in which form, and their exit codes
"""
