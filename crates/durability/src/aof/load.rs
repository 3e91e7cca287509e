//! Loads the files of the append-only log into the keyspace.
//!
//! ```text
//!  weft-aof-parse: files ─► blocks of commands ─► executed, some thousand at a time, while the world
//!                                                 is stopped; in between, clients get LOADING errors
//! ```
//!
//! A command is executed as it was logged, whatever the current time: it expires and evicts no key,
//! sends no notification and is not logged again.

use crate::aof::aof;
use crate::aof::directory;
use crate::persistence::{load as snapshots, reload};
use std::io::{Cursor, Read};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;
use weft_command_spec::{CommandRole, Flags};
use weft_commands::Lane;
use weft_config::Id;
use weft_executor::dispatch::call::{Caller, DataFn, call};
use weft_executor::dispatch::core::Core;
use weft_executor::dispatch::request::Request;
use weft_executor::dispatch::take::{Wait, take_shards};
use weft_executor::script::functions::{self, changes_functions};
use weft_keyspace::commit::settle;
use weft_keyspace::{Db, Expired, Guard, Import, context::Free};
use weft_memory::ThreadMemory;
use weft_persist::aof::{
    self, Directory, EndPolicy, LoadFault, Loaded, Manifest, Rest, Role, Sink,
};
use weft_process::{log_notice, log_warning};
use weft_resp::Reply;
use weft_state::command_table::{Cmd, Need, Run};
use weft_state::server::Server;

/// The approximate bytes of a block, and the maximum of its commands. While a block is executed, no
/// client is served.
const BLOCK: usize = 512 << 10;
const COMMANDS: usize = 4096;
/// Blocks that may be queued.
const AHEAD: usize = 8;

/// Consecutive commands.
#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    /// The spans of all arguments.
    spans: Vec<Range<usize>>,
    /// For each command, the end of its arguments in `spans`.
    ends: Vec<usize>,
}

impl Block {
    fn push(&mut self, args: &mut dyn ExactSizeIterator<Item = &[u8]>) {
        for arg in args {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(arg);
            self.spans.push(start..self.bytes.len());
        }
        self.ends.push(self.spans.len());
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= BLOCK || self.ends.len() >= COMMANDS
    }
}

/// Messages to the executing thread.
enum Load {
    Commands(Block),
    /// A snapshot, and the channel for the rest of its file.
    Snapshot(Box<dyn Read + Send>, SyncSender<Result<Rest, String>>),
    /// All earlier commands have been executed, or will be with their transaction.
    Settle(SyncSender<Result<(), String>>),
    EndFile(Role, String, SyncSender<Result<(), String>>),
}

/// Parses the files on a separate thread.
struct Parsed {
    to: SyncSender<Load>,
    block: Block,
    srv: &'static Server,
}

const GONE: &str = "loading was given up";

impl Parsed {
    fn flush(&mut self) -> Result<(), String> {
        let block = std::mem::take(&mut self.block);
        if block.ends.is_empty() {
            return Ok(());
        }
        self.to.send(Load::Commands(block)).map_err(|_| GONE.to_string())
    }

    fn ask<T>(
        &mut self,
        load: impl FnOnce(SyncSender<Result<T, String>>) -> Load,
    ) -> Result<T, String> {
        self.flush()?;
        let (to, from) = sync_channel(1);
        self.to.send(load(to)).map_err(|_| GONE.to_string())?;
        from.recv().unwrap_or_else(|_| Err(GONE.into()))
    }
}

impl Sink for Parsed {
    fn snapshot(&mut self, input: Box<dyn Read + Send>) -> Result<Rest, String> {
        self.ask(|to| Load::Snapshot(input, to))
    }

    fn command(&mut self, args: &mut dyn ExactSizeIterator<Item = &[u8]>) -> Result<(), String> {
        self.block.push(args);
        if self.block.is_full() { self.flush() } else { Ok(()) }
    }

    fn settle(&mut self) -> Result<(), String> {
        self.ask(Load::Settle)
    }

