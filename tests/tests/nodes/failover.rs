//! Failovers: what was acknowledged stays, and the cluster serves again.
