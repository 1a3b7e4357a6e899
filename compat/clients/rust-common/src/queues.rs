//! Queue topics: a Shared or Key_Shared subscription for consumer groups.

use crate::base::*;
use crate::{check, same};
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Headers, Message, OwnedMessage};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

pub const CASES: &[(&str, fn(&Ctx) -> Res)] = &[
    ("queue_create", queue_create),
    ("queue_auto_commit", queue_auto_commit),
    ("queue_auto_commit_counts", queue_auto_commit_counts),
    ("queue_manual_commit", queue_manual_commit),
    ("queue_foreign_metadata", queue_foreign_metadata),
    ("queue_malformed", queue_malformed),
    ("queue_nack", queue_nack),
    ("queue_nack_holds_key", queue_nack_holds_key),
    ("queue_dead_letter", queue_dead_letter),
    ("queue_poison", queue_poison),
    ("queue_delayed_and_retry", queue_delayed_and_retry),
    ("queue_rebalance", queue_rebalance),
    ("queue_consumer_protocol", queue_consumer_protocol),
    ("queue_crash", queue_crash),
    ("queue_example", queue_example),
    ("restart_queue", restart_queue),
];

/// A lane and an offset: one delivery.
type Place = (i32, i64);

/// A topic with lanes over it.
struct Queue<'a> {
    ctx: &'a Ctx,
    base: String,
    group: String,
    name: String,
    dead: String,
    retry: String,
}

impl<'a> Queue<'a> {
    fn new(ctx: &'a Ctx, lanes: i32, configs: Conf) -> Res<Queue<'a>> {
        let (base, group) = (ctx.create(2)?, ctx.name("g"));
        let called = |kind: &str| format!("{base}-{group}-{kind}");
        let (name, dead, retry) = (called("QUEUE"), called("DLQ"), called("RETRY"));
        make(ctx, &name, lanes, configs)?;
        Ok(Queue { ctx, base, group, name, dead, retry })
    }

    /// Records whose values are these numbers, dealt to so many keys.
    fn feed(&self, numbers: impl IntoIterator<Item = usize>, keys: usize) -> Res {
        let records: Vec<_> = numbers.into_iter().map(|n| keyed(&format!("key-{}", n % keys), n)).collect();
        self.ctx.produce(&self.base, &records, &[])?;
        Ok(())
    }

    fn join(&self, conf: Conf) -> Res<Reader> {
        let client = self.ctx.consumer(&self.group, conf)?;
        client.subscribe(&[&self.name])?;
        Ok(client)
    }

    /// Lane -> (offset, metadata), by a member, waiting for the answer.
    fn commit(&self, client: &Reader, places: &BTreeMap<i32, (i64, String)>) -> Res {
        let mut list = TopicPartitionList::new();
        for (lane, (offset, metadata)) in places {
            let mut element = list.add_partition(&self.name, *lane);
            element.set_offset(Offset::Offset(*offset))?;
            element.set_metadata(metadata);
        }
        client.commit(&list, CommitMode::Sync)?;
        Ok(())
    }

    fn committed(&self, lane: i32) -> Res<(i64, String)> {
        let asking = self.ctx.consumer(&self.group, &[])?;
        let found = asking.committed_offsets(places(&self.name, [lane], Offset::Invalid)?, SECONDS)?;
        let element = &found.elements()[0];
        element.error()?;
        Ok((element.offset().to_raw().unwrap_or(-1), element.metadata().to_string()))
    }

    /// So many more, each committed; then there is nothing else.
    fn finish(&self, client: &Reader, count: usize) -> Res<Vec<OwnedMessage>> {
        let mut found = vec![];
        self.ctx.until(&format!("{count} deliveries"), || {
            if let Some(message) = poll(client, MOMENT)? {
                self.commit(client, &behind([&message]))?;
                found.push(message);
            }
            Ok((found.len() >= count).then_some(()))
        })?;
        self.nothing_else(client)?;
        Ok(found)
    }

    fn nothing_else(&self, client: &Reader) -> Res {
        let more = poll(client, Duration::from_millis(500))?;
        check!(more.is_none(), "a further delivery: {more:?}");
        Ok(())
    }

    fn is_dead(&self) -> Res<bool> {
        Ok(self.ctx.topics()?.contains(&self.dead))
    }

    /// All records of the dead letter topic, which then holds so many and no more.
    fn dead_letters(&self, count: usize) -> Res<Vec<OwnedMessage>> {
        self.ctx.until("the dead letter topic", || Ok(self.is_dead()?.then_some(())))?;
        let partitions = self.ctx.partitions(&self.dead)? as i32;
        let found = self.ctx.read(&self.dead, partitions, count, &[])?;
        let asking = self.ctx.consumer(&self.ctx.name("g"), &[])?;
        let mut written = 0;
        for partition in 0..partitions {
            written += asking.fetch_watermarks(&self.dead, partition, SECONDS)?.1;
        }
        same!(written, count as i64, "dead letters");
        Ok(found)
    }
}

fn make(ctx: &Ctx, name: &str, lanes: i32, configs: Conf) -> Res {
    create_topic(ctx, rdkafka::admin::NewTopic { config: configs.to_vec(), ..new_topic(name, lanes) }, false)
}

fn keyed(key: &str, number: usize) -> Rec {
    rec(Some(key), Some(&number.to_string()))
}

fn with_header(record: Rec, name: &str, value: i64) -> Rec {
    Rec { headers: vec![(name.to_string(), Some(value.to_string().into_bytes()))], ..record }
}

/// To commit all of these.
fn behind<'a>(messages: impl IntoIterator<Item = &'a OwnedMessage>) -> BTreeMap<i32, (i64, String)> {
    let mut found = BTreeMap::new();
    for message in messages {
        let place = found.entry(message.partition()).or_insert((0, String::new()));
        place.0 = place.0.max(message.offset() + 1);
    }
    found
}

