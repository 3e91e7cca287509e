//! Cluster mode: one node, compared with a cluster of one Valkey node.

mod busy;
mod commands;
mod lease;
mod lease_stress;
mod moves;
mod moves_given_up;
mod quorum;
mod restart;
mod slot_stats;
mod slots;
mod stress;
