//! Running an I/O thread.

use crate::worker::Worker;
use std::io;
use std::sync::mpsc::SyncSender;
use weft_net::listen::Listener;
use weft_process::log_warning;
use weft_state::server::Server;

/// Runs I/O thread `id` on the calling thread until the server stops.
pub fn run(
    id: usize,
    srv: &'static Server,
    listeners: Vec<Listener>,
    is_up: &SyncSender<io::Result<()>>,
) {
    let _stack = weft_process::crash::second_stack();
    let mut worker = match Worker::new(id, srv, listeners) {
        Ok(worker) => worker,
        Err(e) => {
            let _ = is_up.send(Err(e));
            return;
        }
    };
    if id == 0 {
        // Thread 0 starts last.
        srv.memory.begin();
    }
    let _ = is_up.send(Ok(()));
    if let Err(e) = worker.run() {
        log_warning!("I/O thread {id} failed: {e}");
        srv.shut_down(1);
    }
}
