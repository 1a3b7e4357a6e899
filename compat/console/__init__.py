"""A shop whose gateway has something to look at, and the picture of its console."""
