"""`make demo-queue`: a day in the life of a queue topic, with eight members in three languages. See README.md."""