/// The same with metadata, of deliveries of lane 0.
fn saying<'a>(messages: impl IntoIterator<Item = &'a OwnedMessage>, metadata: String) -> BTreeMap<i32, (i64, String)> {
    let mut found = behind(messages);
    found.get_mut(&0).expect("lane 0").1 = metadata;
    found
}

fn value(message: &OwnedMessage) -> String {
    String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned()
}

fn values(messages: &[OwnedMessage]) -> Vec<usize> {
    let mut found: Vec<usize> = messages.iter().filter_map(|message| value(message).parse().ok()).collect();
    found.sort();
    found
}

fn spots(messages: &[OwnedMessage]) -> BTreeSet<Place> {
    messages.iter().map(|message| (message.partition(), message.offset())).collect()
}

fn header(message: &OwnedMessage, name: &str) -> String {
    let found = message.headers().and_then(|all| all.iter().find(|header| header.key == name));
    found.and_then(|header| header.value).map_or(String::new(), |value| String::from_utf8_lossy(value).into_owned())
}

const KEY_SHARED: (&str, &str) = ("pulsar.subscription.type", "key_shared");

fn queue_create(ctx: &Ctx) -> Res {
    let queue = Queue::new(ctx, 5, &[KEY_SHARED])?;
    same!(ctx.partitions(&queue.name)?, 5, "partitions");
    same!(failure(make(ctx, &queue.name, 5, &[]))?, RDKafkaErrorCode::TopicAlreadyExists, "the error of a second one");
    let other = format!("{}-other-QUEUE", queue.base);
    let code = failure(make(ctx, &other, 5, &[("pulsar.nack.delay.ms", "soon")]))?;
    same!(code, RDKafkaErrorCode::InvalidConfig, "the error of a wrong config");
    let code = failure(ctx.produce(&queue.name, &[keyed("k", 1)], &[]))?;
    same!(code, RDKafkaErrorCode::InvalidTopic, "the error of a producer");
    Ok(())
}

fn queue_auto_commit(ctx: &Ctx) -> Res {
    let queue = Queue::new(ctx, 4, &[KEY_SHARED])?;
    let conf = [("enable.auto.commit", "true"), ("auto.commit.interval.ms", "100")];
    queue.feed(0..500, 10)?;
    let first = queue.join(&conf)?;
    let mut found = ctx.take(&first, 500)?;
    ctx.until("the automatic commits", || {
        poll(&first, MOMENT)?;
        let mut sum = 0;
        for lane in 0..4 {
            sum += queue.committed(lane)?.0;
        }
        Ok((sum == 500).then_some(()))
    })?;
    drop(first);
    queue.feed(500..700, 10)?;
    let second = queue.join(&conf)?;
    found.extend(ctx.take(&second, 200)?);
    queue.nothing_else(&second)?;
    same!(values(&found), (0..700).collect::<Vec<_>>(), "each once");
    Ok(())
}

