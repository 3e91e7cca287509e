//! `weft-benchmark`: a load generator with the options and the output of redis-benchmark.

use clap::Parser;

/// Puts load on a Redis-like server and reports what it answered, how fast and at what cost.
#[derive(Debug, Parser)]
#[command(name = "weft-benchmark", version)]
struct Cli {}

fn main() {
    let _cli = Cli::parse();
}
