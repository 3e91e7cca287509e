//! The value of each key.

use super::copying::{CopyPhase, Copying};
use super::key::IslandId;
use super::text::{Invalid, Writer, id, lines, member, number, ranges, required, set, unknown};
use crate::id::ShardId;
use crate::map::Addresses;
use crate::node::action::{Member, Revision};
use crate::slots::{SlotRange, SlotSet};
use std::collections::BTreeMap;

/// `nodes/ID`, written by the node itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeValue {
    pub shard: ShardId,
    pub addresses: Addresses,
    pub zone: String,
    pub no_failover: bool,
}

/// `shards/ID`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardValue {
    pub island: IslandId,
    /// The revision of the transaction that made the primary. `None`: it is the one that wrote this
    /// value, which could not know its own revision.
    pub epoch: Option<Revision>,
    pub primary: Member,
    /// The members that may be promoted, ascending.
    pub list: Vec<Member>,
    /// `cluster-write-quorum` of the primary.
    pub quorum: u32,
    /// The primary may continue without a lease (`cluster-store-outage continue`).
    pub continues: bool,
}

/// `islands/ID`
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IslandValue {
    Slots(BTreeMap<ShardId, SlotSet>),
    /// The nodes of this island are in another one now.
    Merged(IslandId),
}

/// `handovers/ID`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoverValue {
    pub from: ShardId,
    /// `None`: the slots have no owner afterwards.
    pub to: Option<ShardId>,
    pub slots: SlotSet,
    /// The keys move with the slots.
    pub copy: Option<Copying>,
    /// The owner hands them over even if it has keys of them.
    pub leave_keys: bool,
}

impl HandoverValue {
    /// Whether the owner of the slots is certain, and only keys that another shard has of them are left to delete.
    pub fn is_decided(&self) -> bool {
        let phase = self.copy.map(|copy| copy.phase);
        matches!(phase, Some(CopyPhase::Moved | CopyPhase::Failed))
    }
}

/// `failovers/SHARD`: the primary hands its role to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailoverValue {
    pub to: Member,
    /// Don't wait until it has all data.
    pub force: bool,
}

/// `leases/NODE`, bound to the lease of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseValue {
    pub incarnation: u64,
    /// Counts the writes of this value by its node. Each makes all earlier transactions of the node
    /// impossible, since they compare the revision of this key.
    pub attempt: u64,
    pub candidacy: Option<Candidacy>,
}

/// The offer of a replica that wants to be promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidacy {
    pub epoch: Revision,
    pub offset: u64,
    /// `replica-priority`: lower is better.
    pub priority: u32,
}

impl NodeValue {
    pub fn encode(&self) -> Vec<u8> {
        let at = &self.addresses;
        let text = |text: &str| (!text.is_empty()).then(|| text.to_string());
        let port = |port: u16| (port != 0).then_some(port);
        Writer::new()
            .line("shard", self.shard)
            .option("ip", text(&at.ip))
            .option("port", port(at.port))
            .option("tls-port", port(at.tls_port))
            .option("bus-port", port(at.bus_port))
            .option("hostname", text(&at.host_name))
            .option("human-nodename", text(&at.human_name))
            .option("client-ipv4", text(&at.client_ipv4))
            .option("client-ipv6", text(&at.client_ipv6))
            .option("client-port", port(at.client_port))
            .option("client-tls-port", port(at.client_tls_port))
            .option("zone", text(&self.zone))
            .option("no-failover", self.no_failover.then_some("yes"))
            .finish()
    }

