//! CONFIG, INFO, logs, memory limits, DEBUG and COMMAND.

mod command_table;
mod commandlog;
mod config;
mod debug_words;
mod import;
mod info;
mod latency_events;
mod memory;
mod memory_limits;
mod moving_page;
mod protections;
mod renamed_commands;
mod secrets;
mod secure_page;
mod states;
