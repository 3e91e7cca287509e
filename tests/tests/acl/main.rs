//! Access control lists, compared with the reference: rules, descriptions, what users may do, files. No password appears anywhere.

mod files;
mod rules;
mod secrets;
mod table;