fn queue_auto_commit_counts(ctx: &Ctx) -> Res {
    let queue = Queue::new(ctx, 1, &[])?;
    queue.feed(0..10, 10)?;
    let client = queue.join(&[("enable.auto.commit", "true"), ("auto.commit.interval.ms", "400")])?;
    // what is committed when several intervals are over, in which the consumer works and does not poll
    let working = || -> Res<i64> {
        let end = Instant::now() + Duration::from_millis(1600);
        ctx.until("some automatic commits", || {
            let found = queue.committed(0)?.0;
            Ok((Instant::now() > end).then_some(found))
        })
    };
    ctx.take(&client, 1)?;
    let in_work = working()?;
    ctx.take(&client, 1)?;
    let second = working()?;
    drop(client);
    let closed = queue.committed(0)?.0;
    ctx.note(&format!("acknowledged: {in_work} of 1, {second} of 2 in work; {closed} of 10 behind its end"));
    same!((in_work, second), (1, 2), "what auto-commit counted");
    // a BaseConsumer that is dropped polls what it has fetched, and so has some or all of it committed: nobody saw it
    check!((2..=10).contains(&closed), "{closed} are acknowledged behind its end");
    Ok(())
}

fn queue_manual_commit(ctx: &Ctx) -> Res {
    let queue = Queue::new(ctx, 2, &[KEY_SHARED])?;
    queue.feed(0..40, 10)?;
    let first = queue.join(&[])?;
    let found = ctx.take(&first, 40)?;
    let ends = behind(&found);
    let (last, done): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|message| ends[&message.partition()].0 == message.offset() + 1);
    queue.commit(&first, &behind(&done))?;
    drop(first);
    let again = queue.finish(&queue.join(&[])?, last.len())?;
    same!(spots(&again), spots(&last), "lanes and offsets of what was not committed");
    Ok(())
}

fn queue_foreign_metadata(ctx: &Ctx) -> Res {
    let queue = Queue::new(ctx, 1, &[])?;
    queue.feed(0..10, 10)?;
    let client = queue.join(&[])?;
    let found = ctx.take(&client, 10)?;
    let long = format!("käse {{\"a\": [1, 2]}} {}", "x".repeat(500));
    for (upto, text) in [(4, long.as_str()), (6, "acknowledged"), (9, "")] {
        queue.commit(&client, &saying(&found[..upto], text.to_string()))?;
        same!(queue.committed(0)?, (upto as i64, text.to_string()), "offset and metadata");
    }
    drop(client);
    same!(spots(&queue.finish(&queue.join(&[])?, 1)?), BTreeSet::from([(0, 9)]), "what was not committed");
    Ok(())
}

fn queue_malformed(ctx: &Ctx) -> Res {
    let queue = Queue::new(ctx, 1, &[])?;
    queue.feed(0..5, 5)?;
    let client = queue.join(&[])?;
    let found = ctx.take(&client, 5)?;
    for text in ["ack1;n:soon=3", "ack1;x=3", "ack2;n=3", "ack1;n=3,2", "ack1;n=99"] {
        let code = failure(queue.commit(&client, &saying(&found, text.to_string())))?;
        same!(code, RDKafkaErrorCode::InvalidRequest, "the error of {text}");
    }
    let code = failure(queue.commit(&client, &saying(&found, " ".repeat(5000))))?;
    same!(code, RDKafkaErrorCode::OffsetMetadataTooLarge, "the error of much metadata");
    drop(client);
    same!(values(&queue.finish(&queue.join(&[])?, 5)?), (0..5).collect::<Vec<_>>(), "what comes again");
    Ok(())
}

fn queue_nack(ctx: &Ctx) -> Res {
    let queue = Queue::new(ctx, 1, &[KEY_SHARED])?;
    queue.feed(0..10, 10)?;
    let client = queue.join(&[])?;
    let found = ctx.take(&client, 10)?;
    let bad = found.iter().find(|message| value(message) == "3").expect("record 3");
    let start = Instant::now();
    queue.commit(&client, &saying(&found, format!("ack1;n:700={}", bad.offset())))?;
    ctx.produce(&queue.base, &[keyed("key-4", 10), keyed("key-5", 11)], &[])?;
    let later = ctx.take(&client, 3)?;
    check!(start.elapsed() > Duration::from_millis(698), "the nacked one came early");
    same!(value(&later[2]), "3", "the last of three that came");
    check!(later[2].offset() > bad.offset(), "a delivery has an offset of its own");
    queue.commit(&client, &behind(&later))?;
    queue.nothing_else(&client)
}

