//! A server of the comparison, and connections to it.

use std::io;
use std::time::Duration;
use weft_testkit::client::Client;

/// The time after which a reply counts as missing.
const PATIENCE: Duration = Duration::from_secs(15);

/// A server of the comparison.
#[derive(Clone, Debug)]
pub struct Target {
    /// For messages: `weft`, `valkey`.
    pub name: String,
    /// The port on 127.0.0.1.
    pub port: u16,
}

/// Connects, with a timeout for each reply.
///
/// # Errors
/// If the server can't be reached.
pub fn connect(target: &Target) -> io::Result<Client> {
    let mut client = Client::try_tcp(target.port)?;
    client.set_timeout(PATIENCE);
    Ok(client)
}
