"""The command ``python -m benchmarks``."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence

from benchmarks.registry import EXPERIMENTS

COMMAND = "python -m benchmarks"
#: The size at which windows are as large as in the papers: MTA 2^25, FiBA 2^22.
PAPERS = 32


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named experiments; return the exit code, 2 if a library is missing."""
    given = vars(_parser().parse_args(arguments))
    page, figures, note = (given.pop(name) for name in ("page", "figures", "note"))
    try:
        from benchmarks import running

        if page:
            return running.write_report_page(given["names"], given["folder"], page, note)
        if figures:
            return running.write_figures_page(given["names"], given["folder"], figures, note)
        return running.bench(**given)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"{COMMAND}: needs {error.name}: pip install --editable '.[bench]'\n")
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog=COMMAND, description="Measure beside peers; see benchmarks/README.md."
    )
    parser.add_argument(
        "names",
        nargs="*",
        type=_name,
        metavar="NAME",
        help=f"an experiment, or the first part of several names; all of {', '.join(EXPERIMENTS)}",
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
    parser.set_defaults(size=1.0)  # for all three options, which share it
    parser.add_argument(
        "--output", dest="folder", default="bench-output", metavar="FOLDER", help="%(default)s"
    )
    parser.add_argument("--fresh", action="store_true", help="measure finished experiments again")
    for name, what in (("page", "the papers' experiments"), ("figures", "our own experiments")):
        parser.add_argument(
            f"--{name}",
            default="",
            metavar="FILE",
            help=f"measure nothing, write the results of {what} as a Markdown page",
        )
    parser.add_argument(
        "--note", default="", metavar="TEXT", help="a sentence about the machine for that page"
    )
    return parser


def _name(text: str) -> str:
    if text not in EXPERIMENTS and text not in {name.partition("_")[0] for name in EXPERIMENTS}:
        raise ArgumentTypeError(f"there is no {text!r}; --help lists what there is")
    return text


def _share(text: str) -> float:
    try:
        size = float(text)
    except ValueError:
        size = 0.0
    if not 0 < size <= PAPERS:
        raise ArgumentTypeError(f"a share is above 0 and at most {PAPERS}, not {text!r}")
    return size


if __name__ == "__main__":
    sys.exit(main())
