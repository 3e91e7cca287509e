//! The files of an append-only log, and the operations on them.

use super::led;
use super::manifest::{Entry, Manifest, ManifestFault, Role};
use crate::storage::{Output, Storage};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Suffix of a lock file.
pub const LOCK: &str = ".lock";

/// `<root>/<folder>/<stem>.manifest` and all files that it names. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Directory {
    pub storage: Arc<dyn Storage>,
    /// The parent of the folder: `dir`.
    root: PathBuf,
    /// `appenddirname`
    folder: PathBuf,
    /// `appendfilename`
    stem: String,
}

/// Why the log could not be opened.
#[derive(Debug)]
pub enum OpenFault {
    /// The failed operation, its path and the error.
    Io(&'static str, PathBuf, io::Error),
    Manifest(ManifestFault),
    /// The length of a file in the manifest could not be read.
    Length(String, io::Error),
}

impl fmt::Display for OpenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenFault::Io(what, path, e) => write!(f, "{what} {}: {e}", path.display()),
            // The reference's words: operators' scripts search for them.
            OpenFault::Length(name, e) => {
                let text = e.to_string();
                let words = text.split(" (os error").next().unwrap_or_default();
                write!(f, "Unable to obtain the AOF file {name} length. stat: {words}")
            }
            OpenFault::Manifest(fault) => {
                write!(f, "\n*** FATAL AOF MANIFEST FILE ERROR ***\n{fault}")
            }
        }
    }
}

impl Directory {
    /// The files with the prefix `stem` in `folder` of `root`. Doesn't access the disk.
    pub fn new(storage: Arc<dyn Storage>, root: &Path, folder: &str, stem: &str) -> Directory {
        Directory { storage, root: root.into(), folder: root.join(folder), stem: stem.into() }
    }

    #[must_use]
    pub fn stem(&self) -> &str {
        &self.stem
    }

