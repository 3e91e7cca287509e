//! Restarts of all nodes: same ids, same map, same data.
