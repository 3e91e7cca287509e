//! The process as the operating system sees it: its log, its signals, its limits, its title, its
//! supervisor, and its crash report.
//!
//! None of this knows about commands, keys or connections. It is what any daemon on
//! Linux needs, with the log lines and conventions that operators of Redis-compatible
//! servers have built their tooling around.
//!
//! | module | holds |
//! |---|---|
//! | [`log`] | levels, line formats, file, stdout and syslog |
//! | [`daemon`], [`pidfile`] | detaching from the terminal |
//! | [`supervise`] | systemd and upstart |
//! | [`title`] | the title in `ps` |
//! | [`limits`] | file descriptors and core files |
//! | [`memory_policy`] | the out-of-memory killer and huge pages |
//! | [`signals`] | graceful shutdown |
//! | [`crash`] | reports of crashes and panics |
//! | [`errors`] | errors as the log shows them |
//! | [`stats`] | memory and CPU time used, for `INFO` |
//!
//! `unsafe` stands here for system calls that have no safe form in the standard
//! library, each with its proof.

pub mod crash;
pub mod daemon;
pub mod errors;
pub mod limits;
pub mod log;
pub mod memory_policy;
pub mod pidfile;
pub mod signals;
pub mod stats;
pub mod supervise;
mod sys;
pub mod title;
