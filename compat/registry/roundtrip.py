"""A record with the registry's five bytes before it: written and read with Confluent's serializers.

Runs in Karapace's environment: `roundtrip.py BOOTSTRAP URL TOPIC`. Prints the id of the schema.
"""

from __future__ import annotations

import struct
import sys

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "long"}]}'


def main(bootstrap: str, url: str, topic: str) -> None:
    registry = SchemaRegistryClient({"url": url})
    context = SerializationContext(topic, MessageField.VALUE)
    orders = [{"amount": number} for number in range(100)]
    producer = Producer({"bootstrap.servers": bootstrap})
    serialize = AvroSerializer(registry, SCHEMA)
    for order in orders:
        producer.produce(topic, serialize(order, context))
    producer.flush(30)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(len(orders), 30)
    consumer.close()
    values = [message.value() for message in found if message.error() is None]
    ids = {struct.unpack(">bI", value[:5]) for value in values}
    assert len(ids) == 1, ids
    magic, identity = ids.pop()
    assert magic == 0, magic
    deserialize = AvroDeserializer(registry)
    got = [deserialize(value, context) for value in values]
    assert got == orders, got[:3]
    print(identity)


if __name__ == "__main__":
    main(*sys.argv[1:])
