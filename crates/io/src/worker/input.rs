//! Reading from clients, and planning requests that were kept.

use crate::read;
use crate::read::{Got, Planner};
use crate::worker::Worker;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_admin::commands::logged_line;
use weft_process::{log_verbose, log_warning};

impl Worker {
    fn planner(&self) -> Planner<'static> {
        let srv = self.core.srv;
        Planner { ks: &srv.ks, table: &srv.table, max_bulk: self.core.settings.commands.max_string }
    }

    /// Reads once from a connection in a reading state.
    pub(super) fn on_readable(&mut self, index: usize) {
        if self.execution.batch.is_full() {
            self.flush();
        }
        let planner = self.planner();
        let Some(conn) = self.conns.get_mut(index).filter(|conn| conn.state.reads()) else {
            return;
        };
        let jobs = self.execution.batch.jobs.len();
        match read::read(conn, index, &mut self.execution.batch, planner) {
            Got::Nothing => {}
            Got::Closed => self.ended(index),
            Got::Data(n) => {
                let planned = self.execution.batch.jobs.len() > jobs;
                if planned {
                    conn.state.batched();
                } else {
                    conn.session.shared.touch(self.core.srv.mono_ms());
                }
                self.count_read(index, n);
                self.weigh_input(index, if planned { n } else { 0 });
            }
        }
    }

    /// Reads once from a client that is blocked or paused.
    pub(super) fn read_ahead(&mut self, index: usize) {
        if self.execution.batch.is_full() {
            self.flush();
        }
        let Some(conn) = self.conns.get_mut(index).filter(|conn| conn.state.reads_ahead()) else {
            return;
        };
        match read::read_ahead(conn, &mut self.execution.batch) {
            Got::Nothing => {}
            Got::Closed => self.hung_up(index),
            Got::Data(n) => {
                conn.session.shared.touch(self.core.srv.mono_ms());
                let waiting = conn.input.waiting();
                self.count_read(index, n);
                self.weigh_input(index, waiting);
            }
        }
    }

    fn count_read(&self, index: usize, n: usize) {
        let stats = self.core.stats();
        stats.network.bytes_in.add(n as u64);
        stats.network.reads.add(1);
        add(&self.conns[index].session.shared.activity.net_in, n as u64);
    }

    /// Closes a client whose unexecuted input exceeds the limit: `parsed` bytes plus its unparsed
    /// bytes. As in Valkey, this comes before any more of it is executed.
    fn weigh_input(&mut self, index: usize, parsed: usize) {
        let conn = &mut self.conns[index];
        let is_planned = conn.state.is_in_batch();
        if !is_planned {
            conn.show_input();
        }
        if conn.held_input() + parsed > self.core.settings.clients.max_query_buffer {
            self.query_buffer_overflow(index);
        } else if !is_planned {
            self.account_memory(index);
        }
    }

    /// Closes a client that has closed its side and does not wait for a reply that it could still
    /// read.
    pub(super) fn hung_up(&mut self, index: usize) {
        let shared = &self.conns[index].session.shared;
        log_verbose!("Client closed connection {}", logged_line(self.core.srv, shared));
        self.close(index);
    }

    /// The client has closed its sending side, and all its requests are answered. Closes the
    /// connection once the replies are sent.
    fn ended(&mut self, index: usize) {
        let conn = &mut self.conns[index];
        log_verbose!(
            "Client closed connection {}",
            logged_line(self.core.srv, &conn.session.shared)
        );
        if conn.replica.is_some() || (!conn.has_output() && !conn.output.writing) {
            return self.close(index);
        }
        conn.state.close();
        self.widen_interest(index);
    }

    /// Closes the client. Its jobs in the batch are skipped.
    #[cold]
    fn query_buffer_overflow(&mut self, index: usize) {
        let conn = &self.conns[index];
        log_warning!(
            "Closing client that reached max query buffer length: {}",
            logged_line(self.core.srv, &conn.session.shared)
        );
        self.core.srv.statistics.totals.query_limit_disconnections.fetch_add(1, Ordering::Relaxed);
        self.close(index);
    }

    /// Plans requests that connections already hold and that no event announces.
    pub(super) fn run_queued(&mut self) {
        for index in std::mem::take(&mut self.conns.queued) {
            if self.execution.batch.is_full() {
                self.flush();
            }
            let planner = self.planner();
            let Some(conn) = self.conns.get_mut(index) else { continue };
            let has_requests = conn.input.has_requests();
            if !conn.state.dequeue(has_requests) {
                self.widen_interest(index);
            } else if conn.input.continues_in_read_ahead() {
                self.plan_ahead(index);
            } else {
                conn.state.batched();
                read::plan_inbuf(conn, index, &mut self.execution.batch, planner);
            }
        }
    }

    /// Plans some of the input that was read ahead, as if it had just come from the socket.
    fn plan_ahead(&mut self, index: usize) {
        let (planner, jobs) = (self.planner(), self.execution.batch.jobs.len());
        let conn = &mut self.conns[index];
        let Got::Data(n) = read::read(conn, index, &mut self.execution.batch, planner) else {
            return self.ended(index);
        };
        let planned = self.execution.batch.jobs.len() > jobs;
        if planned {
            conn.state.batched();
        } else {
            // Part of a large value is still missing.
            self.conns.queued.push(index);
        }
        self.weigh_input(index, if planned { n } else { 0 });
    }
}

/// Adds to a counter that only this thread changes.
pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}
