//! The role of a server and its changes: REPLICAOF, FAILOVER, and `PSYNC ... FAILOVER`.
//!
//! A change of role is a cut: the caller has stopped all writers, and all earlier writes are in the
//! stream.

use super::Node;
use crate::Ms;
use crate::action::{Action, Level};
use crate::failover::{Failover, Request};
use crate::planted::{self, Fault};
use crate::replica::Follower;

impl Node {
    /// A primary that fails over asks this server to take over.
    pub(super) fn take_over(
        &mut self,
        now: Ms,
        id: &[u8],
        out: &mut Vec<Action>,
    ) -> Result<(), String> {
        if self.is_primary() {
            return Err("ERR PSYNC FAILOVER can't be sent to a master.".to_string());
        }
        if !id.eq_ignore_ascii_case(self.stream.history().id.as_bytes()) {
            return Err("ERR PSYNC FAILOVER replid must match my replid.".to_string());
        }
        out.push(Action::Log {
            level: Level::Notice,
            text: "PRIMARY MODE enabled (failover request)".to_string(),
        });
        self.promote(now, out);
        Ok(())
    }

    /// Handles `REPLICAOF host port`. Returns whether the primary changes.
    ///
    /// # Errors
    /// The text of the error reply.
    pub fn replica_of(
        &mut self,
        now: Ms,
        host: &str,
        port: u16,
        out: &mut Vec<Action>,
    ) -> Result<bool, String> {
        if self.failover != Failover::No {
            return Err("ERR REPLICAOF not allowed while failing over.".to_string());
        }
        let same = |follower: &Follower| {
            let (now, now_port) = follower.primary();
            now.eq_ignore_ascii_case(host) && now_port == port
        };
        let other = !self.follower.as_ref().is_some_and(same);
        if other {
            self.demote(now, host, port, false, out);
        }
        Ok(other)
    }

    /// Handles `REPLICAOF NO ONE`.
    ///
    /// # Errors
    /// The text of the error reply.
    pub fn replica_of_none(&mut self, now: Ms, out: &mut Vec<Action>) -> Result<(), String> {
        if self.failover != Failover::No {
            return Err("ERR REPLICAOF not allowed while failing over.".to_string());
        }
        self.promote(now, out);
        Ok(())
    }

    /// Follows a primary. Replicas stay connected: if this server can continue from its position,
    /// so can they.
    fn demote(&mut self, now: Ms, host: &str, port: u16, failover: bool, out: &mut Vec<Action>) {
        let resumable = self.leave_role(now, out);
        let mut follower = Follower::new(now, host.to_string(), port, self.last_link, resumable);
        follower.set_failover(failover);
        self.follower = Some(follower);
        self.follow(now, out, |follower, cx| follower.tick(cx));
    }

    /// Closes the link to the primary, or ends the writing of the stream. Returns whether the data
    /// match the position. The caller sets the next primary.
    pub(super) fn leave_role(&mut self, now: Ms, out: &mut Vec<Action>) -> bool {
        let mut resumable = true;
        self.follow(now, out, |follower, cx| {
            resumable = follower.has_position();
            follower.leave(cx);
        });
        if let Some(follower) = self.follower.take() {
            self.last_link = follower.link();
        } else {
            self.stream.demote();
            out.push(Action::Demoted);
            out.push(Action::DropWrites);
        }
        resumable
    }

    /// Becomes a primary, under a new id.
    pub(super) fn promote(&mut self, now: Ms, out: &mut Vec<Action>) {
        self.follow(now, out, |follower, cx| follower.leave(cx));
        let Some(follower) = self.follower.take() else { return };
        self.last_link = follower.link();
        self.stream.promote((self.ids)());
        let history = self.stream.history();
        if let Some(second) = history.second {
            let text = format!(
                "Setting secondary replication ID to {}, valid up to offset: {}. New replication ID is {}",
                second.id, second.valid_to, history.id
            );
            out.push(Action::Log { level: Level::Notice, text });
        }
        out.push(Action::KeepWrites);
        out.push(Action::Promoted);
        // Replicas learn the new id when they reconnect.
        self.cut_replicas(now, out);
        self.primary.begin_alone(now);
    }

    // ---- FAILOVER

