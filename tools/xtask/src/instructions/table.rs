//! The file of counts: the instructions of each request when the file was last written, and the
//! reason.

use std::fmt;

/// Largest difference of a count, in percent, that needs no new file. Counts of the same program
/// differ by far less than one percent.
pub const TOLERANCE: f64 = 3.0;

const HEAD: &str = "\
# User-space instructions of the server for one request, one I/O thread, over a socket.
# Checked by `cargo xtask instructions`; rows are changed by `cargo xtask instructions --write REASON`.
# Counted where the processor has AVX2; without it the C library copies with more of them.
# request\tdepth\tinstructions\treason
";

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    request: String,
    depth: usize,
    count: u64,
    reason: String,
}

/// All rows, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table(Vec<Row>);

impl Table {
    /// Reads the file; the error names the line.
    pub fn parse(text: &str) -> Result<Table, String> {
        let mut rows = Vec::new();
        for (n, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fields: Vec<&str> = line.splitn(4, '\t').collect();
            let row = match fields[..] {
                [request, depth, count, reason] if !reason.trim().is_empty() => {
                    depth.parse().ok().zip(count.parse().ok()).map(|(depth, count)| Row {
                        request: request.to_string(),
                        depth,
                        count,
                        reason: reason.to_string(),
                    })
                }
                _ => None,
            };
            rows.push(row.ok_or_else(|| {
                format!("line {}: not request, depth, instructions and reason", n + 1)
            })?);
        }
        Ok(Table(rows))
    }

    fn position(&self, request: &str, depth: usize) -> Option<usize> {
        self.0.iter().position(|row| row.request == request && row.depth == depth)
    }

    /// The count of a row, if it exists.
    pub fn count(&self, request: &str, depth: usize) -> Option<u64> {
        self.position(request, depth).map(|at| self.0[at].count)
    }

    /// Changes a row, or adds it at the end.
    pub fn set(&mut self, request: &str, depth: usize, count: u64, reason: &str) {
        let reason = reason.replace(['\t', '\n'], " ");
        let row = Row { request: request.to_string(), depth, count, reason };
        match self.position(request, depth) {
            Some(at) => self.0[at] = row,
            None => self.0.push(row),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        for Row { request, depth, count, reason } in &self.0 {
            writeln!(f, "{request}\t{depth}\t{count}\t{reason}")?;
        }
        Ok(())
    }
}

/// The verdict on a count, with its change in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    Same(f64),
    Risen(f64),
    Fallen(f64),
    /// There is no row to compare with.
    New,
}

impl Verdict {
    pub fn of(before: Option<u64>, now: f64) -> Verdict {
        let Some(before) = before else { return Verdict::New };
        let change = (now / before as f64 - 1.0) * 100.0;
        match change {
            c if c > TOLERANCE => Verdict::Risen(c),
            c if c < -TOLERANCE => Verdict::Fallen(c),
            c => Verdict::Same(c),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Same(c) => write!(f, "{c:>+7.2}%"),
            Verdict::Risen(c) => write!(f, "{c:>+7.2}%  TOO MANY"),
            Verdict::Fallen(c) => write!(f, "{c:>+7.2}%  the file may be lowered"),
            Verdict::New => write!(f, "{:>8}  NOT IN THE FILE", ""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let mut table = Table::default();
        table.set("GET", 1, 5000, "first\tmeasured");
        table.set("GET", 16, 900, "first measured");
        table.set("GET", 1, 6000, "slower and better");
        let read = Table::parse(&table.to_string()).unwrap();
        assert_eq!(read, table);
        assert_eq!(read.count("GET", 1), Some(6000));
        assert_eq!(read.count("SET", 1), None);
    }

    #[test]
    fn rows_need_a_reason() {
        assert!(Table::parse("GET\t1\t5000\t").unwrap_err().contains("line 1"));
        assert!(Table::parse("# x\nGET\t1\t5000").unwrap_err().contains("line 2"));
        assert!(Table::parse("GET\tone\t5000\tx").is_err());
    }

    #[test]
    fn change_beyond_the_tolerance_is_reported() {
        assert!(matches!(Verdict::of(Some(1000), 1029.0), Verdict::Same(_)));
        assert!(matches!(Verdict::of(Some(1000), 1031.0), Verdict::Risen(_)));
        assert!(matches!(Verdict::of(Some(1000), 969.0), Verdict::Fallen(_)));
        assert_eq!(Verdict::of(None, 1.0), Verdict::New);
    }
}
