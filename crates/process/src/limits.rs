//! Resource limits: open files and core files.
//!
//! Every client is a file descriptor, so `maxclients` is a promise about
//! `RLIMIT_NOFILE`. At start-up the limit is raised as far as it must and can be, and if
//! that is not enough, `maxclients` is lowered and a warning logged. How far the limit is tried and
//! in which words the outcome is logged follows the reference server, because configuration
//! management greps for it.

use crate::sys::describe;
use crate::{log_notice, log_warning};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;
use std::io;
use weft_base::limits::RESERVED_FDS;

/// Limits that are tried are so far apart, down from the one that is wanted.
const STEP: u64 = 16;

/// The assumed limit if the system does not report it.
const ASSUMED_LIMIT: u64 = 1024;

/// The limit is too low to serve any client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotEnoughFiles {
    /// The limit as it is.
    pub limit: u64,
    /// The limit that the configuration calls for.
    pub wanted: u64,
}

impl fmt::Display for NotEnoughFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, wanted } = self;
        write!(
            f,
            "Your current 'ulimit -n' of {limit} is not enough for the server to start. Please \
             increase your open file limit to at least {wanted}. Exiting."
        )
    }
}

impl std::error::Error for NotEnoughFiles {}

/// Raises the limit of open files for `max_clients` clients, and returns how many clients can
/// really be served. Everything worth knowing is logged. `own`: descriptors that the server takes
/// for itself, in addition to the few of every server.
///
/// # Errors
/// [`NotEnoughFiles`] if not a single client could be served; the caller reports it.
pub fn raise_open_files(max_clients: u32, own: u64) -> Result<u32, NotEnoughFiles> {
    raise_with(max_clients, RESERVED_FDS + own, get_open_files(), set_open_files)
}

fn raise_with(
    max_clients: u32,
    reserved: u64,
    current: io::Result<u64>,
    mut set: impl FnMut(u64) -> io::Result<()>,
) -> Result<u32, NotEnoughFiles> {
    let wanted = u64::from(max_clients) + reserved;
    let old = match current {
        Ok(old) => old,
        Err(error) => {
            log_warning!(
                "Unable to obtain the current NOFILE limit ({}), assuming {ASSUMED_LIMIT} and \
                 setting the max clients configuration accordingly.",
                describe(&error)
            );
            return Ok(max_clients_for(ASSUMED_LIMIT, reserved));
        }
    };
    if old >= wanted {
        return Ok(max_clients);
    }
    let (best, refusal) = best_limit(old, wanted, &mut set);
    if best >= wanted {
        log_notice!(
            "Increased maximum number of open files to {wanted} (it was originally set to {old})."
        );
        return Ok(max_clients);
    }
    if best <= reserved {
        return Err(NotEnoughFiles { limit: old, wanted });
    }
    let reduced = max_clients_for(best, reserved);
    let reason = refusal.map_or_else(String::new, |error| describe(&error));
    log_warning!(
        "You requested maxclients of {max_clients} requiring at least {wanted} max file \
         descriptors."
    );
    log_warning!("Server can't set maximum open files to {wanted} because of OS error: {reason}.");
    log_warning!(
        "Current maximum open files is {best}. maxclients has been reduced to {reduced} to \
         compensate for low ulimit. If you need higher maxclients increase 'ulimit -n'."
    );
    Ok(reduced)
}

/// The highest limit above `old` that the system grants in steps down from `wanted`, or
/// `old`; and its last refusal. O(log(wanted)) calls: a system that grants a limit grants a lower
/// one too.
fn best_limit(
    old: u64,
    wanted: u64,
    set: &mut impl FnMut(u64) -> io::Result<()>,
) -> (u64, Option<io::Error>) {
    let mut refusal = None;
    let mut best = old;
    // Steps down: all before `low` are refused, the one at `high` is granted or not above `old`.
    let (mut low, mut high) = (0, (wanted - old).div_ceil(STEP));
    let mut next = 0;
    while low < high {
        let limit = wanted - next * STEP;
        match set(limit) {
            Ok(()) => (best, high) = (limit, next),
            Err(error) => (refusal, low) = (Some(error), next + 1),
        }
        next = low + (high - low) / 2;
    }
    (best, refusal)
}