    /// # Errors
    /// The value is not of this version's form.
    pub fn parse(value: &[u8]) -> Result<NodeValue, Invalid> {
        let mut shard = None;
        let mut at = Addresses::default();
        let (mut zone, mut no_failover) = (String::new(), false);
        for (word, rest) in lines(value)? {
            match word {
                "shard" => set(&mut shard, word, id(rest)?)?,
                "ip" => at.ip = rest.to_string(),
                "port" => at.port = number(rest)?,
                "tls-port" => at.tls_port = number(rest)?,
                "bus-port" => at.bus_port = number(rest)?,
                "hostname" => at.host_name = rest.to_string(),
                "human-nodename" => at.human_name = rest.to_string(),
                "client-ipv4" => at.client_ipv4 = rest.to_string(),
                "client-ipv6" => at.client_ipv6 = rest.to_string(),
                "client-port" => at.client_port = number(rest)?,
                "client-tls-port" => at.client_tls_port = number(rest)?,
                "zone" => zone = rest.to_string(),
                "no-failover" => no_failover = yes(rest)?,
                _ => return Err(unknown(word)),
            }
        }
        Ok(NodeValue { shard: required(shard, "shard")?, addresses: at, zone, no_failover })
    }
}

fn yes(text: &str) -> Result<bool, Invalid> {
    match text {
        "yes" => Ok(true),
        _ => Err(Invalid(format!("'{text}' is not yes"))),
    }
}

impl ShardValue {
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new()
            .line("island", self.island)
            .option("epoch", self.epoch)
            .member("primary", self.primary)
            .line("quorum", self.quorum)
            .option("continues", self.continues.then_some("yes"));
        for listed in &self.list {
            writer = writer.member("listed", *listed);
        }
        writer.finish()
    }

    /// # Errors
    /// The value is not of this version's form.
    pub fn parse(value: &[u8]) -> Result<ShardValue, Invalid> {
        let (mut island, mut epoch, mut primary, mut quorum) = (None, None, None, None);
        let (mut list, mut continues) = (Vec::new(), false);
        for (word, rest) in lines(value)? {
            match word {
                "island" => set(&mut island, word, id(rest)?)?,
                "epoch" => set(&mut epoch, word, number(rest)?)?,
                "primary" => set(&mut primary, word, member(rest)?)?,
                "quorum" => set(&mut quorum, word, number(rest)?)?,
                "continues" => continues = yes(rest)?,
                "listed" => list.push(member(rest)?),
                _ => return Err(unknown(word)),
            }
        }
        if !list.is_sorted_by(|a, b| a < b) {
            return Err(Invalid("listed members are not ascending".to_string()));
        }
        Ok(ShardValue {
            island: required(island, "island")?,
            epoch,
            primary: required(primary, "primary")?,
            list,
            quorum: required(quorum, "quorum")?,
            continues,
        })
    }
}

pub(super) fn join(ranges: &[SlotRange]) -> String {
    ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

pub(super) fn set_of(ranges: &[SlotRange]) -> SlotSet {
    ranges.iter().flat_map(|range| range.slots()).collect()
}

impl IslandValue {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            IslandValue::Merged(into) => Writer::new().line("merged", into).finish(),
            IslandValue::Slots(owners) => {
                let mut writer = Writer::new();
                for (shard, slots) in owners.iter().filter(|(_, slots)| !slots.is_empty()) {
                    let ranges = join(&slots.ranges());
                    writer = writer.line("slots", format_args!("{shard} {ranges}"));
                }
                writer.finish()
            }
        }
    }

    /// # Errors
    /// The value is not of this version's form, or a slot has two owners.
    pub fn parse(value: &[u8]) -> Result<IslandValue, Invalid> {
        let mut merged = None;
        let mut owners: BTreeMap<ShardId, SlotSet> = BTreeMap::new();
        let mut owned = SlotSet::default();
        for (word, rest) in lines(value)? {
            match word {
                "merged" => set(&mut merged, word, id(rest)?)?,
                "slots" => {
                    let (shard, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                    let ranges = ranges(rest)?;
                    let mut slots = ranges.iter().flat_map(|range| range.slots());
                    if let Some(slot) = slots.find(|slot| !owned.insert(*slot)) {
                        return Err(Invalid(format!("slot {slot} has two owners")));
                    }
                    if owners.insert(id(shard)?, set_of(&ranges)).is_some() {
                        return Err(Invalid(format!("shard {shard} has two lines")));
                    }
                }
                _ => return Err(unknown(word)),
            }
        }
        match merged {
            None => Ok(IslandValue::Slots(owners)),
            Some(into) if owners.is_empty() => Ok(IslandValue::Merged(into)),
            Some(_) => Err(Invalid("a merged island has slots".to_string())),
        }
    }
}

