//! The writing thread's part of the mark in the manifest: see [`super::mark`].

use super::aof;
use super::fatal::end_for;
use weft_keyspace::log::LogReader;
use weft_persist::aof::Appender;
use weft_persist::aof::Led;
use weft_process::log_warning;
use weft_state::aof_policy::Policy;
use weft_state::server::Server;

/// The marks that it has set, and the wish that it has seen.
#[derive(Debug, Default)]
pub(super) struct Marking {
    /// The changes of [`super::mark::Mark`] that it has seen.
    seen: u64,
    wanted: Option<Led>,
    /// The last unit when it could begin to wait: replies of later ones wait for the disk.
    from: Option<u64>,
    /// The mark of this process, which may be on the disk.
    own: Option<Led>,
    /// The log is about to end.
    is_over: bool,
}

/// Whether each reply waits for the disk.
fn syncs_all(policy: &Policy) -> bool {
    policy.sync == weft_state::aof_policy::Sync::Always && !policy.pauses
}

impl Marking {
    /// Sets the mark if it is due. Replies are bounded by the policy already.
    pub fn renew(
        &mut self,
        srv: &Server,
        policy: &Policy,
        log: &LogReader,
        appender: &mut Appender,
    ) {
        let mark = &aof(srv).mark;
        let changes = mark.changes();
        if self.seen != changes {
            (self.seen, self.wanted, self.from) = (changes, mark.wanted(), None);
        }
        let Some(led) = self.wanted.filter(|led| self.own != Some(*led)) else { return };
        let is_possible = syncs_all(policy)
            && !appender.waits_for_base()
            && !appender.is_doubtful()
            && !self.is_over
            && aof(srv).locks.are_real();
        if !is_possible {
            self.from = None;
            return;
        }
        let from = *self.from.get_or_insert_with(|| log.last());
        if appender.durable() < from {
            return;
        }
        match appender.set_led(Some(led)) {
            Ok(()) => self.own = Some(led),
            // The disk has it or not; either is true.
            Err(e) => {
                (self.own, self.wanted) = (Some(led), None);
                log_warning!("The AOF manifest can't be marked: {e}");
            }
        }
    }

    /// A changed policy is about to be in force.
    pub fn change_policy(&mut self, policy: &Policy, appender: &mut Appender) {
        if !syncs_all(policy) {
            self.remove(appender);
        }
    }

    /// The log is about to end.
    pub fn end(&mut self, appender: &mut Appender) {
        self.remove(appender);
        self.is_over = true;
    }

    fn remove(&mut self, appender: &mut Appender) {
        self.from = None;
        if self.own.take().is_some()
            && let Err(e) = appender.set_led(None)
        {
            end_for(&format!(
                "Can't remove the mark of this node from the AOF manifest: {e}. Exiting..."
            ));
        }
    }
}
