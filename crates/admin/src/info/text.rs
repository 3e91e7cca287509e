//! The text of INFO: titles, `name:value` lines, and human-readable numbers.

use std::fmt::{Display, Write};

/// A growing INFO reply.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// Starts a section, with a blank line after the previous one.
    pub fn section(&mut self, title: &str) {
        if !self.0.is_empty() {
            self.0.push_str("\r\n");
        }
        self.begin("# ");
        self.push(title);
        self.end();
    }

    /// One line.
    pub fn field(&mut self, name: &str, value: impl Display) {
        self.begin(name);
        self.push(":");
        // Writing to a String can't fail.
        let _ = write!(self.0, "{value}");
        self.end();
    }

    /// Starts a line that is written in pieces. This avoids `fmt`, since there are many lines for
    /// commands and databases.
    pub fn begin(&mut self, start: &str) {
        self.push(start);
    }

    /// Appends to the line.
    pub fn push(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// Appends a number.
    pub fn int(&mut self, n: impl itoa::Integer) {
        self.0.push_str(itoa::Buffer::new().format(n));
    }

    /// Appends `n / 10^places`, with `places` decimals.
    pub fn decimal(&mut self, n: u64, places: u32) {
        let unit = 10u64.pow(places);
        self.int(n / unit);
        self.push(".");
        let fraction = n % unit;
        (1..places).filter(|place| fraction < 10u64.pow(*place)).for_each(|_| self.0.push('0'));
        self.int(fraction);
    }

    /// Ends the line.
    pub fn end(&mut self) {
        self.push("\r\n");
    }

    /// A field with two decimals.
    pub fn hundredths(&mut self, name: &str, value: f64) {
        self.field(name, format_args!("{value:.2}"));
    }

    /// A field in bytes, and a second line `name_human` like `1.50M`.
    pub fn bytes(&mut self, name: &str, bytes: u64) {
        self.field(name, bytes);
        self.begin(name);
        self.push("_human:");
        self.push(&human(bytes));
        self.end();
    }

    /// Several fields that are all 0: counters of events that can't happen here.
    pub fn zeros(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.field(name, 0));
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

/// Bytes as `512B`, `1.50K`, `2.00G`.
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64 / 1024.0;
    for unit in UNITS {
        if value < 1024.0 {
            return format!("{value:.2}{unit}");
        }
        value /= 1024.0;
    }
    // More than an exbibyte. No machine has that much, but the number must be right.
    format!("{bytes}B")
}

/// `part` of `whole` in percent; 100 when `whole` is zero.
pub fn percent(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 100.0 } else { part * 100.0 / whole }
}

/// `whole / part`; 1 when either is zero.
pub fn ratio(whole: u64, part: u64) -> f64 {
    if whole == 0 || part == 0 { 1.0 } else { whole as f64 / part as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_separated() {
        let mut text = Text::default();
        text.section("A");
        text.field("x", 1);
        text.section("B");
        text.bytes("y", 1536);
        assert_eq!(text.into_string(), "# A\r\nx:1\r\n\r\n# B\r\ny:1536\r\ny_human:1.50K\r\n");
    }

    #[test]
    fn decimals() {
        let mut text = Text::default();
        for n in [0, 7, 70, 700, 1234, 12_000] {
            text.decimal(n, 3);
            text.push(" ");
        }
        assert_eq!(text.into_string(), "0.000 0.007 0.070 0.700 1.234 12.000 ");
    }

    #[test]
    fn human_numbers() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (941448, "919.38K"),
            (25276514304, "23.54G"),
            (3 << 50, "3.00P"),
        ] {
            assert_eq!(human(bytes), text);
        }
        assert_eq!(human(u64::MAX), "18446744073709551615B");
    }
}
