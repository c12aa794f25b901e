//! Files that several processes read and replace.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::text_file;

/// A JSON file of a format with a version. Only its owner can read it (mode 0600). Changes are
/// atomic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockedFile {
    path: PathBuf,
}

impl LockedFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file. Returns the default if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, if it is invalid, or if its format version is newer than
    /// `version`. The error quotes no values of the file.
    pub(crate) fn read<T: DeserializeOwned + Default>(&self, version: u64) -> io::Result<T> {
        let text = match text_file::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
            Err(error) => return Err(self.error(error.kind(), &error)),
        };
        let invalid = |reason: &dyn std::fmt::Display| self.error(io::ErrorKind::InvalidData, reason);
        // The error of the parser may quote a secret.
        let position = |error: serde_json::Error| {
            invalid(&format!("invalid at line {} column {}", error.line(), error.column()))
        };
        let content: Value = serde_json::from_str(&text).map_err(position)?;
        let found = content.get("version").and_then(Value::as_u64).unwrap_or(version);
        if found > version {
            return Err(invalid(&format!("format version {found} is newer than {version}: update haft")));
        }
        serde_json::from_str(&text).map_err(position)
    }

    /// Changes the content and replaces the file, unless `change` returns `false`. Creates the file
    /// and its folder if they do not exist.
    pub(crate) fn change<T: Serialize + DeserializeOwned + Default>(
        &self,
        version: u64,
        change: impl FnOnce(&mut T) -> bool,
    ) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|error| self.error(error.kind(), &error))?;
        // The lock is released when the file is closed.
        let _lock = self.lock("lock")?;
        let mut content = self.read(version)?;
        if !change(&mut content) {
            return Ok(());
        }
        let mut json = serde_json::to_value(&content)?;
        if let Some(members) = json.as_object_mut() {
            members.insert("version".to_owned(), version.into());
        }
        // A temporary file has the mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec_pretty(&json)?)?;
        file.as_file().sync_all()?;
        file.persist(&self.path).map_err(|error| self.error(error.error.kind(), &error.error))?;
        Ok(())
    }

    /// Waits for the exclusive lock of the file with `extension`, and returns it.
    pub(crate) fn lock(&self, extension: &str) -> io::Result<File> {
        let mut path = self.path.clone().into_os_string();
        path.push(".");
        path.push(extension);
        let file = OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(path)?;
        file.lock()?;
        Ok(file)
    }

    fn error(&self, kind: io::ErrorKind, reason: &dyn std::fmt::Display) -> io::Error {
        io::Error::new(kind, format!("{}: {reason}", self.path.display()))
    }
}
