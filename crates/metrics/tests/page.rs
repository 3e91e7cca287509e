//! `docs/metrics.md` agrees with the table.

#[test]
fn page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let checked_in = std::fs::read_to_string(path).expect("docs/metrics.md");
    assert!(
        checked_in == weft_metrics::docs::page(),
        "docs/metrics.md is out of date: cargo run -p weft-metrics --example metrics_page > \
         target/metrics.md && mv target/metrics.md docs/metrics.md"
    );
}
