//! rust-rdkafka: the runner. The cases lie in records.rs, groups.rs, administration.rs and errors.rs, and with --queues in
//! queues.rs; ../../cases.toml says what each proves, ../../README.md how a program behaves.

mod administration;
mod base;
mod errors;
mod example;
mod groups;
mod queues;
mod records;
mod security;

use base::{Ctx, Res};
use serde_json::{json, Value};
use std::collections::VecDeque;
use std::io::BufRead;
use std::sync::{mpsc, Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

type Case = (&'static str, fn(&Ctx) -> Res);

/// Where restart cases meet: each arrives and waits for the address after the restart.
#[derive(Default)]
pub struct Barrier {
    arrived: Mutex<usize>,
    bootstrap: Mutex<Option<String>>,
    changed: Condvar,
}

impl Barrier {
    pub fn arrive(&self) -> String {
        *self.arrived.lock().unwrap() += 1;
        let mut bootstrap = self.bootstrap.lock().unwrap();
        while bootstrap.is_none() {
            bootstrap = self.changed.wait(bootstrap).unwrap();
        }
        bootstrap.clone().unwrap()
    }
}

struct Options {
    bootstrap: String,
    limit: Duration,
    parallel: usize,
    skip_restart: bool,
    list: bool,
    queues: bool,
    names: Vec<String>,
}

fn options() -> Result<Options, String> {
    let mut found = Options {
        bootstrap: String::new(),
        limit: Duration::from_secs(30),
        parallel: 4,
        skip_restart: false,
        list: false,
        queues: false,
        names: vec![],
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--bootstrap" => found.bootstrap = value()?,
            "--case" => found.names.push(value()?),
            "--limit" => found.limit = Duration::from_secs_f64(value()?.parse().map_err(|e| format!("--limit: {e}"))?),
            "--parallel" => found.parallel = value()?.parse().map_err(|e| format!("--parallel: {e}"))?,
            "--skip-restart" => found.skip_restart = true,
            "--list" => found.list = true,
            "--queues" => found.queues = true,
            _ => return Err(format!(
                "compatibility cases of rust-rdkafka: --bootstrap HOST:PORT [--case NAME ...] [--skip-restart] \
                 [--limit SECONDS] [--parallel N], or --list; with --queues those of queue topics; not {word}"
            )),
        }
    }
    if found.bootstrap.is_empty() && !found.list {
        return Err("--bootstrap is needed".into());
    }
    Ok(found)
}

/// Run one case to its verdict in a thread of its own; one past its time is left behind.
fn run(case: Case, ctx: Ctx) -> Value {
    let start = Instant::now();
    let ctx = Arc::new(ctx);
    let (sender, receiver) = mpsc::channel();
    let body = Arc::clone(&ctx);
    thread::spawn(move || {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case.1(&body)));
        let _ = sender.send(match outcome {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("panicked; see standard error".to_string()),
        });
    });
    let problem = loop {
        match receiver.recv_timeout(Duration::from_millis(100)) {
            Ok(problem) => break problem,
            Err(_) if ctx.overdue() > Duration::from_secs(10) => {
                break Some(format!("no end after {} s", ctx.limit.as_secs() + 10));
            }
            Err(_) => {}
        }
    };
    let detail = problem.clone().unwrap_or_else(|| ctx.detail.lock().unwrap().clone());
    let mut line = json!({
        "case": case.0,
        "ok": problem.is_none(),
        "detail": detail.chars().take(1000).collect::<String>(),
        "ms": start.elapsed().as_millis() as u64,
    });
    let refused = ctx.refused.lock().unwrap().clone();
    if problem.is_none() && !refused.is_empty() {
        line["refused"] = json!(refused);
    }
    println!("{line}");
    line
}

fn failed(line: &Value) -> bool {
    line["ok"] == json!(false)
}

/// Cases, some at a time.
fn run_plain(cases: Vec<Case>, options: &Options) -> usize {
    let waiting = Mutex::new(VecDeque::from(cases));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..options.parallel)
            .map(|_| {
                scope.spawn(|| {
                    let mut count = 0;
                    loop {
                        let Some(case) = waiting.lock().unwrap().pop_front() else { return count };
                        count += failed(&run(case, Ctx::new(case.0, &options.bootstrap, options.limit, None))) as usize;
                    }
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    })
}

/// All at once up to the restart, tell the harness, wait for its line, go on.
fn run_restart(cases: Vec<Case>, options: &Options) -> usize {
    if cases.is_empty() {
        return 0;
    }
    let barrier = Arc::new(Barrier::default());
    let workers: Vec<_> = cases
        .iter()
        .map(|&case| {
            let ctx = Ctx::new(case.0, &options.bootstrap, options.limit, Some(Arc::clone(&barrier)));
            thread::spawn(move || failed(&run(case, ctx)) as usize)
        })
        .collect();
    while *barrier.arrived.lock().unwrap() + workers.iter().filter(|worker| worker.is_finished()).count() < cases.len() {
        thread::sleep(Duration::from_millis(50));
    }
    println!("{}", json!({"waiting": "restart"}));
    let mut line = String::new();
    let _ = std::io::stdin().lock().read_line(&mut line);
    let bootstrap = line.split_whitespace().nth(1).unwrap_or(&options.bootstrap).to_string();
    *barrier.bootstrap.lock().unwrap() = Some(bootstrap);
    barrier.changed.notify_all();
    workers.into_iter().map(|worker| worker.join().unwrap()).sum()
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("--member") {
        let failure = queues::member(&std::env::args().skip(2).collect::<Vec<_>>());
        eprintln!("{}", failure.unwrap_err());
        std::process::exit(1);
    }
    let options = options().unwrap_or_else(|problem| {
        eprintln!("{problem}");
        std::process::exit(2);
    });
    let all: Vec<Case> = match options.queues {
        true => queues::CASES.to_vec(),
        false => [records::CASES, groups::CASES, administration::CASES, errors::CASES].concat(),
    };
    let version = format!("0.39.0 (librdkafka {})", rdkafka::util::get_rdkafka_version().1);
    if options.list {
        let names: Vec<_> = all.iter().map(|case| case.0).collect();
        println!("{}", json!({"client": "rust-rdkafka", "version": version, "cases": names}));
        return;
    }
    if let Some(name) = options.names.iter().find(|name| all.iter().all(|case| case.0 != name.as_str())) {
        eprintln!("no such case: {name}");
        std::process::exit(2);
    }
    println!("{}", json!({"client": "rust-rdkafka", "version": version}));
    let chosen = all.into_iter().filter(|case| options.names.is_empty() || options.names.iter().any(|name| name == case.0));
    let (restart, plain): (Vec<Case>, Vec<Case>) = chosen.partition(|case| case.0.starts_with("restart_"));
    let mut count = run_plain(plain, &options);
    if !options.skip_restart {
        count += run_restart(restart, &options);
    }
    std::process::exit(if count > 0 { 1 } else { 0 }); // threads of timed-out cases may hang
}
