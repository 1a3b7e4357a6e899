//! What the cases share: the context of a case, checks, making clients, topics, records.

use crate::Barrier;
use futures::executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigEntry, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub type Failure = Box<dyn Error + Send + Sync>;
pub type Res<T = ()> = Result<T, Failure>;

/// Settings of a client, in pairs.
pub type Conf<'a> = &'a [(&'a str, &'a str)];

pub const SECONDS: Duration = Duration::from_secs(15); // for one request
pub const MOMENT: Duration = Duration::from_millis(50); // for one poll

/// Fail with a text unless the condition holds.
#[macro_export]
macro_rules! check {
    ($condition:expr, $($what:tt)*) => {
        if !$condition {
            return Err(format!("{} ({}:{})", format!($($what)*), file!().rsplit('/').next().unwrap(), line!()).into());
        }
    };
}

/// Fail unless both are equal.
#[macro_export]
macro_rules! same {
    ($actual:expr, $expected:expr, $($what:tt)*) => {
        match (&$actual, &$expected) {
            (actual, expected) => $crate::check!(
                actual == expected, "{}: got {}, expected {}", format!($($what)*),
                $crate::base::short(actual), $crate::base::short(expected)
            ),
        }
    };
}

pub fn short(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

/// What a case gets: the server's address, unique names, the time that is left.
pub struct Ctx {
    pub limit: Duration,
    pub detail: Mutex<String>,
    pub refused: Mutex<String>,
    case: &'static str,
    bootstrap: Mutex<String>,
    end: Mutex<Option<Instant>>, // none while the server restarts
    barrier: Option<Arc<Barrier>>,
}

impl Ctx {
    pub fn new(case: &'static str, bootstrap: &str, limit: Duration, barrier: Option<Arc<Barrier>>) -> Ctx {
        Ctx {
            case,
            limit,
            barrier,
            bootstrap: Mutex::new(bootstrap.to_string()),
            end: Mutex::new(Some(Instant::now() + limit)),
            detail: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    pub fn bootstrap(&self) -> String {
        self.bootstrap.lock().unwrap().clone()
    }

    pub fn overdue(&self) -> Duration {
        self.end.lock().unwrap().map_or(Duration::ZERO, |end| Instant::now().saturating_duration_since(end))
    }

    pub fn note(&self, text: &str) {
        *self.detail.lock().unwrap() = text.to_string();
    }

    /// A name that nobody else has.
    pub fn name(&self, label: &str) -> String {
        format!("compat.{}.{label}.{}", self.case, &uuid::Uuid::new_v4().to_string()[..10])
    }

    /// Comes back after the server was restarted.
    pub fn restart(&self) {
        *self.end.lock().unwrap() = None;
        let address = self.barrier.as_ref().expect("not a restart case").arrive();
        *self.bootstrap.lock().unwrap() = address;
        *self.end.lock().unwrap() = Some(Instant::now() + self.limit);
    }

    /// Ask until there is an answer; fails when the time is up.
    pub fn until<T>(&self, what: &str, mut ask: impl FnMut() -> Res<Option<T>>) -> Res<T> {
        while self.overdue().is_zero() {
            if let Some(answer) = ask()? {
                return Ok(answer);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(format!("gave up waiting for {what}").into())
    }

    pub fn config(&self, conf: Conf) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.bootstrap()).set_log_level(RDKafkaLogLevel::Emerg);
        for (name, value) in crate::security::settings() {
            config.set(name, value);
        }
        for (name, value) in conf {
            config.set(*name, *value);
        }
        config
    }

    pub fn admin(&self) -> Res<AdminClient<DefaultClientContext>> {
        Ok(self.config(&[]).create()?)
    }

    pub fn create(&self, partitions: i32) -> Res<String> {
        self.create_with(partitions, &[])
    }

    /// A new topic with these configs. Comes back when the broker knows it.
    pub fn create_with(&self, partitions: i32, configs: Conf) -> Res<String> {
        let topic = self.name("t");
        create_topic(self, NewTopic { config: configs.to_vec(), ..new_topic(&topic, partitions) }, false)?;
        self.partitions(&topic)?;
        Ok(topic)
    }

    /// How many partitions it has. Kafka answers CreateTopics before its brokers know of it: ask until all have a leader.
    pub fn partitions(&self, topic: &str) -> Res<usize> {
        let admin = self.admin()?;
        self.until("the topic to be known", || {
            let metadata = admin.inner().fetch_metadata(Some(topic), SECONDS)?;
            let found = &metadata.topics()[0];
            let ready = found.error().is_none() && found.partitions().iter().all(|p| p.leader() >= 0 && p.isr().len() == 1);
            Ok((ready && !found.partitions().is_empty()).then(|| found.partitions().len()))
        })
    }

    /// The names of all topics.
    pub fn topics(&self) -> Res<Vec<String>> {
        let metadata = self.admin()?.inner().fetch_metadata(None, SECONDS)?;
        Ok(metadata.topics().iter().map(|topic| topic.name().to_string()).collect())
    }

    pub fn producer(&self, conf: Conf) -> Res<FutureProducer> {
        Ok(self.config(conf).create()?)
    }

    /// Produce with a client of its own and wait for all; the offsets.
    pub fn produce(&self, topic: &str, records: &[Rec], conf: Conf) -> Res<Vec<i64>> {
        let mut settings = vec![("linger.ms", "5")];
        settings.extend(conf);
        send(&self.producer(&settings)?, topic, records)
    }

    pub fn consumer(&self, group: &str, conf: Conf) -> Res<Reader> {
        let mut settings = vec![
            ("group.id", group),
            ("auto.offset.reset", "earliest"),
            ("enable.auto.commit", "false"),
            ("session.timeout.ms", "10000"),
            ("heartbeat.interval.ms", "500"),
            ("fetch.wait.max.ms", "100"),
        ];
        settings.extend(conf);
        if conf.contains(&("group.protocol", "consumer")) {
            // the server says these
            settings.retain(|(name, _)| !["session.timeout.ms", "heartbeat.interval.ms"].contains(name));
        }
        Ok(self.config(&settings).create_with_context(Changes::default())?)
    }

    /// Read `count` messages.
    pub fn take(&self, consumer: &Reader, count: usize) -> Res<Vec<OwnedMessage>> {
        let mut got = vec![];
        self.until(&format!("{count} messages"), || {
            while got.len() < count {
                match poll(consumer, MOMENT)? {
                    Some(message) => got.push(message),
                    None => return Ok(None),
                }
            }
            Ok(Some(()))
        })?;
        Ok(got)
    }

    /// All of a topic's messages by assignment, from the beginning.
    pub fn read(&self, topic: &str, partitions: i32, count: usize, conf: Conf) -> Res<Vec<OwnedMessage>> {
        let consumer = self.consumer(&self.name("g"), conf)?;
        consumer.assign(&places(topic, 0..partitions, Offset::Beginning)?)?;
        self.take(&consumer, count)
    }

    pub fn describe_config(&self, resource: ResourceSpecifier) -> Res<HashMap<String, ConfigEntry>> {
        let found = block_on(self.admin()?.describe_configs([&resource], &patience()))?.remove(0)
            .map_err(|code| KafkaError::AdminOp(code))?;
        Ok(found.entries.into_iter().map(|entry| (entry.name.clone(), entry)).collect())
    }
}

pub fn patience() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(SECONDS)).operation_timeout(Some(SECONDS))
}

pub fn new_topic(name: &str, partitions: i32) -> NewTopic<'_> {
    NewTopic::new(name, partitions, TopicReplication::Fixed(1))
}

