from .wrapper import WrapperStore
from .base import PageStore


class HeadCache(WrapperStore):
    def __init__(self, store: PageStore, capacity_bytes: int = 16 << 20) -> None:
        super().__init__(store)
