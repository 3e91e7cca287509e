//! The source's part of a move.
//!
//! All keys of the slots are sent once. Meanwhile, and afterwards, keys that have changed are sent again, with their whole
//! values, until few are left. Then the slots are suspended, and the last ones are sent. Each key is read while its shard
//! is held, and one thread sends all of them: so the target's last value of a key is the source's.

use crate::Shared;
use std::time::{Duration, Instant};
use weft_cluster::Slot;
use weft_cluster::node::CopyView;
use weft_cluster::node::layout::CopyPhase;
use weft_config::Id;
use weft_keyspace::{CopyNumber, Db, ExecContext, ShardSet, SlowLaneThread, shard_of};
use weft_process::{log_notice, log_warning};
use weft_transfer::migrate::Link;

/// Requests whose replies are not read yet: unread replies must fit the sockets' buffers. A target with a quorum replies after
/// its replica, so more of them are sent meanwhile.
const WINDOW: usize = 1024;
/// Keys, and bytes of their values, that are read under one hold.
const STEP_KEYS: usize = 64;
const STEP_BYTES: usize = 64 << 10;
/// The slots are suspended when a round over the changed keys has sent at most so many.
const CLOSE: usize = 128;
/// Or after so many rounds: writers are faster than the move.
const ROUNDS: usize = 50;
/// Pause between two rounds, and between two looks at the state of a move whose slots are suspended.
const PAUSE: Duration = Duration::from_millis(1);

type Failure = String;

/// Copies the keys of a move to its target, and lets the machine hand the slots over.
pub fn run(driver: Shared, view: CopyView) {
    let id = view.id;
    let begin = Instant::now();
    let result = Export::open(driver, view).and_then(Export::copy);
    let (state, message) = match &result {
        Ok(_) => ("success", String::new()),
        Err(text) if driver.view_of(id).is_none() => ("canceled", text.clone()),
        Err(text) => ("failed", text.clone()),
    };
    driver.moves().records.note(&id, driver.srv, state, &message);
    driver.pass(|event| event.node.copy_failed(event.now, id, event.out));
    match result {
        Ok(Sent { keys, changed, held }) => log_notice!(
            "Cluster: slot migration {id} succeeded in {:.2} s: {keys} keys and {changed} changes sent, writes held for {:.1} ms",
            begin.elapsed().as_secs_f64(),
            held.as_secs_f64() * 1e3
        ),
        Err(_) => log_warning!("Cluster: slot migration {id} {state}: {message}"),
    }
}

/// The figures of a move that has succeeded.
#[derive(Debug, Default)]
struct Sent {
    keys: usize,
    /// Keys that were sent again.
    changed: usize,
    /// How long the slots were suspended.
    held: Duration,
}

/// A key as it is sent; without a payload: it doesn't exist.
struct Item {
    db: usize,
    name: Box<[u8]>,
    value: Option<(Option<i64>, Vec<u8>)>,
}

struct Export {
    driver: Shared,
    view: CopyView,
    copy: CopyNumber,
    slots: Vec<Slot>,
    link: Link,
    /// Requests without a reply yet.
    sent: usize,
    db: usize,
    /// Since when the slots are suspended.
    suspended: Option<Instant>,
    total: Sent,
    hand: SlowLaneThread<'static>,
    context: ExecContext,
}

impl Export {
    fn open(driver: Shared, view: CopyView) -> Result<Export, Failure> {
        let timeout = Duration::from_millis(driver.machine().node().timeout());
        let address = driver.machine().node().addresses_of(view.other).ok_or("no address")?;
        let (tls, user, password) = {
            let config = driver.srv.config();
            let text = |id| config.str(id).into_owned();
            (config.bool(Id::TLS_CLUSTER), text(Id::PRIMARYUSER), text(Id::PRIMARYAUTH))
        };
        let port = if tls { address.tls_port } else { address.port };
        let link = Link::open(address.ip.as_bytes(), port, timeout)
            .map_err(|e| format!("Can't connect to the target: {e}"))?;
        let slots = view.slots.iter().collect();
        let (hand, context) = (driver.srv.hand(), ExecContext::new(driver.srv.now_ms(), 0));
        let mut export = Export {
            driver,
            view,
            copy: driver.srv.ks.new_copy(),
            slots,
            link,
            sent: 0,
            db: 0,
            suspended: None,
            total: Sent::default(),
            hand,
            context,
        };
        if !password.is_empty() {
            match user.is_empty() {
                true => export.send(&[b"AUTH", password.as_bytes()])?,
                false => export.send(&[b"AUTH", user.as_bytes(), password.as_bytes()])?,
            }
        }
        Ok(export)
    }

