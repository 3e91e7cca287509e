//! Recording: one line for each cell, written to the disk before the next cell starts.
//!
//! The file is locked (`flock`) while the experiment runs, so a second one on the same file is
//! refused, and the kernel releases the lock of a killed one. A line that was written only in part,
//! because the disk is full, is removed; so is a half line after a power failure.

use anyhow::{Context, Result, bail};
use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::file::{self, Contents};
use super::model::{Cell, Header, Line};

/// An open results file.
#[derive(Debug)]
pub struct Recorder {
    lines: Lines<File>,
    path: PathBuf,
    /// Cells in the file.
    recorded: usize,
}

/// The result of [`Recorder::open`].
#[derive(Debug, Default)]
pub struct Found {
    /// The cells of an earlier run of the same experiment.
    pub cells: Vec<Cell>,
    /// Damage of the file.
    pub remarks: Vec<String>,
}

impl Recorder {
    /// Opens or creates the file of an experiment. Existing cells of the same experiment are
    /// returned and kept.
    ///
    /// # Errors
    /// If the file can't be opened or written, belongs to another or to a running experiment, or is not a results
    /// file.
    pub fn open(path: &Path, header: &Header) -> Result<(Self, Found)> {
        let name = path.display();
        let mut file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .with_context(|| format!("cannot open {name}"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("{name} is in use by another sweep that is running: one file, one sweep")
            }
            Err(TryLockError::Error(e)) => return Err(e).context(format!("cannot lock {name}")),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
        let mut lines = Lines { store: file, length: 0 };
        if file::has_no_data(&bytes) {
            lines
                .cut()
                .and_then(|()| lines.append(&Line::Header(Box::new(header.clone()))))
                .and_then(|()| sync_folder(path))
                .with_context(|| format!("cannot write the header of {name}"))?;
            let recorder = Self { lines, path: path.to_path_buf(), recorded: 0 };
            return Ok((recorder, Found::default()));
        }
        let contents = file::parse(&bytes).with_context(|| name.to_string())?;
        if let Some(difference) = difference(&contents.header, header) {
            bail!(
                "{name} holds another experiment: {difference}. Its results are kept; choose \
                 another file with --output"
            );
        }
        lines.length = contents.whole;
        lines.cut().with_context(|| format!("cannot take back the half line of {name}"))?;
        let Contents { cells, damage, .. } = contents;
        let remarks = damage.iter().map(|damage| format!("{name}: {damage}")).collect();
        let recorder = Self { lines, path: path.to_path_buf(), recorded: cells.len() };
        Ok((recorder, Found { cells, remarks }))
    }

    /// Records a cell. It is on the disk when this returns.
    ///
    /// # Errors
    /// If it can't be written; then the file is unchanged.
    pub fn append(&mut self, cell: &Cell) -> Result<()> {
        self.lines.append(&Line::Cell(Box::new(cell.clone()))).with_context(|| {
            format!(
                "cannot record into {}; the {} cells recorded before are kept: make room and run \
                 the same command again",
                self.path.display(),
                self.recorded
            )
        })?;
        self.recorded += 1;
        Ok(())
    }
}

/// The difference of an experiment from the recorded one; none if they are equal.
fn difference(recorded: &Header, now: &Header) -> Option<String> {
    if recorded.grid != now.grid {
        return Some("its grid differs".into());
    }
    for (old, new) in recorded.servers.iter().zip(&now.servers) {
        if old != new {
            return Some(format!(
                "server {} was {} and is now {}, or its program has been changed",
                old.name, old.version, new.version
            ));
        }
    }
    if recorded.generator != now.generator {
        return Some(format!(
            "its load came from {} {}, now it is {} {}, or the program has been changed",
            recorded.generator.name,
            recorded.generator.version,
            now.generator.name,
            now.generator.version
        ));
    }
    recorded.host.difference(&now.host).map(|what| format!("on this host {what} differ"))
}

/// Syncs the folder, so that the name of a new file survives too.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

/// The destination of lines; a file except in tests.
trait Store {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
    fn set_length(&mut self, length: u64) -> io::Result<()>;
}

impl Store for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn set_length(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

/// A store that holds whole lines only.
#[derive(Debug)]
struct Lines<S> {
    store: S,
    /// Length of the whole lines.
    length: u64,
}

impl<S: Store> Lines<S> {
    fn append(&mut self, line: &Line) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        if let Err(e) = self.store.write(&bytes).and_then(|()| self.store.sync()) {
            // The partial line is removed; if that fails, the next start removes it.
            let _ = self.cut();
            return Err(e);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Cuts the file after the last whole line.
    fn cut(&mut self) -> io::Result<()> {
        self.store.set_length(self.length)?;
        self.store.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::published;
    use proptest::prelude::*;
    use std::fs;

    fn header_and_cells() -> (Header, Vec<Cell>) {
        let sweep = published::sweeps().swap_remove(0);
        (sweep.header, sweep.cells[..12].to_vec())
    }

    /// A disk with limited room.
    struct Small {
        bytes: Vec<u8>,
        room: usize,
    }

    impl Store for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            let fits = bytes.len().min(self.room - self.bytes.len());
            self.bytes.extend(&bytes[..fits]);
            if fits == bytes.len() { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
        }

        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn set_length(&mut self, length: u64) -> io::Result<()> {
            self.bytes.truncate(length as usize);
            Ok(())
        }
    }

    #[test]
    fn full_disk_keeps_recorded_cells() {
        let (header, cells) = header_and_cells();
        let mut lines = Lines { store: Small { bytes: vec![], room: 3000 }, length: 0 };
        lines.append(&Line::Header(Box::new(header))).unwrap();
        let mut written = 0;
        let error = loop {
            match lines.append(&Line::Cell(Box::new(cells[written].clone()))) {
                Ok(()) => written += 1,
                Err(e) => break e,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(written > 0, "the header alone fills the disk of this test");
        let contents = file::parse(&lines.store.bytes).unwrap();
        assert_eq!(contents.cells, cells[..written]);
        assert!(contents.damage.is_empty());
        // With room again it continues.
        lines.store.room = 100_000;
        lines.append(&Line::Cell(Box::new(cells[written].clone()))).unwrap();
        assert_eq!(file::parse(&lines.store.bytes).unwrap().cells.len(), written + 1);
    }

    #[test]
    fn two_sweeps_on_one_file_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        let (header, cells) = header_and_cells();
        let (mut first, found) = Recorder::open(&path, &header).unwrap();
        assert!(found.cells.is_empty());
        let error = Recorder::open(&path, &header).unwrap_err().to_string();
        assert!(error.contains("in use by another sweep"), "{error}");
        first.append(&cells[0]).unwrap();
        drop(first);
        let (_second, found) = Recorder::open(&path, &header).unwrap();
        assert_eq!(found.cells, cells[..1]);
    }

    #[test]
    fn other_experiments_and_foreign_files_stay_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        let (header, _) = header_and_cells();
        drop(Recorder::open(&path, &header).unwrap());
        let before = fs::read(&path).unwrap();
        let refused = |change: &dyn Fn(&mut Header), said: &str| {
            let mut other = header.clone();
            change(&mut other);
            let error = Recorder::open(&path, &other).unwrap_err().to_string();
            assert!(error.contains("another experiment") && error.contains(said), "{error}");
        };
        refused(&|h| h.grid.repeats += 1, "grid");
        refused(&|h| h.servers[0].version = "9".into(), "server");
        refused(&|h| h.generator.version = "9".into(), "load");
        refused(&|h| h.host.kernel = Some("9".into()), "kernel");
        assert_eq!(fs::read(&path).unwrap(), before);
        let diary = folder.path().join("diary");
        fs::write(&diary, "dear diary\n").unwrap();
        assert!(Recorder::open(&diary, &header).is_err());
        assert_eq!(fs::read(&diary).unwrap(), b"dear diary\n");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// After any power failure, later runs complete the same set of cells.
        #[test]
        #[ignore = "long: cargo xtask test --all"]
        fn any_cut_of_the_file_ends_in_the_same_cells(cuts in prop::collection::vec(0.0..1.0f64, 1..4)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("r");
            let (header, cells) = header_and_cells();
            for cut in cuts.into_iter().map(Some).chain([None]) {
                let (mut recorder, found) = Recorder::open(&path, &header).unwrap();
                prop_assert!(found.remarks.len() <= 1);
                for cell in cells.iter().filter(|cell| !found.cells.contains(cell)) {
                    recorder.append(cell).unwrap();
                }
                drop(recorder);
                let bytes = fs::read(&path).unwrap();
                if let Some(cut) = cut {
                    fs::write(&path, &bytes[..(cut * bytes.len() as f64) as usize]).unwrap();
                }
            }
            let contents = file::parse(&fs::read(&path).unwrap()).unwrap();
            prop_assert_eq!(contents.cells, cells);
            prop_assert!(contents.damage.is_empty());
        }
    }
}
