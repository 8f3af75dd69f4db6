"""The commands of ``mta`` for Spark: run windows over files, see a demonstration, migrate.

- ``commands``: the commands that need Spark, in addition to those of ``mta.cli``
- ``job``, ``expressions``, ``query``: the options of ``mta run``
- ``sources``, ``readers``, ``rows``, ``stream``: the input's files and columns, the content of a
  file, its rows, and the stream of rows
- ``run``, ``progress``, ``plot``: from rows to results and a plot; short texts for Spark's failures
- ``checkpoints``: inspect, check and clean up what a run has written
- ``demo``: a demonstration, and the stream that it generates
"""
