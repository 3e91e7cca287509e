//! Shared by several tests.
#![allow(dead_code, reason = "no test uses all of it")]

use std::path::{Path, PathBuf};

use weft_config::{Config, LoadArgs, LoadError, Permit, SetError};

/// A directory with configuration files, removed in the end.
pub struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    pub fn new() -> Files {
        Files { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Loads `content` as `weft.conf` of this directory.
    pub fn load(&self, content: &str) -> Result<Config, LoadError> {
        let file = self.write("weft.conf", content);
        Config::load(&LoadArgs { file: Some(file), ..LoadArgs::default() })
    }

    /// Loads `content` with options as on the command line.
    pub fn load_with(&self, content: &str, options: &[&str]) -> Result<Config, LoadError> {
        let file = self.write("weft.conf", content);
        let options = options.iter().map(|line| line.as_bytes().to_vec()).collect();
        Config::load(&LoadArgs { file: Some(file), options, ..LoadArgs::default() })
    }
}

/// The reply of CONFIG GET for one name.
pub fn get(config: &Config, name: &str) -> String {
    let answers = config.get(&[name.as_bytes()]);
    assert_eq!(answers.len(), 1, "{name}");
    String::from_utf8(answers[0].1.clone()).unwrap()
}

/// Everything that CONFIG GET answers, but for where the server runs.
pub fn everything(config: &Config) -> Vec<(String, Vec<u8>)> {
    config.get(&[b"*"])
}

/// CONFIG SET by a client with every right; nothing to apply.
pub fn set(config: &mut Config, pairs: &[(&str, &str)]) -> Result<(), String> {
    let permit = Permit { protected: true, loading: false };
    let pairs: Vec<_> = pairs.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
    config.set(&pairs, permit, &mut |_, _| Ok(())).map_err(|error| match error {
        SetError::Refused(reply) => reply,
        SetError::Loading => "LOADING".to_string(),
    })
}

/// The reason in a load error about a line, and the number of the line.
pub fn reason(loaded: Result<Config, LoadError>) -> (usize, String) {
    match loaded {
        Err(LoadError::Line { line, reason, .. }) => (line, reason),
        other => panic!("{other:?}"),
    }
}
