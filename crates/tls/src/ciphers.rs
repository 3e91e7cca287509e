//! Cipher suites and protocol versions by OpenSSL's names, for `tls-ciphers`, `tls-ciphersuites` and
//! `tls-protocols`.
//!
//! The library has the suites of TLS 1.3 and those of TLS 1.2 with forward secrecy and an AEAD.
//! Other names are left out with a warning; a list without a supported suite is refused.

use crate::provider::cipher_suite as suite;
use rustls::version::{TLS12 as VERSION12, TLS13 as VERSION13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// Suites of TLS 1.3, with OpenSSL's names.
const TLS13: &[(SupportedCipherSuite, &str)] = &[
    (suite::TLS13_AES_256_GCM_SHA384, "TLS_AES_256_GCM_SHA384"),
    (suite::TLS13_CHACHA20_POLY1305_SHA256, "TLS_CHACHA20_POLY1305_SHA256"),
    (suite::TLS13_AES_128_GCM_SHA256, "TLS_AES_128_GCM_SHA256"),
];

/// Suites of TLS 1.2, with OpenSSL's name and the official one, and the words of a cipher string
/// that include this suite; in addition to [`FOR_ALL`].
const TLS12: &[(SupportedCipherSuite, [&str; 2], &[&str])] = &[
    (
        suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        ["ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"],
        &["ECDSA", "aECDSA", "AES", "AES256", "AESGCM"],
    ),
    (
        suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        ["ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"],
        &["aRSA", "AES", "AES256", "AESGCM"],
    ),
    (
        suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        ["ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"],
        &["ECDSA", "aECDSA", "CHACHA20"],
    ),
    (
        suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        ["ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"],
        &["aRSA", "CHACHA20"],
    ),
    (
        suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        ["ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"],
        &["ECDSA", "aECDSA", "AES", "AES128", "AESGCM"],
    ),
    (
        suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        ["ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
        &["aRSA", "AES", "AES128", "AESGCM"],
    ),
];

/// Words of a cipher string that include all suites of [`TLS12`].
const FOR_ALL: &[&str] =
    &["ALL", "DEFAULT", "HIGH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "TLSv1.2"];

/// The suites to offer, the preferred ones first.
#[derive(Clone, Debug, PartialEq)]
pub struct Suites {
    tls13: Vec<SupportedCipherSuite>,
    tls12: Vec<SupportedCipherSuite>,
}

impl Default for Suites {
    fn default() -> Suites {
        Suites {
            tls13: TLS13.iter().map(|(suite, _)| *suite).collect(),
            tls12: TLS12.iter().map(|(suite, ..)| *suite).collect(),
        }
    }
}

/// A list without a supported suite.
#[derive(Debug, PartialEq)]
pub struct NoSuite {
    /// OpenSSL's names of the supported suites.
    pub known: String,
}

impl Suites {
    /// Reads both lists; a list that isn't given leaves the default of its versions. Ignored words
    /// are passed to `ignored`, with the directive that contains them.
    ///
    /// # Errors
    /// The directive whose list has no supported suite.
    pub fn parse(
        ciphers: Option<&str>,
        ciphersuites: Option<&str>,
        mut ignored: impl FnMut(&'static str, &str),
    ) -> Result<Suites, (&'static str, NoSuite)> {
        let mut suites = Suites::default();
        if let Some(list) = ciphers {
            let (found, unknown) = tls12(list);
            let known = TLS12.iter().map(|(_, names, _)| names[0]);
            suites.tls12 = some(found, known).map_err(|none| ("tls-ciphers", none))?;
            unknown.iter().for_each(|word| ignored("tls-ciphers", word));
        }
        if let Some(list) = ciphersuites {
            let (found, unknown) = tls13(list);
            let known = TLS13.iter().map(|(_, name)| *name);
            suites.tls13 = some(found, known).map_err(|none| ("tls-ciphersuites", none))?;
            unknown.iter().for_each(|word| ignored("tls-ciphersuites", word));
        }
        Ok(suites)
    }

    /// All suites, in the form that the library needs.
    pub fn all(&self) -> Vec<SupportedCipherSuite> {
        [&self.tls13[..], &self.tls12].concat()
    }
}

/// The suites if there are any.
fn some(
    found: Vec<SupportedCipherSuite>,
    known: impl Iterator<Item = &'static str>,
) -> Result<Vec<SupportedCipherSuite>, NoSuite> {
    match found.is_empty() {
        true => Err(NoSuite { known: known.collect::<Vec<_>>().join(", ") }),
        false => Ok(found),
    }
}

/// Reads `tls-protocols`; an empty list is the default. The library refuses versions before 1.2, which
/// are broken: a list may contain them only next to a newer one.
///
/// # Errors
/// The reason, in Valkey's words.
pub fn protocols(list: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let (mut versions, mut is_old) = (Vec::new(), false);
    for word in list.split_ascii_whitespace() {
        match word.to_ascii_lowercase().as_str() {
            "tlsv1" | "tlsv1.1" => is_old = true,
            "tlsv1.2" => versions.push(&VERSION12),
            "tlsv1.3" => versions.push(&VERSION13),
            _ => {
                return Err("Invalid tls-protocols specified. Use a combination of 'TLSv1.2' and \
                            'TLSv1.3'."
                    .into());
            }
        }
    }
    match (versions.is_empty(), is_old) {
        (false, _) => Ok(versions),
        (true, false) => Ok(vec![&VERSION13, &VERSION12]),
        (true, true) => {
            Err("tls-protocols allows only TLS 1.0 and 1.1, which this server does not \
                             speak: they are broken. Add 'TLSv1.2' or 'TLSv1.3'."
                .into())
        }
    }
}

fn tls13(list: &str) -> (Vec<SupportedCipherSuite>, Vec<&str>) {
    let (mut chosen, mut unknown) = (Vec::new(), Vec::new());
    for word in list.split(':').filter(|word| !word.is_empty()) {
        match TLS13.iter().find(|(_, name)| *name == word) {
            Some((suite, _)) if chosen.contains(suite) => {}
            Some((suite, _)) => chosen.push(*suite),
            None => unknown.push(word),
        }
    }
    (chosen, unknown)
}

/// A cipher string, as in ciphers(1ssl): words add suites, and words joined with `+` add those that
/// fit all of them. With `-` before them they are removed, with `!` permanently, and with `+` moved
/// to the end.
fn tls12(list: &str) -> (Vec<SupportedCipherSuite>, Vec<&str>) {
    let (mut chosen, mut banned) = (Vec::new(), Vec::new());
    let mut unknown = Vec::new();
    for element in list.split([':', ',', ' ', ';']).filter(|element| !element.is_empty()) {
        let words = element.trim_start_matches(['!', '-', '+']);
        let fitting = fitting(words);
        match element.as_bytes()[0] {
            b'!' => {
                chosen.retain(|suite| !fitting.contains(suite));
                banned.extend(fitting);
            }
            b'-' => chosen.retain(|suite| !fitting.contains(suite)),
            b'+' => chosen.sort_by_key(|suite| fitting.contains(suite)),
            _ if fitting.is_empty() => unknown.push(element),
            _ => {
                for suite in fitting {
                    if !chosen.contains(&suite) && !banned.contains(&suite) {
                        chosen.push(suite);
                    }
                }
            }
        }
    }
    (chosen, unknown)
}

/// The suites that fit all words joined with `+`.
fn fitting(words: &str) -> Vec<SupportedCipherSuite> {
    let fits = |names: &[&str], classes: &[&str]| {
        words.split('+').all(|word| [names, classes, FOR_ALL].iter().any(|all| all.contains(&word)))
    };
    let fitting = TLS12.iter().filter(|(_, names, classes)| fits(names, classes));
    fitting.map(|(suite, ..)| *suite).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<&'static str> {
        let name = |suite: &SupportedCipherSuite| {
            TLS12.iter().find(|(of, ..)| of == suite).map_or("", |(_, names, _)| names[0])
        };
        tls12(list).0.iter().map(name).collect()
    }

    #[test]
    fn names_keep_their_order() {
        let list = "ECDHE-RSA-AES128-GCM-SHA256:TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
        assert_eq!(names(list), ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"]);
        let all = Suites::default();
        let list = TLS12.iter().map(|(_, names, _)| names[0]).collect::<Vec<_>>().join(":");
        assert_eq!(tls12(&list).0, all.tls12);
        assert_eq!(all.all().len(), 9);
    }

    #[test]
    fn cipher_strings_add_and_take_away() {
        assert_eq!(names("HIGH:!aNULL").len(), 6);
        assert_eq!(
            names("ECDHE+aRSA:!AES256"),
            ["ECDHE-RSA-CHACHA20-POLY1305", "ECDHE-RSA-AES128-GCM-SHA256"]
        );
        assert_eq!(
            names("CHACHA20:+ECDSA"),
            ["ECDHE-RSA-CHACHA20-POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305"]
        );
        assert_eq!(names("!CHACHA20:ALL").len(), 4);
        assert_eq!(names("ALL:-CHACHA20:CHACHA20").len(), 6);
        assert!(names("RSA:AES128-SHA:eNULL").is_empty());
    }

    #[test]
    fn omitted_suite_is_reported() {
        let mut ignored = Vec::new();
        let suites = Suites::parse(
            Some("AES128-SHA:ECDHE-RSA-AES128-GCM-SHA256"),
            Some("TLS_AES_128_CCM_SHA256:TLS_AES_128_GCM_SHA256:TLS_AES_128_GCM_SHA256"),
            |directive, word| ignored.push(format!("{directive} {word}")),
        );
        let suites = suites.unwrap();
        assert_eq!(suites.tls12, [suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]);
        assert_eq!(suites.tls13, [suite::TLS13_AES_128_GCM_SHA256]);
        assert_eq!(ignored, ["tls-ciphers AES128-SHA", "tls-ciphersuites TLS_AES_128_CCM_SHA256"]);
        for lists in [(Some("AES128-SHA"), None), (None, Some("NO")), (Some(""), None)] {
            assert!(Suites::parse(lists.0, lists.1, |_, _| ()).is_err());
        }
        assert_eq!(Suites::parse(None, None, |_, _| ()), Ok(Suites::default()));
    }

    #[test]
    fn old_protocols_are_refused() {
        let names = |list: &str| protocols(list).map(|versions| versions.len());
        assert_eq!((names(""), names("TLSv1.2 tlsv1.3"), names("TLSv1.3")), (Ok(2), Ok(2), Ok(1)));
        assert_eq!(names("TLSv1.1 TLSv1.2"), Ok(1));
        assert!(names("TLSv1.1").unwrap_err().contains("broken"));
        assert!(names("SSLv3").unwrap_err().starts_with("Invalid tls-protocols specified."));
    }
}
