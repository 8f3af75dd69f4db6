from .wrapper import WrapperStore
from .base import PageStore


class WriteBuffer(WrapperStore):
    def __init__(
        self, store: PageStore, capacity_bytes: int = 8 << 20, deadline: float = 30.0
    ) -> None:
        super().__init__(store)
