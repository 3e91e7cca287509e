//! A blocked client, with everything that another thread needs to execute its command.

use crate::access::Identity;
use crate::args::ArgBuf;
use crate::clients::ClientShared;
use crate::clients::Tracker;
use crate::command_table::Cmd;
use crate::session::Session;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_command_spec::{Flags, Group};
use weft_keyspace::wait::WaitState;
use weft_keyspace::wait_queue::{Name, QueuedClient};
use weft_keyspace::{Keyspace, ShardSet};
use weft_memory::holdings::{Charge, ClientMemoryKind};
use weft_memory::size_class::{heap, map_entry};
use weft_replication::primary::Goal;
use weft_resp::{Proto, Reply};
use weft_types::Type;

/// The session's state when the client was blocked, with which the command runs.
#[derive(Debug)]
pub struct Context {
    pub db: usize,
    pub proto: Proto,
    pub no_touch: bool,
    /// The user, whose rights are checked again before the command is served.
    pub identity: Identity,
    /// CLIENT REPLY drops its reply.
    pub drops_reply: bool,
    /// The client to record as a reader of the command's keys.
    pub reader: Option<Arc<Tracker>>,
    /// The client to record as the author of its changes.
    pub own_changes: u64,
}

/// The keys of the command.
#[derive(Debug)]
pub struct AwaitedKeys {
    /// The keys that the client waits for, each with its shard.
    pub keys: Vec<(u16, Name)>,
    /// Shards of the command's other keys.
    pub others: ShardSet,
    /// One of the keys holds, or has held, a value of another type: see [`Waiting::must_hold`].
    pub saw_other_type: AtomicBool,
}

/// A blocked client and its command.
#[derive(Debug)]
pub struct Waiting {
    pub state: WaitState,
    /// The client, and the thread that owns its connection.
    pub client: u64,
    pub shared: Arc<ClientShared>,
    pub thread: usize,
    pub context: Context,
    pub cmd: &'static Cmd,
    pub args: Arc<Vec<ArgBuf>>,
    /// Arguments as the client sent them, where `args` has replacements: see [`Waiting::client_args`].
    pub asked: Vec<(usize, ArgBuf)>,
    /// The memory of the wait. Released when the wait is over, although its queue entries may be removed later.
    pub charge: Charge,
    pub awaited: AwaitedKeys,
    /// The reply on a timeout.
    pub timeout_reply: Vec<u8>,
    /// Nanoseconds that the command ran before it blocked.
    pub spent_ns: u64,
    /// Monotonic time in milliseconds; `None`: no timeout.
    pub deadline_ms: Option<i64>,
    /// For a client that waits for replicas: its last unit of the effect log, and the goal.
    pub replicas: Option<(u64, Goal)>,
}

/// A message about blocked clients. It carries the wait that it is about, because it may arrive after the client blocks
/// for something else.
#[derive(Debug)]
pub enum WaitMessage {
    /// A blocked client was served with this reply. `unit` is the unit of the effect log with its effects; 0, or
    /// an older unit, if nothing is logged. `term`: the term in which it was served, or
    /// [`NO_TERM`](crate::authority::NO_TERM): that of its request counts.
    Served { waiting: Arc<Waiting>, reply: Reply, unit: u64, term: u64 },
    /// A blocked client's command must be retried on the thread of its connection.
    Retry { waiting: Arc<Waiting> },
    /// CLIENT UNBLOCK: the wait ends with the reply for a timeout, or with an error.
    Unblocked { waiting: Arc<Waiting>, error: bool },
    /// This server has become a replica: blocked clients are unblocked.
    Demoted,
    /// This node of a cluster has lost slots: clients that are blocked on their keys are unblocked, and subscriptions to their
    /// shard channels end.
    Rerouted,
}

/// The blocked clients, by key.
pub type WaitQueues = weft_keyspace::wait_queue::WaitQueues<Waiting>;

/// Memory of a wait: arguments, names, and the entries in the wait queues (bytes).
fn memory(args: &[ArgBuf], keys: &[(u16, Name)]) -> usize {
    /// The counts before the bytes of a shared name.
    const SHARED: usize = 2 * size_of::<usize>();
    /// A wait queue of one client: its key, and the client's entry.
    const LINE: usize = map_entry(size_of::<Name>() + 4 * size_of::<usize>());
    let args: usize = args.iter().map(ArgBuf::memory).sum();
    let key = |(_, name): &(u16, Name)| heap(SHARED + name.len()) + size_of::<(u16, Name)>() + LINE;
    size_of::<Waiting>() + args + keys.iter().map(key).sum::<usize>()
}

impl Context {
    fn new(session: &Session, cmd: &Cmd) -> Self {
        Context {
            db: session.db,
            proto: session.proto,
            no_touch: session.options.no_touch,
            identity: session.identity.clone(),
            drops_reply: session.replies.mode.drops(),
            reader: session
                .pushes
                .tracks
                .as_ref()
                .and_then(|own| own.reader(cmd.spec.flags))
                .cloned(),
            own_changes: session.own_changes(),
        }
    }
}

impl Waiting {
    /// Whether a CLUSTER command waits for the end of what it has begun.
    pub fn is_of_cluster(&self) -> bool {
        self.cmd.spec.group == Group::Cluster
    }

