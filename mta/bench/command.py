"""``mta bench``, as a command."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping

from mta.bench import EXPERIMENTS
from mta.cli.commands import CommandLine

#: The size at which windows are as large as the MTA paper's (2^25), and FiBA's as its own (2^22).
PAPERS = 32


def add_bench(line: CommandLine, modules: Mapping[str, str] = EXPERIMENTS) -> None:
    """Add ``mta bench``, of the experiments in these modules."""

    def measure(
        experiment: list[str], size: float | str, output: str, fresh: bool, page: str, note: str
    ) -> int:
        from mta.bench.frame.running import bench, write_report_page

        if page:
            return write_report_page(experiment, output, page, note, modules)
        return bench(experiment, size, output, fresh, modules)

    def experiment(text: str) -> str:
        if text not in modules and text not in {name.partition("_")[0] for name in modules}:
            raise ArgumentTypeError(f"there is no {text!r}; --help lists what there is")
        return text

    parser = line.add("bench", measure, help="measure beside peers")
    parser.add_argument(
        "experiment",
        nargs="*",
        type=experiment,
        metavar="NAME",
        help=f"an experiment or the first part of names; all of {', '.join(modules)}",
    )
    how_much = parser.add_mutually_exclusive_group()
    for name, what in (
        ("quick", "every figure within 10 minutes"),
        ("full", "each experiment at its paper's own scale, as far as memory goes; hours"),
    ):
        how_much.add_argument(f"--{name}", dest="size", action="store_const", const=name, help=what)
    how_much.add_argument(
        "--size", type=_share, help="share of the full events, above 1 for larger ones"
    )
    parser.set_defaults(size=1.0)  # of all three, as the first one's default is taken
    parser.add_argument("--output", default="bench-output", metavar="FOLDER", help="%(default)s")
    parser.add_argument("--fresh", action="store_true", help="measure again what is finished")
    parser.add_argument(
        "--page", default="", metavar="FILE", help="measure nothing, write a page of what there is"
    )
    parser.add_argument(
        "--note", default="", metavar="TEXT", help="what the page is to say of the machine"
    )


def _share(text: str) -> float:
    try:
        size = float(text)
    except ValueError:
        size = 0.0
    if not 0 < size <= PAPERS:
        raise ArgumentTypeError(f"a share is above 0 and at most {PAPERS}, not {text!r}")
    return size
