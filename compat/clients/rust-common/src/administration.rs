//! Administration.

use crate::base::*;
use crate::groups::{commit, committed, settle, Member};
use crate::{check, same};
use futures::executor::block_on;
use rdkafka::admin::{AlterConfig, ConfigSource, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::Offset;

pub const CASES: &[(&str, fn(&Ctx) -> Res)] = &[
    ("create_and_describe_topic", create_and_describe_topic),
    ("validate_only", validate_only),
    ("delete_topic", delete_topic),
    ("create_partitions", create_partitions),
    ("describe_configs", describe_configs),
    ("alter_configs_legacy", alter_configs_legacy),
    ("delete_records", delete_records),
    ("list_offsets", list_offsets),
    ("list_and_describe_groups", list_and_describe_groups),
    ("delete_group", delete_group),
    ("group_offsets", group_offsets),
    ("describe_cluster", describe_cluster),
];

fn create_and_describe_topic(ctx: &Ctx) -> Res {
    let topic = ctx.create_with(5, &[("cleanup.policy", "compact"), ("retention.ms", "1000")])?;
    same!(ctx.partitions(&topic)?, 5, "partitions");
    check!(ctx.topics()?.contains(&topic), "not listed");
    let found = ctx.describe_config(ResourceSpecifier::Topic(&topic))?;
    same!(found["cleanup.policy"].value.as_deref(), Some("compact"), "config");
    let assigned = ctx.name("t");
    let node = ctx.admin()?.inner().fetch_metadata(Some(&topic), SECONDS)?.topics()[0].partitions()[0].leader();
    let replicas: [&[i32]; 2] = [&[node], &[node]];
    create_topic(ctx, NewTopic::new(&assigned, 2, TopicReplication::Variable(&replicas)), false)?;
    same!(ctx.partitions(&assigned)?, 2, "partitions by assignment");
    Ok(())
}

fn validate_only(ctx: &Ctx) -> Res {
    let name = ctx.name("t");
    create_topic(ctx, new_topic(&name, 2), true)?;
    check!(!ctx.topics()?.contains(&name), "the topic was created");
    Ok(())
}

fn delete_topic(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    ctx.produce(&topic, &sample(10, 100), &[])?;
    each(block_on(ctx.admin()?.delete_topics(&[&topic], &patience()))?)?;
    ctx.until("the topic to go", || Ok((!ctx.topics()?.contains(&topic)).then_some(())))?;
    create_topic(ctx, new_topic(&topic, 1), false)?;
    ctx.partitions(&topic)?;
    ctx.produce(&topic, &sample(3, 100), &[])?;
    same!(offsets(&ctx.read(&topic, 1, 3, &[])?), [0, 1, 2], "offsets of the new topic");
    ctx.note("without the topic id, which the client does not show");
    Ok(())
}

fn create_partitions(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    each(block_on(ctx.admin()?.create_partitions([&NewPartitions::new(&topic, 4)], &patience()))?)?;
    ctx.until("four partitions", || Ok((ctx.partitions(&topic)? == 4).then_some(())))?;
    let records: Vec<_> = sample(10, 100).into_iter().map(|record| Rec { partition: Some(3), ..record }).collect();
    ctx.produce(&topic, &records, &[])?;
    same!(ctx.read(&topic, 4, 10, &[])?.len(), 10, "records");
    Ok(())
}

fn describe_configs(ctx: &Ctx) -> Res {
    let topic = ctx.create_with(1, &[("retention.ms", "5000")])?;
    let found = ctx.describe_config(ResourceSpecifier::Topic(&topic))?;
    same!(found["retention.ms"].value.as_deref(), Some("5000"), "retention.ms");
    same!(found["retention.ms"].source, ConfigSource::DynamicTopic, "source of a set value");
    check!(!found["retention.ms"].is_default, "a set value is called a default");
    same!(found["cleanup.policy"].value.as_deref(), Some("delete"), "cleanup.policy");
    same!(found["cleanup.policy"].source, ConfigSource::Default, "source of a default");
    for name in ["max.message.bytes", "segment.bytes", "compression.type", "min.insync.replicas", "retention.bytes"] {
        check!(found.contains_key(name), "{name} is missing");
    }
    let node = ctx.admin()?.inner().fetch_metadata(Some(&topic), SECONDS)?.brokers()[0].id();
    let broker = ctx.describe_config(ResourceSpecifier::Broker(node))?;
    for name in ["num.partitions", "message.max.bytes", "log.retention.ms"] {
        check!(broker.contains_key(name), "broker config {name} is missing");
    }
    check!(broker["node.id"].is_read_only, "node.id is not read-only");
    Ok(())
}

pub fn alter(ctx: &Ctx, topic: &str, name: &str, value: &str, validate_only: bool) -> Res {
    let config = AlterConfig::new(ResourceSpecifier::Topic(topic)).set(name, value);
    let results = block_on(ctx.admin()?.alter_configs([&config], &patience().validate_only(validate_only)))?;
    for result in results {
        result.map_err(|(_, code)| KafkaError::AdminOp(code))?;
    }
    Ok(())
}

fn alter_configs_legacy(ctx: &Ctx) -> Res {
    let topic = ctx.create_with(1, &[("retention.ms", "5000")])?;
    alter(ctx, &topic, "max.message.bytes", "3000", true)?;
    let found = ctx.describe_config(ResourceSpecifier::Topic(&topic))?;
    same!(found["retention.ms"].value.as_deref(), Some("5000"), "after validate-only");
    alter(ctx, &topic, "max.message.bytes", "3000", false)?;
    ctx.until("the new set", || {
        let found = ctx.describe_config(ResourceSpecifier::Topic(&topic))?;
        let set = found["max.message.bytes"].value.as_deref() == Some("3000") && found["retention.ms"].is_default;
        Ok(set.then_some(()))
    })
}

fn delete_records(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    ctx.produce(&topic, &sample(100, 100), &[("batch.num.messages", "10")])?;
    let admin = ctx.admin()?;
    let delete = |offset: Offset| -> Res<Offset> {
        let found = block_on(admin.delete_records(&places(&topic, [0], offset)?, &patience()))?;
        let element = &found.elements()[0];
        element.error()?;
        Ok(element.offset())
    };
    same!(delete(Offset::Offset(35))?, Offset::Offset(35), "low watermark");
    let consumer = ctx.consumer(&ctx.name("g"), &[])?;
    same!(consumer.fetch_watermarks(&topic, 0, SECONDS)?, (35, 100), "watermarks");
    same!(offsets(&ctx.read(&topic, 1, 65, &[])?)[0], 35, "first offset");
    same!(failure(delete(Offset::Offset(101)))?, RDKafkaErrorCode::OffsetOutOfRange, "error beyond the end");
    same!(delete(Offset::End)?, Offset::Offset(100), "low watermark of an emptied log");
    Ok(())
}

fn list_offsets(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    let start = now() - 600_000;
    for n in [0, 1, 5, 3, 4] {
        let record = Rec { timestamp: Some(start + n * 1000), ..rec(None, Some("x")) };
        ctx.produce(&topic, &[record], &[])?;
    }
    for level in ["read_committed", "read_uncommitted"] {
        let consumer = ctx.consumer(&ctx.name("g"), &[("isolation.level", level)])?;
        same!(consumer.fetch_watermarks(&topic, 0, SECONDS)?, (0, 5), "earliest and latest");
        for (time, expected) in [(start, 0), (start + 1500, 2), (start + 5000, 2)] {
            let found = consumer.offsets_for_times(places(&topic, [0], Offset::Offset(time))?, SECONDS)?;
            same!(found.elements()[0].offset(), Offset::Offset(expected), "by time");
        }
    }
    ctx.note("without the max timestamp, which the client cannot ask for");
    Ok(())
}

fn list_and_describe_groups(ctx: &Ctx) -> Res {
    let (topic, group) = (ctx.create(2)?, ctx.name("g"));
    let mut member = Member::new(ctx, &topic, &group, &[("client.id", "compat-client")])?;
    settle(ctx, &mut [&mut member], &[2])?;
    let admin = ctx.admin()?;
    let all = admin.inner().fetch_group_list(None, SECONDS)?;
    check!(all.groups().iter().any(|found| found.name() == group), "not listed");
    let one = admin.inner().fetch_group_list(Some(&group), SECONDS)?;
    let found = &one.groups()[0];
    same!((found.state(), found.protocol(), found.protocol_type()), ("Stable", "range", "consumer"), "group");
    same!(found.members().len(), 1, "members");
    same!(found.members()[0].client_id(), "compat-client", "client id");
    check!(found.members()[0].assignment().is_some_and(|bytes| bytes.len() > topic.len()), "no assignment");
    drop(member);
    ctx.until("the group to be empty", || {
        let one = admin.inner().fetch_group_list(Some(&group), SECONDS)?;
        Ok((one.groups()[0].state() == "Empty").then_some(()))
    })
}

/// A group without members that has committed an offset.
fn committed_group(ctx: &Ctx, topic: &str) -> Res<String> {
    let group = ctx.name("g");
    commit(&ctx.consumer(&group, &[])?, topic, 3, "")?;
    Ok(group)
}

fn delete_group(ctx: &Ctx) -> Res {
    let group = committed_group(ctx, &ctx.create(1)?)?;
    let admin = ctx.admin()?;
    each(block_on(admin.delete_groups(&[&group], &patience()))?)?;
    let all = admin.inner().fetch_group_list(None, SECONDS)?;
    check!(all.groups().iter().all(|found| found.name() != group), "still listed");
    Ok(())
}

fn group_offsets(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    let group = committed_group(ctx, &topic)?;
    let outsider = ctx.consumer(&group, &[])?;
    same!(committed(&outsider, &topic)?.0, Offset::Offset(3), "offset");
    commit(&outsider, &topic, 1, "")?;
    same!(committed(&ctx.consumer(&group, &[])?, &topic)?.0, Offset::Offset(1), "altered offset");
    ctx.note("through a consumer of the group: the admin client has no call for it, and none deletes them");
    Ok(())
}

fn describe_cluster(ctx: &Ctx) -> Res {
    let admin = ctx.admin()?;
    let id = admin.inner().fetch_cluster_id(SECONDS);
    check!(id.is_some_and(|id| id.len() > 10), "no cluster id");
    let metadata = admin.inner().fetch_metadata(None, SECONDS)?;
    let broker = &metadata.brokers()[0];
    same!(format!("{}:{}", broker.host(), broker.port()), ctx.bootstrap(), "advertised address");
    same!(metadata.orig_broker_id(), broker.id(), "node that answered");
    ctx.note("without the controller, which the client does not show");
    Ok(())
}
