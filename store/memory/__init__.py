"""A store that forgets: for tests, and for topics that are not persistent. `open()` gives one."""

from store.memory.driver import MemoryStore, open

__all__ = ["MemoryStore", "open"]
