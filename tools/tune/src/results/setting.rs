//! The two directives that a sweep varies, in the form of grids, results and reports.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// `io-threads` of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum Threads {
    /// A number.
    Count(u32),
    /// Chosen by the server; few servers have this.
    Auto,
}

impl Threads {
    /// The number, if it is one.
    pub fn count(self) -> Option<u32> {
        match self {
            Self::Count(count) => Some(count),
            Self::Auto => None,
        }
    }

    /// `1 thread`, `4 threads`, `auto`.
    pub fn counted(self) -> String {
        match self {
            Self::Count(1) => "1 thread".into(),
            Self::Count(count) => format!("{count} threads"),
            Self::Auto => "auto".into(),
        }
    }
}

impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl FromStr for Threads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(count) => Ok(Self::Count(count)),
            Err(_) if text == "auto" => Ok(Self::Auto),
            Err(_) => Err("a number of threads or auto is expected".into()),
        }
    }
}

/// `io-threads-do-reads` of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum Reads {
    /// The server's own default.
    Own,
    /// `no`.
    Off,
    /// `yes`.
    On,
}

impl fmt::Display for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "own",
            Self::Off => "off",
            Self::On => "on",
        })
    }
}

impl FromStr for Reads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "own" => Ok(Self::Own),
            "off" | "no" => Ok(Self::Off),
            "on" | "yes" => Ok(Self::On),
            _ => Err("own, off or on is expected".into()),
        }
    }
}

/// The written forms of both: a number or a truth value if possible, else a word.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u32),
    Truth(bool),
    Word(String),
}

impl From<Threads> for Written {
    fn from(threads: Threads) -> Self {
        match threads {
            Threads::Count(count) => Self::Number(count),
            Threads::Auto => Self::Word(threads.to_string()),
        }
    }
}

impl TryFrom<Written> for Threads {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Number(count) => Ok(Self::Count(count)),
            Written::Truth(value) => value.to_string().parse(),
            Written::Word(word) => word.parse(),
        }
    }
}

impl From<Reads> for Written {
    fn from(reads: Reads) -> Self {
        match reads {
            Reads::Own => Self::Word(reads.to_string()),
            Reads::Off => Self::Truth(false),
            Reads::On => Self::Truth(true),
        }
    }
}

impl TryFrom<Written> for Reads {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Truth(true) => Ok(Self::On),
            Written::Truth(false) => Ok(Self::Off),
            Written::Number(number) => number.to_string().parse(),
            Written::Word(word) => word.parse(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_reads_back_as_written() {
        for (threads, text) in [(Threads::Count(4), "4"), (Threads::Auto, "\"auto\"")] {
            assert_eq!(serde_json::to_string(&threads).unwrap(), text);
            assert_eq!(serde_json::from_str::<Threads>(text).unwrap(), threads);
        }
        // Earlier files have truth values.
        for (reads, text) in [(Reads::Own, "\"own\""), (Reads::Off, "false"), (Reads::On, "true")] {
            assert_eq!(serde_json::to_string(&reads).unwrap(), text);
            assert_eq!(serde_json::from_str::<Reads>(text).unwrap(), reads);
        }
        assert_eq!(serde_json::from_str::<Reads>("\"yes\"").unwrap(), Reads::On);
        for wrong in ["true", "\"many\"", "-1"] {
            assert!(serde_json::from_str::<Threads>(wrong).is_err(), "{wrong}");
        }
        assert!(serde_json::from_str::<Reads>("1").is_err());
    }

    #[test]
    fn auto_sorts_after_all_numbers() {
        assert!(Threads::Count(1024) < Threads::Auto);
        assert_eq!(
            (Threads::Count(1).counted(), Threads::Auto.counted()),
            ("1 thread".into(), "auto".into())
        );
    }
}
