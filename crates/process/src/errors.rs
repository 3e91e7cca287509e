//! Errors of the operating system, as log lines and replies show them.

/// The reason why the server did not start or a file was not read; each line is a line of the log.
pub type Failure = String;

/// The text of an error without the number that the standard library adds.
pub fn words(e: &std::io::Error) -> String {
    let text = e.to_string();
    text.split(" (os error").next().unwrap_or_default().to_string()
}