    fn end_file(&mut self, role: Role, name: &str) -> Result<(), String> {
        self.ask(|to| Load::EndFile(role, name.into(), to))
    }

    fn progress(&mut self, bytes: u64) {
        self.srv.persistence.loading.loaded_bytes.store(bytes, Ordering::Relaxed);
    }

    fn note(&mut self, line: String) {
        log_notice!("{line}");
    }

    fn warn(&mut self, line: String) {
        log_warning!("{line}");
    }
}

/// How to treat the end of the last file.
fn leniency(srv: &Server) -> EndPolicy {
    let config = srv.config();
    EndPolicy {
        truncated: config.bool(Id::AOF_LOAD_TRUNCATED),
        corrupt: config.memory(Id::AOF_LOAD_CORRUPT_TAIL_MAX_SIZE),
        checks: config.bool(Id::AOF_CHECKSUM),
        // The writer may record positions in the replication history while the world is stopped,
        // too.
        cuts: !aof(srv).is_on(),
    }
}

/// Loads all files; clients get LOADING errors meanwhile.
///
/// # Errors
/// The fault, as a line for the operator.
pub fn at_start(
    srv: &'static Server,
    dir: &Directory,
    manifest: &Manifest,
) -> Result<Loaded, String> {
    let (_, bytes) = dir.sizes(manifest).map_err(|fault| fault.to_string())?;
    snapshots::begin(srv, bytes);
    let mut core = Core::loading(srv);
    let mut hand = srv.hand();
    let mut executor = Executor::new(srv);
    let loaded = load(srv, dir, manifest, |load| match load {
        Load::Commands(block) => {
            core.begin();
            let Ok(guard) = take_shards(Wait::new(&mut hand), &mut core.context, Need::World);
            let done = executor.execute(&mut core, &guard, &block);
            core.stats().load.requests.add(1);
            guard.release();
            core.free_deferred();
            core.publish();
            done
        }
        Load::Snapshot(input, to) => {
            let loaded =
                snapshots::load_front(srv, input, true, snapshots::Place::Keyspace).map(rest);
            let _ = to.send(loaded.map_err(|trouble| {
                snapshots::tell(&trouble);
                trouble.to_string()
            }));
            Ok(())
        }
        Load::Settle(to) => {
            let _ = to.send(Ok(()));
            Ok(())
        }
        Load::EndFile(role, name, to) => {
            let _ = to.send(executor.end_file(role, &name));
            Ok(())
        }
    });
    // For clients, loading continues until the log has begun.
    loaded
}

fn rest<R: Read + Send + 'static>(front: snapshots::Front<R>) -> Rest {
    Rest { taken: front.taken, input: Box::new(Cursor::new(front.ahead).chain(front.rest)) }
}

/// Starts a thread that parses, and executes on this one.
fn load(
    srv: &'static Server,
    dir: &Directory,
    manifest: &Manifest,
    mut take: impl FnMut(Load) -> Result<(), String>,
) -> Result<Loaded, String> {
    let lenient = leniency(srv);
    std::thread::scope(|scope| {
        let (to, from) = sync_channel(AHEAD);
        let parse = move || {
            // The executing thread frees the parsed commands and counts that.
            let mut memory = ThreadMemory::new();
            let mut sink = Parsed { to, block: Block::default(), srv };
            let loaded = aof::load(dir, manifest, lenient, &mut sink);
            drop(sink);
            memory.publish(&srv.memory);
            loaded
        };
        let thread = std::thread::Builder::new().name("weft-aof-parse".into());
        let parser = thread.spawn_scoped(scope, parse).map_err(|e| e.to_string())?;
        let mut failed = None;
        while let Ok(load) = from.recv() {
            if let Err(e) = take(load) {
                failed = Some(e);
                break;
            }
        }
        drop(from);
        let parsed = parser.join().unwrap_or_else(|_| Err(LoadFault::Failed(GONE.into())));
        match (failed, parsed) {
            (Some(e), _) => Err(e),
            (None, parsed) => parsed.map_err(|fault| fault.to_string()),
        }
    })
}