fn max_clients_for(limit: u64, reserved: u64) -> u32 {
    u32::try_from(limit.saturating_sub(reserved)).unwrap_or(u32::MAX)
}

fn get_open_files() -> io::Result<u64> {
    Ok(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
}

/// Sets the soft limit, and raises the hard one where that is needed. It is never lowered: a lower
/// hard limit could not be raised again.
fn set_open_files(limit: u64) -> io::Result<()> {
    let hard = getrlimit(Resource::Nofile).maximum;
    let maximum = hard.map(|hard| hard.max(limit));
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum })?)
}

/// Lets a crash leave a core file as large as the hard limit allows, or none at all.
///
/// # Errors
/// Those of `setrlimit`.
pub fn set_core_files(wanted: bool) -> io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Core);
    let current = if wanted { maximum } else { Some(0) };
    Ok(setrlimit(Resource::Core, Rlimit { current, maximum })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system that grants limits up to `hard`.
    fn outcome(max_clients: u32, soft: u64, hard: u64) -> (Result<u32, NotEnoughFiles>, u64) {
        let mut limit = soft;
        let result = raise_with(max_clients, RESERVED_FDS, Ok(soft), |wanted| {
            if wanted > hard {
                return Err(io::Error::from_raw_os_error(libc::EPERM));
            }
            limit = wanted;
            Ok(())
        });
        (result, limit)
    }

    /// The outcomes were observed at the reference server under the same limits.
    #[test]
    fn limits_are_raised_as_far_as_they_go() {
        assert_eq!(outcome(10_000, 1_024, 1 << 20), (Ok(10_000), 10_032));
        assert_eq!(outcome(10_000, 600, 1_000), (Ok(960), 992));
        assert_eq!(outcome(10_000, 10_000, 10_000), (Ok(9_968), 10_000));
        assert_eq!(outcome(5, 40, 40), (Ok(5), 40));
        let error = NotEnoughFiles { limit: 20, wanted: 10_032 };
        assert_eq!(outcome(10_000, 20, 20), (Err(error), 20));
        assert_eq!(
            error.to_string(),
            "Your current 'ulimit -n' of 20 is not enough for the server to start. Please \
             increase your open file limit to at least 10032. Exiting."
        );
        assert_eq!(outcome(1, 0, 10).0, Err(NotEnoughFiles { limit: 0, wanted: 33 }));
        assert_eq!(outcome(u32::MAX, u64::MAX, u64::MAX).0, Ok(u32::MAX));
    }

    #[test]
    fn few_calls_find_the_limit_among_billions() {
        for hard in [1_024, 1_025, 1_039, 1_040, 65_536, 1 << 20, u64::from(u32::MAX) - 1] {
            let mut calls = 0;
            let mut granted = 1_024;
            let wanted = u64::from(u32::MAX);
            let (best, refusal) = best_limit(1_024, wanted, &mut |limit| {
                calls += 1;
                if limit > hard {
                    return Err(io::Error::from_raw_os_error(libc::EPERM));
                }
                granted = limit;
                Ok(())
            });
            assert_eq!(best, granted, "the last limit is the best");
            assert!(best <= hard && (best + STEP > hard || best == 1_024), "{best} of {hard}");
            assert!(refusal.is_some() && calls <= 40, "{calls} calls");
        }
    }

    #[test]
    fn an_unknown_limit_is_assumed_to_be_small() {
        let unknown = Err(io::Error::from_raw_os_error(libc::ENOSYS));
        assert_eq!(raise_with(10_000, RESERVED_FDS, unknown, |_| Ok(())), Ok(992));
    }

    #[test]
    fn the_real_limit_can_be_read_and_small_wishes_are_granted() {
        assert!(get_open_files().unwrap() > 0);
        assert_eq!(raise_open_files(1, 0), Ok(1));
        let hard = getrlimit(Resource::Core).maximum;
        for (wanted, soft) in [(false, Some(0)), (true, hard)] {
            set_core_files(wanted).unwrap();
            assert_eq!(getrlimit(Resource::Core).current, soft);
        }
    }
}
