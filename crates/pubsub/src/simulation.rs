//! Simulates the order of messages: threads with mailboxes, clients that subscribe, unsubscribe,
//! execute commands and move, and publishers on any thread. A seed determines the order of all
//! steps.
//!
//! Each drawn step is atomic in the server: a publication, a change of the registry, the handling
//! of one message of a mailbox, or a client's command with the messages delivered before its reply.
//! The registry, the inboxes and the messages are the real ones.

use crate::inbox::{Addressed, Inbox, To};
use crate::message::Published;
use crate::registry::{CanWait, Kind, Post, Registry};
use crate::run::Run;
use crate::subscriber::Subscriber;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use weft_keyspace::context::Rng;
use weft_resp::{Proto, Reply};

const THREADS: usize = 3;
const CLIENTS: u64 = 18;
const CHANNELS: [&str; 3] = ["a", "ab", "b"];
const PATTERNS: [&str; 2] = ["a*", "*b"];

/// A message in a mailbox.
enum InboxMessage {
    Published(Box<Published>),
    Moved(Box<Client>),
}

impl Addressed for InboxMessage {
    fn to(&self) -> To {
        match self {
            InboxMessage::Published(_) => To::Listeners,
            InboxMessage::Moved(_) => To::Thread,
        }
    }
}

struct Client {
    id: u64,
    subscriber: Subscriber,
    seen: u64,
    out: Reply,
}

#[derive(Default)]
struct Mailboxes(RefCell<[VecDeque<InboxMessage>; THREADS]>);

impl Post for Mailboxes {
    fn put(&self, thread: usize, published: Published) {
        self.0.borrow_mut()[thread].push_back(InboxMessage::Published(Box::new(published)));
    }

    fn ring(&self, _thread: usize) {}

    fn is_crowded(&self, thread: usize) -> bool {
        self.0.borrow()[thread].len() > 20
    }
}

impl Mailboxes {
    fn take(&self, thread: usize) -> Option<InboxMessage> {
        self.0.borrow_mut()[thread].pop_front()
    }
}

#[derive(Default)]
struct Thread {
    inbox: Inbox<InboxMessage>,
    clients: BTreeMap<u64, Client>,
}

/// Counts how runs of several messages were delivered.
#[derive(Default)]
struct RunCounts {
    whole: usize,
    partial: usize,
}

struct Model {
    registry: Registry,
    mailboxes: Mailboxes,
    threads: [Thread; THREADS],
    rng: Rng,
    published: u64,
    seen: RunCounts,
    /// By client: the messages and replies that it must get. Kept here because a moving client
    /// belongs to no thread.
    expected: BTreeMap<u64, Vec<u8>>,
    /// The subscriptions of each client in the model.
    subscriptions: BTreeMap<u64, Vec<(Kind, &'static str)>>,
}

impl Model {
    fn new(seed: u64) -> Model {
        let mut model = Model {
            registry: Registry::default(),
            mailboxes: Mailboxes::default(),
            threads: Default::default(),
            rng: Rng::new(seed),
            published: 0,
            seen: RunCounts::default(),
            expected: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
        };
        for id in 1..=CLIENTS {
            let client = Client {
                id,
                subscriber: Subscriber::default(),
                seen: 0,
                out: Reply::new(Proto::Resp3),
            };
            model.threads[id as usize % THREADS].clients.insert(id, client);
        }
        model
    }

    fn draw(&mut self, n: usize) -> usize {
        (self.rng.next() % n as u64) as usize
    }

    /// A random thread, and a random client of it.
    fn draw_client(&mut self) -> Option<(usize, u64)> {
        let thread = self.draw(THREADS);
        let ids: Vec<u64> = self.threads[thread].clients.keys().copied().collect();
        let at = self.draw(ids.len().max(1));
        ids.get(at).map(|id| (thread, *id))
    }

    fn expect(&mut self, id: u64, bytes: &[u8]) {
        self.expected.entry(id).or_default().extend_from_slice(bytes);
    }

    /// Publishes some messages on one channel.
    fn publish(&mut self) {
        let channel = CHANNELS[self.draw(CHANNELS.len())];
        for _ in 0..=self.draw(4) {
            self.publish_on(channel);
        }
    }

