//! Tests of the whole type.