pub fn create_topic(ctx: &Ctx, topic: NewTopic, validate_only: bool) -> Res {
    let results = block_on(ctx.admin()?.create_topics([&topic], &patience().validate_only(validate_only)))?;
    each(results)
}

/// The first error of an answer by name.
pub fn each(results: Vec<Result<String, (String, RDKafkaErrorCode)>>) -> Res {
    for result in results {
        result.map_err(|(_, code)| KafkaError::AdminOp(code))?;
    }
    Ok(())
}

/// A record to produce, or what is compared of one that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rec {
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    pub partition: Option<i32>,
    pub timestamp: Option<i64>,
}

pub fn rec(key: Option<&str>, value: Option<&str>) -> Rec {
    let bytes = |text: &str| text.as_bytes().to_vec();
    Rec { key: key.map(bytes), value: value.map(bytes), ..Rec::default() }
}

pub fn tricky() -> Vec<Rec> {
    let texts = [(Some("k"), Some("v")), (None, Some("no key")), (Some("no value"), None), (None, None), (Some(""), Some(""))];
    texts.iter().map(|(key, value)| rec(*key, *value)).collect()
}

/// Records with distinct keys; half of a value is text (compresses), half noise (does not).
pub fn sample(count: usize, size: usize) -> Vec<Rec> {
    let mut state: u64 = 7;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..count)
        .map(|n| {
            let mut value = vec![b'.'; size / 2];
            value.extend((size / 2..size).map(|_| noise()));
            Rec { key: Some(format!("key-{n}").into_bytes()), value: Some(value), ..Rec::default() }
        })
        .collect()
}