    fn publish_on(&mut self, channel: &str) {
        let patience = if self.draw(2) == 0 { CanWait::Some } else { CanWait::None };
        let message = self.published.to_string();
        let (name, text) = (channel.as_bytes(), message.as_bytes());
        let published_to =
            self.registry.publish(Kind::Channel, name, text, patience, &self.mailboxes, &mut || {});
        let Ok(receivers) = published_to else { return };
        self.published += 1;
        let mut count = 0;
        for (id, subscriptions) in &self.subscriptions {
            let mut push = Reply::new(Proto::Resp3);
            if subscriptions.contains(&(Kind::Channel, channel)) {
                push.push(3);
                push.bulk(b"message");
                push.bulk(name);
                push.bulk(text);
                count += 1;
            }
            // Pattern messages come in the order of the registry, which removals change.
            for pattern in self.registry.patterns() {
                let own = subscriptions
                    .iter()
                    .any(|l| l.0 == Kind::Pattern && l.1.as_bytes() == &*pattern);
                if own && weft_base::glob::matches(&pattern, name, false) {
                    push.push(4);
                    push.bulk(b"pmessage");
                    push.bulk(&pattern);
                    push.bulk(name);
                    push.bulk(text);
                    count += 1;
                }
            }
            let bytes = push.contiguous().unwrap_or_default();
            self.expected.entry(*id).or_default().extend_from_slice(bytes);
        }
        assert_eq!(receivers, count, "receivers of {channel}");
    }

    /// Like `pubsub::catch_up`.
    fn catch_up(&mut self, thread: usize, id: u64) {
        let Thread { inbox, clients } = &mut self.threads[thread];
        inbox.stage(|| self.mailboxes.take(thread));
        let Some(client) = clients.get_mut(&id) else { return };
        catch_up(inbox, client);
    }

