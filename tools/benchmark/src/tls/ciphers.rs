//! Cipher suites by OpenSSL's names, for `--tls-ciphers` and `--tls-ciphersuites`.
//!
//! The library has the suites of TLS 1.3 and those of TLS 1.2 with forward secrecy and an AEAD.
//! Other names are left out with a warning; a list without a supported suite is refused.

use rustls::SupportedCipherSuite;
use rustls::crypto::ring::cipher_suite as suite;

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

impl Suites {
    /// Reads both lists; a list that isn't given leaves the default of its versions. Ignored words
    /// are added to the warnings.
    ///
    /// # Errors
    /// If a list has no supported suite.
    pub fn parse(
        ciphers: Option<&str>,
        ciphersuites: Option<&str>,
        warnings: &mut Vec<String>,
    ) -> Result<Suites, String> {
        let mut suites = Suites::default();
        if let Some(list) = ciphers {
            let (found, unknown) = tls12(list);
            suites.tls12 = some("--tls-ciphers", list, found, &unknown, warnings)?;
        }
        if let Some(list) = ciphersuites {
            let (found, unknown) = tls13(list);
            suites.tls13 = some("--tls-ciphersuites", list, found, &unknown, warnings)?;
        }
        Ok(suites)
    }

    /// All suites, in the form that the library needs.
    pub fn all(&self) -> Vec<SupportedCipherSuite> {
        [&self.tls13[..], &self.tls12].concat()
    }
}

/// The suites if there are any; warns about ignored ones.
fn some(
    option: &str,
    list: &str,
    found: Vec<SupportedCipherSuite>,
    unknown: &[&str],
    warnings: &mut Vec<String>,
) -> Result<Vec<SupportedCipherSuite>, String> {
    if found.is_empty() {
        let known: Vec<&str> = if option == "--tls-ciphers" {
            TLS12.iter().map(|(_, names, _)| names[0]).collect()
        } else {
            TLS13.iter().map(|(_, name)| *name).collect()
        };
        let known = known.join(", ");
        return Err(format!("{option}: there is no suite for {list:?}; there are {known}"));
    }
    if !unknown.is_empty() {
        let unknown = unknown.join(", ");
        warnings.push(format!("WARNING: {option}: left out, for they are not built in: {unknown}"));
    }
    Ok(found)
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
        let mut warnings = Vec::new();
        let suites = Suites::parse(
            Some("AES128-SHA:ECDHE-RSA-AES128-GCM-SHA256"),
            Some("TLS_AES_128_CCM_SHA256:TLS_AES_128_GCM_SHA256:TLS_AES_128_GCM_SHA256"),
            &mut warnings,
        );
        let suites = suites.unwrap();
        assert_eq!(suites.tls12, [suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]);
        assert_eq!(suites.tls13, [suite::TLS13_AES_128_GCM_SHA256]);
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].ends_with("AES128-SHA") && warnings[1].ends_with("CCM_SHA256"));
        for lists in [(Some("AES128-SHA"), None), (None, Some("NO")), (Some(""), None)] {
            let error = Suites::parse(lists.0, lists.1, &mut warnings).unwrap_err();
            assert!(error.contains("there is no suite for"), "{error}");
        }
        assert_eq!(Suites::parse(None, None, &mut warnings), Ok(Suites::default()));
    }
}