    /// The folder of the files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn manifest_name(&self) -> String {
        format!("{}.manifest", self.stem)
    }

    /// The lock file. The process that writes these files holds its lock.
    #[must_use]
    pub fn lock_path(&self) -> PathBuf {
        self.path(&format!("{}{LOCK}", self.stem))
    }

    /// Name of the file that takes writes while its base is still being written.
    pub(super) fn waiting_increment(&self) -> String {
        format!("temp-{}.incr", self.stem)
    }

    /// Reads the manifest; returns an empty one if the file is missing.
    ///
    /// # Errors
    /// The manifest can't be read or is invalid.
    pub fn manifest(&self) -> Result<Manifest, OpenFault> {
        let path = self.path(&self.manifest_name());
        let mut text = Vec::new();
        match self.storage.read(&path).and_then(|mut file| file.read_to_end(&mut text)) {
            Ok(_) => {
                let mut manifest = Manifest::parse(&text).map_err(OpenFault::Manifest)?;
                let file = self.storage.identity(&path).ok();
                manifest.led = file.and_then(|file| led::find(&text, file));
                Ok(manifest)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Manifest::default()),
            Err(e) => Err(OpenFault::Io(
                "Fatal error: can't open the AOF manifest file for reading:",
                path,
                e,
            )),
        }
    }

    /// Replaces the manifest. Not durable before [`Directory::sync`].
    ///
    /// # Errors
    /// Storage errors; the previous manifest is still in force then.
    pub fn put(&self, manifest: &Manifest) -> io::Result<()> {
        let name = self.manifest_name();
        let temporary = self.path(&format!("temp-{name}"));
        let file = self.storage.create(&temporary)?;
        file.write_all(&manifest.print())?;
        if let Some(led) = manifest.led {
            let mark = led::line(led, self.storage.identity(&temporary)?);
            file.write_all(mark.as_bytes())?;
        }
        file.sync()?;
        self.storage.rename(&temporary, &self.path(&name))
    }

    /// Creates the file `name`, or empties an old file of that name. Syncs it while empty, because
    /// a power failure could otherwise restore the old content.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) fn create_empty(&self, name: &str) -> io::Result<Arc<dyn Output>> {
        let file = self.storage.create(&self.path(name))?;
        file.sync()?;
        Ok(file)
    }

    /// Makes all names in the folder durable.
    ///
    /// # Errors
    /// Storage errors.
    pub fn sync(&self) -> io::Result<()> {
        self.storage.sync_dir(&self.folder)
    }

    /// Creates the folder, if it is missing, and makes its name durable.
    ///
    /// # Errors
    /// Storage errors.
    pub fn create(&self) -> io::Result<()> {
        self.storage.create_dir(&self.folder)?;
        self.storage.sync_dir(&self.root)
    }

    /// Removes unfinished files of an earlier process. A failed removal does no harm. If a server
    /// with another `appendfilename` has files here, only files with this name are removed, because
    /// that server may be writing the others now.
    pub fn clean(&self) {
        let names = self.storage.list(&self.folder).unwrap_or_default();
        let own_lock = format!("{}{LOCK}", self.stem);
        let is_shared = names.iter().any(|name| name.ends_with(LOCK) && *name != own_lock);
        let own = [self.waiting_increment(), format!("temp-{}", self.manifest_name())];
        let is_removable = |name: &&String| match is_shared {
            true => own.contains(name),
            false => self.is_unfinished(name),
        };
        for name in names.iter().filter(is_removable) {
            let _ = self.storage.remove(&self.path(name));
        }
    }

    /// Whether a file of this name was never finished. The log itself may be named `temp-...`: its
    /// files then continue with a dot and a number.
    fn is_unfinished(&self, name: &str) -> bool {
        let own = name.strip_prefix(&self.stem).and_then(|rest| rest.strip_prefix('.'));
        let is_own = own.is_some_and(|rest| {
            rest == "manifest"
                || rest == "lock"
                || rest.starts_with(|first: char| first.is_ascii_digit())
        });
        name.starts_with("temp-") && !is_own && name != self.stem
    }

    /// Adopts a log that is a single file next to the folder, the format before manifests: the file
    /// becomes the base. Returns whether there was one. After a crash at any point, the upgrade is
    /// either complete or the next call finishes it.
    ///
    /// # Errors
    /// The operation that failed; the file is at its old place then.
    pub fn upgrade(&self, manifest: &mut Manifest) -> Result<bool, OpenFault> {
        let old = self.root.join(&self.stem);
        let failed = |what| move |path: PathBuf| move |e| OpenFault::Io(what, path, e);
        let stat = failed("Can't look for the old AOF file");
        if !self.storage.exists(&old).map_err(stat(old.clone()))? {
            return Ok(false);
        }
        // The manifest names only this file, and the folder doesn't have it: an upgrade was
        // interrupted.
        let begun = manifest.increments.is_empty()
            && manifest.base.as_ref().is_some_and(|base| base.name == self.stem)
            && !self.storage.exists(&self.path(&self.stem)).map_err(stat(old.clone()))?;
        if !manifest.is_empty() && !begun {
            return Ok(false);
        }
        let upgraded = Manifest::of_single_file(&self.stem);
        let put = || {
            self.create()?;
            self.put(&upgraded)?;
            self.sync()?;
            self.storage.rename(&old, &self.path(&self.stem))?;
            self.sync()?;
            self.storage.sync_dir(&self.root)
        };
        let moved = failed("Error trying to move the old AOF file into the AOF directory:");
        put().map_err(moved(old.clone()))?;
        *manifest = upgraded;
        Ok(true)
    }

    /// Returns the bytes of the base and of all files to load.
    ///
    /// # Errors
    /// The length of a file can't be read, for instance because the file is missing.
    pub fn sizes(&self, manifest: &Manifest) -> Result<(u64, u64), OpenFault> {
        let (mut base, mut all) = (0, 0);
        for (role, entry) in manifest.files() {
            let path = self.path(&entry.name);
            let length =
                self.storage.length(&path).map_err(|e| OpenFault::Length(entry.name.clone(), e))?;
            all += length;
            if role == Role::Base {
                base = length;
            }
        }
        Ok((base, all))
    }

    /// Removes files of the history. Returns those that were missing or are removed now.
    pub(super) fn remove(&self, history: &[Entry]) -> Vec<Entry> {
        let gone = |entry: &&Entry| match self.storage.remove(&self.path(&entry.name)) {
            Ok(()) => true,
            Err(e) => e.kind() == io::ErrorKind::NotFound,
        };
        history.iter().filter(gone).cloned().collect()
    }
}
