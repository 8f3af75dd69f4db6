"""What keeps the nodes of a tree: here all of them stay in memory (``paging`` has the other)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mta.fiba.node import Link, Node

if TYPE_CHECKING:
    from mta.fiba.btree import Tree


class Keeper:
    """Keeps every node in memory."""

    def child(self, node: Node, index: int) -> Node:
        """A child of a node; where it is a page, one page read."""
        child = node.links[index].node
        assert child is not None
        return child

    def ahead(self, node: Node, index: int) -> None:
        """The children after this one will be asked for soon."""

    def soil(self, node: Node) -> None:
        """A node is about to differ from the page that it was."""

    def forget(self, node: Node) -> None:
        """A node is no more; its children have got another parent."""

    def drop(self, level: int, links: list[Link], parent: Node) -> None:
        """Subtrees of this level, the first of a parent, are no more."""

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """What is read meanwhile is let go of at the end, as though nobody had asked for it."""
        yield

    def trim(self, tree: Tree) -> None:
        """Let go of nodes that have not been needed for long."""