    fn copy(mut self) -> Result<Sent, Failure> {
        let result = self.copy_slots();
        for slot in self.slots.clone() {
            let guard = self.hand.hold(&mut self.context, &ShardSet::one(shard_of(slot)));
            self.driver.srv.ks.end_moving(&guard, slot, self.copy);
        }
        result.map(|()| self.total)
    }

    fn copy_slots(&mut self) -> Result<(), Failure> {
        let id = self.view.id;
        let name = id.as_str().as_bytes().to_vec();
        self.send(&[b"CLUSTER", b"SYNCSLOTS", b"IMPORT", &name])?;
        self.settle()?;
        self.note("snapshotting");
        for slot in self.slots.clone() {
            self.send_slot(slot)?;
        }
        self.settle()?;
        self.note("streaming");
        for _ in 0..ROUNDS {
            if self.send_changed()? <= CLOSE {
                break;
            }
            self.check()?;
        }
        self.driver.pass(|event| event.node.copy_is_close(event.now, id, event.out));
        self.follow_until_drained()?;
        while self.send_changed()? > 0 {}
        self.await_replica()?;
        self.send(&[b"CLUSTER", b"SYNCSLOTS", b"PREPARE", &name])?;
        self.settle()?;
        self.check_unchanged()?;
        self.driver.pass(|event| event.node.copied(event.now, id, event.out));
        let result = self.await_outcome();
        self.total.held = self.suspended.map(|since| since.elapsed()).unwrap_or_default();
        result
    }

    fn note(&self, state: &'static str) {
        self.driver.moves().records.note(&self.view.id, self.driver.srv, state, "");
    }

    /// The move, as it is now.
    fn check(&self) -> Result<CopyView, Failure> {
        self.driver.view_of(self.view.id).ok_or_else(|| "The move was ended".to_string())
    }

