//! TLS.

use super::{EFFECTIVE, INT_MAX, PORT_MAX};
use crate::directive::Flags;
use crate::kind::{Kind, int, one_of, text};

section! {
    after: super::network::END,
    title: "TLS",
    about: "",

    TLS_PORT = "tls-port" {
        kind: int(0, PORT_MAX),
        default: "0",
        status: EFFECTIVE,
        doc: "TCP port on which connections are encrypted. 0 means none.",
    }
    TLS_CERT_FILE = "tls-cert-file" {
        kind: text(),
        default: "\"\"",
        flags: Flags::VOLATILE,
        status: EFFECTIVE,
        doc: "Certificate to present to clients, in PEM.",
    }
    TLS_KEY_FILE = "tls-key-file" {
        kind: text(),
        default: "\"\"",
        flags: Flags::VOLATILE,
        status: EFFECTIVE,
        doc: "Private key of tls-cert-file, in PEM.",
    }
    TLS_KEY_FILE_PASS = "tls-key-file-pass" {
        kind: text(),
        default: "\"\"",
        flags: Flags::SENSITIVE,
        status: EFFECTIVE,
        doc: "Pass phrase of tls-key-file, if it is encrypted (PKCS#8).",
    }
    TLS_CLIENT_CERT_FILE = "tls-client-cert-file" {
        kind: text(),
        default: "\"\"",
        flags: Flags::VOLATILE,
        status: EFFECTIVE,
        doc: "Certificate to present where this server is the client: to its primary and to \
              other cluster nodes. Empty uses tls-cert-file.",
    }
    TLS_CLIENT_KEY_FILE = "tls-client-key-file" {
        kind: text(),
        default: "\"\"",
        flags: Flags::VOLATILE,
        status: EFFECTIVE,
        doc: "Private key of tls-client-cert-file.",
    }
    TLS_CLIENT_KEY_FILE_PASS = "tls-client-key-file-pass" {
        kind: text(),
        default: "\"\"",
        flags: Flags::SENSITIVE,
        status: EFFECTIVE,
        doc: "Pass phrase of tls-client-key-file.",
    }
    TLS_DH_PARAMS_FILE = "tls-dh-params-file" {
        kind: text(),
        default: "\"\"",
        flags: Flags::VOLATILE,
        status: EFFECTIVE,
        doc: "Diffie-Hellman parameters. No cipher suite of this server uses them, so the file is \
              not read, and a warning says so.",
    }
    TLS_CA_CERT_FILE = "tls-ca-cert-file" {
        kind: text(),
        default: "\"\"",
        flags: Flags::VOLATILE,
        status: EFFECTIVE,
        doc: "Certificates of the authorities that may sign peers' certificates, in one file.",
    }
    TLS_CA_CERT_DIR = "tls-ca-cert-dir" {
        kind: text(),
        default: "\"\"",
        flags: Flags::VOLATILE,
        status: EFFECTIVE,
        doc: "The same as a directory of hashed names.",
    }
    TLS_AUTH_CLIENTS = "tls-auth-clients" {
        kind: one_of(&["no", "yes", "optional"]),
        default: "yes",
        status: EFFECTIVE,
        doc: "Whether clients must present a certificate. With optional, a certificate that is \
              presented must be valid.",
    }
    TLS_AUTH_CLIENTS_USER = "tls-auth-clients-user" {
        kind: one_of(&["CN", "URI", "off"]),
        default: "off",
        status: EFFECTIVE,
        doc: "Authenticate a client as the user that a field of its certificate names: the \
              common name or the URI of the alternative names.",
    }
    TLS_REPLICATION = "tls-replication" {
        kind: Kind::Bool,
        default: "no",
        status: EFFECTIVE,
        doc: "Encrypt the connection to the primary.",
    }
    TLS_CLUSTER = "tls-cluster" {
        kind: Kind::Bool,
        default: "no",
        status: EFFECTIVE,
        doc: "Encrypt connections to other nodes of a cluster, except replication: MIGRATE, MIGRATESLOTS, CLUSTER \
              MEET and published messages.",
    }
    TLS_PROTOCOLS = "tls-protocols" {
        kind: text(),
        default: "\"\"",
        status: EFFECTIVE,
        doc: "Protocol versions to allow: \"TLSv1.2\", \"TLSv1.3\" or both, which is the default. \
              Older versions are never spoken.",
    }
    TLS_CIPHERS = "tls-ciphers" {
        kind: text(),
        default: "\"\"",
        status: EFFECTIVE,
        doc: "Ciphers to allow in TLS 1.2, separated by colons. All have forward secrecy and an \
              AEAD: others are left out with a warning.",
    }
    TLS_CIPHERSUITES = "tls-ciphersuites" {
        kind: text(),
        default: "\"\"",
        status: EFFECTIVE,
        doc: "Cipher suites to allow in TLS 1.3, separated by colons.",
    }
    TLS_PREFER_SERVER_CIPHERS = "tls-prefer-server-ciphers" {
        kind: Kind::Bool,
        default: "no",
        status: EFFECTIVE,
        doc: "Prefer the server's order of ciphers to the client's.",
    }
    TLS_SESSION_CACHING = "tls-session-caching" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Let clients resume earlier sessions, which saves most of a handshake.",
    }
    TLS_SESSION_CACHE_SIZE = "tls-session-cache-size" {
        kind: int(0, INT_MAX),
        default: "20480",
        status: EFFECTIVE,
        doc: "How many sessions the server remembers. 0 sets no limit.",
    }
    TLS_SESSION_CACHE_TIMEOUT = "tls-session-cache-timeout" {
        kind: int(0, INT_MAX),
        default: "300",
        status: EFFECTIVE,
        doc: "For how many seconds the server remembers a session.",
    }
    TLS_AUTO_RELOAD_INTERVAL = "tls-auto-reload-interval" {
        kind: int(0, INT_MAX),
        default: "0",
        status: EFFECTIVE,
        doc: "Every this many seconds, check whether certificate files have changed, and load \
              them. 0 never checks.",
    }
}
