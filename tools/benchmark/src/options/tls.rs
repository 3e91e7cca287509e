//! The options of TLS: their combinations, and those without effect.

use rustls::pki_types::ServerName;

use super::raw::Raw;
use weft_connection::tls::{Suites, TlsOptions};

/// The TLS options; none without TLS, by `--tls` or by the URI. Options without effect are accepted
/// as in the reference, with a warning.
///
/// # Errors
/// If a name is invalid, or a list of ciphers has no supported one.
pub fn resolve(
    raw: &Raw,
    by_uri: bool,
    warnings: &mut Vec<String>,
) -> Result<Option<TlsOptions>, String> {
    if !(raw.tls || by_uri) {
        let idle = given(raw).join(", ");
        if !idle.is_empty() {
            warnings.push(format!("WARNING: Without --tls these have no effect: {idle}"));
        }
        return Ok(None);
    }
    let identity = match (&raw.cert, &raw.key) {
        (Some(cert), Some(key)) => Some((cert.clone(), key.clone())),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            let message = "WARNING: No client certificate is sent: that needs --cert and --key.";
            warnings.push(message.to_string());
            None
        }
    };
    let ciphersuites = raw.tls_ciphersuites.as_deref();
    Ok(Some(TlsOptions {
        sni: raw.sni.as_deref().map(|name| server_name(name, warnings)).transpose()?,
        ca_file: raw.cacert.clone(),
        ca_dir: raw.cacertdir.clone(),
        insecure: raw.insecure,
        identity,
        suites: suites(raw.tls_ciphers.as_deref(), ciphersuites, warnings)?,
    }))
}

/// Reads the lists of cipher suites, and warns about ignored words.
fn suites(
    ciphers: Option<&str>,
    ciphersuites: Option<&str>,
    warnings: &mut Vec<String>,
) -> Result<Suites, String> {
    let suites = Suites::parse(ciphers, ciphersuites, |option, word| {
        warnings.push(format!("WARNING: --{option}: left out, for it is not built in: {word}"));
    });
    suites.map_err(|(option, none)| {
        let list = if option == "tls-ciphers" { ciphers } else { ciphersuites };
        let list = list.unwrap_or_default();
        format!("--{option}: there is no suite for {list:?}; there are {}", none.known)
    })
}

/// The given options that need TLS.
fn given(raw: &Raw) -> Vec<&'static str> {
    let all = [
        (raw.sni.is_some(), "--sni"),
        (raw.cacert.is_some(), "--cacert"),
        (raw.cacertdir.is_some(), "--cacertdir"),
        (raw.insecure, "--insecure"),
        (raw.cert.is_some(), "--cert"),
        (raw.key.is_some(), "--key"),
        (raw.tls_ciphers.is_some(), "--tls-ciphers"),
        (raw.tls_ciphersuites.is_some(), "--tls-ciphersuites"),
    ];
    all.iter().filter(|(is_given, _)| *is_given).map(|(_, name)| *name).collect()
}

fn server_name(name: &str, warnings: &mut Vec<String>) -> Result<ServerName<'static>, String> {
    let parsed = ServerName::try_from(name.to_string())
        .map_err(|e| format!("--sni: {name:?} is not the name of a host: {e}"))?;
    if matches!(parsed, ServerName::IpAddress(_)) {
        // RFC 6066: literal addresses are not permitted.
        warnings.push("WARNING: --sni: an address can't be sent as a name.".to_string());
    }
    Ok(parsed)
}
