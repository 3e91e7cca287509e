//! x
mod results; mod stats;
fn main(){}