/// The work for a command of the file.
#[derive(Clone, Copy)]
enum Work {
    Data(&'static Cmd, DataFn),
    Select,
    Multi,
    Exec,
    /// It changes the libraries of functions.
    Function,
    /// The command changes no data: PING, WATCH.
    Nothing,
}

/// Executes logged commands.
struct Executor {
    srv: &'static Server,
    db: usize,
    reply: Reply,
    /// The commands since MULTI.
    transaction: Option<Vec<(Work, Vec<Vec<u8>>)>>,
    began: Instant,
}

impl Executor {
    fn new(srv: &'static Server) -> Executor {
        Executor { srv, db: 0, reply: Reply::default(), transaction: None, began: Instant::now() }
    }

    /// # Errors
    /// An invalid command, as a line for the operator.
    fn execute(&mut self, core: &mut Core, guard: &Guard<'_>, block: &Block) -> Result<(), String> {
        let mut args: Vec<&[u8]> = Vec::new();
        let mut at = 0;
        for end in &block.ends {
            args.clear();
            args.extend(block.spans[at..*end].iter().map(|span| &block.bytes[span.clone()]));
            at = *end;
            self.command(core, guard, &args)?;
        }
        Ok(())
    }

    fn command(
        &mut self,
        core: &mut Core,
        guard: &Guard<'_>,
        args: &[&[u8]],
    ) -> Result<(), String> {
        // Also check commands in a transaction: if it never ends, it must not be cut off together
        // with unknown commands.
        let work = self.work_of(args)?;
        match (work, &mut self.transaction) {
            // EXEC without MULTI does nothing.
            (Work::Exec, _) => {
                for (work, queued) in self.transaction.take().unwrap_or_default() {
                    let args: Vec<&[u8]> = queued.iter().map(|arg| &arg[..]).collect();
                    self.run(core, guard, work, &args)?;
                }
                Ok(())
            }
            (_, Some(transaction)) => {
                transaction.push((work, args.iter().map(|arg| arg.to_vec()).collect()));
                Ok(())
            }
            (Work::Multi, None) => {
                self.transaction = Some(Vec::new());
                Ok(())
            }
            (_, None) => self.run(core, guard, work, args),
        }
    }

    fn run(
        &mut self,
        core: &mut Core,
        guard: &Guard<'_>,
        work: Work,
        args: &[&[u8]],
    ) -> Result<(), String> {
        let (cmd, run) = match work {
            Work::Data(cmd, run) => (cmd, run),
            Work::Select => return self.select(args),
            Work::Function => {
                self.change_functions(core, guard, args);
                return Ok(());
            }
            // MULTI in a transaction is an error that changes nothing.
            Work::Multi | Work::Exec | Work::Nothing => return Ok(()),
        };
        // Restore the conditions at the time of logging: keys expire only by logged commands.
        core.context.set_import(Import::Source);
        core.context.expired = Expired::Keep;
        let request = Request::new(Some(cmd), args, &[]);
        let who = Caller::source(self.db);
        // Discard the reply, even an error: the client got it when the command was logged.
        let _ = call(core, who, cmd, run, &request, &mut self.reply, guard, Lane::Slow);
        self.reply.clear();
        if !core.context.effects.is_empty() {
            settle(guard, &mut core.context);
            core.context.effects.take_notices();
            core.context.effects.clear_log();
        }
        if core.context.has_deferred_frees() {
            core.free_deferred();
        }
        Ok(())
    }

