//! Prints the documented default file:
//! `cargo run -p weft-config --example default_file > weft.conf`

fn main() {
    print!("{}", weft_config::default_file());
}
