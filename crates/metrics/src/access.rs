//! The right to read: HTTP Basic authentication (RFC 7617) against the server's users.
//!
//! | the client | it may read `/metrics` and `/state.json` |
//! |---|---|
//! | sends the name and the password of a user who needs one | if they are right and the user may run INFO |
//! | sends those of a user who needs no password | as the next line, for that user |
//! | sends none, and the default user needs no password | if the default user may run INFO, and the client is on this machine and asks for it, or `protected-mode` is off |
//! | sends none otherwise | no: 401 |
//!
//! A client asks for this machine if the header `Host` has an address, `localhost` or the name of this machine. Otherwise it may
//! be a browser on this machine with a page of an attacker, who has made a name of his point to 127.0.0.1 (DNS rebinding).
//!
//! So the rules are those of a connection that sends INFO. Failed logins and refusals are in ACL LOG and are counted as
//! there.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;
use weft_acl::{Context, Event, LogReason, Request};
use weft_config::Id;
use weft_state::access::Identity;
use weft_state::server::Server;

/// The rights of a client that may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    /// Its user may run CLIENT LIST.
    pub may_list_clients: bool,
    /// Its user may run MONITOR, and so sees the keys of all clients.
    pub may_monitor: bool,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The client must send the name and password of a user, or those that it sent are wrong.
    LogIn,
    /// The user may not run INFO.
    NoPermission,
    /// `protected-mode`.
    Protected,
    /// `protected-mode`, and the client asks for another machine.
    OtherHost,
}

/// A request, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub peer: SocketAddr,
    /// For ACL LOG.
    pub path: &'a str,
    /// The headers of these names.
    pub authorization: Option<&'a [u8]>,
    pub host: Option<&'a [u8]>,
}

/// Checks a request.
///
/// # Errors
/// The request is refused. ACL LOG has an entry.
pub fn check(srv: &Server, asked: Asked<'_>) -> Result<Reader, Refused> {
    let Asked { peer, path, authorization, host } = asked;
    let log = |reason, user: &[u8]| note(srv, peer, path, reason, user);
    let identity = match authorization {
        Some(header) => {
            let (user, password) = credentials(header).ok_or(Refused::LogIn)?;
            log_in(srv, &user, &password).ok_or_else(|| {
                srv.statistics.totals.acl_denied_auth.fetch_add(1, Ordering::Relaxed);
                log(LogReason::Auth, &user);
                Refused::LogIn
            })?
        }
        None => srv.access.stranger(),
    };
    if identity.must_log_in {
        return Err(Refused::LogIn);
    }
    // Any password is right for a user without one: it proves nothing.
    if identity.user.nopass && srv.config().bool(Id::PROTECTED_MODE) {
        if !is_local(peer.ip()) {
            return Err(Refused::Protected);
        }
        // Every browser sends it.
        if host.is_some_and(|host| !is_of_this_machine(host)) {
            return Err(Refused::OtherHost);
        }
    }
    if !may_run(srv, &identity, "info") {
        srv.statistics.totals.acl_denied_commands.fetch_add(1, Ordering::Relaxed);
        log(LogReason::Command, &identity.user.name);
        return Err(Refused::NoPermission);
    }
    Ok(Reader {
        may_list_clients: may_run(srv, &identity, "client|list"),
        may_monitor: may_run(srv, &identity, "monitor"),
    })
}

/// The identity of a user, if the password is right, as AUTH finds it.
fn log_in(srv: &Server, user: &[u8], password: &[u8]) -> Option<Identity> {
    let users = srv.access.users();
    users.get(user).filter(|user| user.accepts_password(password))?;
    srv.access.identify(user)
}

/// `name`: an original name, also of a command that was renamed.
fn may_run(srv: &Server, identity: &Identity, name: &'static str) -> bool {
    let words: Vec<&[u8]> = name.split('|').map(str::as_bytes).collect();
    let Some(container) = srv.table.find_logged(words[0]) else { return false };
    let command = match words.get(1) {
        Some(word) => container.subcommand(word),
        None => Some(container),
    };
    let Some(command) = command else { return false };
    let request = Request { command: command.number, args: &words, database: 0 };
    identity.user.check(&srv.access.catalog, &request).is_ok()
}

