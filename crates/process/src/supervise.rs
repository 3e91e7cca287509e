//! Notifications to a supervisor.
//!
//! systemd gives its services the address of a datagram socket in `NOTIFY_SOCKET` and
//! expects lines of `KEY=value` there: `READY=1`, `STOPPING=1`, `STATUS=text`. That
//! is the whole protocol (`sd_notify(3)`), so no library is needed for it. upstart, long
//! gone but still in configuration files, wants the process to stop itself once it has
//! started.

use crate::{log_notice, log_warning};
use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The `supervised` setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No supervisor.
    No,
    /// The supervisor whose variable is in the environment.
    Auto,
    /// systemd, by `NOTIFY_SOCKET`.
    Systemd,
    /// upstart, by `UPSTART_JOB`.
    Upstart,
}

/// The supervisor of this process.
#[derive(Debug)]
pub enum Supervisor {
    /// None.
    None,
    /// systemd, reached through this socket.
    Systemd(Notifier),
    /// upstart; it needs no further notification.
    Upstart,
}

impl Supervisor {
    /// Finds the supervisor and notifies it that the server is starting. For upstart this stops the
    /// process until it is continued.
    ///
    /// A supervisor that was asked for but is not there is logged and then ignored.
    pub fn start(mode: Mode) -> Self {
        Self::start_with(mode, |name| std::env::var_os(name))
    }

    fn start_with(mode: Mode, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let socket = variable("NOTIFY_SOCKET");
        let job = variable("UPSTART_JOB");
        let (found, what) = match (mode, &job, &socket) {
            (Mode::No, _, _) | (Mode::Auto, None, None) => return Supervisor::None,
            (Mode::Auto, Some(_), _) => (Mode::Upstart, Some("Upstart")),
            (Mode::Auto, None, Some(_)) => (Mode::Systemd, Some("Systemd")),
            (Mode::Systemd | Mode::Upstart, _, _) => (mode, None),
        };
        if let Some(name) = what {
            log_notice!("{name} supervision detected.");
        }
        match (found, socket) {
            (Mode::Systemd, Some(socket)) => start_systemd(socket),
            (Mode::Systemd, None) => {
                log_warning!("systemd supervision error: NOTIFY_SOCKET not found!");
                Supervisor::None
            }
            (Mode::Upstart | Mode::No | Mode::Auto, _) => start_upstart(job.is_some()),
        }
    }

    /// The server accepts connections.
    pub fn ready(&self) {
        self.tell("STATUS=Ready to accept connections\nREADY=1\n");
    }

    /// The server has begun to shut down.
    pub fn stopping(&self) {
        self.tell("STOPPING=1\n");
    }

    /// The server's activity, for `systemctl status`; one line.
    pub fn status(&self, text: &str) {
        self.tell(&format!("STATUS={}\n", text.replace('\n', " ")));
    }

    /// The name in `INFO`: `no`, `systemd` or `upstart`.
    pub fn name(&self) -> &'static str {
        match self {
            Supervisor::None => "no",
            Supervisor::Systemd(_) => "systemd",
            Supervisor::Upstart => "upstart",
        }
    }

    fn tell(&self, message: &str) {
        match self {
            Supervisor::Systemd(notifier) => {
                if let Err(error) = notifier.send(message) {
                    let code = error.raw_os_error().unwrap_or(0);
                    log_warning!("systemd supervision error: sd_notify: {}", -code);
                }
            }
            Supervisor::None | Supervisor::Upstart => {}
        }
    }
}

fn start_systemd(socket: OsString) -> Supervisor {
    let supervisor = Supervisor::Systemd(Notifier { address: socket });
    log_notice!(
        "Supervised by systemd. Please make sure you set appropriate values for \
         TimeoutStartSec and TimeoutStopSec in your service unit."
    );
    supervisor.status("Weft is loading...");
    supervisor
}

fn start_upstart(is_job: bool) -> Supervisor {
    if !is_job {
        log_warning!("upstart supervision requested, but UPSTART_JOB not found!");
        return Supervisor::None;
    }
    log_notice!("supervised by upstart, will stop to signal readiness.");
    // SAFETY: raise has no preconditions.
    unsafe { libc::raise(libc::SIGSTOP) };
    Supervisor::Upstart
}

/// Where systemd listens: a path, or an abstract name written with a leading `@`.
#[derive(Debug)]
pub struct Notifier {
    address: OsString,
}

impl Notifier {
    /// Sends one message. Never waits: a supervisor that does not read loses it.
    fn send(&self, message: &str) -> io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        let address = match self.address.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
        };
        socket.send_to_addr(message.as_bytes(), &address).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn systemd_at(address: &std::ffi::OsStr, mode: Mode) -> Supervisor {
        Supervisor::start_with(mode, |name| (name == "NOTIFY_SOCKET").then(|| address.to_owned()))
    }

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn systemd_hears_of_every_stage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        for mode in [Mode::Auto, Mode::Systemd] {
            let supervisor = systemd_at(path.as_os_str(), mode);
            assert_eq!(supervisor.name(), "systemd");
            assert_eq!(received(&socket), "STATUS=Weft is loading...\n");
            supervisor.ready();
            assert_eq!(received(&socket), "STATUS=Ready to accept connections\nREADY=1\n");
            supervisor.status("two\nlines");
            assert_eq!(received(&socket), "STATUS=two lines\n");
            supervisor.stopping();
            assert_eq!(received(&socket), "STOPPING=1\n");
        }
    }

    #[test]
    fn abstract_addresses() {
        let name = format!("weft-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        let supervisor = systemd_at(format!("@{name}").as_ref(), Mode::Systemd);
        assert_eq!(received(&socket), "STATUS=Weft is loading...\n");
        drop(socket);
        supervisor.ready(); // The socket is closed, which is only logged.
    }

    #[test]
    fn absent_supervisors_are_none() {
        for mode in [Mode::No, Mode::Auto, Mode::Systemd, Mode::Upstart] {
            assert_eq!(Supervisor::start_with(mode, |_| None).name(), "no", "{mode:?}");
        }
        assert_eq!(Supervisor::start_with(Mode::No, |_| Some("x".into())).name(), "no");
    }
}
