//! The output of commands for observers: lines of MONITOR, entries of the command log and of ACL LOG, samples of the latency
//! monitor.
//!
//! All of these must have each command of a client once. The output of a script is kept back while it may be undone.
//! Counters are taken back instead: see `script/calls.rs`.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_acl::{Event, LogReason};
use weft_state::commandlog::{CommandLog, LogEntry, LogKind};
use weft_state::mailbox::Message;
use weft_state::push::PushMessage;
use weft_state::server::Server;

/// At most so many bytes are kept back. A script that shows more holds all shards, so that it can't be undone.
const MOST_BYTES: usize = 1 << 20;

/// Shows and logs the commands of one thread.
#[derive(Debug, Default)]
pub struct Trace(RefCell<Option<Kept>>);

/// The output of one run of a script.
#[derive(Debug, Default)]
struct Kept {
    /// Lines of MONITOR, and the client that doesn't get them.
    lines: Vec<(u64, Vec<u8>)>,
    /// Refused commands, and the most entries of their log.
    denied: Vec<(Event, usize)>,
    /// The bytes of the lines and the refused commands.
    bytes: usize,
    log: Option<Box<CommandLog>>,
    /// Event, milliseconds, Unix seconds.
    samples: Vec<(&'static str, i64, i64)>,
}

impl Trace {
    /// Keeps everything back until [`Trace::end`].
    #[inline]
    pub fn begin(&mut self) {
        *self.0.get_mut() = Some(Kept::default());
    }

    /// Shows and logs the output that was kept back, unless the run was undone.
    #[inline]
    pub fn end(&mut self, srv: &Server, is_undone: bool) {
        if let Some(kept) = self.0.get_mut().take()
            && !is_undone
        {
            kept.publish(srv);
        }
    }

    /// Whether more than enough is kept back.
    #[inline]
    pub fn is_full(&mut self) -> bool {
        self.0.get_mut().as_ref().is_some_and(|kept| kept.bytes > MOST_BYTES)
    }

    /// Shows a line to all monitors except `but`.
    pub fn show(&self, srv: &Server, but: u64, line: Vec<u8>) {
        match &mut *self.0.borrow_mut() {
            Some(kept) => {
                kept.bytes += line.len();
                kept.lines.push((but, line));
            }
            None => send_to_monitors(srv, but, line),
        }
    }

    /// Adds an entry to the command log.
    pub fn log(&self, srv: &Server, kind: LogKind, entry: LogEntry) {
        let log = &srv.statistics.commandlog;
        match &mut *self.0.borrow_mut() {
            Some(kept) => {
                kept.log.get_or_insert_with(|| Box::new(log.emptied())).push(kind, entry);
            }
            None => log.push(kind, entry),
        }
    }

    /// Counts a refused command, and adds it to ACL LOG.
    pub fn deny(&self, srv: &Server, event: Event, most: usize) {
        match &mut *self.0.borrow_mut() {
            Some(kept) => {
                kept.bytes += size_of::<Event>() + event.object.len() + event.client.len();
                kept.denied.push((event, most));
            }
            None => deny(srv, event, most),
        }
    }

    /// Adds a sample to the latency monitor.
    pub fn sample(&self, srv: &Server, event: &'static str, ms: i64, now_s: i64) {
        let latency = &srv.statistics.latency;
        match &mut *self.0.borrow_mut() {
            Some(kept) if latency.keeps(ms) => kept.samples.push((event, ms, now_s)),
            Some(_) => {}
            None => latency.sample(event, ms, now_s),
        }
    }
}

impl Kept {
    fn publish(self, srv: &Server) {
        for (but, line) in self.lines {
            send_to_monitors(srv, but, line);
        }
        for (event, most) in self.denied {
            deny(srv, event, most);
        }
        if let Some(log) = self.log {
            srv.statistics.commandlog.append(*log);
        }
        for (event, ms, now_s) in self.samples {
            srv.statistics.latency.sample(event, ms, now_s);
        }
    }
}

/// Sends a line to all monitors except `but`.
pub fn send_to_monitors(srv: &Server, but: u64, line: Vec<u8>) {
    let line = Arc::new(line);
    let monitors = srv.clients.monitors.lock().unwrap_or_else(|p| p.into_inner());
    for (client, thread) in monitors.iter().filter(|(id, _)| *id != but) {
        srv.threads[*thread]
            .mailbox
            .send(Message::Push(PushMessage::Monitor { client: *client, bytes: line.clone() }));
    }
}

fn deny(srv: &Server, event: Event, most: usize) {
    let totals = &srv.statistics.totals;
    let counter = match event.reason {
        LogReason::Command => &totals.acl_denied_commands,
        LogReason::Key => &totals.acl_denied_keys,
        LogReason::Channel => &totals.acl_denied_channels,
        LogReason::Database => &totals.acl_denied_databases,
        LogReason::Auth => &totals.acl_denied_auth,
        LogReason::Certificate => &totals.acl_denied_tls_cert,
    };
    counter.fetch_add(1, Ordering::Relaxed);
    srv.access.log().add(event, most);
}
