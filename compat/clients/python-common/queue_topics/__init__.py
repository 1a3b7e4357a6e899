"""The cases of "Queue topics", once for all clients in Python. Each program has an `adapter.py`: see library.py."""
