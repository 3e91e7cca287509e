//! Writes the seeds of the fuzz target `tls`.
//!
//! `cargo run -p weft-tls --features testing --example tls_seeds -- fuzz/corpus/tls`

fn main() -> std::io::Result<()> {
    let folder = std::path::PathBuf::from(std::env::args().nth(1).expect("a folder"));
    std::fs::create_dir_all(&folder)?;
    for (name, bytes) in weft_tls::fuzz::seeds() {
        std::fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}
