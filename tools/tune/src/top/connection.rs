//! A connection to the server, and its failures in words.

use std::fmt;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustls::StreamOwned;
use weft_connection::tls;

use super::options::{Place, Target};
use crate::sweep::client::{Client, Refusal, Reply};

/// The timeout of a reply: a server that saves or runs a script may be silent for seconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection that is logged in.
#[derive(Debug)]
pub struct Connection {
    client: Client,
    /// The user, for messages.
    user: String,
    /// Whether the server may be on this machine.
    pub near: Near,
}

/// How near the server is, by the connection alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Near {
    /// On another machine.
    Remote,
    /// Both ends have the same address. A port of a container looks like this, too.
    SameAddress,
    /// The process at the other end of a Unix socket.
    Process(u32),
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// There is no connection, or no longer.
    Lost(String),
    /// The server refuses a command or a login.
    Refused(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Trouble::Lost(words) | Trouble::Refused(words)) = self;
        f.write_str(words)
    }
}

impl std::error::Error for Trouble {}

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// If the server can't be reached, or rejects the login.
    pub fn open(target: &Target) -> Result<Connection, Trouble> {
        let lost = |e: io::Error| {
            Trouble::Lost(format!("can't connect to {}: {}", target.place, tls::words(&e)))
        };
        let (client, near) = connect(target).map_err(lost)?;
        let user = target.user.clone().unwrap_or_else(|| "default".into());
        let mut connection = Connection { client, user, near };
        if let Some(password) = &target.password {
            let login = match &target.user {
                Some(user) => vec!["AUTH", user, password],
                None => vec!["AUTH", password],
            };
            connection.ask(&login)?;
        }
        Ok(connection)
    }

    /// Sends a command.
    ///
    /// # Errors
    /// In words that say what to do. They contain no argument: it may be a password.
    pub fn ask(&mut self, words: &[&str]) -> Result<Reply, Trouble> {
        self.client.ask(words).map_err(|error| {
            let command = words.first().copied().unwrap_or_default();
            match error.root_cause().downcast_ref::<Refusal>() {
                Some(Refusal(reply)) => Trouble::Refused(explain(command, reply, &self.user)),
                None => Trouble::Lost(lost(error.root_cause())),
            }
        })
    }
}

fn lost(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            format!("no reply within {} s", PATIENCE.as_secs())
        }
        _ => format!("connection lost: {error}"),
    }
}

/// A refusal, with its remedy.
fn explain(command: &str, reply: &str, user: &str) -> String {
    match reply.split(' ').next().unwrap_or_default() {
        "NOAUTH" => "the server requires a login: give --password, and --user if it isn't \
                     'default'"
            .into(),
        "WRONGPASS" => format!("the server rejects the login of user '{user}': {reply}"),
        "NOPERM" => format!(
            "the server doesn't permit {command} to user '{user}'; an administrator permits it by \
             ACL SETUSER {user} +info +ping"
        ),
        _ => format!("the server refuses {command}: {reply}"),
    }
}

fn connect(target: &Target) -> io::Result<(Client, Near)> {
    match &target.place {
        Place::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            let pid = socket_peercred(&stream).ok().map(|peer| peer.pid.as_raw_nonzero().get());
            let near = pid.and_then(|pid| u32::try_from(pid).ok());
            Ok((Client::over(stream), near.map_or(Near::SameAddress, Near::Process)))
        }
        Place::Tcp(host, port) => {
            let stream = connect_tcp(host, *port)?;
            let near = match (stream.local_addr()?.ip(), stream.peer_addr()?.ip()) {
                (here, there) if here == there => Near::SameAddress,
                _ => Near::Remote,
            };
            let client = match &target.tls {
                None => Client::over(stream),
                Some(tls) => Client::over(handshake(tls, stream)?),
            };
            Ok((client, near))
        }
    }
}

/// The first address of a host that accepts.
fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                return Ok(stream);
            }
            Err(e) => failure = e,
        }
    }
    Err(failure)
}

fn handshake(
    tls: &tls::Tls,
    mut stream: TcpStream,
) -> io::Result<StreamOwned<rustls::ClientConnection, TcpStream>> {
    let mut session = tls.session()?;
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(session, stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_to_do() {
        let words = explain("INFO", "NOPERM User app has no permissions to run 'info'", "app");
        assert!(words.contains("INFO to user 'app'") && words.contains("+info +ping"), "{words}");
        assert!(explain("INFO", "NOAUTH Authentication required.", "x").contains("--password"));
        let wrong = explain("AUTH", "WRONGPASS invalid username-password pair", "app");
        assert!(wrong.contains("login of user 'app'"), "{wrong}");
        assert!(explain("INFO", "ERR unknown", "x").ends_with("refuses INFO: ERR unknown"));
    }

    #[test]
    fn silence_is_distinguished_from_an_end() {
        let silent = io::Error::from(io::ErrorKind::WouldBlock);
        assert_eq!(lost(&silent), "no reply within 5 s");
        assert!(lost(&io::Error::from(io::ErrorKind::BrokenPipe)).starts_with("connection lost: "));
    }
}
