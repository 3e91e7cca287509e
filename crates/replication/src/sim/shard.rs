//! Servers whose roles a cluster sets: one shard, whose epochs, primary and list of replicas are
//! decided at single moments, and seen by each server later.
//!
//! The shard confirms a write when all listed replicas have acknowledged it. A failover promotes any
//! listed replica whose data are complete by its own reports; a handover the one that has
//! acknowledged everything. So a wrong or late report, a stream of an old epoch, or a copy at the
//! wrong time loses a confirmed write, which is a violation.

use super::io::Event;
use super::net::Life;
use super::server::File;
use super::truth::Data;
use super::world::{World, port_of};
use crate::action::LinkId;
use crate::cluster::{Cluster, ShardMember, ShardPrimary};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use weft_cluster::node::{Duty, Member, OpId, Revision};
use weft_cluster::{NodeId, ShardId};

/// Longest time in ms until a server sees a decision, or carries it out.
const SIGHT: u64 = 400;
/// Longest time in ms of a promotion or a handover.
const COMMIT: u64 = 1200;

/// The knowledge of a server about its shard.
#[derive(Debug, Default)]
pub(super) struct View {
    pub duty: Duty,
    whole: bool,
    offset: u64,
    /// It hands its role over.
    yields: bool,
    replicas: BTreeMap<Member, (u64, bool)>,
}

/// The reports of a server.
#[derive(Debug, Default)]
pub(super) struct Reports(Mutex<View>);

impl Reports {
    pub fn view(&self) -> MutexGuard<'_, View> {
        self.0.lock().expect("no call panics")
    }
}

impl ShardMember for Reports {
    fn admits(&self, _: Member, _: ShardId, _: Revision) -> bool {
        !self.view().yields
    }

    fn progress(&self, member: Member, epoch: Revision, acked: u64, whole: bool) {
        let mut view = self.view();
        if matches!(view.duty, Duty::Lead { epoch: own, .. } if own == epoch) {
            view.replicas.insert(member, (acked, whole));
        }
    }

    fn gone(&self, member: Member) {
        self.view().replicas.remove(&member);
    }

    fn may_follow(&self, primary: NodeId, epoch: Revision) -> bool {
        let duty = self.view().duty;
        matches!(duty, Duty::Follow { primary: own, epoch: of, .. } if own == primary && of == epoch)
    }

    fn drops_data(&self, primary: NodeId, epoch: Revision) -> bool {
        let may_drop = self.may_follow(primary, epoch);
        if may_drop {
            self.view().whole = false;
        }
        may_drop
    }

    fn has_data(&self, offset: u64) {
        let mut view = self.view();
        (view.whole, view.offset) = (true, offset);
    }

    fn heard_primary(&self) {}

    fn written(&self, offset: u64) {
        self.view().offset = offset;
    }

    fn promise_asked(&self, _: NodeId, _: Revision, _: OpId) {}

    fn promised(&self, _: Member, _: OpId) {}
}

/// The shard as the store has it.
#[derive(Debug)]
pub(super) struct Shard {
    epoch: Revision,
    leader: Life,
    list: Vec<Life>,
    /// The confirmed offset, and the data there.
    confirmed: (u64, Data),
    /// A replica must have this much before it is listed. All data of a new primary count as confirmed.
    through: u64,
    /// A promotion is under way: what the candidate had when it stopped.
    candidate: Option<(Life, Option<Data>)>,
    /// A handover is under way.
    successor: Option<Life>,
    pub failovers: u64,
    pub handovers: u64,
    pub confirmations: u64,
}

impl Shard {
    pub fn new() -> Shard {
        let leader = Life { server: 0, life: 0 };
        Shard {
            epoch: 1,
            leader,
            list: Vec::new(),
            confirmed: (0, super::truth::EMPTY),
            through: 0,
            candidate: None,
            successor: None,
            failovers: 0,
            handovers: 0,
            confirmations: 0,
        }
    }
}

pub(super) fn node_of(server: usize) -> NodeId {
    NodeId::from_random([server as u8; 20])
}

fn shard_id() -> ShardId {
    NodeId::from_random([0xff; 20])
}

/// This server as a member, and its reports.
pub(super) fn cluster_of(life: Life) -> (Cluster, Arc<Reports>) {
    let reports = Arc::new(Reports::default());
    (Cluster { me: member_of(life), shard: reports.clone() }, reports)
}

fn member_of(life: Life) -> Member {
    Member { node: node_of(life.server), incarnation: u64::from(life.life) }
}

impl World {
    fn shard(&mut self) -> &mut Shard {
        self.shard.as_mut().expect("a run with a shard")
    }

