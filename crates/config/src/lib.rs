//! The configuration of Weft.
//!
//! There is one table of directives, in `table/`: name, older names, the kind
//! of value with its bounds, the default, flags, whether it has an effect, and
//! a paragraph of documentation. From it come the loading of files and command
//! lines, `CONFIG GET`, `CONFIG SET`, `CONFIG REWRITE` with their error
//! messages, and the documented default file `weft.conf`. Adding a directive is
//! adding one entry; the head of `table/mod.rs` shows how.
//!
//! # For the server
//!
//! ```no_run
//! use weft_config::{Cli, Config, Id, cli};
//!
//! let args = match cli::parse(std::env::args_os().skip(1)) {
//!     Cli::Run(args) => args,
//!     Cli::Version => return println!("..."),
//!     Cli::Help => return print!("{}", cli::USAGE),
//!     Cli::CheckAof(words) => return println!("{words:?} ..."),
//!     Cli::CheckRdb(words) => return println!("{words:?} ..."),
//!     Cli::InstallDocs(dir) => return drop(weft_config::install_docs(&dir)),
//! };
//! let config = match Config::load(&args) {
//!     Ok(config) => config,
//!     Err(error) => {
//!         eprintln!("{error}"); // Names file, line and reason.
//!         std::process::exit(1);
//!     }
//! };
//! let port = config.int(Id::PORT); // i64, checked to be 0..=65535
//! let limit = config.memory(Id::MAXMEMORY); // u64, bytes; 0 is none
//! let policy = config.word(Id::MAXMEMORY_POLICY); // &'static str
//! let threads = config.int_or_auto(Id::IO_THREADS); // None is auto
//! for address in config.list(Id::BIND) { /* Vec<u8> */ }
//! for (id, reason) in config.ineffective() {
//!     eprintln!("{} has no effect: {reason}", id.name());
//! }
//! ```
//!
//! Nothing here acts on the process: `dir` is kept as an absolute path and it
//! is for the server to change to it, [`Config::path`] gives absolute paths in
//! any case.
//!
//! # For the CONFIG command
//!
//! ```
//! use weft_config::{Config, Id, Permit, SetError};
//!
//! let mut config = Config::default();
//! let reply = config.get(&[b"max*-policy", b"Port"]); // sorted names, values
//! assert_eq!(reply[0], ("Port".to_string(), b"6379".to_vec()));
//!
//! let permit = Permit { protected: false, loading: false };
//! let pairs: [(&[u8], &[u8]); 1] = [(b"maxmemory", b"1gb")];
//! config
//!     .set(&pairs, permit, &mut |config, changed| {
//!         // Make the new values effective; an error undoes everything.
//!         assert_eq!(changed, [Id::MAXMEMORY]);
//!         assert_eq!(config.memory(Id::MAXMEMORY), 1 << 30);
//!         Ok(())
//!     })
//!     .unwrap();
//!
//! let pairs: [(&[u8], &[u8]); 1] = [(b"maxmemory", b"much")];
//! let refused = config.set(&pairs, permit, &mut |_, _| Ok(())).unwrap_err();
//! assert_eq!(refused, SetError::Refused(
//!     "ERR CONFIG SET failed (possibly related to argument 'maxmemory') - \
//!      argument must be a memory value".into()));
//! ```
//!
//! `id.directive().flags` says which arguments of CONFIG SET are secrets
//! ([`Flags::SENSITIVE`]), and `directive().status` which have no effect yet.

mod checks;
pub mod cli;
mod config;
mod default_file;
mod directive;
mod files;
mod fuzz;
pub mod glob;
mod kind;
mod load;
mod manual;
mod numbers;
mod rewrite;
mod set;
mod special;
mod suggest;
mod table;
pub mod tokens;
mod value;

pub use cli::Cli;
pub use config::Config;
pub use default_file::default_file;
pub use directive::{Directive, Flags, Id, Status};
pub use files::{Disk, Files, NoFiles};
pub use fuzz::fuzz_parse;
pub use kind::{Check, Kind, Reason};
pub use load::{LoadArgs, LoadError, Origin, RenameCommand};
pub use manual::install as install_docs;
pub use numbers::memory;
pub use rewrite::RewriteError;
pub use set::{Apply, Permit, SetError};
pub use value::{
    KeyspaceEvents, OutputBufferLimit, OutputBufferLimits, Primary, SavePoint, Statement, Value,
};
