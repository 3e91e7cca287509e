//! Finds the replicas among the servers: by their own reports, or by the user's options.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

use anyhow::{Context, bail, ensure};

use super::pairs::Pair;
use crate::apply::{Process, System, ports_of};
use crate::password;
use crate::sweep::client::{Client, Reply};

/// `2:1`: the second server is a replica of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaOf {
    replica: usize,
    primary: usize,
}

impl std::str::FromStr for ReplicaOf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<usize>().ok()?.checked_sub(1);
        let parts = text.split_once(':').map(|(a, b)| (number(a), number(b)));
        match parts {
            Some((Some(replica), Some(primary))) if replica != primary => {
                Ok(ReplicaOf { replica, primary })
            }
            _ => Err("is not as 2:1, the number of a replica and that of its primary".to_string()),
        }
    }
}

/// The named pairs, for this many servers.
///
/// # Errors
/// If no server has that number.
pub fn named(named: &[ReplicaOf], servers: usize) -> anyhow::Result<Vec<Pair>> {
    for &ReplicaOf { replica, primary } in named {
        let last = replica.max(primary) + 1;
        ensure!(last <= servers, "there is no server {last} that one could replicate");
    }
    Ok(named.iter().map(|pair| (pair.replica, pair.primary)).collect())
}

/// The pairs among running servers, and remarks on servers that didn't answer. Without `here` the
/// servers are on another machine and are not asked.
pub fn running(system: &dyn System, processes: &[Process], here: bool) -> (Vec<Pair>, Vec<String>) {
    let ports: Vec<Vec<u16>> =
        processes.iter().map(|process| ports_of(system, process.id.pid)).collect();
    if processes.len() < 2 || !here {
        return (Vec::new(), Vec::new());
    }
    let (mut pairs, mut notes) = (Vec::new(), Vec::new());
    for (replica, own) in ports.iter().enumerate() {
        let Some(&port) = own.first() else { continue };
        match ask(port) {
            Ok(Some((host, port))) if is_here(&host) => {
                let primary = ports.iter().position(|ports| ports.contains(&port));
                pairs.extend(primary.filter(|at| *at != replica).map(|primary| (replica, primary)));
            }
            Ok(_) => {}
            Err(e) => notes.push(format!(
                "The server on port {port} does not say whose replica it is ({e:#}); a password is taken \
                 from {}, and --replica-of says it.",
                password::VARIABLES[0]
            )),
        }
    }
    (pairs, notes)
}

/// The primary of a server.
fn ask(port: u16) -> anyhow::Result<Option<(String, u16)>> {
    let mut client = Client::connect(port)?;
    if let Some(password) = password::from_environment() {
        client.ask(&["AUTH", &password])?;
    }
    match client.ask(&["INFO", "replication"])? {
        Reply::Text(text) => primary_of(&text),
        Reply::Number(_) | Reply::List(_) | Reply::Null => bail!("INFO answers something else"),
    }
}

/// The primary in the server's INFO.
fn primary_of(info: &str) -> anyhow::Result<Option<(String, u16)>> {
    let field = |name: &str| {
        let mut values = info.lines().filter_map(|line| line.trim_end().strip_prefix(name));
        values.find_map(|rest| rest.strip_prefix(':'))
    };
    if field("role").context("no role in INFO")? != "slave" {
        return Ok(None);
    }
    let host = field("master_host").context("no primary in INFO")?;
    let port = field("master_port").and_then(|port| port.parse().ok());
    Ok(Some((host.to_string(), port.context("no port of the primary in INFO")?)))
}

/// Whether a host is this machine: a socket can be bound to its address.
fn is_here(host: &str) -> bool {
    let is_own = |ip: IpAddr| ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok();
    let addresses = (host, 0).to_socket_addrs().into_iter().flatten();
    addresses.map(|address| address.ip()).any(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replica_reports_its_primary() {
        let of = |info: &str| primary_of(info).ok().flatten();
        let replica = "# Replication\r\nrole:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\n\
                       master_link_status:down\r\n";
        assert_eq!(of(replica), Some(("10.0.0.1".to_string(), 6379)));
        let primary = "# Replication\r\nrole:master\r\nconnected_slaves:1\r\n\
                       slave0:ip=127.0.0.1,port=6380\r\nmaster_failover_state:no-failover\r\n";
        assert_eq!(of(primary), None);
        assert!(primary_of("").is_err());
        assert!(primary_of("role:slave\r\nmaster_host:x\r\n").is_err());
    }

    #[test]
    fn which_hosts_are_this_machine() {
        assert!(is_here("127.0.0.1"));
        assert!(is_here("localhost"));
        // An address for documentation, which no machine has.
        assert!(!is_here("203.0.113.77"));
    }

    #[test]
    fn pairs_by_number() {
        let parse = |text: &str| text.parse::<ReplicaOf>();
        let pair = parse("2:1").expect("a pair");
        assert_eq!(named(&[pair], 2).expect("both are there"), [(1, 0)]);
        assert!(named(&[pair], 1).is_err());
        for wrong in ["", "2", "2:", "0:1", "1:1", "a:b", "1:2:3"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
