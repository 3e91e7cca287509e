//! Lines `user` that ask for nothing that is not there.
//!
//! A rewritten configuration, by CONFIG REWRITE or by Sentinel, ends with the rules of the default
//! user: everything, with no password or with the hash of the one in `requirepass`. Such a line
//! protects nothing that `requirepass` does not, so it must not keep a server without access control
//! lists from starting. Any other does.

use sha2::{Digest, Sha256};

/// Whether a line `user` says of the default user what holds anyway, with this password (empty:
/// none).
pub(crate) fn says_nothing_new(words: &[Vec<u8>], password: &[u8]) -> bool {
    let [name, rules @ ..] = words else { return false };
    let has = |names: &[&str]| {
        rules.iter().any(|rule| names.iter().any(|n| rule.eq_ignore_ascii_case(n.as_bytes())))
    };
    let (mut is_known, mut passwords) = (true, 0);
    for rule in rules {
        match rule.split_first() {
            Some((b'>', text)) => {
                (is_known, passwords) = (is_known && text == password, passwords + 1)
            }
            Some((b'#', hash)) => {
                let same = hash.eq_ignore_ascii_case(&hex(&Sha256::digest(password)));
                (is_known, passwords) = (is_known && same, passwords + 1);
            }
            _ => is_known &= KNOWN.iter().any(|known| rule.eq_ignore_ascii_case(known.as_bytes())),
        }
    }
    let is_open = has(&["on"])
        && has(&["~*", "allkeys"])
        && has(&["&*", "allchannels"])
        && has(&["+@all", "allcommands"]);
    // With `nopass` the password of `requirepass` is still required.
    let names_password = has(&["nopass"]) || (passwords > 0 && !password.is_empty());
    name == b"default" && is_known && is_open && names_password
}

/// The rules that such a line may have, in addition to passwords.
const KNOWN: [&str; 10] = [
    "on",
    "nopass",
    "~*",
    "allkeys",
    "&*",
    "allchannels",
    "+@all",
    "allcommands",
    "sanitize-payload",
    "skip-sanitize-payload",
];

fn hex(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_user_as_servers_write_it() {
        let says = |line: &str, password: &str| {
            let words: Vec<Vec<u8>> = line.split(' ').map(|w| w.as_bytes().to_vec()).collect();
            says_nothing_new(&words, password.as_bytes())
        };
        let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"; // of "secret"
        for password in ["", "secret"] {
            assert!(says("default on nopass ~* &* +@all", password));
            assert!(says("default on nopass sanitize-payload ~* &* +@all", password));
        }
        let hashed = format!("default on #{hash} ~* &* +@all");
        assert!(says(&hashed, "secret"));
        assert!(says("default on >secret allkeys allchannels ALLCOMMANDS", "secret"));
        // The password is nowhere else, or another one; or there is a second one.
        assert!(!says(&hashed, "") && !says(&hashed, "other"));
        assert!(!says("default on >secret >other ~* &* +@all", "secret"));
        for line in [
            "default off nopass ~* &* +@all",
            "default on ~* &* +@all",
            "default on nopass ~a* &* +@all",
            "default on nopass ~* +@all",
            "default on nopass ~* &* +@all -flushall",
            "default on nopass ~* &* +get",
            "default on nopass ~* &* +@all (~a +get)",
            "default reset on nopass ~* &* +@all",
            "alice on nopass ~* &* +@all",
            "default",
        ] {
            assert!(!says(line, "secret"), "{line}");
        }
    }
}