    /// Sends changes until the slots are suspended, and all commands on them have ended.
    fn follow_until_drained(&mut self) -> Result<(), Failure> {
        let limit = self.driver.srv.config().int(Id::CLUSTER_MANUAL_FAILOVER_TIMEOUT);
        let limit = Duration::from_millis(u64::try_from(limit).unwrap_or(0));
        loop {
            let view = self.check()?;
            if view.phase == CopyPhase::Final {
                if self.suspended.is_none() {
                    self.note("failover-paused");
                }
                let since = *self.suspended.get_or_insert_with(Instant::now);
                if view.is_drained {
                    return Ok(());
                }
                if since.elapsed() > limit {
                    return Err("Commands on the slots did not end in time".to_string());
                }
            }
            if self.send_changed()? == 0 {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// If the target has replicas, one of them must have everything, too.
    fn await_replica(&mut self) -> Result<(), Failure> {
        let topology = self.driver.srv.nodes.cluster.topology();
        let is_linked = |node: &weft_cluster::Node| node.linked;
        if !topology.map.replicas_of(self.view.other).any(is_linked) {
            return Ok(());
        }
        let timeout = self.driver.machine().node().timeout() / 2;
        self.link
            .send(&[b"WAIT", b"1", timeout.to_string().as_bytes()])
            .and_then(|()| self.link.flush())
            .map_err(|e| e.to_string())?;
        match self.link.answer().map_err(|e| e.to_string())?.as_slice() {
            b":0" => Err("No replica of the target has the keys".to_string()),
            answer if answer.starts_with(b":") => Ok(()),
            answer => Err(String::from_utf8_lossy(answer).into_owned()),
        }
    }

    fn await_outcome(&mut self) -> Result<(), Failure> {
        while self.driver.view_of(self.view.id).is_some() {
            std::thread::sleep(PAUSE);
        }
        let machine = self.driver.machine();
        // Once the target has deleted what it got, the store has no sign of the failure.
        match machine.node().copy_phase(self.view.id) {
            Some(CopyPhase::Failed) => Err("A failover has ended the move".to_string()),
            _ if machine.node().owns(&self.view.slots) => Err("The move was ended".to_string()),
            _ => Ok(()),
        }
    }

    /// Sends all keys of a slot. From here on its changes are recorded: earlier ones are in the values that are read now.
    fn send_slot(&mut self, slot: Slot) -> Result<(), Failure> {
        let ks = &self.driver.srv.ks;
        let guard = self.hand.hold(&mut self.context, &ShardSet::one(shard_of(slot)));
        ks.begin_moving(&guard, slot, self.copy);
        drop(guard);
        for db in 0..ks.databases() {
            if ks.slot_len(slot, db) == 0 {
                continue;
            }
            let mut cursor = 0;
            loop {
                let items = self.read_step(slot, db, &mut cursor);
                self.total.keys += items.len();
                self.send_items(&items)?;
                if cursor == 0 {
                    break;
                }
            }
            self.check()?;
        }
        Ok(())
    }

    /// Reads some keys from `cursor` on.
    fn read_step(&mut self, slot: Slot, db: usize, cursor: &mut u64) -> Vec<Item> {
        let guard = self.hand.hold(&mut self.context, &ShardSet::one(shard_of(slot)));
        let mut keys = Db::new(&guard, &mut self.context, db);
        let (mut items, mut bytes) = (Vec::new(), 0);
        while items.len() < STEP_KEYS && bytes < STEP_BYTES {
            *cursor = keys.scan_slot(slot, *cursor, |record| {
                let payload = weft_transfer::uncompressed_payload(&record);
                bytes += payload.len();
                let value = Some((record.expiry(), payload));
                items.push(Item { db, name: record.key().into(), value });
            });
            if *cursor == 0 {
                break;
            }
        }
        items
    }

    /// Sends the keys that have changed since they were sent. Returns their number.
    fn send_changed(&mut self) -> Result<usize, Failure> {
        let ks = &self.driver.srv.ks;
        let mut all = 0;
        for slot in self.slots.clone() {
            while ks.has_changed(slot, self.copy) {
                let items = self.read_changed(slot)?;
                all += items.len();
                self.send_items(&items)?;
            }
        }
        self.settle()?;
        self.total.changed += all;
        Ok(all)
    }

    /// After the last round. No client could see an eviction while the slots are suspended.
    fn check_unchanged(&mut self) -> Result<(), Failure> {
        for slot in self.slots.clone() {
            while self.driver.srv.ks.has_changed(slot, self.copy) {
                if self.read_changed(slot)?.iter().any(|item| item.value.is_some()) {
                    return Err("Keys have changed while their slots were suspended".to_string());
                }
            }
        }
        Ok(())
    }

    fn read_changed(&mut self, slot: Slot) -> Result<Vec<Item>, Failure> {
        let guard = self.hand.hold(&mut self.context, &ShardSet::one(shard_of(slot)));
        let changed = self.driver.srv.ks.take_changed(&guard, slot, self.copy, STEP_KEYS);
        let changed = changed.ok_or("A later move of the slot has begun")?;
        if changed.replaced {
            return Err("A database was emptied or exchanged".to_string());
        }
        let mut items = Vec::new();
        for (db, name) in changed.names {
            let mut keys = Db::new(&guard, &mut self.context, db);
            let key = keys.key(&name);
            let is_gone = keys.is_expired(&key);
            let record = keys.peek(&key).filter(|_| !is_gone);
            let value = record
                .map(|record| (record.expiry(), weft_transfer::uncompressed_payload(&record)));
            items.push(Item { db, name, value });
        }
        Ok(items)
    }

    fn send_items(&mut self, items: &[Item]) -> Result<(), Failure> {
        for item in items {
            if item.db != self.db {
                self.send(&[b"SELECT", item.db.to_string().as_bytes()])?;
                self.db = item.db;
            }
            match &item.value {
                None => self.send(&[b"UNLINK", &item.name])?,
                Some((expiry, payload)) => {
                    let at = expiry.unwrap_or(0).to_string();
                    let words: [&[u8]; 6] =
                        [b"RESTORE", &item.name, at.as_bytes(), payload, b"REPLACE", b"ABSTTL"];
                    self.send(&words)?;
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, words: &[&[u8]]) -> Result<(), Failure> {
        if self.sent >= WINDOW {
            self.read_answers(WINDOW / 2)?;
        }
        self.link.send(words).map_err(|e| format!("Can't write to the target: {e}"))?;
        self.sent += 1;
        Ok(())
    }

    /// Reads the replies to all requests.
    fn settle(&mut self) -> Result<(), Failure> {
        if self.sent == 0 {
            return Ok(());
        }
        self.read_answers(0)
    }

    /// Reads replies until so many requests are left without one.
    fn read_answers(&mut self, left: usize) -> Result<(), Failure> {
        self.link.flush().map_err(|e| format!("Can't write to the target: {e}"))?;
        while self.sent > left {
            let answer =
                self.link.answer().map_err(|e| format!("The target does not answer: {e}"))?;
            self.sent -= 1;
            if let Some(text) = answer.strip_prefix(b"-") {
                return Err(format!("The target refuses: {}", String::from_utf8_lossy(text)));
            }
        }
        Ok(())
    }
}
