//! Producing and consuming.

use crate::base::*;
use crate::{check, same};
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Message, Timestamp};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeSet;
use std::time::Duration;

pub const CASES: &[(&str, fn(&Ctx) -> Res)] = &[
    ("produce_none", |ctx| produce_and_read(ctx, "none")),
    ("produce_gzip", |ctx| produce_and_read(ctx, "gzip")),
    ("produce_snappy", |ctx| produce_and_read(ctx, "snappy")),
    ("produce_lz4", |ctx| produce_and_read(ctx, "lz4")),
    ("produce_zstd", |ctx| produce_and_read(ctx, "zstd")),
    ("acks", acks),
    ("headers", headers),
    ("null_key_and_value", null_key_and_value),
    ("idempotent_producer", idempotent_producer),
    ("timestamps", timestamps),
    ("log_append_time", log_append_time),
    ("auto_create_topic", auto_create_topic),
    ("many_partitions", many_partitions),
    ("large_message", large_message),
    ("batch_larger_than_fetch", batch_larger_than_fetch),
    ("many_batches", many_batches),
    ("compacted_topic", compacted_topic),
    ("topic_compression", topic_compression),
    ("consume_by_assignment", consume_by_assignment),
    ("consume_by_group", consume_by_group),
    ("subscribe_pattern", subscribe_pattern),
    ("seek_into_batch", seek_into_batch),
    ("seek_by_time", seek_by_time),
    ("beginning_and_end_offsets", beginning_and_end_offsets),
    ("empty_poll", empty_poll),
    ("reset_latest", reset_latest),
    ("read_committed", read_committed),
    ("pause_and_resume", pause_and_resume),
];

fn produce_and_read(ctx: &Ctx, codec: &str) -> Res {
    let topic = ctx.create(1)?;
    let records = sample(500, 100);
    ctx.produce(&topic, &records, &[("compression.type", codec), ("acks", "all")])?;
    same!(plain(&ctx.read(&topic, 1, 500, &[])?), records, "records");
    Ok(())
}

fn acks(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    for level in ["0", "1"] {
        ctx.produce(&topic, &sample(50, 100), &[("acks", level)])?;
    }
    same!(ctx.read(&topic, 1, 100, &[])?.len(), 100, "records");
    Ok(())
}

fn headers(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    let pairs: [(&str, Option<&[u8]>); 6] = [
        ("trace", Some(b"\x00\xff")),
        ("twice", Some(b"1")),
        ("twice", Some(b"2")),
        ("empty", Some(b"")),
        ("null", None),
        ("käse", Some("ü".as_bytes())),
    ];
    let mut first = rec(Some("k"), Some("v"));
    first.headers = pairs.iter().map(|(key, value)| (key.to_string(), value.map(<[u8]>::to_vec))).collect();
    let sent = vec![first, rec(Some("k"), Some("none"))];
    ctx.produce(&topic, &sent, &[])?;
    same!(plain(&ctx.read(&topic, 1, 2, &[])?), sent, "records with headers");
    Ok(())
}

fn null_key_and_value(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    ctx.produce(&topic, &tricky(), &[])?;
    same!(plain(&ctx.read(&topic, 1, tricky().len(), &[])?), tricky(), "records");
    Ok(())
}

fn idempotent_producer(ctx: &Ctx) -> Res {
    let topic = ctx.create(3)?;
    let conf = [("enable.idempotence", "true"), ("batch.num.messages", "20"), ("linger.ms", "0")];
    same!(ctx.produce(&topic, &sample(3000, 100), &conf)?.len(), 3000, "delivery reports");
    let got = ctx.read(&topic, 3, 3000, &[])?;
    same!(numbers(&got), (0..3000).collect(), "records");
    for partition in 0..3 {
        let mine: Vec<_> = got.iter().filter(|message| message.partition() == partition).cloned().collect();
        same!(offsets(&mine), (0..mine.len() as i64).collect::<Vec<_>>(), "offsets");
        let order: Vec<_> = mine.iter().map(number).collect();
        same!(order, numbers(&mine).into_iter().collect::<Vec<_>>(), "order in partition {partition}");
    }
    Ok(())
}

fn timed(values: impl Iterator<Item = (usize, i64)>) -> Vec<Rec> {
    values.map(|(n, timestamp)| Rec { timestamp: Some(timestamp), ..rec(None, Some(&n.to_string())) }).collect()
}

fn timestamps(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    let start = now() - 60_000;
    ctx.produce(&topic, &timed((0..5).map(|n| (n, start + n as i64 * 1000))), &[])?;
    let got: Vec<_> = ctx.read(&topic, 1, 5, &[])?.iter().map(Message::timestamp).collect();
    same!(got, (0..5).map(|n| Timestamp::CreateTime(start + n * 1000)).collect::<Vec<_>>(), "timestamps");
    Ok(())
}

