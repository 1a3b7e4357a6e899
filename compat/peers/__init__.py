"""Other people's servers that Magnetar is compared with, and how they start."""
