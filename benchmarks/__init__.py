"""Benchmarks: the papers' experiments on a single machine, and comparisons with other libraries.

They are not part of the installed package. Run them from a checkout (see ``README.md`` in this
folder). Each folder imports only those listed before it:

- ``report``: experiments, their tables and plots, and the report of a run
- ``papers``: the experiments of the papers, one folder per paper
- ``public``: public benchmarks of stream engines
- ``ours``: this project's experiments
- ``spark``: the experiments that need Spark
- ``registry``, ``running``, ``__main__``: the list of experiments, their results, the command
"""
