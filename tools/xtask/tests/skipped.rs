//! The last of all test programs: says how many tests could not run here, and why.
//!
//! No test itself. It has no harness, so that what it prints is seen in every mode, and it is in
//! the package whose name comes last.

fn main() {
    let skipped = weft_testkit::skipped::take();
    let sum: usize = skipped.values().sum();
    if sum == 0 {
        return println!("\nno test was skipped");
    }
    println!("\n{sum} tests were skipped or ran in part:");
    for (why, tests) in skipped {
        println!("{tests:5}  {why}");
    }
    println!("       .ci/peers installs the servers to compare with (see README.md)");
}
