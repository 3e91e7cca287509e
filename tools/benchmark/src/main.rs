//! `weft-benchmark`: a load generator with the options and the formats of valkey-benchmark, for any
//! server that speaks the protocol of Redis. By default it prints one table of all tests.
//!
//! ```text
//! options ─► suite (requests) ─────┐
//!                                  ├─► plan ─► run: worker threads ─► outcome ─► result ─► report
//! session (the server) ────────────┘           worker/, one epoll loop each
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`options`] | the command line |
//! | [`suite`], [`template`], [`keys`], [`sizes`] | requests |
//! | [`skipper`], [`verify`] | replies |
//! | [`schedule`] | send times of an open loop |
//! | [`connect`], [`clients`], [`stream`] | connections; TLS and addresses: `weft_connection` |
//! | [`control`], [`session`], [`cluster`] | the server |
//! | [`plan`], [`worker`], [`run`], [`tally`], [`idle`] | the load |
//! | [`fuzz`] | random commands instead of load |
//! | [`cpu`], [`compare`] | CPU time, comparison of two servers |
//! | [`result`], [`report`], [`hdrlog`] | the figures |
//!
//! The exit status is 0 if everything ran, else 1.

mod clients;
mod cluster;
mod compare;
mod connect;
mod control;
mod cpu;
mod fuzz;
mod hdrlog;
mod idle;
mod keys;
mod options;
mod plan;
mod report;
mod result;
mod run;
mod schedule;
mod session;
mod sizes;
mod skipper;
mod stream;
mod suite;
mod tally;
mod tasks;
mod template;
mod verify;
mod worker;

use std::process::ExitCode;

use options::Stop;

fn main() -> ExitCode {
    let options = match options::parse(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(Stop::Print(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(Stop::Wrong(message)) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    match tasks::all(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
