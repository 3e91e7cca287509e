//! How the tools reach a server: [`uri`] reads URIs, [`tls`] makes the client's side of TLS from
//! options. Each tool has its own sockets: a load generator's never block, others wait.

pub mod tls;
pub mod uri;
