//! The options that name a server, under the names that `weft-benchmark` and valkey-cli give them.

use std::fmt;
use std::path::PathBuf;

use rustls::pki_types::ServerName;
use weft_connection::tls::{Suites, Tls, TlsOptions};
use weft_connection::uri;

use crate::password;

/// The server, by the command line.
#[derive(Clone, Debug, clap::Args)]
pub struct ServerArgs {
    /// Server hostname
    #[arg(long, value_name = "HOSTNAME", default_value = "127.0.0.1")]
    host: String,

    /// Server port
    #[arg(short, long, default_value_t = 6379)]
    port: u16,

    /// Server socket (overrides host and port)
    #[arg(short, long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Password; the variable VALKEYCLI_AUTH or REDISCLI_AUTH may hold it instead
    #[arg(short = 'a', long)]
    password: Option<String>,

    /// User of the password
    #[arg(long, value_name = "USERNAME")]
    user: Option<String>,

    /// Server URI: valkey://user:password@host:port; valkeys:// is TLS
    #[arg(short, long)]
    uri: Option<String>,

    /// Use TLS
    #[arg(long)]
    tls: bool,

    /// Name that is sent to the server (SNI)
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,

    /// File with the certificates to verify the server with [default: those of the system]
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,

    /// Folder with such certificates
    #[arg(long, value_name = "DIR")]
    cacertdir: Option<PathBuf>,

    /// Don't verify the server's certificate
    #[arg(long)]
    insecure: bool,

    /// Certificate of this client
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,

    /// Key of this client
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

/// The place of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Host and port.
    Tcp(String, u16),
    /// The path of a socket.
    Unix(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Place::Tcp(host, port) => write!(f, "{host}:{port}"),
            Place::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A server to connect to.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where it is.
    pub place: Place,
    /// The user; `default` without a name.
    pub user: Option<String>,
    /// The password; without one nothing is sent.
    pub password: Option<String>,
    /// TLS, if asked for.
    pub tls: Option<Tls>,
}

impl ServerArgs {
    /// Checks the options; a URI overrides the others.
    ///
    /// # Errors
    /// If a value is invalid, or a certificate can't be used.
    pub fn resolve(self) -> Result<Target, String> {
        let uri = self.uri.as_deref().map(uri::parse).transpose()?.unwrap_or_default();
        let tls = (self.tls || uri.tls).then(|| self.tls()).transpose()?;
        let place = match self.socket {
            Some(path) => Place::Unix(path),
            None => Place::Tcp(uri.host.unwrap_or(self.host), uri.port.unwrap_or(self.port)),
        };
        let password = uri.password.or(self.password).or_else(password::from_environment);
        Ok(Target { place, user: uri.user.or(self.user), password, tls })
    }

    fn tls(&self) -> Result<Tls, String> {
        let name = |name: &String| {
            ServerName::try_from(name.clone())
                .map_err(|e| format!("--sni: {name:?} is not the name of a host: {e}"))
        };
        Tls::new(&TlsOptions {
            sni: self.sni.as_ref().map(name).transpose()?,
            ca_file: self.cacert.clone(),
            ca_dir: self.cacertdir.clone(),
            insecure: self.insecure,
            identity: self.cert.clone().zip(self.key.clone()),
            suites: Suites::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        server: ServerArgs,
    }

    fn resolve(words: &[&str]) -> Result<Target, String> {
        Line::parse_from([&["top"], words].concat()).server.resolve()
    }

    #[test]
    fn place_comes_from_socket_uri_or_options() {
        let place = |words: &[&str]| resolve(words).unwrap().place.to_string();
        assert_eq!(place(&[]), "127.0.0.1:6379");
        assert_eq!(place(&["--host", "::1", "-p", "7"]), "[::1]:7");
        assert_eq!(place(&["-p", "7", "-u", "valkey://box"]), "box:7");
        assert_eq!(place(&["-s", "/tmp/sock", "-u", "valkey://box"]), "/tmp/sock");
    }

    #[test]
    fn uri_overrides_user_and_password() {
        let target = resolve(&["-a", "one", "--user", "me", "-u", "redis://you:two@box"]).unwrap();
        assert_eq!(
            (target.user.as_deref(), target.password.as_deref()),
            (Some("you"), Some("two"))
        );
        assert!(resolve(&["--tls", "--cacert", "/none"]).unwrap_err().starts_with("Invalid CA"));
        assert!(resolve(&["--tls", "--insecure"]).unwrap().tls.is_some());
    }
}
