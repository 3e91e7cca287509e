//! The cluster as one node sees it: CLUSTER NODES, parsed.

use std::collections::BTreeSet;

use crate::client::Client;

/// A line of CLUSTER NODES.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub id: String,
    pub port: u16,
    pub flags: Vec<String>,
    /// The primary's id, of a replica.
    pub primary: Option<String>,
    pub epoch: u64,
    pub is_connected: bool,
    /// Without those in migration.
    pub slots: Vec<(u16, u16)>,
    /// Slots in migration: `[5->-ID]` or `[5-<-ID]`.
    pub moving: Vec<String>,
}

impl Line {
    fn parse(line: &str) -> Option<Line> {
        let fields: Vec<&str> = line.split(' ').collect();
        let &[id, address, flags, primary, _, _, epoch, link, ..] = &fields[..] else {
            return None;
        };
        let (_, port) = address.split('@').next()?.rsplit_once(':')?;
        let mut slots = Vec::new();
        let mut moving = Vec::new();
        for range in &fields[8..] {
            if range.starts_with('[') {
                moving.push(range.to_string());
                continue;
            }
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            slots.push((first.parse().ok()?, last.parse().ok()?));
        }
        Some(Line {
            id: id.into(),
            port: port.parse().ok()?,
            flags: flags.split(',').map(str::to_string).collect(),
            primary: (primary != "-").then(|| primary.to_string()),
            epoch: epoch.parse().ok()?,
            is_connected: link == "connected",
            slots,
            moving,
        })
    }

    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    /// Whether the node serves slots of its own, or could.
    pub fn is_primary(&self) -> bool {
        self.has("master")
    }

    /// Whether the asked node regards it as failed, or as possibly failed.
    pub fn is_failing(&self) -> bool {
        self.has("fail") || self.has("fail?")
    }

    pub fn owns(&self, slot: u16) -> bool {
        self.slots.iter().any(|&(first, last)| (first..=last).contains(&slot))
    }

    pub fn count(&self) -> usize {
        self.slots.iter().map(|&(first, last)| usize::from(last - first) + 1).sum()
    }
}

/// All lines that a node returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View(pub Vec<Line>);

impl View {
    /// Asks a node; `None` if it doesn't answer, or with an error.
    pub fn ask(client: &mut Client) -> Option<View> {
        let reply = client.try_cmd(&["CLUSTER", "NODES"]).ok()?.value;
        View::parse(&String::from_utf8_lossy(reply.bytes()?))
    }

    pub fn parse(text: &str) -> Option<View> {
        let mut lines: Vec<Line> = text.lines().map(Line::parse).collect::<Option<_>>()?;
        lines.sort_by(|a, b| a.id.cmp(&b.id));
        Some(View(lines))
    }

    /// The facts on which all nodes must agree: ids, roles, slots.
    pub fn shape(&self) -> Vec<String> {
        let shape = |line: &Line| {
            format!("{} {} {:?} {:?}", line.id, line.is_primary(), line.primary, line.slots)
        };
        self.0.iter().map(shape).collect()
    }

    pub fn myself(&self) -> &Line {
        self.0.iter().find(|line| line.has("myself")).expect("each node knows itself")
    }

    pub fn by_port(&self, port: u16) -> Option<&Line> {
        self.0.iter().find(|line| line.port == port)
    }

    pub fn owner(&self, slot: u16) -> Option<&Line> {
        self.0.iter().find(|line| line.owns(slot))
    }

    pub fn primaries(&self) -> impl Iterator<Item = &Line> {
        self.0.iter().filter(|line| line.is_primary())
    }

    pub fn replicas_of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Line> {
        self.0.iter().filter(move |line| line.primary.as_deref() == Some(id))
    }

    pub fn ids(&self) -> BTreeSet<String> {
        self.0.iter().map(|line| line.id.clone()).collect()
    }

    /// Slots that some node owns.
    pub fn assigned(&self) -> usize {
        self.0.iter().map(Line::count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed() {
        let text = "aa 127.0.0.1:7000@17000,host myself,master - 0 0 3 connected 0-5 7 [8->-bb]\n\
                    bb 127.0.0.1:7001@17001 slave,fail? aa 0 0 3 disconnected\n";
        let view = View::parse(text).unwrap();
        let own = view.myself();
        assert!(own.is_primary() && own.owns(7) && !own.owns(6) && own.count() == 7);
        assert_eq!((own.port, own.moving.len(), own.epoch), (7000, 1, 3));
        let other = view.replicas_of("aa").next().unwrap();
        assert!(other.is_failing() && !other.is_connected && other.port == 7001);
        assert_eq!(View::parse("nonsense"), None);
    }
}
