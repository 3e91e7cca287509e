//! Snapshots for replicas: weft-sync, a thread for each snapshot.
//!
//! ```text
//!  streamed   begin, cut: snapshot_began ─► sockets come ─► keys, while they are encoded, to all ─► marks
//!  by disk    begin, cut: snapshot_began ─► an unnamed file ─► snapshot_ready ─► sockets come ─► sent
//! ```
//!
//! Only one snapshot of the keyspace and one save exist at a time. This one waits for those in
//! progress, and counts as the save in progress, as in the reference.

use crate::hub;
use crate::primary::fan_out::FanOut;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use weft_durability::persistence::save;
use weft_durability::persistence::save::{Failed, Introduced, Plan};
use weft_executor::script::functions::Libraries;
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

/// Interval of checks whether another snapshot has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Interval of checks whether weft-repl has executed pending actions.
const SOON: Duration = Duration::from_millis(1);

/// Starts the thread that takes the snapshot.
///
/// # Errors
/// The system can't create a thread.
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
        // The machine has dropped an abandoned snapshot and ignores this.
        let why = failed.to_string();
        hub.step(srv, |node, now, out| node.snapshot_failed(now, job.id, &why, out));
    }
    hub.lock().replicas.ended(job.id);
}

/// A snapshot after its cut.
struct Begun {
    own: Own<'static>,
    plan: Plan,
    snapshot: Taken,
    /// The position of the data.
    position: Position,
    /// The functions of the cut.
    functions: Arc<Libraries>,
}

/// Waits for other snapshots, then begins this one.
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
    // As in `persistence::save::begin`: the primary may send a replica a later expiry for a key.
    context.set_import(Import::Source);
    loop {
        let begun = Snapshot::begin(&mut hand, &mut context, plan.limit, |_| {
            let position = hub(srv).cut(srv, None, |node, now, out| {
                node.snapshot_began(now, job.id, out);
                node.stream().position()
            });
            (position, srv.scripts.functions.current())
        });
        match begun {
            Ok((snapshot, (position, functions))) => {
                // Not earlier: while the world is stopped, every thread waits for this one.
                weft_scheduler::yielding::lower_priority();
                let snapshot = Taken::new(srv, snapshot);
                return Ok(Begun { own, plan, snapshot, position, functions });
            }
            Err(BeginError::Taken) if !own.running.is_over() => std::thread::sleep(LOOK_AGAIN),
            Err(BeginError::Taken | BeginError::Cancelled | BeginError::GaveUp) => {
                return Err(Failed::Cancelled);
            }
        }
    }
}

impl Begun {
    /// Writes the whole snapshot.
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
            functions: parts.functions.then_some(&*self.functions),
        };
        save::introduce(srv, saver, introduced)?;
        if parts.data {
            save::write(srv, &self.plan, &self.snapshot, saver, &self.own.running)?;
        }
        Ok(())
    }

    /// Ends the snapshot, complete or not, so that others can begin.
    fn end(self, srv: &Server, job: &Job) {
        let kept = self.snapshot.progress().peak_bytes;
        drop(self.snapshot);
        srv.persistence.saves().last_kept = kept;
        job.runs(None);
    }
}

/// Streams the snapshot to the sockets.
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

/// Writes the snapshot to a file, and sends the file.
fn by_disk(srv: &'static Server, job: &Arc<Job>) -> Result<(), Failed> {
    let begun = begin(srv, job)?;
    let done = write_file(srv, job, &begun);
    begun.end(srv, job);
    let (file, bytes) = done?;
    hub(srv).step(srv, |node, now, out| node.snapshot_ready(now, job.id, bytes, out));
    wait_for_orders(srv, job);
    // A failure from here on affects only single replicas, not the snapshot.
    let _ = FanOut::new(srv, job).send_file(&file, bytes);
    Ok(())
}

fn write_file(srv: &'static Server, job: &Job, begun: &Begun) -> Result<(File, u64), Failed> {
    let to = YieldingWriter(srv.persistence.unnamed_file()?);
    let saver =
        Saver::begin(to, begun.plan.form, begun.plan.is_summed())?.pausing(yielding::yield_if_due);
    begun.write(srv, job, &saver)?;
    let (YieldingWriter(file), bytes) = saver.finish()?;
    log_notice!("DB saved on disk");
    Ok((file, bytes))
}

/// Waits until the commands for this snapshot's sockets are sent. They may be pending after an
/// action that must stop the world.
fn wait_for_orders(srv: &Server, job: &Job) {
    let is_order = |action: &Action| matches!(action, Action::SendBulk { snapshot, .. } if *snapshot == job.id);
    while hub(srv).lock().pending.iter().any(is_order) && !job.is_over() {
        std::thread::sleep(SOON);
    }
}
