//! The facts of a certificate that INFO, the log and logins show.

use rustls::pki_types::CertificateDer;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use x509_cert::Certificate;
use x509_cert::der::asn1::{Ia5StringRef, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::der::{Decode, Tag, Tagged};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The object identifier of a common name.
const COMMON_NAME: &str = "2.5.4.3";

/// See the module documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// In hexadecimal digits, as OpenSSL prints it.
    pub serial: String,
    /// Since 1970.
    pub not_before: Duration,
    pub not_after: Duration,
    pub common_name: Option<String>,
    /// The URIs of the alternative names.
    pub uris: Vec<String>,
}

impl Facts {
    /// Reads a certificate. Returns `None` if it isn't one.
    pub fn of(der: &CertificateDer<'_>) -> Option<Facts> {
        let certificate = Certificate::from_der(der).ok()?;
        let facts = &certificate.tbs_certificate;
        let alternatives = facts.get::<SubjectAltName>().ok().flatten();
        let names = alternatives.map_or_else(Vec::new, |(_, names)| names.0);
        let uris = names.into_iter().filter_map(|name| match name {
            GeneralName::UniformResourceIdentifier(uri) => Some(uri.to_string()),
            _ => None,
        });
        Some(Facts {
            serial: hex(facts.serial_number.as_bytes()),
            not_before: facts.validity.not_before.to_unix_duration(),
            not_after: facts.validity.not_after.to_unix_duration(),
            common_name: common_name(&certificate),
            uris: uris.collect(),
        })
    }

    /// Seconds until the certificate expires; negative if it has.
    pub fn expires_in(&self, now: SystemTime) -> i64 {
        self.not_after.as_secs() as i64 - unix_seconds(now)
    }

    /// Why the certificate can't be used now, by its dates.
    pub fn refusal(&self, now: SystemTime) -> Option<&'static str> {
        if self.expires_in(now) < 0 {
            return Some("certificate has expired");
        }
        let begins = self.not_before.as_secs() as i64;
        (begins > unix_seconds(now)).then_some("certificate is not yet valid")
    }
}

fn unix_seconds(at: SystemTime) -> i64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// Without the zero byte that keeps a number positive.
fn hex(bytes: &[u8]) -> String {
    let digits = match bytes {
        [0, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    digits.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The first common name of the subject.
fn common_name(certificate: &Certificate) -> Option<String> {
    let subject = &certificate.tbs_certificate.subject;
    let mut parts = subject.0.iter().flat_map(|part| part.0.iter());
    let value = &parts.find(|part| part.oid.to_string() == COMMON_NAME)?.value;
    let text = match value.tag() {
        Tag::Utf8String => Utf8StringRef::try_from(value).ok()?.as_str().to_string(),
        Tag::PrintableString => PrintableStringRef::try_from(value).ok()?.as_str().to_string(),
        Tag::Ia5String => Ia5StringRef::try_from(value).ok()?.as_str().to_string(),
        Tag::TeletexString => TeletexStringRef::try_from(value).ok()?.as_str().to_string(),
        _ => return None,
    };
    // A name that ends at a zero byte for one program and later for another must fit no user.
    (!text.contains('\0')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType, SerialNumber};

    #[test]
    fn facts_are_read() {
        let mut params = CertificateParams::new(vec!["host".to_string()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "alice");
        let uri = "urn:user:alice";
        params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        params.serial_number = Some(SerialNumber::from_slice(&[0xab, 0x01]));
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        let cert = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let facts = Facts::of(cert.der()).unwrap();
        assert_eq!((facts.serial.as_str(), facts.common_name.as_deref()), ("AB01", Some("alice")));
        assert_eq!(facts.uris, [uri]);
        let now = SystemTime::now();
        assert!(facts.expires_in(now) < 0);
        assert_eq!(facts.refusal(now), Some("certificate has expired"));
        assert_eq!(Facts::of(&CertificateDer::from_slice(b"no certificate")), None);
    }
}
