//! Groups, and going on after a restart of the server.

use crate::base::*;
use crate::same;
use futures::executor::block_on;
use rdkafka::admin::{NewPartitions, ResourceSpecifier};
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::message::{Message, OwnedMessage};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

pub const CASES: &[(&str, fn(&Ctx) -> Res)] = &[
    ("commit_and_resume", commit_and_resume),
    ("commit_metadata", commit_metadata),
    ("auto_commit", auto_commit),
    ("rebalance_eager", |ctx| rebalance(ctx, "range")),
    ("rebalance_cooperative", |ctx| rebalance(ctx, "cooperative-sticky")),
    ("static_membership", static_membership),
    ("member_timeout", member_timeout),
    ("new_partitions_in_group", new_partitions_in_group),
    ("restart_resume_group", restart_resume_group),
    ("restart_live_clients", restart_live_clients),
    ("restart_idempotent", restart_idempotent),
    ("restart_topic_settings", restart_topic_settings),
];

/// A consumer in a group, with what it has got.
pub struct Member {
    pub client: Reader,
    pub got: Vec<OwnedMessage>,
}

impl Member {
    pub fn new(ctx: &Ctx, topic: &str, group: &str, conf: Conf) -> Res<Member> {
        let client = ctx.consumer(group, conf)?;
        client.subscribe(&[topic])?;
        Ok(Member { client, got: vec![] })
    }

    pub fn poll(&mut self) -> Res {
        self.got.extend(poll(&self.client, MOMENT)?);
        Ok(())
    }

    fn share(&self) -> Res<BTreeSet<i32>> {
        Ok(self.client.assignment()?.elements().iter().map(|element| element.partition()).collect())
    }

    fn changes(&self) -> usize {
        self.client.context().0.load(Ordering::SeqCst)
    }
}

/// Poll until each member has so many partitions, all of them apart.
pub fn settle(ctx: &Ctx, members: &mut [&mut Member], counts: &[usize]) -> Res {
    ctx.until(&format!("shares of {counts:?}"), || {
        let mut all = BTreeSet::new();
        let mut sizes = vec![];
        for member in members.iter_mut() {
            member.poll()?;
        }
        for member in members.iter() {
            let share = member.share()?;
            sizes.push(share.len());
            all.extend(share);
        }
        sizes.sort();
        let mut wanted = counts.to_vec();
        wanted.sort();
        Ok((sizes == wanted && all.len() == counts.iter().sum::<usize>()).then_some(()))
    })
}

pub fn commit(client: &Reader, topic: &str, offset: i64, metadata: &str) -> Res {
    let mut list = TopicPartitionList::new();
    let mut element = list.add_partition(topic, 0);
    element.set_offset(Offset::Offset(offset))?;
    element.set_metadata(metadata);
    client.commit(&list, CommitMode::Sync)?;
    Ok(())
}

pub fn committed(client: &Reader, topic: &str) -> Res<(Offset, String)> {
    let found = client.committed_offsets(places(topic, [0], Offset::Invalid)?, SECONDS)?;
    let element = &found.elements()[0];
    element.error()?;
    Ok((element.offset(), element.metadata().to_string()))
}

/// Read `count` records as a group, commit and leave.
fn read_and_commit(ctx: &Ctx, topic: &str, group: &str, count: usize) -> Res {
    let first = Member::new(ctx, topic, group, &[])?;
    let got = ctx.take(&first.client, count)?;
    commit(&first.client, topic, got[count - 1].offset() + 1, "")
}

fn commit_and_resume(ctx: &Ctx) -> Res {
    let (topic, group) = (ctx.create(1)?, ctx.name("g"));
    ctx.produce(&topic, &sample(100, 100), &[])?;
    read_and_commit(ctx, &topic, &group, 30)?;
    let second = Member::new(ctx, &topic, &group, &[])?;
    same!(offsets(&ctx.take(&second.client, 70)?), (30..100).collect::<Vec<_>>(), "offsets after resume");
    Ok(())
}

fn commit_metadata(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    let text = format!("käse {{\"a\": [1, 2]}} {}", "x".repeat(500));
    let client = ctx.consumer(&ctx.name("g"), &[])?;
    commit(&client, &topic, 0, &text)?;
    same!(committed(&client, &topic)?, (Offset::Offset(0), text), "offset and metadata");
    Ok(())
}

fn auto_commit(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    ctx.produce(&topic, &sample(10, 100), &[])?;
    let conf = [("enable.auto.commit", "true"), ("auto.commit.interval.ms", "100")];
    let member = Member::new(ctx, &topic, &ctx.name("g"), &conf)?;
    ctx.take(&member.client, 10)?;
    ctx.until("the automatic commit", || {
        poll(&member.client, MOMENT)?;
        Ok((committed(&member.client, &topic)?.0 == Offset::Offset(10)).then_some(()))
    })
}

