//! The libraries at one moment. A change makes another set, so that threads read them without locks.

use super::library::{Function, Library};
use crate::engine::LibraryId;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// A function and its library.
#[derive(Clone, Debug)]
pub struct Found {
    pub library: Arc<Library>,
    /// Its number among those of the library.
    pub number: usize,
}

impl Found {
    pub fn function(&self) -> &Function {
        &self.library.functions[self.number]
    }
}

/// Libraries by their names, and functions by theirs in lower case.
#[derive(Debug, Default)]
pub struct Libraries {
    libraries: BTreeMap<Box<[u8]>, Arc<Library>>,
    ids: HashSet<LibraryId>,
    functions: HashMap<Box<[u8]>, Found>,
}

#[cfg(test)]
thread_local! {
    /// Libraries in the sets that this thread has copied.
    pub(super) static COPIED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Clone for Libraries {
    fn clone(&self) -> Self {
        #[cfg(test)]
        COPIED.set(COPIED.get() + self.libraries.len());
        let Libraries { libraries, ids, functions } = self;
        Libraries { libraries: libraries.clone(), ids: ids.clone(), functions: functions.clone() }
    }
}

impl Libraries {
    /// The function with this name, in any case. Expected O(1).
    pub fn function(&self, name: &[u8]) -> Option<&Found> {
        match name.iter().any(u8::is_ascii_uppercase) {
            true => self.functions.get(&name.to_ascii_lowercase()[..]),
            false => self.functions.get(name),
        }
    }

    /// The library with this name.
    pub fn library(&self, name: &[u8]) -> Option<&Arc<Library>> {
        self.libraries.get(name)
    }

    /// Whether the library with this number is one of them. Expected O(1).
    pub fn has_library(&self, id: LibraryId) -> bool {
        self.ids.contains(&id)
    }

    /// In the order of their names.
    pub fn all(&self) -> impl ExactSizeIterator<Item = &Arc<Library>> {
        self.libraries.values()
    }

    /// The number of functions.
    pub fn functions(&self) -> usize {
        self.functions.len()
    }

    pub fn memory(&self) -> usize {
        let index = self.functions.len() * (size_of::<(Box<[u8]>, Found)>() + 1);
        self.all().map(|library| library.memory()).sum::<usize>() + index
    }

    /// Adds a library, which replaces the one of its name. O(functions of both).
    ///
    /// # Errors
    /// Another library has a function of the same name: the text of the error reply, without its code. The library that
    /// would be replaced is gone then.
    pub fn add(&mut self, library: Library) -> Result<(), Vec<u8>> {
        self.remove(&library.name);
        if let Some(function) = library.functions.iter().find(|f| self.has(f)) {
            return Err(exists(b"Function ", &function.name));
        }
        self.insert(Arc::new(library));
        Ok(())
    }

    /// These without one; `None`: there is none with this name.
    pub fn without(&self, name: &[u8]) -> Option<Libraries> {
        self.libraries.get(name)?;
        let mut libraries = self.clone();
        libraries.remove(name);
        Some(libraries)
    }

    /// These and others. `replaces`: others replace those of their names.
    ///
    /// # Errors
    /// A library, or a function of another library, has the same name: the text of the error reply, without its code.
    pub fn joined(&self, others: &Libraries, replaces: bool) -> Result<Libraries, Vec<u8>> {
        let mut libraries = self.clone();
        for library in others.all() {
            if libraries.library(&library.name).is_none() {
                continue;
            }
            if !replaces {
                return Err(exists(b"Library ", &library.name));
            }
            libraries.remove(&library.name);
        }
        let functions = others.all().flat_map(|library| &library.functions);
        if let Some(function) = functions.into_iter().find(|f| libraries.has(f)) {
            return Err(exists(b"Function ", &function.name));
        }
        others.all().for_each(|library| libraries.insert(library.clone()));
        Ok(libraries)
    }

    fn has(&self, function: &Function) -> bool {
        self.function(&function.name).is_some()
    }

    fn insert(&mut self, library: Arc<Library>) {
        for (number, function) in library.functions.iter().enumerate() {
            // Of two that differ only in case, the first is found.
            let name = function.name.to_ascii_lowercase().into();
            self.functions
                .entry(name)
                .or_insert_with(|| Found { library: library.clone(), number });
        }
        self.ids.insert(library.id);
        self.libraries.insert(library.name.clone(), library);
    }

    fn remove(&mut self, name: &[u8]) {
        let Some(library) = self.libraries.remove(name) else { return };
        self.ids.remove(&library.id);
        for function in &library.functions {
            let name = function.name.to_ascii_lowercase();
            // Another library may have a name that differs only in case.
            if self.functions.get(&name[..]).is_some_and(|found| found.library.id == library.id) {
                self.functions.remove(&name[..]);
            }
        }
    }
}

fn exists(kind: &[u8], name: &[u8]) -> Vec<u8> {
    [kind, name, b" already exists"].concat()
}
