"""The moving part: topics, partitions, time and waits."""