fn queue_nack_holds_key(ctx: &Ctx) -> Res {
    let queue = Queue::new(ctx, 1, &[KEY_SHARED])?;
    ctx.produce(&queue.base, &[keyed("a", 0), keyed("b", 1)], &[])?;
    let client = queue.join(&[])?;
    let first = ctx.take(&client, 2)?;
    let nacked = first.iter().find(|message| value(message) == "0").expect("record 0");
    queue.commit(&client, &saying(&first, format!("ack1;n:800={}", nacked.offset())))?;
    ctx.produce(&queue.base, &[keyed("a", 2), keyed("b", 3)], &[])?;
    let order: Vec<_> = queue.finish(&client, 3)?.iter().map(value).collect();
    same!(order, ["3", "0", "2"], "the order");
    Ok(())
}

fn queue_dead_letter(ctx: &Ctx) -> Res {
    let queue = Queue::new(ctx, 1, &[("pulsar.max.redeliver.count", "2"), ("pulsar.nack.delay.ms", "50")])?;
    queue.feed(0..20, 10)?;
    let client = queue.join(&[])?;
    let mut counts = HashMap::new();
    ctx.until("all to be settled", || {
        if let Some(message) = poll(&client, MOMENT)? {
            let (number, at) = (value(&message), message.offset());
            let said = match number.as_str() {
                "7" => format!("ack1;n={at}"),
                "11" => format!("ack1;d={at}"),
                _ => String::new(),
            };
            *counts.entry(number).or_insert(0) += 1;
            queue.commit(&client, &saying([&message], said))?;
        }
        Ok((counts.values().sum::<usize>() == 22).then_some(()))
    })?;
    queue.nothing_else(&client)?;
    same!(counts["7"], 3, "deliveries of what was nacked");
    let dead = queue.dead_letters(2)?;
    same!(values(&dead), [7, 11], "dead letters");
    let told: HashMap<_, _> =
        dead.iter().map(|letter| (value(letter), header(letter, "__dlq.errors.delivery.count"))).collect();
    same!((told["7"].as_str(), told["11"].as_str()), ("3", "1"), "their deliveries");
    Ok(())
}

fn queue_delayed_and_retry(ctx: &Ctx) -> Res {
    let queue = Queue::new(ctx, 2, &[])?;
    make(ctx, &queue.retry, 1, &[])?;
    let due = now() + 900;
    let delayed: Vec<_> = (0..3).map(|n| with_header(keyed("k", n), "pulsar-deliver-at", due)).collect();
    ctx.produce(&queue.base, &delayed, &[])?;
    let letters: Vec<_> = (3..6).map(|n| with_header(keyed("k", n), "DELAY_TIME", 900)).collect();
    ctx.produce(&queue.retry, &letters, &[])?;
    ctx.produce(&queue.base, &[keyed("k", 6)], &[])?;
    let client = queue.join(&[])?;
    same!(values(&ctx.take(&client, 1)?), [6], "what came first: what has no delay");
    let late = ctx.take(&client, 6)?;
    check!(now() >= due - 2, "some of them came early");
    same!(values(&late), (0..6).collect::<Vec<_>>(), "what came later");
    Ok(())
}