    /// # Errors
    /// No server can have logged the command: a line for the operator.
    fn work_of(&self, args: &[&[u8]]) -> Result<Work, String> {
        let unknown = || {
            let name = args[0].escape_ascii();
            format!("Unknown command '{name}' reading the append only file")
        };
        let mut cmd = self.srv.table.find_logged(args[0]).ok_or_else(unknown)?;
        if !cmd.subcommands.is_empty() {
            let word = args.get(1).ok_or_else(unknown)?;
            cmd = cmd.subcommand(word).ok_or_else(unknown)?;
        }
        let name = cmd.full_name;
        if !cmd.spec.fits(args.len()) {
            return Err(format!("A call of '{name}' with a wrong number of arguments"));
        }
        match cmd.run {
            Run::Data { run, .. } => Ok(Work::Data(cmd, run)),
            Run::Exec => Ok(Work::Exec),
            Run::Watch => Ok(Work::Nothing),
            // Effects are logged, never scripts.
            Run::Script(_) => {
                Err(format!("The append only file calls '{name}', which is never logged"))
            }
            Run::Server(_) if cmd.spec.special.role == CommandRole::Multi => Ok(Work::Multi),
            Run::Server(_) if cmd.spec.special.role == CommandRole::Select => Ok(Work::Select),
            Run::Server(_) if changes_functions(cmd) => Ok(Work::Function),
            // Commands that change the server are meant for connected clients.
            Run::Server(_) if cmd.spec.flags.has(Flags::ADMIN.or(Flags::WRITE)) => {
                Err(format!("The append only file calls '{name}', which is never logged"))
            }
            Run::Server(_) => Ok(Work::Nothing),
        }
    }

    /// As with other commands, nothing is left of an error but a line in the log.
    fn change_functions(&mut self, core: &mut Core, guard: &Guard<'_>, args: &[&[u8]]) {
        let caller = functions::Caller { db: self.db, is_source: true };
        if let Err(e) = functions::change(core, guard, caller, args, &mut self.reply) {
            log_warning!("A command of the append only file fails: {}", e.0.escape_ascii());
        }
        self.reply.clear();
        forget_effects(core, guard);
    }

    fn select(&mut self, args: &[&[u8]]) -> Result<(), String> {
        let db = args.get(1).and_then(|arg| weft_base::num::parse_u64(arg));
        let db = db.and_then(|db| usize::try_from(db).ok());
        match db.filter(|db| *db < self.srv.ks.databases()) {
            Some(db) => {
                self.db = db;
                Ok(())
            }
            None => Err("The append only file selects a database that does not exist".into()),
        }
    }

    fn end_file(&mut self, role: Role, name: &str) -> Result<(), String> {
        self.transaction = None;
        // Every file begins in the first database.
        self.db = 0;
        let kind = match role {
            Role::Base => "base",
            Role::Increment | Role::History => "incr",
        };
        let seconds = self.began.elapsed().as_secs_f64();
        log_notice!("DB loaded from {kind} file {name}: {seconds:.3} seconds");
        self.began = Instant::now();
        Ok(())
    }
}

/// DEBUG LOADAOF: empties the keyspace and loads the files, while the world is stopped.
///
/// # Errors
/// A fault of the files, as a line for the operator. The data is lost, completely or in part.
pub fn again(srv: &'static Server, core: &mut Core, guard: &Guard<'_>) -> Result<(), String> {
    aof(srv).finish();
    let dir = directory(srv);
    let manifest = dir.manifest().map_err(|fault| fault.to_string())?;
    for db in 0..srv.ks.databases() {
        let taken = Db::new(guard, &mut core.context, db).take_all();
        core.context.discard_all(taken.contents, Free::Background);
    }
    forget_effects(core, guard);
    let mut executor = Executor::new(srv);
    let loaded = load(srv, &dir, &manifest, |load| match load {
        Load::Commands(block) => executor.execute(core, guard, &block),
        Load::Snapshot(input, to) => {
            let loaded = reload::load_front(srv, guard, &mut core.context, input).map(rest);
            forget_effects(core, guard);
            let _ = to.send(loaded.map_err(|trouble| trouble.to_string()));
            Ok(())
        }
        Load::Settle(to) => {
            let _ = to.send(Ok(()));
            Ok(())
        }
        Load::EndFile(role, name, to) => {
            let _ = to.send(executor.end_file(role, &name));
            Ok(())
        }
    });
    core.context.set_import(Import::No);
    loaded.map(|_| ())
}

/// The files already have these changes.
fn forget_effects(core: &mut Core, guard: &Guard<'_>) {
    settle(guard, &mut core.context);
    core.context.effects.take_notices();
    core.context.effects.clear_log();
}
