//! Prints the page on metrics: `cargo run -p weft-metrics --example metrics_page > docs/metrics.md`.

fn main() {
    print!("{}", weft_metrics::docs::page());
}
