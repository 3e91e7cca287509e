//! Checks on strings that a directive's kind alone cannot make.

use std::net::{Ipv4Addr, Ipv6Addr};

type Checked = Result<(), &'static str>;

/// `dbfilename`: the name of a file in `dir`.
pub(crate) fn db_file_name(name: &[u8]) -> Checked {
    base_name(name, "dbfilename can't be empty", "dbfilename can't be a path, just a filename")
}

/// `appendfilename`: the stem of file names in `appenddirname`.
pub(crate) fn append_file_name(name: &[u8]) -> Checked {
    let path = "appendfilename can't be a path, just a filename";
    base_name(name, "appendfilename can't be empty", path)
}

/// `appenddirname`: the name of a directory in `dir`.
pub(crate) fn append_dir_name(name: &[u8]) -> Checked {
    let path = "appenddirname can't be a path, just a dirname";
    base_name(name, "appenddirname can't be empty", path)
}

fn base_name(name: &[u8], empty: &'static str, path: &'static str) -> Checked {
    match name {
        b"" => Err(empty),
        _ if name.contains(&b'/') || name.contains(&b'\\') => Err(path),
        _ => Ok(()),
    }
}

/// `cluster-store`: a scheme, a host and a prefix. The store checks the rest.
pub(crate) fn cluster_store(address: &[u8]) -> Checked {
    let has = |scheme: &[u8]| {
        address.strip_prefix(scheme).is_some_and(|rest| rest.contains(&b'/') && rest[0] != b'/')
    };
    match address.is_empty() || has(b"etcd://") || has(b"etcds://") {
        true => Ok(()),
        false => {
            Err("cluster-store must be etcd://HOST:PORT[,HOST:PORT...]/PREFIX, or etcds:// for TLS")
        }
    }
}

/// `cluster-config-file`: any file name.
pub(crate) fn cluster_config_file(name: &[u8]) -> Checked {
    if name.is_empty() { Err("cluster-config-file can't be empty") } else { Ok(()) }
}

/// An IPv4 address or nothing.
pub(crate) fn ipv4(address: &[u8]) -> Checked {
    let parsed = std::str::from_utf8(address).ok().and_then(|text| text.parse::<Ipv4Addr>().ok());
    if address.is_empty() || parsed.is_some() { Ok(()) } else { Err("Invalid IPv4 address") }
}

/// An IPv6 address or nothing.
pub(crate) fn ipv6(address: &[u8]) -> Checked {
    let parsed = std::str::from_utf8(address).ok().and_then(|text| text.parse::<Ipv6Addr>().ok());
    if address.is_empty() || parsed.is_some() { Ok(()) } else { Err("Invalid IPv6 address") }
}

/// A host name: letters, digits, hyphens and dots, under 256 bytes.
pub(crate) fn host_name(name: &[u8]) -> Checked {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    if name.len() >= 256 {
        return Err("Hostnames must be less than 256 characters");
    }
    if !name.iter().all(allowed) {
        return Err("Hostnames may only contain alphanumeric characters, hyphens or dots");
    }
    Ok(())
}

/// `cluster-announce-human-nodename`: the characters that a field of the cluster bus and of
/// `nodes.conf` may have.
pub(crate) fn node_name(name: &[u8]) -> Checked {
    if fits_nodes_file(name) {
        Ok(())
    } else {
        Err("Announced human node name contained invalid character")
    }
}

/// `cluster-announce-ip`: as [`node_name`].
pub(crate) fn announced_ip(address: &[u8]) -> Checked {
    if fits_nodes_file(address) {
        Ok(())
    } else {
        Err("cluster-announce-ip contains invalid character")
    }
}

/// No separator of `nodes.conf`, no quote, no bracket, nothing unprintable.
fn fits_nodes_file(name: &[u8]) -> bool {
    let separators = b"!\"#$%&'()*+,;<=>?@[\\]^{|}~";
    name.iter()
        .all(|byte| (b'!'..=b'~').contains(byte) && !separators.contains(byte) || *byte >= 0x80)
}

/// `proc-title-template`: text with known `{variables}` that is not blank.
///
/// `{{` stands for a brace. A brace that opens nothing known, or is not closed,
/// is refused.
pub(crate) fn title_template(template: &[u8]) -> Checked {
    const VARIABLES: [&[u8]; 7] = [
        b"title",
        b"listen-addr",
        b"server-mode",
        b"port",
        b"tls-port",
        b"unixsocket",
        b"config-file",
    ];
    let refused = Err("template format is invalid or contains unknown variables");
    if template.iter().all(u8::is_ascii_whitespace) {
        return refused;
    }
    let mut rest = template;
    while let Some(open) = rest.iter().position(|byte| *byte == b'{') {
        rest = &rest[open + 1..];
        if let Some(after) = rest.strip_prefix(b"{") {
            rest = after;
            continue;
        }
        let Some(close) = rest.iter().position(|byte| *byte == b'}') else {
            return refused;
        };
        if !VARIABLES.contains(&&rest[..close]) {
            return refused;
        }
        rest = &rest[close + 1..];
    }
    Ok(())
}

/// `shutdown-on-sigint` and `-sigterm`: saving and not saving exclude each
/// other. The bits follow [`SHUTDOWN_WORDS`].
pub(crate) fn shutdown_words(set: u32) -> Checked {
    let both = 1 << 1 | 1 << 2;
    if set & both == both {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously");
    }
    Ok(())
}

/// Options of a shutdown by signal, in addition to the default behaviour.
pub(crate) const SHUTDOWN_WORDS: &[&str] =
    &["default", "save", "nosave", "now", "force", "safe", "failover"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates() {
        for template in ["{title}", "x{port}y", "{{", "a}b", "{{title}", "{{title}}", "plain"] {
            assert_eq!(title_template(template.as_bytes()), Ok(()), "{template}");
        }
        for template in ["", "  ", "{}", "{foo}", "{ title}", "{title", "{title}{"] {
            assert!(title_template(template.as_bytes()).is_err(), "{template}");
        }
    }

    #[test]
    fn names_and_addresses() {
        assert!(node_name(b"a_b-c.d:/`").is_ok());
        assert!(node_name("n\u{e9}".as_bytes()).is_ok());
        for byte in b"!\"#$%&'()*+,;<=>?@[\\]^{|}~ \x01\x7f" {
            assert!(node_name(&[b'a', *byte]).is_err(), "{byte}");
        }
        assert!(host_name(&[b'x'; 255]).is_ok());
        assert!(host_name(&[b'x'; 256]).is_err());
        assert!(host_name(b"a_b").is_err());
        assert!(ipv4(b"").is_ok() && ipv4(b"1.2.3.4").is_ok() && ipv4(b"1.2.3").is_err());
        assert!(ipv6(b"").is_ok() && ipv6(b"::1").is_ok() && ipv6(b"1.2.3.4").is_err());
        assert!(db_file_name(b"dump.rdb").is_ok() && db_file_name(b"a/b").is_err());
        assert!(append_file_name(b"").is_err() && append_dir_name(b"a/b").is_err());
    }

    #[test]
    fn saving_and_not_saving() {
        assert!(shutdown_words(1 << 1 | 1 << 3).is_ok());
        assert!(shutdown_words(1 << 1 | 1 << 2).is_err());
        assert_eq!((SHUTDOWN_WORDS[1], SHUTDOWN_WORDS[2]), ("save", "nosave"));
    }
}
