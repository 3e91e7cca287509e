//! Tests of the cluster store: one contract for all implementations, and the faults of each.

mod contract;
mod etcd;
mod fake;
mod memory;
mod network;
