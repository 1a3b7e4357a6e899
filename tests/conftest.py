"""What holds for all tests."""

from hypothesis import settings

# No test asserts speed: Hypothesis would fail an example that took longer than 200 ms, on any busy machine.
settings.register_profile("magnetar", deadline=None)
settings.load_profile("magnetar")
