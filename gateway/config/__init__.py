"""The settings of a gateway: one table for flags, a TOML file, environment variables and DescribeConfigs.

`Settings.load(...)` reads and checks them; `table.py` is the table.
"""

from __future__ import annotations

from gateway.config import listener_settings
from gateway.config.listeners import Address, Listener
from gateway.config.schema import Described, Kind, Setting, Source, Synonym
from gateway.config.settings import Settings, SettingsError
from gateway.config.table import SETTINGS

__all__ = [
    "SETTINGS",
    "Address",
    "Described",
    "Kind",
    "Listener",
    "Setting",
    "Settings",
    "SettingsError",
    "Source",
    "Synonym",
    "listener_settings",
]