    fn view(&self, server: usize) -> MutexGuard<'_, View> {
        self.servers[server].reports.as_ref().expect("a member").view()
    }

    /// A server sees the present map.
    pub fn see_shard(&mut self, life: Life) {
        let shard = self.shard();
        let (epoch, leader, candidate) = (shard.epoch, shard.leader, shard.candidate);
        let duty = match leader == life {
            true => Duty::Lead { shard: shard_id(), epoch },
            _ if leader.server == life.server => Duty::None,
            _ if candidate.is_some_and(|(candidate, _)| candidate == life) => Duty::None,
            _ => Duty::Follow { shard: shard_id(), primary: node_of(leader.server), epoch },
        };
        if self.view(life.server).duty != duty {
            let mut view = self.view(life.server);
            view.duty = duty;
            view.yields = false;
            view.replicas.clear();
            drop(view);
            self.servers[life.server].paused = false;
            self.soon(SIGHT, Event::Duty(life));
        }
    }

    fn all_see_shard(&mut self) {
        for server in 0..self.servers.len() {
            let life = self.life(server);
            self.soon(SIGHT, Event::See(life));
        }
    }

    /// A server carries out its duty.
    pub fn carry_duty(&mut self, life: Life) {
        let (server, duty) = (life.server, self.view(life.server).duty);
        self.collect(server);
        self.call(server, |node, now, out| match duty {
            Duty::None => node.hold(now, out),
            Duty::Lead { shard, epoch } => node.lead(now, shard, epoch, out),
            Duty::Follow { shard, primary, epoch } => {
                let leader = (0..9).find(|leader| node_of(*leader) == primary).expect("a server");
                let (host, port) = ("h".to_string(), port_of(leader));
                let primary = ShardPrimary { host, port, node: primary, shard, epoch };
                node.follow_shard(now, &primary, out);
            }
        });
        let data = self.servers[server].data;
        if let Some((candidate, had)) = &mut self.shard().candidate
            && *candidate == life
            && duty == Duty::None
        {
            *had = Some(data);
        }
    }

    /// Whether the stream of this link may be applied, by the map that the server has seen.
    pub fn check_epoch(&mut self, life: Life, link: LinkId) {
        let Some(&at) = self.links.get(&(life.server, life.life, link)) else { return };
        let of = node_of(self.connections[at].primary.server);
        let duty = self.view(life.server).duty;
        let epoch_of = self.servers[life.server].node.follower().and_then(|of| of.epoch());
        let is_right = matches!(duty, Duty::Follow { primary, epoch, .. } if primary == of && epoch_of == Some(epoch));
        if !is_right {
            self.fault(format!("server {} applies the stream of {of:?}: {duty:?}", life.server));
        }
    }

    /// Decisions and faults of the shard.
    pub fn rule_shard(&mut self) {
        self.soon(300, Event::Rule);
        let leader = self.shard().leader;
        if self.calm {
            self.all_see_shard();
        }
        let leads = self.is_alive(leader) && {
            let epoch = self.shard().epoch;
            self.view(leader.server).duty == Duty::Lead { shard: shard_id(), epoch }
        };
        if leads {
            self.confirm(leader.server);
        }
        let is_busy = self.shard().candidate.is_some() || self.shard().successor.is_some();
        if is_busy {
            return;
        }
        if leads && self.chance(60) {
            self.change_list(leader.server);
        }
        if !self.is_alive(leader) || self.fault_chance(15) {
            self.fail_over();
        } else if leads && self.fault_chance(15) {
            self.hand_over(leader);
        }
    }

    /// Confirms what all listed replicas have.
    fn confirm(&mut self, leader: usize) {
        let list = self.shard().list.clone();
        let view = self.view(leader);
        let acked = |life: &Life| match view.replicas.get(&member_of(*life)) {
            Some((acked, true)) => *acked,
            Some(_) | None => 0,
        };
        let least = list.iter().map(acked).min().unwrap_or(0);
        drop(view);
        if least > self.shard().confirmed.0 {
            let trace = &self.servers[leader].trace;
            let data = trace.range(..=least).next_back().map(|(_, data)| *data);
            let shard = self.shard();
            shard.confirmations += 1;
            shard.confirmed = (least, data.unwrap_or(shard.confirmed.1));
            shard.through = shard.through.max(least);
        }
    }

    /// Lists the replicas that have everything confirmed.
    fn change_list(&mut self, leader: usize) {
        let through = self.shard().through;
        let lives: Vec<Life> = (0..self.servers.len()).map(|server| self.life(server)).collect();
        let view = self.view(leader);
        let has_all = |life: &Life| {
            let replica = view.replicas.get(&member_of(*life));
            replica.is_some_and(|(acked, whole)| *whole && *acked >= through)
        };
        let mut list: Vec<Life> = lives.into_iter().filter(has_all).collect();
        drop(view);
        let most = 1 + self.rng.below(2) as usize;
        list.truncate(most);
        if !list.is_empty() {
            self.shard().list = list;
        }
    }

    /// A listed replica with complete data stops to follow, and proposes itself.
    fn fail_over(&mut self) {
        let list = self.shard().list.clone();
        let is_candidate = |life: &&Life| self.is_alive(**life) && self.view(life.server).whole;
        let candidates: Vec<Life> = list.iter().filter(is_candidate).copied().collect();
        if candidates.is_empty() {
            return;
        }
        let candidate = candidates[self.rng.below(candidates.len() as u64) as usize];
        self.shard().candidate = Some((candidate, None));
        self.see_shard(candidate);
        self.soon(COMMIT, Event::Commit(candidate));
    }

    /// The primary hands its role over to the replica that has everything.
    fn hand_over(&mut self, leader: Life) {
        self.servers[leader.server].paused = true;
        self.view(leader.server).yields = true;
        self.collect(leader.server);
        self.call(leader.server, |node, _, _| node.report_position());
        self.call(leader.server, |node, now, out| node.request_acks(now, out));
        let list = self.shard().list.clone();
        let at = self.rng.below(list.len().max(1) as u64) as usize;
        let successor = list.get(at).copied().unwrap_or(leader);
        self.shard().successor = Some(successor);
        self.soon(COMMIT, Event::Commit(successor));
    }

    /// The transaction of a promotion or a handover commits, or never will.
    pub fn commit_role(&mut self, to: Life) {
        let shard = self.shard();
        let (candidate, successor) = (shard.candidate.take(), shard.successor.take());
        let (leader, confirmed) = (shard.leader, shard.confirmed);
        let is_failover = candidate.is_some();
        let may_commit = match (candidate, successor) {
            (Some((_, had)), _) => had.is_some(),
            (None, Some(_)) => self.has_everything(leader, to),
            (None, None) => false,
        };
        if !may_commit || !self.is_alive(to) || self.chance(20) {
            if self.is_alive(leader) {
                self.servers[leader.server].paused = false;
                self.view(leader.server).yields = false;
            }
            return self.all_see_shard();
        }
        let one = &self.servers[to.server];
        let (data, is_whole, offset) = (one.data, one.is_whole(), one.node.stream().offset());
        let reported = self.view(to.server).offset;
        if !is_whole || !self.truth.is_part(confirmed.1, data) {
            self.fault(format!(
                "server {} becomes the primary without the confirmed writes {confirmed:?}: {data}, whole: {is_whole}",
                to.server
            ));
        }
        if let Some((_, Some(had))) = candidate
            && had != data
        {
            self.fault(format!("the data of candidate {} have changed: {had}, {data}", to.server));
        }
        if reported < confirmed.0 {
            self.fault(format!("server {} reported {reported}, and acknowledged more", to.server));
        }
        let shard = self.shard();
        shard.epoch += 1;
        shard.leader = to;
        shard.list.retain(|life| *life != to);
        if !is_failover {
            shard.list.push(leader);
        }
        shard.through = offset;
        shard.failovers += u64::from(is_failover);
        shard.handovers += u64::from(!is_failover);
        self.all_see_shard();
    }

    /// Whether a replica has acknowledged everything, by the reports to the primary that hands over.
    fn has_everything(&self, leader: Life, to: Life) -> bool {
        if !self.is_alive(leader) || leader == to {
            return false;
        }
        let view = self.view(leader.server);
        let replica = view.replicas.get(&member_of(to));
        view.yields && replica.is_some_and(|(acked, whole)| *whole && *acked >= view.offset)
    }

    /// A server restarts, if a listed replica or the primary remains.
    pub fn restart_member(&mut self, server: usize, file: Option<File>) {
        let life = self.life(server);
        let shard = self.shard.as_ref().expect("a run with a shard");
        let is_needed = match shard.leader == life {
            true => !shard
                .list
                .iter()
                .any(|other| self.is_alive(*other) && self.view(other.server).whole),
            false => shard.list.contains(&life) && !self.is_alive(shard.leader),
        };
        let is_busy = shard.candidate.is_some() || shard.successor.is_some();
        if !is_needed && !is_busy {
            self.restart(server, file, None);
            let life = self.life(server);
            self.soon(SIGHT, Event::See(life));
        }
    }

    /// Whether every server does what the map says.
    pub fn is_shard_settled(&self) -> bool {
        let Some(shard) = &self.shard else { return true };
        self.is_alive(shard.leader)
            && self.servers[shard.leader.server].node.is_primary()
            && self.servers.iter().filter(|server| server.node.is_primary()).count() == 1
    }
}