    /// Handles `FAILOVER` with its arguments.
    ///
    /// # Errors
    /// The text of the error reply.
    pub fn fail_over(
        &mut self,
        now: Ms,
        args: &[&[u8]],
        out: &mut Vec<Action>,
    ) -> Result<(), String> {
        let (to, force, timeout) = match Request::parse(args)? {
            Request::Abort if self.failover == Failover::No => {
                return Err("ERR No failover in progress.".to_string());
            }
            Request::Abort => {
                self.abort_failover(now, "Failover manually aborted", out);
                return Ok(());
            }
            Request::Begin { to, force, timeout } => (to, force, timeout),
        };
        if self.failover != Failover::No {
            return Err("ERR FAILOVER already in progress.".to_string());
        }
        if !self.is_primary() {
            return Err("ERR FAILOVER is not valid when server is a replica.".to_string());
        }
        if !self.primary.has_replicas() {
            return Err("ERR FAILOVER requires connected replicas.".to_string());
        }
        if force && (timeout.is_none() || to.is_none()) {
            return Err(
                "ERR FAILOVER with force option requires both a timeout and target HOST and IP."
                    .to_string(),
            );
        }
        if let Some((host, port)) = &to {
            match self.primary.find(host, *port) {
                None => {
                    return Err("ERR FAILOVER target HOST and PORT is not a replica.".to_string());
                }
                Some(replica) if !replica.is_online => {
                    return Err("ERR FAILOVER target replica is not online.".to_string());
                }
                Some(_) => {}
            }
        }
        let text = match &to {
            Some((host, port)) => format!("FAILOVER requested to {host}:{port}."),
            None => "FAILOVER requested.".to_string(),
        };
        out.push(Action::Log { level: Level::Notice, text });
        out.push(Action::PauseWrites);
        let until = timeout.map(|timeout| now.saturating_add(timeout));
        self.failover = Failover::WaitForSync { target: to, until, force, paused: false };
        Ok(())
    }

    /// [`Action::PauseWrites`] is done: writes are blocked, and all earlier ones are in the stream.
    pub fn writes_paused(&mut self, now: Ms, out: &mut Vec<Action>) {
        if let Failover::WaitForSync { paused, .. } = &mut self.failover {
            *paused = true;
            self.serve(now, out, |primary, cx| primary.request_acks(cx));
            self.drive_failover(now, out);
        }
    }

    /// Hands over once a replica has all data, or the timeout has passed.
    pub(super) fn drive_failover(&mut self, now: Ms, out: &mut Vec<Action>) {
        let Failover::WaitForSync { target, until, force, paused } = &self.failover else { return };
        let end = self.stream.offset();
        let late = until.is_some_and(|until| now >= until);
        if late && !force {
            return self.abort_failover(now, "Replica never caught up before timeout", out);
        }
        if !paused && !planted::is(Fault::PauseNotAwaited) {
            return;
        }
        let (target, why) = match target {
            Some(target) if late => (target.clone(), "time out exceeded"),
            Some((host, port)) => match self.primary.find(host, *port) {
                Some(replica) if replica.ack_offset == end => ((host.clone(), *port), "is synced"),
                Some(_) | None => return,
            },
            None => match self.primary.caught_up(end) {
                Some(found) => (found, "is synced"),
                None => return,
            },
        };
        let forced = late;
        let (host, port) = target.clone();
        let level = if forced { Level::Warning } else { Level::Notice };
        let text = format!("Failover target {host}:{port} {why}, failing over.");
        out.push(Action::Log { level, text });
        self.failover = Failover::InProgress { target };
        self.demote(now, &host, u16::try_from(port).unwrap_or(0), true, out);
    }

    pub(super) fn abort_failover(&mut self, now: Ms, why: &str, out: &mut Vec<Action>) {
        let was = std::mem::take(&mut self.failover);
        if was == Failover::No {
            return;
        }
        out.push(Action::Log { level: Level::Notice, text: format!("Aborting failover: {why}") });
        if matches!(was, Failover::InProgress { .. }) {
            self.promote(now, out);
        }
        out.push(Action::ResumeWrites);
    }

    pub(super) fn end_failover(&mut self, out: &mut Vec<Action>) {
        if std::mem::take(&mut self.failover) != Failover::No {
            out.push(Action::ResumeWrites);
        }
    }
}