    fn change(&mut self) {
        let Some((thread, id)) = self.draw_client() else { return };
        let kind = if self.draw(2) == 0 { Kind::Channel } else { Kind::Pattern };
        let names: &[&'static str] = if kind == Kind::Channel { &CHANNELS } else { &PATTERNS };
        let name = names[self.draw(names.len())];
        let joins = self.draw(2) == 0;
        self.catch_up(thread, id);
        let client = self.threads[thread].clients.get_mut(&id).expect("drawn");
        let subscriptions = self.subscriptions.entry(id).or_default();
        if joins {
            let names = [name.as_bytes()];
            client.subscriber.subscribe(
                &self.registry,
                (id, thread),
                kind,
                &names,
                || true,
                |_, _| {},
            );
            subscriptions.push((kind, name));
            subscriptions.dedup();
        } else {
            if client.subscriber.forget(kind, name.as_bytes()) {
                self.registry.unsubscribe(id, thread, kind, &[name.as_bytes().into()]);
            }
            subscriptions.retain(|l| *l != (kind, name));
            self.catch_up(thread, id);
        }
        self.reply(thread, id);
    }

    fn reply(&mut self, thread: usize, id: u64) {
        let client = self.threads[thread].clients.get_mut(&id).expect("drawn");
        client.out.ok();
        self.expect(id, b"+OK\r\n");
    }

    fn command(&mut self) {
        let Some((thread, id)) = self.draw_client() else { return };
        self.catch_up(thread, id);
        self.reply(thread, id);
    }

    /// Like `Worker::move_out`.
    fn relocate(&mut self) {
        let Some((from, id)) = self.draw_client() else { return };
        let to = self.draw(THREADS);
        if from == to {
            return;
        }
        self.catch_up(from, id);
        let mut client = self.threads[from].clients.remove(&id).expect("drawn");
        let moment = self.registry.relocate(id, from, to, &client.subscriber);
        let inbox = &mut self.threads[from].inbox;
        inbox.stage(|| self.mailboxes.take(from));
        catch_up(inbox, &mut client);
        client.seen = 0;
        drop(moment);
        self.mailboxes.0.borrow_mut()[to].push_back(InboxMessage::Moved(Box::new(client)));
    }

    /// Like `Worker::handle_messages`, for one or several messages.
    fn process_mailbox(&mut self, thread: usize) -> bool {
        let most = 1 + self.draw(6);
        let mut run: Option<Run> = None;
        for n in 0..most {
            let Thread { inbox, clients } = &mut self.threads[thread];
            match inbox.next(|| self.mailboxes.take(thread)) {
                None if n == 0 => return false,
                None => break,
                Some((_, InboxMessage::Moved(client))) => {
                    run.take().iter().for_each(|run| deliver(clients, run, &mut self.seen));
                    clients.insert(client.id, *client);
                }
                Some((number, InboxMessage::Published(message))) => {
                    let begins = match &mut run {
                        Some(run) => run.add(message).err(),
                        None => Some(message),
                    };
                    if let Some(message) = begins {
                        let before = run.replace(Run::new(number, message));
                        before.iter().for_each(|run| deliver(clients, run, &mut self.seen));
                    }
                }
            }
        }
        let clients = &mut self.threads[thread].clients;
        run.iter().for_each(|run| deliver(clients, run, &mut self.seen));
        true
    }

    fn check(&mut self) {
        for thread in 0..THREADS {
            while self.process_mailbox(thread) {}
        }
        for client in self.threads.iter().flat_map(|t| t.clients.values()) {
            let got = client.out.contiguous().unwrap_or_default();
            let want = self.expected.get(&client.id).map_or(&[][..], Vec::as_slice);
            let show = |bytes| String::from_utf8_lossy(bytes).replace("\r\n", " ");
            assert!(got == want, "{}:\n{}\n{}", client.id, show(got), show(want));
        }
    }
}

/// Like `Worker::deliver_run`.
fn deliver(clients: &mut BTreeMap<u64, Client>, run: &Run, seen: &mut RunCounts) {
    if let Some(ids) = run.together() {
        for id in ids.iter() {
            let Some(client) = clients.get_mut(id) else { continue };
            if client.seen <= run.first() {
                client.out.raw(run.bytes(Proto::Resp3));
                seen.whole += 1;
                continue;
            }
            for (_, message) in run.each().filter(|(number, _)| client.seen <= *number) {
                message.parts().for_each(|(part, _)| part.write(Proto::Resp3, &mut client.out));
                seen.partial += 1;
            }
        }
        return;
    }
    for (number, message) in run.each() {
        for (part, ids) in message.parts() {
            for id in ids.iter() {
                if let Some(client) = clients.get_mut(id).filter(|client| client.seen <= number) {
                    part.write(Proto::Resp3, &mut client.out);
                }
            }
        }
    }
}

fn catch_up(inbox: &Inbox<InboxMessage>, client: &mut Client) {
    let Client { id, seen, out, .. } = client;
    inbox.since(*seen, *id, |message| {
        if let InboxMessage::Published(published) = message {
            published.for_client(*id, |part| part.write(Proto::Resp3, out));
        }
    });
    client.seen = inbox.end();
}

#[test]
fn no_message_is_lost_duplicated_or_reordered() {
    let (mut whole, mut partial) = (0, 0);
    for seed in 1..=400 {
        let mut model = Model::new(seed);
        for _ in 0..600 {
            match model.draw(16) {
                0..=4 => model.publish(),
                5..=7 => model.change(),
                8 | 9 => model.command(),
                10 => model.relocate(),
                thread => {
                    model.process_mailbox(thread % THREADS);
                }
            }
        }
        model.check();
        for (id, subscriptions) in &model.subscriptions {
            let all =
                model.threads.iter().find_map(|t| t.clients.get(id)).expect("no client is lost");
            assert_eq!(subscriptions.is_empty(), all.subscriber.is_empty());
        }
        whole += model.seen.whole;
        partial += model.seen.partial;
    }
    assert!(whole > 1000 && partial > 10, "runs: {whole} whole, {partial} partial");
}

#[test]
fn leaving_clients_leave_no_entries() {
    let mut model = Model::new(7);
    for _ in 0..300 {
        model.change();
    }
    for (thread, place) in model.threads.iter().enumerate() {
        for client in place.clients.values() {
            model.registry.leave(client.id, thread, &client.subscriber);
        }
    }
    assert!(Kind::ALL.iter().all(|kind| model.registry.count(*kind) == 0));
    assert!(model.registry.channels(Kind::Channel).is_empty());
    let quiet = model.registry.publish(
        Kind::Channel,
        b"a",
        b"",
        CanWait::Some,
        &model.mailboxes,
        &mut || {},
    );
    assert_eq!(quiet, Ok(0));
}