fn log_append_time(ctx: &Ctx) -> Res {
    let topic = ctx.create_with(1, &[("message.timestamp.type", "LogAppendTime")])?;
    let before = now() - 1000;
    ctx.produce(&topic, &timed([(0, 1_000_000_000_000)].into_iter()), &[])?;
    match ctx.read(&topic, 1, 1, &[])?[0].timestamp() {
        Timestamp::LogAppendTime(stamp) => check!((before..now() + 1000).contains(&stamp), "timestamp {stamp} is not the broker's"),
        other => return Err(format!("timestamp {other:?}").into()),
    }
    Ok(())
}

fn auto_create_topic(ctx: &Ctx) -> Res {
    let topic = ctx.name("t");
    ctx.produce(&topic, &sample(10, 100), &[])?;
    same!(ctx.read(&topic, 1, 10, &[])?.len(), 10, "records");
    Ok(())
}

fn many_partitions(ctx: &Ctx) -> Res {
    let topic = ctx.create(60)?;
    ctx.produce(&topic, &spread(sample(1200, 10), 60), &[])?;
    let got = ctx.read(&topic, 60, 1200, &[])?;
    let places: BTreeSet<_> = got.iter().map(|message| (number(message), message.partition())).collect();
    same!(places, (0..1200).map(|n| (n, n as i32 % 60)).collect(), "records");
    Ok(())
}

fn large_message(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    let big = sample(1, 1_000_000);
    ctx.produce(&topic, &big, &[("message.max.bytes", "1048000")])?; // its own default leaves no room for overhead
    check!(plain(&ctx.read(&topic, 1, 1, &[])?) == big, "1 MB message");
    let topic = ctx.create_with(1, &[("max.message.bytes", "4000000")])?;
    let big = sample(1, 3_000_000);
    ctx.produce(&topic, &big, &[("message.max.bytes", "4000000")])?;
    check!(plain(&ctx.read(&topic, 1, 1, &[])?) == big, "3 MB message");
    Ok(())
}

fn batch_larger_than_fetch(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    let records = sample(200, 1000);
    ctx.produce(&topic, &records, &[("linger.ms", "200")])?;
    let small = [("fetch.message.max.bytes", "1000"), ("fetch.max.bytes", "1000"), ("message.max.bytes", "1000")];
    check!(plain(&ctx.read(&topic, 1, 200, &small)?) == records, "records differ");
    Ok(())
}

fn many_batches(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    let records = sample(20_000, 100);
    ctx.produce(&topic, &records, &[("batch.num.messages", "100")])?;
    let got = ctx.read(&topic, 1, 20_000, &[])?;
    same!(offsets(&got), (0..20_000).collect::<Vec<_>>(), "offsets");
    check!(plain(&got) == records, "records differ");
    Ok(())
}

fn compacted_topic(ctx: &Ctx) -> Res {
    let topic = ctx.create_with(1, &[("cleanup.policy", "compact")])?;
    ctx.produce(&topic, &[rec(Some("a"), Some("1")), rec(Some("b"), Some("2")), rec(Some("a"), None)], &[])?;
    same!(plain(&ctx.read(&topic, 1, 3, &[])?)[2], rec(Some("a"), None), "tombstone");
    Ok(())
}

fn topic_compression(ctx: &Ctx) -> Res {
    for codec in ["gzip", "uncompressed", "zstd", "snappy"] {
        let topic = ctx.create_with(1, &[("compression.type", codec)])?;
        let records = sample(100, 100);
        ctx.produce(&topic, &records, &[("compression.type", "lz4"), ("linger.ms", "50")])?;
        same!(plain(&ctx.read(&topic, 1, 100, &[])?), records, "records stored as {codec}");
    }
    Ok(())
}

fn consume_by_assignment(ctx: &Ctx) -> Res {
    let topic = ctx.create(3)?;
    ctx.produce(&topic, &spread(sample(60, 100), 3), &[])?;
    let consumer = ctx.consumer(&ctx.name("g"), &[])?;
    consumer.assign(&places(&topic, [0, 2], Offset::Beginning)?)?;
    let got: BTreeSet<_> = ctx.take(&consumer, 40)?.iter().map(Message::partition).collect();
    same!(got, BTreeSet::from([0, 2]), "partitions");
    Ok(())
}

/// With the asynchronous consumer, as most programs have it.
fn consume_by_group(ctx: &Ctx) -> Res {
    let topic = ctx.create(3)?;
    let records = sample(300, 100);
    ctx.produce(&topic, &records, &[])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let mut got = runtime.block_on(async {
        let group = ctx.name("g");
        let consumer: StreamConsumer = ctx.config(&[("group.id", &group), ("auto.offset.reset", "earliest")]).create()?;
        consumer.subscribe(&[&topic])?;
        let mut got = vec![];
        while got.len() < 300 {
            got.push(tokio::time::timeout(SECONDS, consumer.recv()).await??.detach());
        }
        Res::Ok(got)
    })?;
    got.sort_by_key(number);
    same!(plain(&got), records, "records");
    Ok(())
}

