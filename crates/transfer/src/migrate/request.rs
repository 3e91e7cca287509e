//! The arguments of MIGRATE.

use std::time::Duration;
use weft_base::num::parse_i64;
use weft_command_spec::key_options::migrate_keys_option;
use weft_commands::{Error, error};
use weft_types::string::canonical_int;

const KEY_AND_KEYS: Error = Error::new(
    "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
);

/// The position of the first option.
const OPTIONS: usize = 6;

/// The timeout used instead of zero or a negative number.
const DEFAULT_TIMEOUT_MS: u64 = 1000;

pub struct Request<'a> {
    pub host: &'a [u8],
    pub port: u16,
    pub db: &'a [u8],
    /// The timeout of each step on the connection.
    pub timeout: Duration,
    pub copy: bool,
    pub replace: bool,
    /// The password, or the user and the password.
    auth: &'a [&'a [u8]],
    /// The argument positions of the keys.
    pub keys: Vec<usize>,
}

/// The options before KEYS.
struct Options<'a> {
    copy: bool,
    replace: bool,
    auth: &'a [&'a [u8]],
}

impl<'a> Options<'a> {
    fn parse(args: &'a [&'a [u8]]) -> Result<Options<'a>, Error> {
        let mut options = Options { copy: false, replace: false, auth: &[] };
        let mut at = OPTIONS;
        while let Some(word) = args.get(at) {
            let words = |n: usize| args.get(at + 1..at + 1 + n).ok_or(error::SYNTAX);
            at += match word.to_ascii_lowercase().as_slice() {
                b"copy" => {
                    options.copy = true;
                    1
                }
                b"replace" => {
                    options.replace = true;
                    1
                }
                b"auth" => {
                    options.auth = words(1)?;
                    2
                }
                b"auth2" => {
                    options.auth = words(2)?;
                    3
                }
                b"keys" if args[3].is_empty() => return Ok(options),
                b"keys" => return Err(KEY_AND_KEYS),
                _ => return Err(error::SYNTAX),
            };
        }
        Ok(options)
    }
}

/// The positions of the keys. Also works for requests that will fail. `None` if both the key
/// argument and KEYS have keys.
pub fn keys(args: &[&[u8]]) -> Option<Vec<usize>> {
    keys_after(args, migrate_keys_option(args))
}

fn keys_after(args: &[&[u8]], word: Option<usize>) -> Option<Vec<usize>> {
    match word {
        Some(at) => args[3].is_empty().then(|| (at + 1..args.len()).collect()),
        None => Some(vec![3]),
    }
}

impl<'a> Request<'a> {
    pub fn parse(args: &'a [&'a [u8]]) -> Result<Request<'a>, Error> {
        let options = Options::parse(args)?;
        let timeout = parse_i64(args[5]).ok_or(error::NOT_AN_INTEGER)?;
        parse_i64(args[4]).ok_or(error::NOT_AN_INTEGER)?;
        let timeout = match u64::try_from(timeout) {
            Ok(0) | Err(_) => DEFAULT_TIMEOUT_MS,
            Ok(ms) => ms,
        };
        let port = canonical_int(args[2]).and_then(|n| u16::try_from(n).ok());
        Ok(Request {
            host: args[1],
            // No connection to port 0 succeeds.
            port: port.unwrap_or(0),
            db: args[4],
            timeout: Duration::from_millis(timeout),
            copy: options.copy,
            replace: options.replace,
            auth: options.auth,
            keys: keys(args).unwrap_or_default(),
        })
    }

    /// The requests sent before the keys. Each has a reply.
    pub fn greeting(&self) -> Vec<Vec<&'a [u8]>> {
        let mut greeting: Vec<Vec<&[u8]>> = Vec::new();
        if !self.auth.is_empty() {
            greeting.push([&[&b"AUTH"[..]], self.auth].concat());
        }
        greeting.push(vec![b"SELECT", self.db]);
        greeting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_command_spec::key_options::migrate_keys;

    fn words(line: &str) -> Vec<&[u8]> {
        line.split(' ').map(|word| word.trim_matches('\'').as_bytes()).collect()
    }

    #[test]
    fn keys_follow_the_keys_option() {
        for (line, expected) in [
            ("migrate h 1 k 0 5", vec![3]),
            ("migrate h 1 k 0 5 COPY REPLACE", vec![3]),
            ("migrate h 1 '' 0 5 KEYS a b", vec![7, 8]),
            ("migrate h 1 '' 0 5 copy AUTH keys Replace KEYS a", vec![11]),
            ("migrate h 1 '' 0 5 AUTH2 keys keys KEYS a", vec![10]),
            ("migrate h 1 '' 0 5 KEYS", vec![]),
        ] {
            assert_eq!(keys(&words(line)), Some(expected), "{line}");
        }
        assert_eq!(keys(&words("migrate h 1 k 0 5 KEYS a")), None);
        for line in ["migrate h 1 k 0 5 KEYS", "migrate h 1 '' 0 5 COPY KEYS"] {
            assert_eq!(migrate_keys(&words(line)), Some(3..4), "{line}");
        }
        assert_eq!(migrate_keys(&words("migrate h 1 '' 0 5 KEYS KEYS")), Some(7..8));
    }

    #[test]
    fn errors_have_the_order_of_the_reference() {
        let error_of = |line: &str| Request::parse(&words(line)).err();
        assert_eq!(error_of("migrate h 1 k x y KEYS a"), Some(KEY_AND_KEYS));
        assert_eq!(error_of("migrate h 1 k x 5"), Some(error::NOT_AN_INTEGER));
        for line in ["migrate h 1 k 0 5 AUTH", "migrate h 1 k 0 5 auth2 u", "migrate h 1 k 0 5 x"] {
            assert_eq!(error_of(line), Some(error::SYNTAX), "{line}");
        }
    }

    #[test]
    fn a_password_is_sent_first() {
        let args = words("migrate h 7 k 3 -1 AUTH2 u p copy");
        let request = Request::parse(&args).expect("a request");
        let expected: Vec<Vec<&[u8]>> = vec![vec![b"AUTH", b"u", b"p"], vec![b"SELECT", b"3"]];
        assert_eq!(request.greeting(), expected);
        assert_eq!((request.port, request.timeout.as_millis()), (7, 1000));
        assert!(request.copy && !request.replace);
    }
}
