//! The last of all test programs: prints how many tests could not run here, and why.
//!
//! It is not a test itself. It has no harness, so that its output is visible in every mode, and it
//! is in the package whose name comes last.

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