impl HandoverValue {
    pub fn encode(&self) -> Vec<u8> {
        Writer::new()
            .line("from", self.from)
            .option("to", self.to)
            .line("slots", join(&self.slots.ranges()))
            .option("copy", self.copy.map(Copying::text))
            .option("leave-keys", self.leave_keys.then_some("yes"))
            .finish()
    }

    /// # Errors
    /// The value is not of this version's form.
    pub fn parse(value: &[u8]) -> Result<HandoverValue, Invalid> {
        let (mut from, mut to, mut slots, mut copy) = (None, None, None, None);
        let mut leave_keys = false;
        for (word, rest) in lines(value)? {
            match word {
                "from" => set(&mut from, word, id(rest)?)?,
                "to" => set(&mut to, word, id(rest)?)?,
                "slots" => set(&mut slots, word, set_of(&ranges(rest)?))?,
                "copy" => set(&mut copy, word, Copying::parse(rest)?)?,
                "leave-keys" => leave_keys = yes(rest)?,
                _ => return Err(unknown(word)),
            }
        }
        if copy.is_some() && to.is_none() {
            return Err(Invalid("keys are copied to no shard".to_string()));
        }
        let slots = required(slots, "slots")?;
        Ok(HandoverValue { from: required(from, "from")?, to, slots, copy, leave_keys })
    }
}

impl FailoverValue {
    pub fn encode(&self) -> Vec<u8> {
        let force = self.force.then_some("yes");
        Writer::new().member("to", self.to).option("force", force).finish()
    }

    /// # Errors
    /// The value is not of this version's form.
    pub fn parse(value: &[u8]) -> Result<FailoverValue, Invalid> {
        let (mut to, mut force) = (None, false);
        for (word, rest) in lines(value)? {
            match word {
                "to" => set(&mut to, word, member(rest)?)?,
                "force" => force = yes(rest)?,
                _ => return Err(unknown(word)),
            }
        }
        Ok(FailoverValue { to: required(to, "to")?, force })
    }
}

impl LeaseValue {
    pub fn encode(&self) -> Vec<u8> {
        let candidacy = self.candidacy.map(|c| format!("{} {} {}", c.epoch, c.offset, c.priority));
        Writer::new()
            .line("incarnation", self.incarnation)
            .line("attempt", self.attempt)
            .option("candidate", candidacy)
            .finish()
    }