fn rebalance(ctx: &Ctx, strategy: &str) -> Res {
    let (topic, group) = (ctx.create(4)?, ctx.name("g"));
    let conf = [("partition.assignment.strategy", strategy)];
    ctx.produce(&topic, &sample(200, 100), &[])?;
    let mut first = Member::new(ctx, &topic, &group, &conf)?;
    settle(ctx, &mut [&mut first], &[4])?;
    let mut second = Member::new(ctx, &topic, &group, &conf)?;
    settle(ctx, &mut [&mut first, &mut second], &[2, 2])?;
    let mut seen = numbers(&first.got);
    drop(first);
    settle(ctx, &mut [&mut second], &[4])?;
    ctx.until("every record", || {
        second.poll()?;
        seen.extend(numbers(&second.got));
        Ok((seen.len() == 200).then_some(()))
    })
}

fn static_membership(ctx: &Ctx) -> Res {
    let (topic, group) = (ctx.create(4)?, ctx.name("g"));
    let mut one = Member::new(ctx, &topic, &group, &[("group.instance.id", "one")])?;
    let mut two = Member::new(ctx, &topic, &group, &[("group.instance.id", "two")])?;
    settle(ctx, &mut [&mut one, &mut two], &[2, 2])?;
    let (changes, share) = (one.changes(), two.share()?);
    drop(two);
    let mut again = Member::new(ctx, &topic, &group, &[("group.instance.id", "two")])?;
    settle(ctx, &mut [&mut one, &mut again], &[2, 2])?;
    same!(again.share()?, share, "the returning member's partitions");
    same!(one.changes(), changes, "rebalances of the other member");
    Ok(())
}

fn member_timeout(ctx: &Ctx) -> Res {
    let (topic, group) = (ctx.create(2)?, ctx.name("g"));
    let brief = [("session.timeout.ms", "6000"), ("max.poll.interval.ms", "6000")];
    let mut lazy = Member::new(ctx, &topic, &group, &brief)?;
    settle(ctx, &mut [&mut lazy], &[2])?;
    let mut eager = Member::new(ctx, &topic, &group, &[])?;
    settle(ctx, &mut [&mut eager], &[2]) // the lazy one never polls again, so it never rejoins
}

fn new_partitions_in_group(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    let mut member = Member::new(ctx, &topic, &ctx.name("g"), &[("topic.metadata.refresh.interval.ms", "500")])?;
    settle(ctx, &mut [&mut member], &[1])?;
    each(block_on(ctx.admin()?.create_partitions([&NewPartitions::new(&topic, 3)], &patience()))?)?;
    settle(ctx, &mut [&mut member], &[3])?;
    let records = sample(5, 100).into_iter().map(|record| Rec { partition: Some(2), ..record }).collect::<Vec<_>>();
    ctx.produce(&topic, &records, &[])?;
    ctx.until("records of the new partition", || {
        member.poll()?;
        Ok((member.got.len() == 5).then_some(()))
    })
}

fn restart_resume_group(ctx: &Ctx) -> Res {
    let (topic, group) = (ctx.create(1)?, ctx.name("g"));
    let records = sample(100, 100);
    ctx.produce(&topic, &records, &[("compression.type", "zstd")])?;
    read_and_commit(ctx, &topic, &group, 40)?;
    ctx.restart();
    let second = Member::new(ctx, &topic, &group, &[])?;
    same!(offsets(&ctx.take(&second.client, 60)?), (40..100).collect::<Vec<_>>(), "offsets after the restart");
    same!(plain(&ctx.read(&topic, 1, 100, &[])?), records, "records from the beginning");
    Ok(())
}

fn restart_live_clients(ctx: &Ctx) -> Res {
    let topic = ctx.create(2)?;
    let records = sample(100, 100);
    let producer = ctx.producer(&[("reconnect.backoff.max.ms", "500")])?;
    let member = Member::new(ctx, &topic, &ctx.name("g"), &[("reconnect.backoff.max.ms", "500")])?;
    send(&producer, &topic, &records[..50])?;
    let mut seen = numbers(&ctx.take(&member.client, 50)?);
    member.client.commit_consumer_state(CommitMode::Sync)?;
    ctx.restart();
    send(&producer, &topic, &records[50..])?;
    ctx.until("the records after the restart", || {
        // A lost connection is an event of its own in librdkafka, not the end.
        if let Some(Ok(message)) = member.client.poll(MOMENT) {
            seen.insert(number(&message.detach()));
        }
        Ok((seen.len() == 100).then_some(()))
    })
}

fn restart_idempotent(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    let conf = [("enable.idempotence", "true"), ("reconnect.backoff.max.ms", "500"), ("linger.ms", "0")];
    let producer = ctx.producer(&conf)?;
    let records = sample(200, 100);
    send(&producer, &topic, &records[..100])?;
    ctx.restart();
    send(&producer, &topic, &records[100..])?;
    same!(plain(&ctx.read(&topic, 1, 200, &[])?), records, "records");
    let watermarks = ctx.consumer(&ctx.name("g"), &[])?.fetch_watermarks(&topic, 0, SECONDS)?;
    same!(watermarks, (0, 200), "watermarks");
    Ok(())
}

fn restart_topic_settings(ctx: &Ctx) -> Res {
    let topic = ctx.create_with(3, &[("retention.ms", "123456789")])?;
    ctx.restart();
    same!(ctx.partitions(&topic)?, 3, "partitions");
    let found = ctx.describe_config(ResourceSpecifier::Topic(&topic))?;
    same!(found["retention.ms"].value.as_deref(), Some("123456789"), "config");
    ctx.note("without the topic id, which the client does not show");
    Ok(())
}