/// The name and the password of a header `Basic bmFtZTpwYXNzd29yZA==`.
fn credentials(header: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, rest) = header.split_at_checked(b"Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let mut pair = BASE64_STANDARD.decode(rest.trim_ascii()).ok()?;
    let at = pair.iter().position(|byte| *byte == b':')?;
    let password = pair.split_off(at + 1);
    pair.pop();
    Some((pair, password))
}

/// From this machine: exempt from `protected-mode`.
fn is_local(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Whether a header `Host` has an address, `localhost` or this machine's name.
fn is_of_this_machine(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((address, rest)) = host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        let port = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
        return port && address.parse::<Ipv6Addr>().is_ok();
    }
    let (name, port) = host.split_once(':').unwrap_or((host, ""));
    if !is_port(port) {
        return false;
    }
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let uname = rustix::system::uname();
    let own = uname.nodename().to_bytes().to_ascii_lowercase();
    let is_own = !own.is_empty() && name.as_bytes() == own;
    // RFC 6761: names below localhost are those of this machine.
    name.parse::<Ipv4Addr>().is_ok()
        || name == "localhost"
        || name.ends_with(".localhost")
        || is_own
}

/// Adds an entry to ACL LOG.
fn note(srv: &Server, peer: SocketAddr, path: &str, reason: LogReason, user: &[u8]) {
    let object = match reason {
        LogReason::Command => b"info".to_vec(),
        _ => b"metrics-port".to_vec(),
    };
    let client = format!("addr={peer} http={path}").into_bytes();
    let (user, now) = (user.to_vec(), srv.now_ms());
    let event = Event { reason, context: Context::TopLevel, object, user, client, now };
    srv.access.log().add(event, srv.settings().auth.log_len);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(header: &str) -> Option<(String, String)> {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        credentials(header.as_bytes()).map(|(user, password)| (text(user), text(password)))
    }

    #[test]
    fn credentials_are_decoded() {
        // The example of RFC 7617.
        let found = pair("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(found, Some(("Aladdin".into(), "open sesame".into())));
        // A password may contain colons, a name may not.
        assert_eq!(pair("basic YTpiOmM="), Some(("a".into(), "b:c".into())));
        assert_eq!(pair("Basic Og=="), Some((String::new(), String::new())));
    }

    #[test]
    fn other_headers_are_refused() {
        for header in ["", "Basic", "Basic ", "Basic !!!", "Basic YWJj", "Bearer YTpi", "Digest x"]
        {
            assert_eq!(pair(header), None, "{header}");
        }
    }

    #[test]
    fn hosts_of_this_machine_are_known() {
        let uname = rustix::system::uname();
        let own = uname.nodename().to_str().expect("a name");
        for host in [
            "127.0.0.1:9121",
            "127.0.0.1",
            "192.168.1.5:80",
            "[::1]:9121",
            "[::1]",
            "localhost:9121",
            "LocalHost",
            "localhost.",
            "weft.localhost:9121",
            own,
        ] {
            assert!(is_of_this_machine(host.as_bytes()), "{host}");
        }
        for host in [
            "",
            ":",
            "attacker.example:9121",
            "localhost.attacker.example",
            "127.0.0.1.attacker.example",
            "notlocalhost",
            "[",
            "[]",
            "[127.0.0.1]",
            "::1",
            "127.0.0.1:9121:x.example",
            "[::1]x.example:9",
            "[::1]:x",
            "localhost:x",
            "1",
        ] {
            assert!(!is_of_this_machine(host.as_bytes()), "{host}");
        }
        assert!(!is_of_this_machine(b"\xff"));
    }

    #[test]
    fn mapped_addresses_are_local() {
        for (ip, expected) in
            [("127.0.0.1", true), ("::1", true), ("::ffff:127.0.0.1", true), ("10.0.0.1", false)]
        {
            assert_eq!(is_local(ip.parse().expect("an address")), expected, "{ip}");
        }
    }
}
