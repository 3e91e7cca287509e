//! Certificates, keys and authorities from files in PEM.

use crate::settings::{Identity, Settings};
use pkcs8::EncryptedPrivateKeyInfo;
use pkcs8::der::Decode;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A certificate with those between it and its authority, and its key.
#[derive(Debug)]
pub struct Pair {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

/// Reads a certificate and its key.
///
/// # Errors
/// The file that can't be used, and the reason.
pub fn pair(identity: &Identity) -> Result<Pair, String> {
    let Some(cert) = &identity.cert else { return Err("No tls-cert-file configured!".into()) };
    let Some(key) = &identity.key else { return Err("No tls-key-file configured!".into()) };
    let chain = certificates(cert)
        .map_err(|why| format!("Failed to load certificate: {}: {why}", cert.display()))?;
    let key = private_key(key, &identity.pass)
        .map_err(|why| format!("Failed to load private key: {}: {why}", key.display()))?;
    Ok(Pair { chain, key })
}

/// Reads all certificates of a file.
///
/// # Errors
/// The reason why there is none.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(path)?;
    let certs: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match certs {
        Ok(certs) if certs.is_empty() => Err("no certificate in it".into()),
        Ok(certs) => Ok(certs),
        Err(e) => Err(words(&e)),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    // Reading a pipe or a terminal could block.
    if fs::metadata(path).is_ok_and(|facts| !facts.is_file()) {
        return Err("not a file".into());
    }
    fs::read(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => "No such file or directory".into(),
        io::ErrorKind::PermissionDenied => "Permission denied".into(),
        _ => e.to_string(),
    })
}

fn words(e: &PemError) -> String {
    match e {
        PemError::NoItemsFound => "nothing in PEM in it".into(),
        e => e.to_string(),
    }
}

/// The label of a PKCS#8 key with a pass phrase.
const ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const ENCRYPTED_END: &str = "-----END ENCRYPTED PRIVATE KEY-----";
/// The mark of OpenSSL's own format of keys with a pass phrase.
const OLD_ENCRYPTED: &[u8] = b"Proc-Type: 4,ENCRYPTED";

fn private_key(path: &Path, pass: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = read(path)?;
    let contains = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    if contains(OLD_ENCRYPTED) {
        return Err("its old form of encryption is not supported: convert it by 'openssl pkcs8 \
                    -topk8'"
            .into());
    }
    if contains(ENCRYPTED.as_bytes()) {
        return decrypted(&bytes, pass);
    }
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|e| match e {
        PemError::NoItemsFound => "no private key in it".into(),
        e => words(&e),
    })
}

fn decrypted(pem: &[u8], pass: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    if pass.is_empty() {
        return Err("it is encrypted, and there is no pass phrase".into());
    }
    let der = first_encrypted(pem)?;
    let info = EncryptedPrivateKeyInfo::from_der(&der).map_err(|e| e.to_string())?;
    match info.decrypt(pass) {
        Ok(document) => Ok(PrivatePkcs8KeyDer::from(document.as_bytes().to_vec()).into()),
        // A wrong pass phrase decrypts to bytes without a valid end, or to no key.
        Err(_) => Err("the pass phrase is wrong, or the encryption is not supported".into()),
    }
}

/// The first key with a pass phrase: the library's reader skips its label.
fn first_encrypted(pem: &[u8]) -> Result<Vec<u8>, String> {
    let text = std::str::from_utf8(pem).map_err(|e| e.to_string())?;
    let begin = text.find(ENCRYPTED).ok_or("no private key in it")?;
    let end = text[begin..].find(ENCRYPTED_END).ok_or("its end is missing")?;
    let section = &text[begin..begin + end + ENCRYPTED_END.len()];
    let (_, document) = pkcs8::SecretDocument::from_pem(section).map_err(|e| e.to_string())?;
    Ok(document.as_bytes().to_vec())
}

/// The authorities of a file and of a directory, which names its files by their hash as OpenSSL's
/// does (`c_rehash`). All its certificates are read.
///
/// # Errors
/// The reason why a file can't be used. A missing directory is empty, as for OpenSSL.
pub fn authorities(
    file: Option<&Path>,
    dir: Option<&Path>,
) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut all = match file {
        Some(file) => certificates(file)?,
        None => Vec::new(),
    };
    let Some(dir) = dir else { return Ok(all) };
    let entries = fs::read_dir(dir).map(|entries| entries.flatten().map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = entries.map(Iterator::collect).unwrap_or_default();
    paths.sort();
    for path in paths.iter().filter(|path| path.is_file()) {
        // Next to certificates there may be keys and lists.
        all.extend(certificates(path).unwrap_or_default());
    }
    Ok(all)
}

/// The state of the files that the directives name: whether one has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamps(Vec<(PathBuf, Option<Stamp>)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

impl Stamps {
    /// The state of all files now.
    pub fn read(settings: &Settings) -> Stamps {
        let Settings { server, client, ca_file, ca_dir, .. } = settings;
        let named = [&server.cert, &server.key, &client.cert, &client.key, ca_file, ca_dir];
        let mut paths: Vec<PathBuf> = named.into_iter().flatten().cloned().collect();
        let in_dir = ca_dir.as_ref().and_then(|dir| fs::read_dir(dir).ok());
        paths.extend(in_dir.into_iter().flatten().flatten().map(|entry| entry.path()));
        paths.sort();
        let stamp = |path: &PathBuf| {
            let facts = fs::metadata(path).ok()?;
            let (modified, bytes) = (facts.modified().ok(), facts.len());
            Some(Stamp { modified, bytes, inode: facts.ino() })
        };
        Stamps(paths.into_iter().map(|path| (path.clone(), stamp(&path))).collect())
    }
}
