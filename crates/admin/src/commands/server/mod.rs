//! The server commands.

mod apply;
mod config;
mod debug;
pub mod derived;
mod info;
mod latency;
mod latency_report;
mod lolwut;
mod memory;
mod memory_report;
mod module;
mod rewrite;
mod save;
mod shutdown;
mod slowlog;
mod time;
mod waitaof;

pub use config::stay_off;

use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_keyspace::{Db, Key};

/// The commands of this group.
pub const COMMANDS: &[&ServerCommand] = &[
    &save::BGSAVE,
    &slowlog::COMMANDLOG,
    &config::CONFIG,
    &debug::DEBUG,
    &info::INFO,
    &time::LASTSAVE,
    &latency::LATENCY,
    &lolwut::LOLWUT,
    &memory::MEMORY,
    &module::MODULE,
    &rewrite::BGREWRITEAOF,
    &save::SAVE,
    &shutdown::SHUTDOWN,
    &slowlog::SLOWLOG,
    &time::TIME,
    &waitaof::WAITAOF,
];

/// Runs `look` on a key of the client's database. The command's needs include the key's shard.
fn with_key<T>(
    cx: &mut ConnCx<'_>,
    name: &[u8],
    look: impl FnOnce(&mut Db<'_>, &Key<'_>) -> T,
) -> T {
    let key = cx.srv().ks.key(name);
    look(&mut Db::new(cx.guard(), &mut cx.core.context, cx.session.db), &key)
}