fn subscribe_pattern(ctx: &Ctx) -> Res {
    let prefix = ctx.name("t");
    for suffix in ["one", "two"] {
        ctx.produce(&format!("{prefix}.{suffix}"), &sample(10, 100), &[])?;
    }
    let consumer = ctx.consumer(&ctx.name("g"), &[("topic.metadata.refresh.interval.ms", "500")])?;
    consumer.subscribe(&[&format!("^{}\\..*", prefix.replace('.', "\\."))])?;
    let mut seen = BTreeSet::new();
    let mut look = |count: usize| {
        if let Some(message) = poll(&consumer, MOMENT)? {
            seen.insert(message.topic().to_string());
        }
        Ok((seen.len() == count).then_some(()))
    };
    ctx.until("both topics", || look(2))?;
    ctx.produce(&format!("{prefix}.three"), &sample(10, 100), &[])?;
    ctx.until("the later topic", || look(3))
}

fn seek_into_batch(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    ctx.produce(&topic, &sample(100, 100), &[("linger.ms", "200"), ("compression.type", "lz4")])?;
    let consumer = ctx.consumer(&ctx.name("g"), &[])?;
    consumer.assign(&places(&topic, [0], Offset::Offset(57))?)?;
    same!(offsets(&ctx.take(&consumer, 43)?), (57..100).collect::<Vec<_>>(), "offsets after assign");
    consumer.seek(&topic, 0, Offset::Offset(33), SECONDS)?;
    same!(offsets(&ctx.take(&consumer, 1)?), [33], "offset after seek");
    Ok(())
}

fn seek_by_time(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    let start = now() - 600_000;
    ctx.produce(&topic, &timed((0..100).map(|n| (n, start + n as i64 * 1000))), &[("linger.ms", "100")])?;
    let consumer = ctx.consumer(&ctx.name("g"), &[])?;
    for (time, expected) in [(start + 39_500, Offset::Offset(40)), (start + 1_000_000, Offset::End)] {
        let found = consumer.offsets_for_times(places(&topic, [0], Offset::Offset(time))?, SECONDS)?;
        same!(found.elements()[0].offset(), expected, "offset for a time");
    }
    consumer.assign(&places(&topic, [0], Offset::Offset(40))?)?;
    same!(plain(&ctx.take(&consumer, 1)?)[0], rec(None, Some("40")), "record at the offset");
    Ok(())
}

fn beginning_and_end_offsets(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    let consumer = ctx.consumer(&ctx.name("g"), &[])?;
    same!(consumer.fetch_watermarks(&topic, 0, SECONDS)?, (0, 0), "empty");
    ctx.produce(&topic, &sample(25, 100), &[])?;
    same!(consumer.fetch_watermarks(&topic, 0, SECONDS)?, (0, 25), "written");
    Ok(())
}

fn empty_poll(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    let consumer = ctx.consumer(&ctx.name("g"), &[("enable.partition.eof", "true")])?;
    consumer.assign(&places(&topic, [0], Offset::Beginning)?)?;
    let eof = |wait: Duration| match consumer.poll(wait) {
        Some(Err(KafkaError::PartitionEOF(0))) => Ok(Some(())),
        Some(Ok(_)) => Err("a message of an empty topic".into()),
        Some(Err(error)) => Err(error.into()),
        None => Ok(None),
    };
    ctx.until("the end of the partition", || eof(MOMENT))?;
    ctx.produce(&topic, &sample(1, 100), &[])?;
    ctx.until("the record", || Ok(matches!(consumer.poll(MOMENT), Some(Ok(_))).then_some(())))
}

fn reset_latest(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    ctx.produce(&topic, &sample(10, 100), &[])?;
    let consumer = ctx.consumer(&ctx.name("g"), &[("auto.offset.reset", "latest")])?;
    consumer.subscribe(&[&topic])?;
    // It may look up the end after we wrote: write again.
    let first = ctx.until("a new record", || {
        ctx.produce(&topic, &[rec(Some("new"), Some("new"))], &[])?;
        poll(&consumer, MOMENT)
    })?;
    same!(plain(&[first])[0], rec(Some("new"), Some("new")), "first record");
    Ok(())
}

fn read_committed(ctx: &Ctx) -> Res {
    let topic = ctx.create(1)?;
    ctx.produce(&topic, &sample(100, 100), &[("enable.idempotence", "true")])?;
    for level in ["read_committed", "read_uncommitted"] {
        same!(ctx.read(&topic, 1, 100, &[("isolation.level", level)])?.len(), 100, "records");
    }
    Ok(())
}

fn pause_and_resume(ctx: &Ctx) -> Res {
    let topic = ctx.create(2)?;
    ctx.produce(&topic, &spread(sample(40, 100), 2), &[])?;
    let consumer = ctx.consumer(&ctx.name("g"), &[])?;
    consumer.assign(&places(&topic, [0, 1], Offset::Beginning)?)?;
    let mut zero = TopicPartitionList::new();
    zero.add_partition(&topic, 0);
    consumer.pause(&zero)?;
    check!(ctx.take(&consumer, 20)?.iter().all(|message| message.partition() == 1), "a record of the paused partition");
    consumer.resume(&zero)?;
    check!(ctx.take(&consumer, 20)?.iter().all(|message| message.partition() == 0), "a record of the other partition");
    Ok(())
}
