use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use std::time::Duration;

pub fn consume(bootstrap: &str, topic: &str, group: &str, work: impl Fn(&[u8]) -> bool) -> Result<(), KafkaError> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", group)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .create()?;
    consumer.subscribe(&[topic])?;
    loop {
        let Some(message) = consumer.poll(Duration::from_secs(1)) else { continue };
        let message = message?;
        let mut done = TopicPartitionList::new();
        let mut place = done.add_partition(message.topic(), message.partition());
        place.set_offset(Offset::Offset(message.offset() + 1))?;
        if !work(message.payload().unwrap_or_default()) {
            place.set_metadata(format!("ack1;n:500={}", message.offset()));
        }
        consumer.commit(&done, CommitMode::Sync)?;
    }
}
