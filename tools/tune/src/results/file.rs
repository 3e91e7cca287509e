//! Reads results files, including damaged ones.
//!
//! A file that grew by appending can be damaged in one expected way: a power failure or a full disk
//! cuts its last line. That line is dropped with a remark, and everything before it is valid. An
//! invalid line elsewhere (an editor, a bad disk) is dropped with a remark too; its cell counts as
//! never run. Nothing is dropped silently, and without a complete header the file is refused.

use anyhow::{Context, Result, bail, ensure};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::model::{Cell, FORMAT, Header, Key, Line};

/// An experiment with its recorded cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Its source, for people.
    pub source: String,
    /// Its conditions.
    pub header: Header,
    /// One for each cell that was run, in the order of their first runs.
    pub cells: Vec<Cell>,
    /// Damage of the file.
    pub remarks: Vec<String>,
}

impl Sweep {
    /// Reads a results file.
    ///
    /// # Errors
    /// If it can't be read, is not a results file, or has a newer format.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let contents = parse(&bytes).with_context(|| path.display().to_string())?;
        let name = path.file_name().unwrap_or(path.as_os_str());
        Ok(Self {
            source: name.to_string_lossy().into_owned(),
            header: contents.header,
            cells: contents.cells,
            remarks: contents.damage.iter().map(Damage::to_string).collect(),
        })
    }
}

/// The content of a file.
#[derive(Debug)]
pub struct Contents {
    /// The first line.
    pub header: Header,
    /// The last record of each cell, in the order of their first records.
    pub cells: Vec<Cell>,
    /// Length in bytes up to the last complete line.
    pub whole: u64,
    /// The dropped lines.
    pub damage: Vec<Damage>,
}

/// A line that was dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct Damage {
    /// From 1.
    pub line: usize,
    /// Whether it is the last one and has no end, as after a power failure.
    pub cut: bool,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.cut {
            write!(f, "line {}, the last, is cut in half: its cell counts as not run", self.line)
        } else {
            write!(f, "line {} is damaged: its cell counts as not run", self.line)
        }
    }
}

/// Whether a file with these bytes has no data yet: it is empty, or its header was cut.
pub fn has_no_data(bytes: &[u8]) -> bool {
    const START: &[u8] = b"{\"header\":";
    let shared = bytes.len().min(START.len());
    bytes[..shared] == START[..shared] && !bytes.contains(&b'\n')
}

/// Parses the bytes of a file.
///
/// # Errors
/// If there is no complete header or it has a newer format.
pub fn parse(bytes: &[u8]) -> Result<Contents> {
    ensure!(!bytes.is_empty(), "the file is empty");
    ensure!(!has_no_data(bytes), "the header is cut in half: no cell was recorded");
    let mut header = None;
    let mut cells: Vec<Cell> = Vec::new();
    let mut places: HashMap<Key, usize> = HashMap::new();
    let (mut damage, mut whole) = (Vec::new(), 0);
    for (i, line) in bytes.split_inclusive(|&b| b == b'\n').enumerate() {
        let parsed = line.strip_suffix(b"\n").map(serde_json::from_slice::<Line>);
        whole += if parsed.is_some() { line.len() as u64 } else { 0 };
        match parsed {
            Some(Ok(Line::Header(first))) if i == 0 => header = Some(checked(*first)?),
            _ if i == 0 => bail!("is not a results file: it does not begin with a header"),
            Some(Ok(Line::Cell(cell))) => match places.get(&cell.key) {
                Some(&at) => cells[at] = *cell,
                None => {
                    places.insert(cell.key.clone(), cells.len());
                    cells.push(*cell);
                }
            },
            Some(Ok(Line::Header(_)) | Err(_)) => damage.push(Damage { line: i + 1, cut: false }),
            None => damage.push(Damage { line: i + 1, cut: true }),
        }
    }
    let header = header.context("is not a results file: it does not begin with a header")?;
    Ok(Contents { header, cells, whole, damage })
}

