//! The state that all threads of the server share, and the messages between them.
//!
//! This crate knows data and their locks; it executes nothing. The crates above it (`executor`, `durability`,
//! `replication-driver`, `admin`, `io`) act on it.
//!
//! * [`server`] - [`Server`](server::Server), one per process, made of [`server_parts`] and the parts below
//! * [`time`] (with [`ticks`]), [`configuration`], [`process_state`], [`statistics`] - the largest of them
//! * [`settings`], [`aof_policy`] - the configuration in the form that the fast path reads
//! * [`conn`], [`session`] - a connection and its client; [`args`], [`ahead`], [`packed_requests`], [`held`],
//!   [`held_back`]: the parts of a connection
//! * [`attempt`] - the history of a request that is executed more than once
//! * [`mailbox`] - messages to an I/O thread, each declared with its subject: [`push`], [`conn`], [`waiting`],
//!   [`slow_lane`], [`feed`]; [`offload`]: jobs for threads that share the load
//! * [`clients`] - facts about clients that any thread may read
//! * [`command_table`] - commands by name; [`queued`]: MULTI and WATCH; [`asked_slot`]: the hash slot of a request; [`redact`]: arguments that logs hide
//! * [`waiting`] - clients that are blocked on keys; [`slow_lane`]: queues of long commands
//! * [`saves`], [`saving`], [`snapshot_waits`], [`replication_status`], [`feed`], [`replica_socket`]: persistence and
//!   replication as other threads see them
//! * [`stats`] (with [`counter`]), [`slot_stats`], [`latency`], [`commandlog`], [`info_state`], [`hot_keys`]: counters and
//!   their history
//! * [`attention`] - bits that a thread reads once per command; [`pause`]: CLIENT PAUSE and its kin
//! * [`threads`] - I/O threads and their mailboxes; [`crowd`], [`post`]: messages that wait for a thread; [`inquiry`]: a question to all
//! * [`cluster`] - the map of the cluster, and the routes that follow from it; [`authority`]: until when this node may
//!   acknowledge
//! * [`node_links`] - links between the nodes of a cluster
//! * [`tls`] - certificates and keys in use
//! * [`version`] - version and commit of this build

pub mod access;
pub mod acting;
pub mod ahead;
pub mod answers;
pub mod aof_policy;
pub mod args;
pub mod asked_slot;
pub mod attempt;
pub mod attention;
pub mod authority;
pub mod bio;
pub mod client_line;
pub mod clients;
pub mod cluster;
pub mod command_table;
pub mod commandlog;
pub mod configuration;
pub mod conn;
pub mod counter;
pub mod crowd;
pub mod defrag_state;
pub mod feed;
pub mod held;
pub mod held_back;
pub mod hot_keys;
pub mod info_state;
pub mod inquiry;
pub mod latency;
pub mod listening;
pub mod logged;
pub mod mailbox;
pub mod node_links;
pub mod nodes_file;
pub mod offload;
pub mod packed_requests;
pub mod pause;
pub mod post;
pub mod process_state;
pub mod push;
pub mod queued;
pub mod redact;
pub mod replica_socket;
pub mod replication_status;
pub mod saves;
pub mod saving;
pub mod server;
pub mod server_parts;
pub mod session;
pub mod settings;
pub mod slot_stats;
pub mod slow_lane;
pub mod snapshot_waits;
pub mod statistics;
pub mod stats;
pub mod stop_state;
pub mod texts;
pub mod threads;
pub mod ticks;
pub mod time;
pub mod tls;
pub mod unauthenticated;
pub mod upkeep;
mod user_lines;
pub mod version;
pub mod waiting;
