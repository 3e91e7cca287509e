//! A node of a cluster.

mod stress;