    /// # Errors
    /// The value is not of this version's form.
    pub fn parse(value: &[u8]) -> Result<LeaseValue, Invalid> {
        let (mut incarnation, mut attempt, mut candidacy) = (None, None, None);
        for (word, rest) in lines(value)? {
            match word {
                "incarnation" => set(&mut incarnation, word, number(rest)?)?,
                "attempt" => set(&mut attempt, word, number(rest)?)?,
                "candidate" => {
                    let numbers: Vec<&str> = rest.split(' ').collect();
                    let [epoch, offset, priority] = numbers[..] else {
                        return Err(Invalid(format!("'{rest}' is no candidacy")));
                    };
                    let offer = Candidacy {
                        epoch: number(epoch)?,
                        offset: number(offset)?,
                        priority: number(priority)?,
                    };
                    set(&mut candidacy, word, offer)?;
                }
                _ => return Err(unknown(word)),
            }
        }
        let incarnation = required(incarnation, "incarnation")?;
        Ok(LeaseValue { incarnation, attempt: required(attempt, "attempt")?, candidacy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::NodeId;

    use std::fmt::Debug;

    fn some_id(byte: u8) -> NodeId {
        NodeId::from_random([byte; 20])
    }

    /// The value reads back; cut or changed anywhere, it is another value or an error.
    fn check<T: PartialEq + Debug>(
        value: &T,
        bytes: &[u8],
        parse: impl Fn(&[u8]) -> Result<T, Invalid>,
    ) {
        assert_eq!(parse(bytes).as_ref(), Ok(value), "{}", String::from_utf8_lossy(bytes));
        for at in 0..bytes.len() {
            let _ = parse(&bytes[..at]);
            for byte in [0, b' ', b'\n', b'9', b'z', 0xff] {
                let mut changed = bytes.to_vec();
                changed[at] = byte;
                let _ = parse(&changed);
            }
        }
        let with = |from: &str, to: &str| {
            String::from_utf8_lossy(bytes).replacen(from, to, 1).into_bytes()
        };
        assert!(parse(&with("weft 1", "weft 2")).is_err());
        assert!(parse(&[bytes, b"other 1\n"].concat()).is_err());
    }

    #[test]
    fn nodes_read_back() {
        let full = NodeValue {
            shard: some_id(1),
            addresses: Addresses {
                ip: "::1".into(),
                port: 1,
                tls_port: 2,
                bus_port: 3,
                host_name: "h.example".into(),
                human_name: "a node".into(),
                client_ipv4: "10.0.0.1".into(),
                client_ipv6: "::2".into(),
                client_port: 4,
                client_tls_port: 5,
            },
            zone: "a zone".into(),
            no_failover: true,
        };
        let bare = NodeValue {
            shard: some_id(1),
            addresses: Addresses::default(),
            zone: String::new(),
            no_failover: false,
        };
        for value in [full, bare] {
            check(&value, &value.encode(), NodeValue::parse);
        }
        assert!(NodeValue::parse(b"weft 1\nport 1\n").is_err(), "no shard");
        assert!(NodeValue::parse(b"weft 1\nport 65536\n").is_err());
    }

    #[test]
    fn shards_read_back() {
        let member = |byte| Member { node: some_id(byte), incarnation: u64::MAX - u64::from(byte) };
        let mut value = ShardValue {
            island: some_id(9),
            epoch: Some(77),
            primary: member(1),
            list: vec![member(2), member(3)],
            quorum: 2,
            continues: true,
        };
        check(&value, &value.encode(), ShardValue::parse);
        value.list.swap(0, 1);
        assert!(ShardValue::parse(&value.encode()).is_err(), "not ascending");
        value.list.clear();
        (value.epoch, value.continues) = (None, false);
        check(&value, &value.encode(), ShardValue::parse);
    }

    #[test]
    fn islands_read_back() {
        let slots = |from, to| (from..to).collect::<SlotSet>();
        let owners =
            BTreeMap::from([(some_id(1), slots(0, 100)), (some_id(2), slots(200, 16_384))]);
        let value = IslandValue::Slots(owners);
        check(&value, &value.encode(), IslandValue::parse);
        let merged = IslandValue::Merged(some_id(3));
        check(&merged, &merged.encode(), IslandValue::parse);
        let two = format!("weft 1\nslots {} 1-5\nslots {} 5\n", some_id(1), some_id(2));
        assert!(IslandValue::parse(two.as_bytes()).is_err(), "two owners");
        let far = format!("weft 1\nslots {} 16384\n", some_id(1));
        assert!(IslandValue::parse(far.as_bytes()).is_err());
    }

    #[test]
    fn handovers_failovers_and_leases_read_back() {
        let mut value = HandoverValue {
            from: some_id(1),
            to: Some(some_id(2)),
            slots: SlotSet::full(),
            copy: None,
            leave_keys: true,
        };
        check(&value, &value.encode(), HandoverValue::parse);
        for phase in [CopyPhase::Copying, CopyPhase::Final, CopyPhase::Moved, CopyPhase::Failed] {
            value.copy = Some(Copying { from_epoch: 7, to_epoch: 8, phase });
            check(&value, &value.encode(), HandoverValue::parse);
        }
        value.copy = None;
        value.to = None;
        check(&value, &value.encode(), HandoverValue::parse);
        let to = Member { node: some_id(1), incarnation: 5 };
        for force in [false, true] {
            let value = FailoverValue { to, force };
            check(&value, &value.encode(), FailoverValue::parse);
        }
        let candidacy = Candidacy { epoch: 1, offset: u64::MAX, priority: 100 };
        for candidacy in [None, Some(candidacy)] {
            let value = LeaseValue { incarnation: 1, attempt: 2, candidacy };
            check(&value, &value.encode(), LeaseValue::parse);
        }
    }
}
