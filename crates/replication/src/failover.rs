//! FAILOVER: a primary hands its role to a replica that has all data.
//!
//! ```text
//!  No ──FAILOVER──► WaitForSync ──a replica has all data────────► InProgress ──it accepts──► No, a replica now
//!  ▲                 │  writes wait                               │  writes wait
//!  └── ABORT, time ──┘◄────────────── ABORT, it refuses ──────────┘
//! ```

use crate::Ms;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Failover {
    #[default]
    No,
    /// Writes are paused until a replica, or the chosen one, has all data.
    WaitForSync {
        target: Option<(String, i64)>,
        until: Option<Ms>,
        force: bool,
        /// Writes have stopped, and all of them are in the stream.
        paused: bool,
    },
    /// This server has asked the target to take over.
    InProgress { target: (String, i64) },
}

impl Failover {
    /// The state as INFO prints it (`master_failover_state`).
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Failover::No => "no-failover",
            Failover::WaitForSync { .. } => "waiting-for-sync",
            Failover::InProgress { .. } => "failover-in-progress",
        }
    }
}

/// A parsed FAILOVER command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Abort,
    Begin { to: Option<(String, i64)>, force: bool, timeout: Option<Ms> },
}

impl Request {
    /// Parses the arguments of FAILOVER.
    ///
    /// # Errors
    /// The text of the error reply.
    pub fn parse(args: &[&[u8]]) -> Result<Request, String> {
        let syntax = || "ERR syntax error".to_string();
        let number = |text: &[u8]| {
            weft_base::num::parse_i64(text)
                .ok_or("ERR value is not an integer or out of range".to_string())
        };
        if let [word] = args
            && word.eq_ignore_ascii_case(b"abort")
        {
            return Ok(Request::Abort);
        }
        let (mut to, mut force, mut timeout) = (None, false, None);
        let mut rest = args;
        while let [word, more @ ..] = rest {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            match more {
                [ms, more @ ..] if is("timeout") && timeout.is_none() => {
                    let ms = number(ms)?;
                    let ms = u64::try_from(ms).ok().filter(|ms| *ms > 0);
                    timeout = Some(ms.ok_or("ERR FAILOVER timeout must be greater than 0")?);
                    rest = more;
                }
                [host, port, more @ ..] if is("to") && to.is_none() => {
                    to = Some((String::from_utf8_lossy(host).into_owned(), number(port)?));
                    rest = more;
                }
                more if is("force") && !force => {
                    force = true;
                    rest = more;
                }
                _ => return Err(syntax()),
            }
        }
        Ok(Request::Begin { to, force, timeout })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_in_any_order() {
        let parse = |text: &str| {
            let args: Vec<&[u8]> = text.split_whitespace().map(str::as_bytes).collect();
            Request::parse(&args)
        };
        let begin = |to: Option<(&str, i64)>, force, timeout| {
            let to = to.map(|(host, port)| (host.to_string(), port));
            Ok(Request::Begin { to, force, timeout })
        };
        assert_eq!(parse("abort"), Ok(Request::Abort));
        assert_eq!(parse(""), begin(None, false, None));
        assert_eq!(parse("TO h 1 FORCE timeout 5"), begin(Some(("h", 1)), true, Some(5)));
        assert_eq!(parse("timeout 5 to h 1"), begin(Some(("h", 1)), false, Some(5)));
        for (text, error) in [
            ("abort x", "ERR syntax error"),
            ("to h", "ERR syntax error"),
            ("force force", "ERR syntax error"),
            ("timeout 0", "ERR FAILOVER timeout must be greater than 0"),
            ("timeout x", "ERR value is not an integer or out of range"),
            ("to h x", "ERR value is not an integer or out of range"),
        ] {
            assert_eq!(parse(text), Err(error.to_string()), "{text}");
        }
    }
}
