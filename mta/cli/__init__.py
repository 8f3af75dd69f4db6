"""The commands of ``mta`` that need no Spark; ``spark_integration.cli`` adds the others.

- ``commands``: from options to an exit code
- ``snapshots``: ``inspect``, ``check`` and ``gc`` for snapshots in files
- ``serving``: the options of the server
- ``console``: what the commands print, in which form, and their exit codes
"""
