//! Counters for `/metrics`, in the Prometheus text format.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

#[derive(Debug, Default)]
pub struct Metrics {
    commits: AtomicU64,
    records: AtomicU64,
    commit_failures: AtomicU64,
    requests: AtomicU64,
    refusals: AtomicU64,
    handshakes_failed: AtomicU64,
    connections: AtomicUsize,
    waiting: AtomicUsize,
    open_tasks: AtomicUsize,
    watchers: AtomicUsize,
    pushes_sent: AtomicU64,
    pushes_failed: AtomicU64,
    pushes_given_up: AtomicU64,
    webhooks: AtomicUsize,
    unproven: [AtomicU64; Unproven::ALL.len()],
}

/// Why a caller was not authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unproven {
    /// No secret where one is needed.
    Missing,
    Wrong,
    /// A token that was replaced.
    Expired,
    /// Too many wrong secrets from one address.
    Guessing,
    /// The calling process could not be identified.
    Unseen,
    /// The address may not call.
    Address,
}

impl Unproven {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Missing, "missing"),
        (Self::Wrong, "wrong"),
        (Self::Expired, "expired"),
        (Self::Guessing, "guessing"),
        (Self::Unseen, "unseen"),
        (Self::Address, "address"),
    ];
}

impl Metrics {
    pub fn committed(&self, records: usize) {
        self.commits.fetch_add(1, Relaxed);
        self.records.fetch_add(records as u64, Relaxed);
    }

    pub fn commit_failed(&self) {
        self.commit_failures.fetch_add(1, Relaxed);
    }

    pub fn request(&self, refused: bool) {
        self.requests.fetch_add(1, Relaxed);
        self.refusals.fetch_add(u64::from(refused), Relaxed);
    }

    pub fn handshake_failed(&self) {
        self.handshakes_failed.fetch_add(1, Relaxed);
    }

    pub fn gauges(&self, waiting: usize, open_tasks: usize, watchers: usize) {
        self.waiting.store(waiting, Relaxed);
        self.open_tasks.store(open_tasks, Relaxed);
        self.watchers.store(watchers, Relaxed);
    }

    pub fn unproven(&self, why: Unproven) {
        self.unproven[why as usize].fetch_add(1, Relaxed);
    }

    /// Counts a notification accepted by a webhook.
    pub fn push_sent(&self) {
        self.pushes_sent.fetch_add(1, Relaxed);
    }

    pub fn push_failed(&self) {
        self.pushes_failed.fetch_add(1, Relaxed);
    }

    pub fn push_given_up(&self) {
        self.pushes_given_up.fetch_add(1, Relaxed);
    }

    pub fn webhooks(&self, count: usize) {
        self.webhooks.store(count, Relaxed);
    }

    pub fn connected(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub fn disconnected(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }

    // tidy: table
    pub fn text(&self) -> String {
        let rows = [
            (
                "synapse_commits_total",
                "counter",
                "batches written to the journal",
                self.commits.load(Relaxed),
            ),
            (
                "synapse_records_total",
                "counter",
                "records written to the journal",
                self.records.load(Relaxed),
            ),
            (
                "synapse_commit_failures_total",
                "counter",
                "batches that could not be stored",
                self.commit_failures.load(Relaxed),
            ),
            ("synapse_requests_total", "counter", "HTTP requests answered", self.requests.load(Relaxed)),
            ("synapse_refusals_total", "counter", "HTTP requests refused", self.refusals.load(Relaxed)),
            (
                "synapse_tls_handshakes_failed_total",
                "counter",
                "connections that did not become secure",
                self.handshakes_failed.load(Relaxed),
            ),
            (
                "synapse_push_sent_total",
                "counter",
                "calls that webhooks took",
                self.pushes_sent.load(Relaxed),
            ),
            (
                "synapse_push_failures_total",
                "counter",
                "calls that webhooks did not take",
                self.pushes_failed.load(Relaxed),
            ),
            (
                "synapse_push_given_up_total",
                "counter",
                "webhooks that failed for too long",
                self.pushes_given_up.load(Relaxed),
            ),
            ("synapse_push_webhooks", "gauge", "webhooks of open tasks", self.webhooks.load(Relaxed) as u64),
            ("synapse_connections", "gauge", "open connections", self.connections.load(Relaxed) as u64),
            (
                "synapse_messages_waiting",
                "gauge",
                "messages in the mailbox",
                self.waiting.load(Relaxed) as u64,
            ),
            (
                "synapse_tasks_open",
                "gauge",
                "tasks that have not ended",
                self.open_tasks.load(Relaxed) as u64,
            ),
            ("synapse_watchers", "gauge", "followers of events", self.watchers.load(Relaxed) as u64),
        ];
        let mut text = String::new();
        for (name, kind, help, value) in rows {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
        let name = "synapse_unproven_total";
        let _ = writeln!(text, "# HELP {name} callers that were not believed\n# TYPE {name} counter");
        for (why, word) in Unproven::ALL {
            let count = self.unproven[why as usize].load(Relaxed);
            let _ = writeln!(text, "{name}{{why=\"{word}\"}} {count}");
        }
        text
    }
}
