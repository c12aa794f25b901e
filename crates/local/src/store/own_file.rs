//! Files that a download writes beside a model file. A symbolic link in the place of a file is
//! replaced and never followed: in a shared folder, another user can create it.

use std::fs::{self, File, Metadata};
use std::io::{self, Write as _};
use std::path::Path;

/// Creates an empty file at `path`, in place of an existing file.
pub(super) fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Follows no link, also none that was created meanwhile.
    File::options().write(true).create_new(true).open(path)
}

/// Writes `text` to a new file at `path`.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    create(path)?.write_all(text.as_bytes())
}

/// Opens the file at `path` to append to it, or creates it.
pub(super) fn append(path: &Path) -> io::Result<File> {
    remove_link(path)?;
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let opened = File::options().append(true).create_new(true).open(path);
            // Another process may have created it meanwhile.
            return match opened {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => append(path),
                opened => opened,
            };
        }
        Err(error) => return Err(error),
    };
    let file = File::options().append(true).open(path)?;
    match is_same_file(&found, &file.metadata()?) {
        true => Ok(file),
        false => Err(io::Error::other("the file was replaced while it was opened")),
    }
}

/// Creates the folder at `path` unless it exists.
pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    remove_link(path)?;
    fs::create_dir_all(path)
}

/// Creates `folder`, which is below `root`, and the folders on its path unless they exist. `root`
/// may be a link, because the user chooses it.
///
/// # Errors
///
/// Also fails if a folder below `root` is a link: in a shared folder, another user can create it to
/// redirect the files of a download.
pub(super) fn create_folders_below(root: &Path, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(root)?;
    let mut path = root.to_owned();
    for name in folder.strip_prefix(root).map_err(io::Error::other)? {
        path.push(name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        if !fs::symlink_metadata(&path)?.is_dir() {
            let reason = format!("{} is a link or no folder: remove it", path.display());
            return Err(io::Error::new(io::ErrorKind::NotADirectory, reason));
        }
    }
    Ok(())
}

/// Returns the length of the file at `path`, or 0 if there is none.
pub(super) fn length(path: &Path) -> u64 {
    fs::symlink_metadata(path).ok().filter(Metadata::is_file).map_or(0, |file| file.len())
}

fn remove_link(path: &Path) -> io::Result<()> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    if is_link { fs::remove_file(path) } else { Ok(()) }
}

#[cfg(unix)]
fn is_same_file(first: &Metadata, second: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (first.dev(), first.ino()) == (second.dev(), second.ino())
}

/// Creating a link needs a privilege on other systems.
#[cfg(not(unix))]
fn is_same_file(_first: &Metadata, _second: &Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use super::{append, create, create_folder, create_folders_below, length, write};

    #[test]
    fn links_are_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        for has_target in [true, false] {
            for operation in ["create", "write", "append", "folder"] {
                let _ = fs::remove_file(&target);
                if has_target {
                    fs::write(&target, "kept").unwrap();
                }
                let _ = fs::remove_file(&link);
                symlink(&target, &link).unwrap();
                assert_eq!(length(&link), 0);
                match operation {
                    "create" => create(&link).unwrap().write_all(b"new").unwrap(),
                    "write" => write(&link, "new").unwrap(),
                    "append" => append(&link).unwrap().write_all(b"new").unwrap(),
                    _ => create_folder(&link).unwrap(),
                }
                assert!(!fs::symlink_metadata(&link).unwrap().is_symlink(), "{operation}");
                assert_eq!(fs::read_to_string(&target).ok().as_deref(), has_target.then_some("kept"));
                let _ = fs::remove_dir(&link);
            }
        }
    }

    #[test]
    fn append_keeps_the_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for _ in 0..2 {
            append(&path).unwrap().write_all(b"ab").unwrap();
        }
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), length(&path)), ("abab", 4));
        write(&path, "c").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "c");
    }

    #[test]
    fn linked_folder_below_the_root_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (real, root, elsewhere) =
            (folder.path().join("real"), folder.path().join("root"), folder.path().join("elsewhere"));
        fs::create_dir(&elsewhere).unwrap();
        fs::create_dir(&real).unwrap();
        symlink(&real, &root).unwrap();
        for _ in 0..2 {
            create_folders_below(&root, &root.join("a/b")).unwrap();
        }
        assert!(real.join("a/b").is_dir());
        symlink(&elsewhere, root.join("a/link")).unwrap();
        for path in ["a/link", "a/link/c"] {
            let error = create_folders_below(&root, &root.join(path)).unwrap_err().to_string();
            assert!(error.contains("a/link is a link"), "{error}");
        }
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}