fn checked(header: Header) -> Result<Header> {
    ensure!(
        header.format <= FORMAT,
        "was recorded in format {}, this program knows formats up to {FORMAT}",
        header.format
    );
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::published;
    use proptest::prelude::*;

    fn bytes_of(sweep: &Sweep, cells: usize) -> Vec<u8> {
        let mut text =
            serde_json::to_string(&Line::Header(Box::new(sweep.header.clone()))).unwrap();
        for cell in &sweep.cells[..cells] {
            text += "\n";
            text += &serde_json::to_string(&Line::Cell(Box::new(cell.clone()))).unwrap();
        }
        (text + "\n").into_bytes()
    }

    fn some() -> (Sweep, Vec<u8>) {
        let sweep = published::sweeps().swap_remove(0);
        let bytes = bytes_of(&sweep, 20);
        (sweep, bytes)
    }

    #[test]
    fn a_whole_file_reads_back() {
        let (sweep, bytes) = some();
        let contents = parse(&bytes).unwrap();
        assert_eq!(contents.header, sweep.header);
        assert_eq!(contents.cells, sweep.cells[..20]);
        assert_eq!((contents.whole, contents.damage.len()), (bytes.len() as u64, 0));
    }

    #[test]
    fn a_line_that_makes_no_sense_costs_itself_only() {
        let (sweep, mut bytes) = some();
        let third = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').nth(1).unwrap().0 + 5;
        bytes[third] = 0;
        let contents = parse(&bytes).unwrap();
        assert_eq!(contents.damage, [Damage { line: 3, cut: false }]);
        assert_eq!(contents.cells.len(), 19);
        assert_eq!(contents.cells[1], sweep.cells[2]);
    }

    #[test]
    fn the_last_record_of_a_cell_counts() {
        let (sweep, mut bytes) = some();
        let mut again = sweep.cells[3].clone();
        again.remarks.push("again".into());
        bytes.extend(serde_json::to_vec(&Line::Cell(Box::new(again.clone()))).unwrap());
        bytes.push(b'\n');
        let contents = parse(&bytes).unwrap();
        assert_eq!((contents.cells.len(), &contents.cells[3]), (20, &again));
    }

    #[test]
    fn foreign_file_is_refused() {
        let newer = {
            let mut sweep = some().0;
            sweep.header.format = FORMAT + 1;
            bytes_of(&sweep, 0)
        };
        let headless = some().1.split_off(some().1.iter().position(|&b| b == b'\n').unwrap() + 1);
        for (bytes, said) in [
            (&b""[..], "empty"),
            (b"hello\n", "not a results file"),
            (b"{\"header\":{\"for", "cut in half"),
            (&newer, "format 3"),
            (&headless, "not a results file"),
        ] {
            let error = format!("{:#}", parse(bytes).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn only_a_prefix_of_our_header_has_no_data() {
        for bytes in [&b""[..], b"{", b"{\"header\":", b"{\"header\":{\"format\":1"] {
            assert!(has_no_data(bytes));
        }
        for bytes in [&b"\n"[..], b"x", b"{\"headers", b"{\"header\":{}\n", b"my diary"] {
            assert!(!has_no_data(bytes));
        }
    }

    proptest! {
        /// For any cut: the complete lines before it count, the rest is reported.
        #[test]
        fn any_cut_keeps_every_whole_line(at in 0.0..1.0f64) {
            let (sweep, bytes) = some();
            let cut = (at * bytes.len() as f64) as usize;
            let kept = &bytes[..cut];
            let lines = kept.iter().filter(|&&b| b == b'\n').count();
            if lines == 0 {
                prop_assert!(parse(kept).is_err() && has_no_data(kept));
            } else {
                let contents = parse(kept).unwrap();
                prop_assert_eq!(&contents.cells[..], &sweep.cells[..lines - 1]);
                let whole = kept.iter().rposition(|&b| b == b'\n').unwrap() + 1;
                prop_assert_eq!(contents.whole, whole as u64);
                prop_assert_eq!(contents.damage.len(), usize::from(whole < cut));
                prop_assert!(contents.damage.iter().all(|damage| damage.cut));
            }
        }
    }
}
