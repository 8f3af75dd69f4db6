"""``mta bench``: the papers' experiments at this machine's scale, and our figures beside peers.

An experiment measures rows, which become a CSV file, plots, findings and a section of one report
(``frame``). Where ours is compared with a peer, a figure is a ratio, as machines differ and drift:
the runs alternate, and medians are compared. Those that need Spark are in ``spark_integration``.
"""

#: The experiments by name, in the report's order, and the module of each.
EXPERIMENTS = {
    "mta_latency": "mta.bench.mta_paper.latency",
    "mta_bulk": "mta.bench.mta_paper.latency",
    "mta_streams": "mta.bench.mta_paper.streams",
    "mta_memory": "mta.bench.mta_paper.memory",
    "mta_dimensions": "mta.bench.mta_paper.dimensions",
    "ra_break_even": "mta.bench.reactive_paper.experiments",
    "ra_throughput": "mta.bench.reactive_paper.experiments",
    "ra_update": "mta.bench.reactive_paper.experiments",
    "ra_tumbling": "mta.bench.reactive_paper.experiments",
    "ra_resize": "mta.bench.reactive_paper.experiments",
    "ra_granularity": "mta.bench.reactive_paper.experiments",
    "ra_prior": "mta.bench.reactive_paper.prior",
    "daba_throughput": "mta.bench.daba_paper.experiments",
    "daba_latency": "mta.bench.daba_paper.experiments",
    "daba_break_even": "mta.bench.daba_paper.break_even",
    "pba_count": "mta.bench.pba_paper.experiments",
    "pba_time": "mta.bench.pba_paper.experiments",
    "pba_thread": "mta.bench.pba_paper.experiments",
    "pba_latency": "mta.bench.pba_paper.latency",
    "fiba_distance": "mta.bench.fiba_paper.experiments",
    "fiba_in_order": "mta.bench.fiba_paper.experiments",
    "fiba_sharing": "mta.bench.fiba_paper.experiments",
    "batch": "mta.bench.ours.batch",
    "kernels": "mta.bench.ours.kernels",
    "single": "mta.bench.ours.single",
    "pauses": "mta.bench.ours.pauses",
    "since_max": "mta.bench.ours.since_max",
    "dimensions": "mta.bench.ours.dimensions",
    "slow": "mta.bench.ours.slow",
    "memory": "mta.bench.ours.memory",
    "late": "mta.bench.ours.late",
    "keys": "mta.bench.ours.keys",
    "key_counts": "mta.bench.ours.key_counts",
    "shared": "mta.bench.ours.shared",
    "approximate": "mta.bench.ours.approximate",
    "peers": "mta.bench.ours.peers",
    "public_nexmark": "mta.bench.public.experiments",
    "public_shuffle": "mta.bench.public.experiments",
    "public_scotty": "mta.bench.public.experiments",
}