/// A member in a process of its own. What runs in it is `member`.
struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn new(queue: &Queue, poison: &str) -> Res<Process> {
        let words = ["--member", &queue.ctx.bootstrap(), &queue.group, &queue.name, poison].map(str::to_string);
        let mut child = Command::new(std::env::current_exe()?).args(words).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Ok(Process { child, lines })
    }

    /// Lane, offset and value; none when it is dead.
    fn next(&mut self) -> Res<Option<(Place, String)>> {
        let Some(line) = self.lines.next() else { return Ok(None) };
        let line = line?;
        let words: Vec<_> = line.split(' ').collect();
        Ok(Some(((words[0].parse()?, words[1].parse()?), words[2].to_string())))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bootstrap, group, topic, and the value of a record that kills it; without one it commits nothing.
pub fn member(words: &[String]) -> Res {
    let [bootstrap, group, topic, poison] = words else { return Err("four words are needed".into()) };
    let ctx = Ctx::new("member", bootstrap, Duration::from_secs(3600), None);
    let client = ctx.consumer(group, &[("session.timeout.ms", "2000"), ("heartbeat.interval.ms", "300")])?;
    client.subscribe(&[topic])?;
    loop {
        let Some(message) = poll(&client, MOMENT)? else { continue };
        println!("{} {} {}", message.partition(), message.offset(), value(&message));
        if !poison.is_empty() {
            if value(&message) == *poison {
                std::process::abort();
            }
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(topic, message.partition(), Offset::Offset(message.offset() + 1))?;
            client.commit(&list, CommitMode::Sync)?;
        }
    }
}

fn queue_crash(ctx: &Ctx) -> Res {
    let queue = Queue::new(ctx, 2, &[KEY_SHARED, ("pulsar.max.redeliver.count", "1")])?;
    queue.feed(0..30, 10)?;
    let mut dying = Process::new(&queue, "")?;
    let mut had = BTreeSet::new();
    while had.len() < 30 {
        had.insert(dying.next()?.ok_or("the member ended")?.0);
    }
    drop(dying);
    let found = queue.finish(&queue.join(&[])?, 30)?;
    same!(values(&found), (0..30).collect::<Vec<_>>(), "what went to another member");
    check!(spots(&found).is_disjoint(&had), "offsets were used twice");
    check!(!queue.is_dead()?, "there are dead letters");
    Ok(())
}

fn queue_poison(ctx: &Ctx) -> Res {
    let queue = Queue::new(ctx, 1, &[KEY_SHARED, ("pulsar.max.redeliver.count", "2")])?;
    queue.feed(0..40, 40)?;
    let mut done = BTreeSet::new();
    for _ in 0..3 {
        // the poison kills it; the next has to wait until the session of this one is over
        let mut worker = Process::new(&queue, "11")?;
        while let Some((_, value)) = worker.next()? {
            done.insert(value);
        }
    }
    let dead = queue.dead_letters(1)?;
    same!(values(&dead), [11], "dead letters");
    same!(header(&dead[0], "__dlq.errors.delivery.count"), "3", "its deliveries");
    let rest = queue.join(&[])?;
    ctx.until("all the others", || {
        if let Some(message) = poll(&rest, MOMENT)? {
            queue.commit(&rest, &behind([&message]))?;
            done.insert(value(&message));
        }
        Ok((done.len() == 40).then_some(()))
    })
}

/// What members tell: a key is on one lane, its records come first in their order, and none is left out.
#[derive(Default)]
struct Ledger {
    lanes: HashMap<Vec<u8>, i32>,
    seen: HashMap<Vec<u8>, i64>,
    acked: HashSet<(Vec<u8>, i64)>,
    wrong: Vec<String>,
}

impl Ledger {
    fn take(&mut self, message: &OwnedMessage) -> (Vec<u8>, i64) {
        let (key, lane) = (message.key().unwrap_or_default().to_vec(), message.partition());
        let number: i64 = value(message).parse().unwrap_or(-1);
        if *self.lanes.entry(key.clone()).or_insert(lane) != lane {
            self.wrong.push(format!("{number} of {key:?} came on a second lane {lane}"));
        }
        let seen = self.seen.entry(key.clone()).or_insert(-1);
        if number > *seen + 1 {
            self.wrong.push(format!("{number} of {key:?} came behind {seen}"));
        }
        *seen = number.max(*seen);
        (key, number)
    }
}

const REBALANCED: [RDKafkaErrorCode; 4] = [
    RDKafkaErrorCode::IllegalGeneration,
    RDKafkaErrorCode::UnknownMemberId,
    RDKafkaErrorCode::RebalanceInProgress,
    RDKafkaErrorCode::StaleMemberEpoch,
];

/// One member; the restless leave after some records, with records in hand, and come again.
fn work(queue: &Queue, conf: Conf, ledger: &Mutex<Ledger>, lives: &AtomicUsize, restless: usize) -> Res {
    let on = || {
        let ledger = ledger.lock().unwrap();
        ledger.acked.len() < 2000 && ledger.wrong.is_empty() && queue.ctx.overdue().is_zero()
    };
    while on() {
        let client = queue.join(conf)?;
        let life = lives.fetch_add(1, Ordering::SeqCst);
        let mut left = if restless > 0 { 60 + 37 * (life % 5) + restless } else { usize::MAX };
        while left > 0 && on() {
            let Some(message) = poll(&client, MOMENT)? else { continue };
            left -= 1;
            let taken = ledger.lock().unwrap().take(&message);
            if left == 0 {
                break; // in hand
            }
            let bad = (message.offset() + life as i64) % 20 == 0;
            let said = if bad { format!("ack1;n:20={}", message.offset()) } else { String::new() };
            let place = BTreeMap::from([(message.partition(), (message.offset() + 1, said))]);
            match queue.commit(&client, &place) {
                Ok(()) if !bad => drop(ledger.lock().unwrap().acked.insert(taken)),
                Ok(()) => {}
                Err(error) => {
                    let code = error.downcast_ref::<KafkaError>().and_then(KafkaError::rdkafka_error_code);
                    check!(code.is_some_and(|code| REBALANCED.contains(&code)), "a commit: {error}");
                }
            }
        }
    }
    Ok(())
}

const CONSUMER: Conf = &[("group.protocol", "consumer")];

fn queue_rebalance(ctx: &Ctx) -> Res {
    rebalance(ctx, [&[]; 4])
}

fn queue_consumer_protocol(ctx: &Ctx) -> Res {
    rebalance(ctx, [CONSUMER, CONSUMER, &[], CONSUMER])
}

/// Members with these settings; all but the first are restless.
fn rebalance(ctx: &Ctx, members: [Conf; 4]) -> Res {
    let queue = Queue::new(ctx, 8, &[KEY_SHARED, ("pulsar.max.redeliver.count", "-1")])?;
    let (ledger, lives) = (Mutex::new(Ledger::default()), AtomicUsize::new(0));
    std::thread::scope(|scope| -> Res {
        let (queue, ledger, lives) = (&queue, &ledger, &lives);
        let work = |n: usize| move || work(queue, members[n], ledger, lives, n);
        let workers: Vec<_> = (0..4).map(|n| scope.spawn(work(n))).collect();
        for number in 0..20 {
            let records: Vec<_> = (0..100).map(|key| keyed(&format!("key-{key}"), number)).collect();
            ctx.produce(&queue.base, &records, &[])?;
        }
        workers.into_iter().try_for_each(|worker| worker.join().unwrap())
    })?;
    let ledger = ledger.into_inner().unwrap();
    check!(ledger.wrong.is_empty(), "{}", ledger.wrong.join("; "));
    same!(ledger.acked.len(), 2000, "records that were acknowledged");
    let lives = lives.load(Ordering::SeqCst);
    check!(lives > 8, "{lives} members came and went");
    ctx.note(&format!("{lives} members"));
    Ok(())
}

fn queue_example(ctx: &Ctx) -> Res {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/QUEUE-CLIENTS.md");
    check!(std::fs::read_to_string(page)?.contains(include_str!("example.rs")), "the page shows another example");
    let queue = Queue::new(ctx, 1, &[])?;
    queue.feed(0..5, 5)?;
    let (bootstrap, topic, group) = (ctx.bootstrap(), queue.name.clone(), queue.group.clone());
    let (sender, worked) = std::sync::mpsc::channel();
    let failed = std::cell::Cell::new(false);
    // it never ends
    std::thread::spawn(move || {
        crate::example::consume(&bootstrap, &topic, &group, |value| {
            let _ = sender.send(String::from_utf8_lossy(value).into_owned());
            value != b"2" || failed.replace(true)
        })
    });
    let mut found = vec![];
    for _ in 0..6 {
        found.push(worked.recv_timeout(ctx.limit)?);
    }
    same!(found[5], "2", "what came last");
    found.sort();
    same!(found, ["0", "1", "2", "2", "3", "4"], "what was worked on");
    ctx.until("all to be acknowledged", || Ok((queue.committed(0)?.0 == 6).then_some(())))
}

fn restart_queue(ctx: &Ctx) -> Res {
    let queue = Queue::new(ctx, 2, &[KEY_SHARED])?;
    queue.feed(0..40, 10)?;
    let first = queue.join(&[])?;
    let found = ctx.take(&first, 40)?;
    let done = behind(&found[..20]);
    queue.commit(&first, &done)?;
    drop(first);
    let open: BTreeSet<Place> =
        spots(&found).into_iter().filter(|(lane, offset)| *offset >= done.get(lane).map_or(0, |place| place.0)).collect();
    ctx.restart();
    same!(spots(&queue.finish(&queue.join(&[])?, open.len())?), open, "what was open comes under its offsets");
    Ok(())
}
