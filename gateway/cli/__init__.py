"""The commands `magnetar` and `magnetar-admin`."""
