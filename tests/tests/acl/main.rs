//! Access control lists, compared with the reference: rules, descriptions, what users may do, files.

mod files;
mod rules;
mod table;
