//! The tables of `docs/scaling.md` are those that the model makes of its inputs.

#[path = "../examples/scaling.rs"]
#[allow(dead_code, reason = "the rest is the command line")]
mod model;

const PAGE: &str = include_str!("../../../docs/scaling.md");
const INPUTS: &str = include_str!("../data/scaling.toml");

#[test]
fn page_has_the_tables_of_the_model() {
    let (_, rest) = PAGE
        .split_once("<!-- begin: cargo run -p weft-tune --example scaling -->\n\n")
        .expect("the mark");
    let (tables, _) = rest.split_once("\n<!-- end -->").expect("the end");
    let made = model::tables(INPUTS);
    assert_eq!(tables, made, "run: cargo run -p weft-tune --example scaling");
}
