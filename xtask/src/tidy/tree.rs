//! Reads the files of the repository, so that all rules use the same text.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// The folders that are not read: build output, the git repository and the files of fuzzing.
const SKIPPED: &[&str] = &["target", ".git", "docs/book", "fuzz/artifacts", "fuzz/corpus"];

/// The text of each file. The keys are the paths from the root of the repository, with `/` as
/// separator. The text of a file that is not UTF-8 is empty.
#[derive(Debug, Default)]
pub(super) struct SourceTree(BTreeMap<String, String>);

impl SourceTree {
    pub(super) fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.add_folder(root, "")?;
        Ok(tree)
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Returns `true` if there is a file or a folder at `path`.
    pub(super) fn contains(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || self.0.contains_key(path)
            || self.0.range(folder.clone()..).next().is_some_and(|(file, _)| file.starts_with(&folder))
    }

    /// Returns the paths and texts of the files whose path starts with `start` and ends with `end`.
    pub(super) fn files_matching(&self, start: &str, end: &str) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .filter(move |(path, _)| path.starts_with(start) && path.ends_with(end))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    fn add_folder(&mut self, root: &Path, folder: &str) -> io::Result<()> {
        for entry in fs::read_dir(root.join(folder))? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let path = if folder.is_empty() { name.into_owned() } else { format!("{folder}/{name}") };
            if SKIPPED.contains(&path.as_str()) {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.add_folder(root, &path)?;
            } else if kind.is_file() {
                let text = String::from_utf8(fs::read(entry.path())?).unwrap_or_default();
                self.0.insert(path, text);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for SourceTree {
    fn from(files: [(&str, &str); N]) -> Self {
        Self(files.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect())
    }
}
