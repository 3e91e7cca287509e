//! Runs commands for unit tests and the fuzz target without a server. Does the same steps: looks up
//! the command, checks its arguments, takes the locks of its spec, runs it and keeps the reply.

use crate::ctx::{CommandSettings, Ctx, Lane, Pause};
use crate::error::wrong_arity;
use crate::generic;
use crate::lock::Lock;
use crate::registry::{Command, REGISTRY};
use weft_keyspace::commit::settle;
use weft_keyspace::notice::Notice;
use weft_keyspace::{Db, ExecContext, Keyspace, Outside, ShardSet};
use weft_resp::Reply;

/// A keyspace of 16 databases with one client.
#[derive(Debug)]
pub struct Bench {
    pub ks: Keyspace,
    pub context: ExecContext,
    pub settings: CommandSettings,
    /// The client's database.
    pub db: usize,
    notifications: Vec<Notice>,
}

impl Bench {
    /// A bench whose clock is at this Unix time in milliseconds.
    pub fn new(now_ms: i64) -> Bench {
        let settings = CommandSettings {
            max_string: 512 << 20,
            lazy_user_flush: true,
            lfu: false,
            cluster: false,
            limits: weft_types::Limits::default(),
        };
        let ks = Keyspace::new(16, 1, Box::new(|_| {}));
        Bench {
            ks,
            context: ExecContext::new(now_ms, 1),
            settings,
            db: 0,
            notifications: Vec::new(),
        }
    }

    /// The RESP2 reply to a line of words, with `|` for line breaks.
    pub fn run(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
        String::from_utf8(self.run_words(&words)).expect("text").replace("\r\n", "|")
    }

    /// The keyspace notifications since the last call, as `event key` separated by commas. Outside
    /// of database 0, the event has the number of the database as a prefix.
    pub fn take_notifications(&mut self) -> String {
        let one = |notice: Notice| {
            let db = if notice.db == 0 { String::new() } else { format!("{}:", notice.db) };
            format!("{db}{} {}", notice.event, String::from_utf8_lossy(&notice.key))
        };
        std::mem::take(&mut self.notifications).into_iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Runs the lines in order and compares the replies.
    pub fn expect(&mut self, lines: &[(&str, &str)]) {
        for (line, reply) in lines {
            assert_eq!(self.run(line), *reply, "{line}");
        }
    }

    /// The bytes of the reply to these words.
    pub fn run_words(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let command = find(args).expect("a command of the registry");
        self.run_command(command, args)
    }

    /// The bytes of the reply of `command` to these words.
    pub fn run_command(&mut self, command: &Command, args: &[&[u8]]) -> Vec<u8> {
        self.run_in(Lane::Slow, command, args).0
    }

    /// Runs a request in the fast lane. Returns whether it was too much work for that lane.
    pub fn needs_slow_lane(&mut self, args: &[&[u8]]) -> bool {
        self.exceeds_lane(Lane::Fast, args)
    }

    /// Runs a request in `lane`. Returns whether it was too much work for that lane.
    pub fn exceeds_lane(&mut self, lane: Lane, args: &[&[u8]]) -> bool {
        let command = find(args).expect("a command of the registry");
        self.run_in(lane, command, args).1 == Some(Pause::Slow)
    }

    /// Runs a request in the fast lane. Returns the reply and whether it was too much work.
    pub fn run_fast(&mut self, args: &[&[u8]]) -> (Vec<u8>, bool) {
        let command = find(args).expect("a command of the registry");
        let (reply, pause) = self.run_in(Lane::Fast, command, args);
        (reply, pause == Some(Pause::Slow))
    }

    fn run_in(
        &mut self,
        lane: Lane,
        command: &Command,
        args: &[&[u8]],
    ) -> (Vec<u8>, Option<Pause>) {
        let mut pause = None;
        let mut reply = Reply::default();
        let result = if command.spec.fits(args.len()) {
            let set = match command.lock {
                Lock::Keys => self.shards_of_keys(command, args),
                Lock::World | Lock::Rest | Lock::Names => None,
                Lock::Named(keys) => keys(args)
                    .map(|at| ShardSet::of(at.into_iter().map(|i| self.ks.key(args[i]).shard()))),
                Lock::ScanRange => Some(generic::scan::shards(args, &self.ks, self.db)),
            };
            let mut inside = Outside::new(&self.ks, 0).enter();
            let guard = match set {
                Some(set) => inside.guard(&mut self.context, set).expect("no shard is held"),
                None => inside.world(&mut self.context).expect("the slow lane is empty"),
            };
            let mut ctx = Ctx {
                args,
                db: Db::new(&guard, &mut self.context, self.db),
                reply: &mut reply,
                settings: &self.settings,
                blobs: &[],
                first_key: None,
                lane,
                pause: None,
            };
            let result = (command.run)(&mut ctx);
            pause = ctx.pause;
            // No client is blocked here, but the notifications must be collected before the shards
            // are released.
            let _ = settle(&guard, &mut self.context);
            self.notifications.extend(self.context.effects.take_notices());
            result
        } else {
            Err(wrong_arity(command.spec.name))
        };
        if let Err(error) = result {
            reply.clear();
            reply.error(&error.0);
        }
        (reply.slices(0, usize::MAX).concat(), pause)
    }

    fn shards_of_keys(&self, command: &Command, args: &[&[u8]]) -> Option<ShardSet> {
        let mut shards = Vec::new();
        // A command without keys holds no shard.
        let _ = command.spec.key_positions(args, |i| shards.push(self.ks.key(args[i]).shard()));
        Some(ShardSet::of(shards))
    }
}

/// The command or subcommand that these words name.
pub fn find(args: &[&[u8]]) -> Option<&'static Command> {
    let named =
        |command: &&Command, word: &[u8]| command.spec.name.as_bytes().eq_ignore_ascii_case(word);
    let mut all = REGISTRY.iter().flat_map(|group| group.iter().copied());
    let command = all.find(|c| named(c, args.first().copied().unwrap_or_default()))?;
    match command.subcommands {
        [] => Some(command),
        subcommands => {
            let word = args.get(1)?;
            subcommands.iter().find(|c| named(c, word))
        }
    }
}
