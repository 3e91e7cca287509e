//! The address of a store: `etcd://HOST:PORT[,HOST:PORT...]/PREFIX`, or `etcds://` for TLS.
//!
//! The scheme alone decides about TLS, so that a missing directive never sends a password in plain text. The prefix is
//! required: two clusters on one etcd must not share their keys by accident. Users and passwords have directives of their
//! own, because addresses appear in logs.

use std::fmt;
use std::net::Ipv6Addr;

/// etcd's port for clients.
const DEFAULT_PORT: u16 = 2379;
/// More endpoints than an etcd has members.
const MAX_ENDPOINTS: usize = 16;
/// Keys start with the prefix, and etcd keeps each key in memory.
const MAX_PREFIX: usize = 256;
/// The longest host name of DNS.
const MAX_HOST: usize = 253;

/// See the module documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub endpoints: Vec<Endpoint>,
    /// Keys start with it. It starts and ends with a slash.
    pub prefix: String,
    pub tls: bool,
}

/// A member of etcd, as clients reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// A name or an IP address, IPv6 without brackets.
    pub host: String,
    pub port: u16,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// The mistake, for an operator.
    pub fn parse(text: &str) -> Result<Address, String> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or("the address must begin with etcd:// or, for TLS, with etcds://")?;
        let tls = match scheme {
            "etcd" => false,
            "etcds" => true,
            other => {
                return Err(format!("unknown store '{other}://': only etcd:// and etcds://"));
            }
        };
        let (hosts, prefix) = rest.split_once('/').ok_or(
            "a prefix is missing: the address ends with /PREFIX, such as /weft/my-cluster",
        )?;
        let prefix = parse_prefix(prefix)?;
        let mut endpoints: Vec<Endpoint> = Vec::new();
        for host in hosts.split(',') {
            let endpoint = Endpoint::parse(host)?;
            if endpoints.contains(&endpoint) {
                return Err(format!("endpoint {endpoint} is there twice"));
            }
            endpoints.push(endpoint);
        }
        if endpoints.len() > MAX_ENDPOINTS {
            return Err(format!("more than {MAX_ENDPOINTS} endpoints"));
        }
        Ok(Address { endpoints, prefix, tls })
    }
}

fn parse_prefix(text: &str) -> Result<String, String> {
    let inner = text.strip_suffix('/').unwrap_or(text);
    if inner.is_empty() {
        return Err("the prefix is empty: the address ends with /PREFIX, such as /weft/my-cluster"
            .to_string());
    }
    if inner.len() > MAX_PREFIX {
        return Err(format!("the prefix is longer than {MAX_PREFIX} bytes"));
    }
    if inner.split('/').any(str::is_empty) {
        return Err("the prefix has two slashes in a row".to_string());
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "/._-:".contains(c);
    if let Some(c) = inner.chars().find(|c| !is_allowed(*c)) {
        return Err(format!(
            "{c:?} in the prefix: only letters, digits, '.', '_', '-', ':' and '/' are allowed"
        ));
    }
    Ok(format!("/{inner}/"))
}

impl Endpoint {
    fn parse(text: &str) -> Result<Endpoint, String> {
        if text.is_empty() {
            return Err("an endpoint is empty".to_string());
        }
        if text.contains('@') {
            return Err(
                "no user or password in the address: they have their own directives".to_string()
            );
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest
                    .split_once(']')
                    .ok_or_else(|| format!("']' is missing after the IPv6 address of '{text}'"))?;
                let address: Ipv6Addr =
                    host.parse().map_err(|_| format!("'{host}' is not an IPv6 address"))?;
                let port =
                    match after {
                        "" => None,
                        after => Some(after.strip_prefix(':').ok_or_else(|| {
                            format!("':' and a port must follow ']' in '{text}'")
                        })?),
                    };
                (address.to_string(), port)
            }
            None => match text.split_once(':') {
                Some((host, port)) => (parse_host(host)?, Some(port)),
                None => (parse_host(text)?, None),
            },
        };
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => parse_port(port)?,
        };
        Ok(Endpoint { host, port })
    }
}

fn parse_host(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if text.is_empty() {
        return Err("an endpoint has no host".to_string());
    }
    if text.len() > MAX_HOST || !text.chars().all(is_allowed) {
        return Err(format!("'{text}' is not a host name; IPv6 addresses need brackets"));
    }
    Ok(text.to_ascii_lowercase())
}

fn parse_port(text: &str) -> Result<u16, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(port) if digits && port != 0 => Ok(port),
        _ => Err(format!("'{text}' is not a port; IPv6 addresses need brackets")),
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls { "etcds://" } else { "etcd://" })?;
        for (i, endpoint) in self.endpoints.iter().enumerate() {
            write!(f, "{}{endpoint}", if i == 0 { "" } else { "," })?;
        }
        f.write_str(self.prefix.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        let of = |text: &str| Address::parse(text).map(|address| address.to_string());
        let same = |text: &str| assert_eq!(of(text).as_deref(), Ok(text));
        same("etcd://127.0.0.1:2379/weft");
        same("etcds://a.example:1,b.example:2,[::1]:3/weft/one");
        assert_eq!(of("etcd://Host/weft/").unwrap(), "etcd://host:2379/weft");
        assert_eq!(of("etcd://[0:0::1]/x").unwrap(), "etcd://[::1]:2379/x");
        let address = Address::parse("etcds://h:1/a/b").unwrap();
        assert!(address.tls && address.prefix == "/a/b/");
    }

    #[test]
    fn errors_name_the_mistake() {
        let says = |text: &str, word: &str| {
            let error = Address::parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        };
        says("127.0.0.1:2379", "must begin with etcd://");
        says("http://h:1/weft", "unknown store 'http://'");
        says("etcd://h:1", "prefix is missing");
        says("etcd://h:1/", "prefix is empty");
        says("etcd://h:1//a", "two slashes");
        says("etcd://h:1/a b", "' ' in the prefix");
        says("etcd://h:1,/a", "endpoint is empty");
        says("etcd:///a", "endpoint is empty");
        says("etcd://:1/a", "no host");
        says("etcd://u:p@h:1/a", "no user or password");
        says("etcd://h:0/a", "'0' is not a port");
        says("etcd://h:+1/a", "'+1' is not a port");
        says("etcd://h:70000/a", "'70000' is not a port");
        says("etcd://::1/a", "no host");
        says("etcd://[::1/a", "']' is missing");
        says("etcd://[::1]2/a", "must follow ']'");
        says("etcd://[h]:2/a", "not an IPv6 address");
        says("etcd://h?:2/a", "not a host name");
        says("etcd://h:1,h:1/a", "twice");
        let many: Vec<String> = (1..=17).map(|port| format!("h:{port}")).collect();
        says(&format!("etcd://{}/a", many.join(",")), "more than 16");
    }
}
