"""Which modules have their doctests run."""

from importlib.util import find_spec

#: The one client that some platforms have no wheel of; its tests are skipped there too.
collect_ignore_glob = [] if find_spec("couchbase") else ["stores/couchbase*.py"]