pub fn spread(mut records: Vec<Rec>, partitions: i32) -> Vec<Rec> {
    for (n, record) in records.iter_mut().enumerate() {
        record.partition = Some(n as i32 % partitions);
    }
    records
}

/// The number in the key of a sample record.
pub fn number(message: &OwnedMessage) -> usize {
    let key = String::from_utf8_lossy(message.key().unwrap_or_default()).into_owned();
    key.rsplit('-').next().and_then(|digits| digits.parse().ok()).expect("a sample record")
}

pub fn numbers<'a>(messages: impl IntoIterator<Item = &'a OwnedMessage>) -> BTreeSet<usize> {
    messages.into_iter().map(number).collect()
}

/// Keys, values and headers of what was read.
pub fn plain(messages: &[OwnedMessage]) -> Vec<Rec> {
    messages
        .iter()
        .map(|message| Rec {
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: message.headers().map_or(vec![], |headers| {
                headers.iter().map(|header| (header.key.to_string(), header.value.map(<[u8]>::to_vec))).collect()
            }),
            ..Rec::default()
        })
        .collect()
}

pub fn offsets(messages: &[OwnedMessage]) -> Vec<i64> {
    messages.iter().map(Message::offset).collect()
}

/// Hand over all, then wait for all; the offsets in order.
pub fn send(producer: &FutureProducer, topic: &str, records: &[Rec]) -> Res<Vec<i64>> {
    let mut waiting = vec![];
    for record in records {
        let mut message: FutureRecord<[u8], [u8]> = FutureRecord::to(topic);
        message.key = record.key.as_deref();
        message.payload = record.value.as_deref();
        message.partition = record.partition;
        message.timestamp = record.timestamp;
        if !record.headers.is_empty() {
            message.headers = Some(record.headers.iter().fold(OwnedHeaders::new(), |all, (key, value)| {
                all.insert(Header { key, value: value.as_ref() })
            }));
        }
        waiting.push(producer.send_result(message).map_err(|(error, _)| error)?);
    }
    waiting.into_iter().map(|delivery| Ok(block_on(delivery)?.map_err(|(error, _)| error)?.offset)).collect()
}

/// Counts rebalances.
#[derive(Default)]
pub struct Changes(pub AtomicUsize);

impl ClientContext for Changes {
    fn error(&self, _: KafkaError, _: &str) {} // lost connections; what matters comes with the answer
}

impl ConsumerContext for Changes {
    fn post_rebalance(&self, _: &BaseConsumer<Self>, _: &Rebalance<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub type Reader = BaseConsumer<Changes>;

/// One message, if there is one.
pub fn poll(consumer: &Reader, wait: Duration) -> Res<Option<OwnedMessage>> {
    match consumer.poll(wait) {
        None => Ok(None),
        Some(Ok(message)) => Ok(Some(message.detach())),
        Some(Err(error)) => Err(error.into()),
    }
}

pub fn places(topic: &str, partitions: impl IntoIterator<Item = i32>, offset: Offset) -> Res<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        list.add_partition_offset(topic, partition, offset)?;
    }
    Ok(list)
}

pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

/// The error code that an action ends with; fails when it ends well, or in another way.
pub fn failure<T>(outcome: Res<T>) -> Res<RDKafkaErrorCode> {
    match outcome {
        Ok(_) => Err("expected an error, got none".into()),
        Err(error) => match error.downcast_ref::<KafkaError>() {
            Some(KafkaError::AdminOp(code)) => Ok(*code),
            Some(KafkaError::Transaction(inner)) => Ok(inner.code()),
            Some(other) => other.rdkafka_error_code().ok_or_else(|| other.to_string().into()),
            None => Err(error),
        },
    }
}
