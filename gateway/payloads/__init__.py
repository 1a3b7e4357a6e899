"""Payloads that take a schema to be read: Avro and Protobuf, decoded in a process of their own."""
