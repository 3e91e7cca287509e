//! Where the files of an append-only log are, and what is done to them as files.

use super::manifest::{Entry, Manifest, ManifestFault, Role};
use crate::storage::{Output, Storage};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the name of a lock file ends.
pub const LOCK: &str = ".lock";

/// `<root>/<folder>/<stem>.manifest` and all that it names. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Directory {
    pub storage: Arc<dyn Storage>,
    /// Where the folder is: `dir`.
    root: PathBuf,
    /// `appenddirname`
    folder: PathBuf,
    /// `appendfilename`
    stem: String,
}

/// Why there is no telling what the data are.
#[derive(Debug)]
pub enum OpenFault {
    /// What was being done, to what, and what came of it.
    Io(&'static str, PathBuf, io::Error),
    Manifest(ManifestFault),
    /// A file that the manifest names can't be looked at.
    Length(String, io::Error),
}

impl fmt::Display for OpenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenFault::Io(what, path, e) => write!(f, "{what} {}: {e}", path.display()),
            // As in the reference: operators' scripts look for it.
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
    /// The files that begin with `stem` in `folder` of `root`. Touches nothing.
    pub fn new(storage: Arc<dyn Storage>, root: &Path, folder: &str, stem: &str) -> Directory {
        Directory { storage, root: root.into(), folder: root.join(folder), stem: stem.into() }
    }

    #[must_use]
    pub fn stem(&self) -> &str {
        &self.stem
    }

    /// Where the files are.
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

    /// The file that the process which writes these files holds locked.
    #[must_use]
    pub fn lock_path(&self) -> PathBuf {
        self.path(&format!("{}{LOCK}", self.stem))
    }

    /// The name of the file to which writes go that a base, still being written, will stand before.
    pub(super) fn waiting_increment(&self) -> String {
        format!("temp-{}.incr", self.stem)
    }

    /// The manifest; an empty one where there is none.
    ///
    /// # Errors
    /// That it can't be read, or is none.
    pub fn manifest(&self) -> Result<Manifest, OpenFault> {
        let path = self.path(&self.manifest_name());
        let mut text = Vec::new();
        match self.storage.read(&path).and_then(|mut file| file.read_to_end(&mut text)) {
            Ok(_) => Manifest::parse(&text).map_err(OpenFault::Manifest),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Manifest::default()),
            Err(e) => Err(OpenFault::Io(
                "Fatal error: can't open the AOF manifest file for reading:",
                path,
                e,
            )),
        }
    }

    /// Puts `manifest` into the place of the one before. Not safe before [`Directory::sync`].
    ///
    /// # Errors
    /// Those of the storage; the one before is still there then.
    pub fn put(&self, manifest: &Manifest) -> io::Result<()> {
        let name = self.manifest_name();
        let temporary = self.path(&format!("temp-{name}"));
        let file = self.storage.create(&temporary)?;
        file.write_all(&manifest.print())?;
        file.sync()?;
        self.storage.rename(&temporary, &self.path(&name))
    }

    /// Creates the file `name`, or empties what has been left behind under that name. It is safe that
    /// nothing is in it: else the old content could be back after a power loss.
    ///
    /// # Errors
    /// Those of the storage.
    pub(super) fn fresh(&self, name: &str) -> io::Result<Arc<dyn Output>> {
        let file = self.storage.create(&self.path(name))?;
        file.sync()?;
        Ok(file)
    }

    /// Makes all names in the folder safe.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn sync(&self) -> io::Result<()> {
        self.storage.sync_dir(&self.folder)
    }

    /// Creates the folder, if it is missing, and makes its name safe.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn create(&self) -> io::Result<()> {
        self.storage.create_dir(&self.folder)?;
        self.storage.sync_dir(&self.root)
    }

    /// Removes what an earlier process has left on its way to its place. That nothing can be removed
    /// harms nobody. Where a server of another `appendfilename` has files, only those go that carry this name:
    /// that server may be writing the others now.
    pub fn clean(&self) {
        let names = self.storage.list(&self.folder).unwrap_or_default();
        let own_lock = format!("{}{LOCK}", self.stem);
        let is_shared = names.iter().any(|name| name.ends_with(LOCK) && *name != own_lock);
        let own = [self.waiting_increment(), format!("temp-{}", self.manifest_name())];
        let goes = |name: &&String| match is_shared {
            true => own.contains(name),
            false => self.is_on_its_way(name),
        };
        for name in names.iter().filter(goes) {
            let _ = self.storage.remove(&self.path(name));
        }
    }

    /// Whether a file of that name is one that was never finished. A log may be named `temp-...`, too:
    /// those of its files go on behind that name with a dot and a number.
    fn is_on_its_way(&self, name: &str) -> bool {
        let own = name.strip_prefix(&self.stem).and_then(|rest| rest.strip_prefix('.'));
        let is_own = own.is_some_and(|rest| {
            rest == "manifest"
                || rest == "lock"
                || rest.starts_with(|first: char| first.is_ascii_digit())
        });
        name.starts_with("temp-") && !is_own && name != self.stem
    }

    /// Takes a log over that is one file beside the folder, as servers before manifests wrote it:
    /// it becomes the base. Whether there was one. A crash at any point leaves something that this
    /// finishes, or that is complete.
    ///
    /// # Errors
    /// What could not be done; the file is where it was then.
    pub fn upgrade(&self, manifest: &mut Manifest) -> Result<bool, OpenFault> {
        let old = self.root.join(&self.stem);
        let failed = |what| move |path: PathBuf| move |e| OpenFault::Io(what, path, e);
        let stat = failed("Can't look for the old AOF file");
        if !self.storage.exists(&old).map_err(stat(old.clone()))? {
            return Ok(false);
        }
        // The manifest names the file alone, and it is not there: an upgrade was begun.
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

    /// The bytes of the base and of all files that are to be loaded.
    ///
    /// # Errors
    /// One that can't be looked at, and is not there, for one.
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

    /// Removes files that have become history; those that are gone, or go now.
    pub(super) fn remove(&self, history: &[Entry]) -> Vec<Entry> {
        let gone = |entry: &&Entry| match self.storage.remove(&self.path(&entry.name)) {
            Ok(()) => true,
            Err(e) => e.kind() == io::ErrorKind::NotFound,
        };
        history.iter().filter(gone).cloned().collect()
    }
}