    /// The client of `session`, whose command with `args` waits for the keys at the argument positions `keys`,
    /// in ascending order. `replacement_args`: positions, and the arguments to use there instead. O(arguments *
    /// log(keys)).
    #[allow(clippy::too_many_arguments, reason = "the parts of one execution")]
    pub fn new(
        ks: &Keyspace,
        session: &Session,
        cmd: &'static Cmd,
        args: &[&[u8]],
        keys: &[usize],
        replacement_args: Vec<(usize, Vec<u8>)>,
        timeout_reply: Vec<u8>,
        spent_ns: u64,
        deadline_ms: Option<i64>,
    ) -> Self {
        let shard = |i: &usize| ks.key(args[*i]).shard();
        let mut others = SmallVec::<[u16; 4]>::new();
        let _ = cmd.spec.key_positions(args, |i| {
            if keys.binary_search(&i).is_err() {
                others.push(ks.key(args[i]).shard());
            }
        });
        // A key that is named twice has one entry in its wait queue.
        let mut named: Vec<(u16, &[u8])> = keys.iter().map(|i| (shard(i), args[*i])).collect();
        named.sort_unstable();
        named.dedup();
        let keys: Vec<(u16, Name)> =
            named.into_iter().map(|(shard, name)| (shard, Name::from(name))).collect();
        let mut args: Vec<ArgBuf> = args.iter().map(|a| ArgBuf::Bytes(a.to_vec())).collect();
        let place = |(at, text)| (at, std::mem::replace(&mut args[at], ArgBuf::Bytes(text)));
        let asked: Vec<(usize, ArgBuf)> = replacement_args.into_iter().map(place).collect();
        let of_asked =
            asked.iter().map(|(_, arg)| size_of::<usize>() + arg.memory()).sum::<usize>();
        let bytes = memory(&args, &keys) + of_asked + timeout_reply.len();
        Waiting {
            state: WaitState::default(),
            client: session.shared.id,
            shared: session.shared.clone(),
            thread: session.shared.thread(),
            context: Context::new(session, cmd),
            cmd,
            args: Arc::new(args),
            asked,
            charge: Charge::new(&session.shared.memory.holdings, ClientMemoryKind::Wait, bytes),
            awaited: AwaitedKeys {
                keys,
                others: ShardSet::of(others),
                saw_other_type: AtomicBool::new(false),
            },
            timeout_reply,
            spent_ns,
            deadline_ms,
            replicas: None,
        }
    }

    /// The arguments as the client sent them.
    pub fn client_args(&self) -> Vec<&[u8]> {
        let mut args: Vec<&[u8]> = self.args.iter().map(ArgBuf::bytes).collect();
        self.asked.iter().for_each(|(at, arg)| args[*at] = arg.bytes());
        args
    }

    /// Records that one of the keys holds a value of type `found`. The caller holds the lock of the key's
    /// shard.
    pub fn note_type(&self, found: Type) {
        if self.wants() != Some(found) {
            self.awaited.saw_other_type.store(true, Ordering::Release);
        }
    }

    /// The shards that a thread must lock to execute the command, in addition to that of the key that was
    /// created.
    ///
    /// A key whose shard is not locked counts as absent. That is right until a key gets a value of another
    /// type: the client is not served for it, but its command would return WRONGTYPE. From then on all keys are
    /// checked, so that the result does not depend on which shards the thread happens to hold.
    pub fn must_hold(&self) -> Cow<'_, ShardSet> {
        if !self.awaited.saw_other_type.load(Ordering::Acquire) {
            return Cow::Borrowed(&self.awaited.others);
        }
        Cow::Owned(ShardSet::of(
            self.awaited.others.iter().chain(self.awaited.keys.iter().map(|(shard, _)| *shard)),
        ))
    }

    /// Whether the client's command must be retried, now that one of its keys holds a value of this type, or
    /// none.
    pub fn minds(&self, found: Option<Type>) -> bool {
        match found {
            Some(found) => self.wants() == Some(found) || self.wants_its_group(),
            None => self.wants_its_group(),
        }
    }

    /// Whether the client must be notified when a key is removed or replaced: its consumer group is removed
    /// with it.
    pub fn wants_its_group(&self) -> bool {
        self.cmd.spec.flags.has(Flags::READS_GROUP)
    }

    /// The type of value that the client waits for. Keys with other types don't unblock it.
    fn wants(&self) -> Option<Type> {
        match self.cmd.spec.group {
            Group::List => Some(Type::List),
            Group::SortedSet | Group::Geo => Some(Type::Zset),
            Group::Set => Some(Type::Set),
            Group::Hash => Some(Type::Hash),
            Group::Stream => Some(Type::Stream),
            Group::String | Group::Bitmap | Group::HyperLogLog => Some(Type::String),
            Group::Generic
            | Group::PubSub
            | Group::Transactions
            | Group::Scripting
            | Group::Connection
            | Group::Server
            | Group::Cluster => None,
        }
    }
}

impl QueuedClient for Waiting {
    fn state(&self) -> &WaitState {
        &self.state
    }

    fn client(&self) -> u64 {
        self.client
    }

    fn db(&self) -> usize {
        self.context.db
    }

    fn keys(&self) -> &[(u16, Name)] {
        &self.awaited.keys
    }

    /// A stream keeps its entries, so clients blocked on it are served by growth; clients of a list wait for a
    /// key to be created.
    fn follows(&self) -> bool {
        self.wants() == Some(Type::Stream)
    }

    fn is_killed(&self) -> bool {
        self.shared.killed.load(Ordering::SeqCst)
    }
}
