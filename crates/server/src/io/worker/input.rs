//! Reading, and planning what was kept.

use super::Worker;
use crate::commands::logged_line;
use crate::io::read::{self, Got, Planner};
use std::sync::atomic::{AtomicU64, Ordering};
use weft_process::{log_verbose, log_warning};

impl Worker {
    fn planner(&self) -> Planner<'static> {
        let srv = self.core.srv;
        Planner { ks: &srv.ks, table: &srv.table, max_bulk: self.core.settings.commands.max_string }
    }

    /// Reads once. The connection is in a state that reads.
    pub(super) fn on_readable(&mut self, index: usize) {
        if self.batch.is_full() {
            self.flush();
        }
        let planner = self.planner();
        let Some(conn) = self.conns.get_mut(index).filter(|conn| conn.state.reads()) else {
            return;
        };
        let jobs = self.batch.jobs.len();
        match read::read(conn, index, &mut self.batch, planner) {
            Got::Nothing => {}
            Got::Closed => self.ended(index),
            Got::Data(n) => {
                let planned = self.batch.jobs.len() > jobs;
                if planned {
                    conn.state.batched();
                } else {
                    conn.session.shared.touch(self.core.srv.mono_ms());
                }
                // As in the reference, before anything of it is executed.
                let held = conn.held_input() + if planned { n } else { 0 };
                let stats = self.core.stats();
                stats.net_in.add(n as u64);
                stats.reads.add(1);
                add(&conn.session.shared.net_in, n as u64);
                if held > self.core.settings.max_query_buffer {
                    self.query_buffer_overflow(index);
                } else if !planned {
                    self.conns[index].show_input();
                    self.account_memory(index);
                }
            }
        }
    }

    /// The client sends no more, and everything that it has sent is answered: it is closed when it
    /// has taken the answers.
    fn ended(&mut self, index: usize) {
        let conn = &mut self.conns[index];
        log_verbose!(
            "Client closed connection {}",
            logged_line(self.core.srv, &conn.session.shared)
        );
        if conn.replica.is_some() || (conn.pending_output() == 0 && !conn.writing) {
            return self.close(index);
        }
        conn.state.close();
        self.widen_interest(index);
    }

    /// What is planned of it is not executed: its place in the batch finds nobody.
    #[cold]
    fn query_buffer_overflow(&mut self, index: usize) {
        let conn = &self.conns[index];
        log_warning!(
            "Closing client that reached max query buffer length: {}",
            logged_line(self.core.srv, &conn.session.shared)
        );
        self.core.srv.totals.query_limit_disconnections.fetch_add(1, Ordering::Relaxed);
        self.close(index);
    }

    /// Plans what connections have that no event announces.
    pub(super) fn run_queued(&mut self) {
        for index in std::mem::take(&mut self.queued) {
            if self.batch.is_full() {
                self.flush();
            }
            let planner = self.planner();
            let Some(conn) = self.conns.get_mut(index) else { continue };
            let has_requests = conn.has_requests();
            if conn.state.taken_up(has_requests) {
                conn.state.batched();
                read::plan_inbuf(conn, index, &mut self.batch, planner);
            } else {
                self.widen_interest(index);
            }
        }
    }
}

/// Adds to a counter that only this thread changes.
pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}
