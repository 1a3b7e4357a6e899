//! The errors that a client must show well.

use crate::administration::alter;
use crate::base::*;
use crate::groups::{commit, settle, Member};
use crate::{check, same};
use futures::executor::block_on;
use rdkafka::admin::{NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::Producer;
use rdkafka::Offset;
use std::time::Duration;

pub const CASES: &[(&str, fn(&Ctx) -> Res)] = &[
    ("error_unknown_topic", error_unknown_topic),
    ("error_topic_exists", error_topic_exists),
    ("error_invalid_topic_name", error_invalid_topic_name),
    ("error_invalid_partitions", error_invalid_partitions),
    ("error_invalid_replication", error_invalid_replication),
    ("error_bad_config_value", error_bad_config_value),
    ("error_message_too_large", error_message_too_large),
    ("error_offset_out_of_range", error_offset_out_of_range),
    ("error_no_key_on_compacted", error_no_key_on_compacted),
    ("error_timestamp_out_of_bounds", error_timestamp_out_of_bounds),
    ("error_unknown_group", error_unknown_group),
    ("error_group_not_empty", error_group_not_empty),
    ("error_unknown_member", error_unknown_member),
    ("error_fenced_instance", error_fenced_instance),
    ("error_inconsistent_protocol", error_inconsistent_protocol),
    ("transactions", transactions),
];

fn expect<T>(outcome: Res<T>, codes: &[RDKafkaErrorCode]) -> Res {
    let code = failure(outcome)?;
    check!(codes.contains(&code), "expected {codes:?}, got {code:?}");
    Ok(())
}

fn error_unknown_topic(ctx: &Ctx) -> Res {
    let topic = ctx.name("t");
    let mut member = Member::new(ctx, &topic, &ctx.name("g"), &[])?;
    let outcome = ctx.until("the error", || member.poll().map(|()| None::<()>));
    expect(outcome, &[RDKafkaErrorCode::UnknownTopicOrPartition])?;
    check!(!ctx.topics()?.contains(&topic), "the topic was created");
    let outcome = each(block_on(ctx.admin()?.delete_topics(&[&topic], &patience()))?);
    expect(outcome, &[RDKafkaErrorCode::UnknownTopicOrPartition])
}

fn error_topic_exists(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    expect(create_topic(ctx, new_topic(&topic, 1), false), &[RDKafkaErrorCode::TopicAlreadyExists])
}

fn error_invalid_topic_name(ctx: &Ctx) -> Res {
    for name in ["not a name!", &"x".repeat(250), ".."] {
        expect(create_topic(ctx, new_topic(name, 1), false), &[RDKafkaErrorCode::InvalidTopic])?;
    }
    Ok(())
}

fn error_invalid_partitions(ctx: &Ctx) -> Res {
    let topic = ctx.create(3)?;
    for count in [2, 3] {
        let outcome = each(block_on(ctx.admin()?.create_partitions([&NewPartitions::new(&topic, count)], &patience()))?);
        expect(outcome, &[RDKafkaErrorCode::InvalidPartitions])?;
    }
    Ok(())
}

fn error_invalid_replication(ctx: &Ctx) -> Res {
    let topic = ctx.name("t");
    let outcome = create_topic(ctx, NewTopic::new(&topic, 1, TopicReplication::Fixed(3)), false);
    expect(outcome, &[RDKafkaErrorCode::InvalidReplicationFactor])
}

fn error_bad_config_value(ctx: &Ctx) -> Res {
    for (name, value) in [("retention.ms", "soon"), ("no.such.config", "1"), ("cleanup.policy", "shred")] {
        let topic = ctx.name("t");
        let outcome = create_topic(ctx, new_topic(&topic, 1).set(name, value), false);
        expect(outcome, &[RDKafkaErrorCode::InvalidConfig])?;
    }
    // The client's alter_configs drops the error of a resource: what can be seen is that nothing changed.
    let topic = ctx.create_with(1, &[("retention.ms", "5000")])?;
    alter(ctx, &topic, "retention.ms", "soon", false)?;
    let found = ctx.describe_config(ResourceSpecifier::Topic(&topic))?;
    same!(found["retention.ms"].value.as_deref(), Some("5000"), "retention.ms");
    ctx.note("the client does not report the error of AlterConfigs");
    Ok(())
}

fn error_message_too_large(ctx: &Ctx) -> Res {
    let topic = ctx.create_with(1, &[("max.message.bytes", "2000")])?;
    expect(ctx.produce(&topic, &sample(1, 10_000), &[]), &[RDKafkaErrorCode::MessageSizeTooLarge])?;
    ctx.produce(&topic, &sample(1, 1000), &[])?;
    Ok(())
}

fn error_offset_out_of_range(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    ctx.produce(&topic, &sample(10, 100), &[])?;
    let consumer = ctx.consumer(&ctx.name("g"), &[("auto.offset.reset", "error")])?;
    consumer.assign(&places(&topic, [0], Offset::Offset(1000))?)?;
    expect(ctx.take(&consumer, 1), &[RDKafkaErrorCode::AutoOffsetReset])
}

fn error_no_key_on_compacted(ctx: &Ctx) -> Res {
    let topic = ctx.create_with(1, &[("cleanup.policy", "compact")])?;
    expect(ctx.produce(&topic, &[rec(None, Some("no key"))], &[]), &[RDKafkaErrorCode::InvalidRecord])
}

fn error_timestamp_out_of_bounds(ctx: &Ctx) -> Res {
    let topic = ctx.create_with(1, &[("message.timestamp.after.max.ms", "60000")])?;
    let record = Rec { timestamp: Some(now() + 3_600_000), ..rec(None, Some("x")) };
    expect(ctx.produce(&topic, &[record], &[]), &[RDKafkaErrorCode::InvalidTimestamp])
}

fn delete_group(ctx: &Ctx, group: &str) -> Res {
    each(block_on(ctx.admin()?.delete_groups(&[group], &patience()))?)
}

fn error_unknown_group(ctx: &Ctx) -> Res {
    expect(delete_group(ctx, &ctx.name("g")), &[RDKafkaErrorCode::GroupIdNotFound])
}

fn error_group_not_empty(ctx: &Ctx) -> Res {
    let (topic, group) = (ctx.create(1)?, ctx.name("g"));
    let mut member = Member::new(ctx, &topic, &group, &[])?;
    settle(ctx, &mut [&mut member], &[1])?;
    expect(delete_group(ctx, &group), &[RDKafkaErrorCode::NonEmptyGroup])
}

fn error_unknown_member(ctx: &Ctx) -> Res {
    let (topic, group) = (ctx.create(1)?, ctx.name("g"));
    let mut member = Member::new(ctx, &topic, &group, &[])?;
    settle(ctx, &mut [&mut member], &[1])?;
    // A commit from outside (no member id, no generation) while the group has members.
    expect(commit(&ctx.consumer(&group, &[])?, &topic, 1, ""), &[RDKafkaErrorCode::UnknownMemberId])
}

fn error_fenced_instance(ctx: &Ctx) -> Res {
    let (topic, group) = (ctx.create(1)?, ctx.name("g"));
    let mut first = Member::new(ctx, &topic, &group, &[("group.instance.id", "same")])?;
    settle(ctx, &mut [&mut first], &[1])?;
    let mut second = Member::new(ctx, &topic, &group, &[("group.instance.id", "same")])?;
    settle(ctx, &mut [&mut second], &[1])?;
    let outcome = ctx.until("the first to be fenced", || {
        first.poll()?;
        second.poll().map_err(|error| format!("the second: {error}"))?;
        Ok(None::<()>)
    });
    expect(outcome, &[RDKafkaErrorCode::FencedInstanceId, RDKafkaErrorCode::Fatal])
}

fn error_inconsistent_protocol(ctx: &Ctx) -> Res {
    let (topic, group) = (ctx.create(1)?, ctx.name("g"));
    let mut member = Member::new(ctx, &topic, &group, &[("partition.assignment.strategy", "range")])?;
    settle(ctx, &mut [&mut member], &[1])?;
    let mut other = Member::new(ctx, &topic, &group, &[("partition.assignment.strategy", "cooperative-sticky")])?;
    let outcome = ctx.until("the refusal", || other.poll().map(|()| None::<()>));
    expect(outcome, &[RDKafkaErrorCode::InconsistentGroupProtocol])
}

fn transactions(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    let producer = ctx.producer(&[("transactional.id", &ctx.name("x"))])?;
    let wait = Duration::from_secs(10);
    if let Err(error) = producer.init_transactions(wait) {
        let KafkaError::Transaction(ref inner) = error else { return Err(error.into()) };
        check!(inner.code() != RDKafkaErrorCode::OperationTimedOut, "not refused, only timed out: {}", inner.string());
        *ctx.refused.lock().unwrap() = inner.string();
        return Ok(());
    }
    for n in 0..3 {
        producer.begin_transaction()?;
        send(&producer, &topic, &[rec(None, Some(&n.to_string()))])?;
        if n == 1 {
            producer.abort_transaction(wait)?;
        } else {
            producer.commit_transaction(wait)?;
        }
    }
    let got = ctx.read(&topic, 1, 2, &[("isolation.level", "read_committed")])?;
    let values: Vec<_> = got.iter().map(|message| message.payload().unwrap_or_default().to_vec()).collect();
    same!(values, [b"0", b"2"], "committed records");
    Ok(())
}
