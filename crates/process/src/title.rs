//! The title in `ps`.
//!
//! `/proc/PID/cmdline` is not a copy kept by the kernel but a window onto the process's
//! own memory, where the arguments were put at start, with the environment right after them:
//!
//! ```text
//! arg_start          arg_end = env_start                     env_end
//!  | argv[0] \0 argv[1] \0 ... | NAME=value \0 NAME=value \0 ... |
//! ```
//!
//! Writing there changes the title. The kernel supports titles longer than the arguments: if the
//! last byte of the argument area is not NUL, it continues reading into the environment. So the
//! environment is first copied elsewhere (the C library does that when variables are set anew) and
//! then both areas are one buffer.
//!
//! `/proc/self/stat` has their addresses; arguments that the standard
//! library still points at become parts of the title, so [`Title::take_over`] must
//! come after they have been read.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;

/// Values for the variables of a title template.
#[derive(Clone, Debug, Default)]
pub struct Variables<'a> {
    /// `{title}`: how the program was called.
    pub title: &'a str,
    /// `{listen-addr}`: `*:6379`, `127.0.0.1:6379` or the path of a Unix socket.
    pub listen_addr: &'a str,
    /// `{server-mode}`: `[cluster]`, `[sentinel]` or nothing.
    pub server_mode: &'a str,
    /// `{port}`
    pub port: u16,
    /// `{tls-port}`
    pub tls_port: u16,
    /// `{unixsocket}`
    pub unix_socket: &'a str,
    /// `{config-file}`
    pub config_file: &'a str,
}

impl Variables<'_> {
    fn value(&self, name: &str) -> Option<String> {
        Some(match name {
            "title" => self.title.to_owned(),
            "listen-addr" => self.listen_addr.to_owned(),
            "server-mode" => self.server_mode.to_owned(),
            "port" => self.port.to_string(),
            "tls-port" => self.tls_port.to_string(),
            "unixsocket" => self.unix_socket.to_owned(),
            "config-file" => self.config_file.to_owned(),
            _ => return None,
        })
    }
}

/// A template with its variables replaced, without blanks at its ends. `None` if a
/// brace is not closed or a variable does not exist.
pub fn expand(template: &str, variables: &Variables<'_>) -> Option<String> {
    let mut title = String::new();
    let mut rest = template;
    while let Some((text, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}')?;
        title.push_str(text);
        title.push_str(&variables.value(name)?);
        rest = after;
    }
    title.push_str(rest);
    Some(title.trim_matches(' ').to_owned())
}

/// Whether a template can be used: the check for the `proc-title-template` setting.
pub fn is_valid_template(template: &str) -> bool {
    expand(template, &Variables::default()).is_some()
}

/// The memory that `ps` reads.
#[derive(Debug)]
pub struct Title {
    /// The first byte, and how many there are. The last one stays NUL.
    start: usize,
    length: usize,
}

impl Title {
    /// Moves the environment away and takes the arguments' and environment's old place
    /// for titles.
    ///
    /// # Errors
    /// Those of reading `/proc/self/stat`, or `InvalidData` where it lacks the addresses, as in
    /// some sandboxes; and `OutOfMemory`.
    ///
    /// # Safety
    /// Call it at most once, while no other thread runs, and after the arguments have
    /// been read. Nothing may still hold pointers that C's `getenv` returned.
    pub unsafe fn take_over() -> io::Result<Self> {
        let (start, end) = argument_area(&std::fs::read_to_string("/proc/self/stat")?)
            .ok_or(io::ErrorKind::InvalidData)?;
        let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        // SAFETY: no other thread runs and nothing points into the environment, says
        // the caller.
        unsafe { libc::clearenv() };
        for (name, value) in variables {
            let (Ok(name), Ok(value)) =
                (CString::new(name.into_vec()), CString::new(value.into_vec()))
            else {
                continue;
            };
            // SAFETY: both are NUL-terminated; setenv copies them; no other thread runs.
            if unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self { start, length: end - start })
    }

    /// Shows `title`, cut to the room there is.
    pub fn set(&mut self, title: &str) {
        let Some(room) = self.length.checked_sub(1) else {
            return;
        };
        let shown = &title.as_bytes()[..title.len().min(room)];
        let area = std::ptr::with_exposed_provenance_mut::<u8>(self.start);
        // SAFETY: the kernel reported `length` bytes from `start` as the initial
        // arguments and environment of this process: writable stack memory that lives
        // as long as the process. `take_over` moved the environment, and its caller has
        // read the arguments, so no Rust reference points there; the `&mut self` of
        // the only `Title` excludes other writers.
        unsafe {
            std::ptr::write_bytes(area, 0, self.length);
            std::ptr::copy_nonoverlapping(shown.as_ptr(), area, shown.len());
        }
    }
}

/// Start of the arguments and end of the environment right after them, from
/// `/proc/self/stat`.
fn argument_area(stat: &str) -> Option<(usize, usize)> {
    // Field 2 is the program's name in parentheses and may contain anything, so count from the last
    // closing one: field 3 comes next.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<usize>().ok();
    let (arg_start, arg_end) = (field(48)?, field(49)?);
    let (env_start, env_end) = (field(50)?, field(51)?);
    let known = arg_start != 0 && arg_start < arg_end;
    let adjacent = arg_end == env_start && env_start <= env_end;
    match (known, adjacent) {
        (true, true) => Some((arg_start, env_end)),
        (true, false) => Some((arg_start, arg_end)),
        (false, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates() {
        let variables = Variables {
            title: "weft-server",
            listen_addr: "*:6379",
            server_mode: "",
            port: 6379,
            tls_port: 0,
            unix_socket: "/run/weft.sock",
            config_file: "/etc/weft.conf",
        };
        let shown = |template| expand(template, &variables);
        assert_eq!(
            shown("{title} {listen-addr} {server-mode}").as_deref(),
            Some("weft-server *:6379")
        );
        assert_eq!(
            shown("{port}/{tls-port} {unixsocket} {config-file} end }").as_deref(),
            Some("6379/0 /run/weft.sock /etc/weft.conf end }")
        );
        assert_eq!(shown("").as_deref(), Some(""));
        for template in ["{foo}", "{title", "{}", "{ title}"] {
            assert!(!is_valid_template(template), "{template}");
        }
    }

    #[test]
    fn areas() {
        let stat = |a, b, c, d| {
            // Fields 3 to 47 do not matter here.
            format!("1 (a) b) {}{a} {b} {c} {d} 0", "0 ".repeat(45))
        };
        assert_eq!(argument_area(&stat(100, 200, 200, 300)), Some((100, 300)));
        assert_eq!(argument_area(&stat(100, 200, 250, 300)), Some((100, 200)));
        assert_eq!(argument_area(&stat(0, 0, 0, 0)), None);
        assert_eq!(argument_area("1 (x) R 1"), None);
        assert_eq!(argument_area(""), None);
    }
}
