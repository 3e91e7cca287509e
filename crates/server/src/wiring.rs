//! Puts the parts of a server together.

use std::sync::Arc;
use weft_admin::commands;
use weft_config::Config;
use weft_durability::aof::Aof;
use weft_executor::dispatch::core::Functions;
use weft_executor::{notify, tracking};
use weft_replication_driver::Hub;
use weft_state::command_table::CommandTable;
use weft_state::replication_status::ReplicationStatus;
use weft_state::server::{Parts, Server};

/// Creates a server without threads. Its keyspace reports changes to subscribers and to clients
/// with client-side caching. The server lives as long as the process. `called`: the program's name
/// as it was started. `commands`: see [`commands::table`].
pub fn server(
    config: Config,
    called: String,
    (table, functions): (CommandTable, Functions),
) -> &'static Server {
    let replication = Arc::<ReplicationStatus>::default();
    let parts = Parts {
        functions: Box::new(functions),
        journal: Box::new(Aof::new(commands::stay_off)),
        replication: replication.clone(),
        replicator: Box::new(Hub::new(replication)),
        run_thread: weft_io::threads::run,
    };
    let srv = Server::new(config, called, table, parts);
    srv.ks.listen(Box::new(move |wanted, notices| notify::publish_notices(srv, wanted, notices)));
    srv.ks.set_caches(Box::new(tracking::Told(srv)));
    srv
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use weft_executor::snapshot_waits::Taken;
    use weft_keyspace::ExecContext;
    use weft_keyspace::snapshot::Snapshot;

    /// While a snapshot is marked as taken, no other one may begin: the end of the previous
    /// snapshot would clear its mark.
    #[test]
    fn taken_snapshot_keeps_mark_when_previous_ends() {
        const ROUNDS: usize = 5000;
        let srv = server(Config::default(), String::new(), commands::table());
        let waits = &srv.persistence.waits;
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut hand, mut context) = (srv.hand(), ExecContext::new(0, 0));
                for _ in 0..ROUNDS {
                    let begun = Snapshot::begin(&mut hand, &mut context, 0, |_| ());
                    let Ok((snapshot, ())) = begun else { break };
                    drop(Taken::new(srv, snapshot));
                }
                is_over.store(true, Ordering::Relaxed);
            });
            let (mut hand, mut context) = (srv.hand(), ExecContext::new(0, 0));
            while !is_over.load(Ordering::Relaxed) {
                let state = waits.state();
                for _ in 0..if state.is_taken { 100 } else { 0 } {
                    let next = Snapshot::begin(&mut hand, &mut context, 0, |_| ());
                    assert!(next.is_err(), "the next snapshot begins before the mark is cleared");
                }
                drop(state);
                // Otherwise this thread may take the lock again and again before the other one.
                thread::yield_now();
            }
        });
        assert!(!waits.state().is_taken);
    }
}
