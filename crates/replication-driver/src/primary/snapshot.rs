//! Snapshots for replicas: weft-sync, a thread for each of them.
//!
//! ```text
//!  streamed   begin, cut: snapshot_began ─► sockets come ─► keys, as they are encoded, to all ─► marks
//!  by disk    begin, cut: snapshot_began ─► a file without a name ─► snapshot_ready ─► sockets come ─► sent
//! ```
//!
//! There is one snapshot of the keyspace at a time, and one save: this one waits for those that are under
//! way, and is the save that is under way meanwhile, as in the reference.

use crate::hub;
use crate::primary::fan_out::FanOut;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use weft_durability::persistence::save;
use weft_durability::persistence::save::{Failed, Introduced, Plan};
use weft_executor::snapshot_waits::Taken;
use weft_keyspace::snapshot::{BeginError, Snapshot};
use weft_keyspace::{ExecContext, Import};
use weft_persist::rdb::file::Saver;
use weft_process::log_notice;
use weft_replication::action::Target;
use weft_replication::{Action, Position};
use weft_scheduler::yielding;
use weft_scheduler::yielding::YieldingWriter;
use weft_state::replica_socket::Job;
use weft_state::saves::Own;
use weft_state::server::Server;

/// How often to look whether another snapshot has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How often to look whether what was left to weft-repl is done.
const SOON: Duration = Duration::from_millis(1);

/// Begins the thread that takes it.
///
/// # Errors
/// The system has no thread for it.
pub fn start(srv: &'static Server, job: Arc<Job>) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("weft-sync".into());
    thread.spawn(move || {
        weft_memory::count_whole_thread(&srv.memory);
        let _stack = weft_process::crash::second_stack();
        run(srv, &job);
    })?;
    Ok(())
}

fn run(srv: &'static Server, job: &Arc<Job>) {
    let done = match job.target {
        Target::Stream => stream(srv, job),
        Target::Disk => by_disk(srv, job),
    };
    let hub = hub(srv);
    if let Err(failed) = done {
        // Of one that was abandoned the machine does not know any more.
        let why = failed.to_string();
        hub.step(srv, |node, now, out| node.snapshot_failed(now, job.id, &why, out));
    }
    hub.lock().replicas.ended(job.id);
}

/// A snapshot whose moment has passed.
struct Begun {
    own: Own<'static>,
    plan: Plan,
    snapshot: Taken,
    /// What the data are part of.
    position: Position,
}

/// Waits until it may be taken, and begins it.
fn begin(srv: &'static Server, job: &Job) -> Result<Begun, Failed> {
    let own = loop {
        if job.is_over() || srv.persistence.is_ending() {
            return Err(Failed::Cancelled);
        }
        match srv.persistence.begin(true) {
            Some(own) => break own,
            None => std::thread::sleep(LOOK_AGAIN),
        }
    };
    job.runs(Some(&own.running));
    let plan = Plan::new(srv, true)?.for_replicas(job.form.rdb_version);
    let mut hand = srv.hand();
    let mut context = ExecContext::new(srv.now_ms(), 0);
    context.cancel = Some(own.running.cancel.clone());
    // As in `persistence::save::begin`: a replica may be told later that a key lives on.
    context.set_import(Import::Source);
    loop {
        let begun = Snapshot::begin(&mut hand, &mut context, plan.limit, |_| {
            hub(srv).cut(srv, None, |node, now, out| {
                node.snapshot_began(now, job.id, out);
                node.stream().position()
            })
        });
        match begun {
            Ok((snapshot, position)) => {
                // Not before: while the world stands still, everybody waits for this thread.
                weft_scheduler::yielding::lower_priority();
                let snapshot = Taken::new(srv, snapshot);
                return Ok(Begun { own, plan, snapshot, position });
            }
            Err(BeginError::Taken) if !own.running.is_over() => std::thread::sleep(LOOK_AGAIN),
            Err(BeginError::Taken | BeginError::Cancelled) => return Err(Failed::Cancelled),
        }
    }
}

impl Begun {
    /// Writes all of it.
    fn write<W: io::Write + Send>(
        &self,
        srv: &'static Server,
        job: &Job,
        saver: &Saver<W>,
    ) -> Result<(), Failed> {
        let parts = job.form.parts;
        let introduced = Introduced {
            is_aof_base: false,
            position: Some(self.position),
            functions: parts.functions,
        };
        save::introduce(srv, saver, introduced)?;
        if parts.data {
            save::write(srv, &self.plan, &self.snapshot, saver, &self.own.running)?;
        }
        Ok(())
    }

    /// It has come to its end, whichever: others may be taken.
    fn end(self, srv: &Server, job: &Job) {
        let kept = self.snapshot.progress().peak_bytes;
        drop(self.snapshot);
        srv.persistence.saves().last_kept = kept;
        job.runs(None);
    }
}

/// To the sockets, as it is made.
fn stream(srv: &'static Server, job: &Arc<Job>) -> Result<(), Failed> {
    let begun = begin(srv, job)?;
    let done = send_stream(srv, job, &begun);
    begun.end(srv, job);
    done?.finish().map_err(Failed::Disk)
}

fn send_stream(srv: &'static Server, job: &Arc<Job>, begun: &Begun) -> Result<FanOut, Failed> {
    wait_for_orders(srv, job);
    let to = YieldingWriter(FanOut::new(srv, job));
    let saver =
        Saver::begin(to, begun.plan.form, begun.plan.is_summed())?.pausing(yielding::yield_if_due);
    begun.write(srv, job, &saver)?;
    let (YieldingWriter(sockets), bytes) = saver.finish()?;
    log_notice!("Streamed {bytes} bytes of the data to replicas");
    Ok(sockets)
}

/// Into a file, and from there.
fn by_disk(srv: &'static Server, job: &Arc<Job>) -> Result<(), Failed> {
    let begun = begin(srv, job)?;
    let done = write_file(srv, job, &begun);
    begun.end(srv, job);
    let (file, bytes) = done?;
    hub(srv).step(srv, |node, now, out| node.snapshot_ready(now, job.id, bytes, out));
    wait_for_orders(srv, job);
    // What goes wrong from here on is between the file and each of them.
    let _ = FanOut::new(srv, job).send_file(&file, bytes);
    Ok(())
}

fn write_file(srv: &'static Server, job: &Job, begun: &Begun) -> Result<(File, u64), Failed> {
    let to = YieldingWriter(srv.persistence.nameless_file()?);
    let saver =
        Saver::begin(to, begun.plan.form, begun.plan.is_summed())?.pausing(yielding::yield_if_due);
    begun.write(srv, job, &saver)?;
    let (YieldingWriter(file), bytes) = saver.finish()?;
    log_notice!("DB saved on disk");
    Ok((file, bytes))
}

/// Until the machine's orders about the sockets of this snapshot have gone out: they are behind what
/// needs the world, if there is such.
fn wait_for_orders(srv: &Server, job: &Job) {
    let is_order = |action: &Action| matches!(action, Action::SendBulk { snapshot, .. } if *snapshot == job.id);
    while hub(srv).lock().pending.iter().any(is_order) && !job.is_over() {
        std::thread::sleep(SOON);
    }
}
