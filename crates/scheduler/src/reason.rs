//! Why the number of active I/O threads changes, in words for people.

use std::fmt;

/// The reason for a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// More threads are active than `io-threads` allows now.
    Configured,
    /// The threads had almost no idle time: more of them are tried. The mean pressure.
    Busy(f64),
    /// Fewer threads have been enough for some seconds. The sum of the pressures.
    Idle(f64),
    /// Fewer threads are tried, since they may serve as much. The mean pressure.
    MaySuffice(f64),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Configured => f.write_str("io-threads was lowered"),
            Reason::Busy(mean) => write!(
                f,
                "threads were busy {:.0} % of the time: measuring whether more of them serve more",
                100.0 * mean
            ),
            Reason::Idle(total) => {
                write!(f, "all threads together had work for {total:.2} CPUs: fewer are enough")
            }
            Reason::MaySuffice(mean) => write!(
                f,
                "threads were busy {:.0} % of the time: measuring whether fewer serve as much",
                100.0 * mean
            ),
        }
    }
}
