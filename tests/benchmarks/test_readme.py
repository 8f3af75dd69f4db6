"""``benchmarks/README.md`` describes each experiment and each option."""

import re

from benchmarks.__main__ import _parser
from benchmarks.registry import EXPERIMENTS
from tests.support.documents import ROOT

README = (ROOT / "benchmarks" / "README.md").read_text()


def test_the_readme_lists_each_experiment_once() -> None:
    table = README.partition("## Experiments")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"`([a-z0-9_]+)`", table)) == sorted(EXPERIMENTS)


def test_the_readme_describes_each_option() -> None:
    options = {option for action in _parser()._actions for option in action.option_strings}
    described = set(re.findall(r"^\| `(--\w+)", README, re.MULTILINE))
    assert described == options - {"--help", "-h"}
