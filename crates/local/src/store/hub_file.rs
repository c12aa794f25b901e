//! Names of files on the Hugging Face hub.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The characters that are encoded in a segment of a URL path.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The location of a GGUF file on the Hugging Face hub.
///
/// It is parsed from `OWNER/REPOSITORY/FILE`, with an optional prefix `hub:` and an optional suffix
/// `@REVISION`. The file may be in folders of the repository.
///
/// # Examples
///
/// ```
/// use haft_local::HubFile;
///
/// let file: HubFile = "hub:Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf".parse()?;
/// assert_eq!((&*file.repository, &*file.revision), ("Qwen/Qwen3-0.6B-GGUF", "main"));
/// assert!("Qwen3-0.6B-Q8_0.gguf".parse::<HubFile>().is_err());
/// # Ok::<(), haft_local::InvalidHubFile>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubFile {
    /// The name of the repository, such as `Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF`.
    pub repository: Cow<'static, str>,
    /// The path of the file in the repository.
    pub path: Cow<'static, str>,
    /// The branch, tag or commit. The default is `main`.
    pub revision: Cow<'static, str>,
}

/// The error for a text that is not a [`HubFile`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no GGUF file on the hub: use hub:OWNER/REPOSITORY/FILE.gguf, with @REVISION if needed")]
pub struct InvalidHubFile(String);

impl HubFile {
    /// Creates the location of a file at the revision `main`.
    pub(super) const fn new(repository: &'static str, path: &'static str) -> Self {
        Self {
            repository: Cow::Borrowed(repository),
            path: Cow::Borrowed(path),
            revision: Cow::Borrowed("main"),
        }
    }

    /// Returns the URL of the file on the hub at `address`.
    #[cfg(feature = "download")]
    pub(super) fn url(&self, address: &str) -> String {
        let encode_path = |path: &str| path.split('/').map(encode_name).collect::<Vec<_>>().join("/");
        let (repository, path) = (encode_path(&self.repository), encode_path(&self.path));
        // A branch can contain a slash, which is encoded: the revision is one segment.
        let revision = encode_name(&self.revision);
        format!("{}/{repository}/resolve/{revision}/{path}", address.trim_end_matches('/'))
    }

    /// Returns the path of the file below the folder of a store.
    pub(super) fn relative_path(&self) -> PathBuf {
        let revision = encode_name(&self.revision);
        ["hub", &*self.repository, &revision].iter().collect::<PathBuf>().join(&*self.path)
    }

    /// Parses a path that [`relative_path`](Self::relative_path) returned.
    pub(super) fn from_relative_path(path: &Path) -> Option<Self> {
        let parts: Vec<_> = path.iter().map(|part| part.to_str()).collect::<Option<_>>()?;
        let ["hub", owner, name, revision, path @ ..] = parts.as_slice() else { return None };
        let revision = percent_decode_str(revision).decode_utf8().ok()?;
        format!("{owner}/{name}/{}@{revision}", path.join("/")).parse().ok()
    }
}

/// Encodes `text` as one segment of a path.
fn encode_name(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

impl FromStr for HubFile {
    type Err = InvalidHubFile;

    fn from_str(text: &str) -> Result<Self, InvalidHubFile> {
        let invalid = || InvalidHubFile(text.to_owned());
        let name = text.strip_prefix("hub:").unwrap_or(text);
        let (name, revision) = name.rsplit_once('@').unwrap_or((name, "main"));
        let segments: Vec<_> = name.split('/').collect();
        let [owner, repository, path @ ..] = segments.as_slice() else { return Err(invalid()) };
        let is_gguf = path.last().is_some_and(|file| file.to_ascii_lowercase().ends_with(".gguf"));
        if !is_gguf || !segments.iter().copied().chain(revision.split('/')).all(is_safe_segment) {
            return Err(invalid());
        }
        Ok(Self {
            repository: format!("{owner}/{repository}").into(),
            path: path.join("/").into(),
            revision: revision.to_owned().into(),
        })
    }
}

/// Returns `true` if `segment` is a file name on every system, and not the name of a parent folder.
fn is_safe_segment(segment: &str) -> bool {
    let is_reserved = |letter: char| letter.is_control() || r#"\:*?"<>|"#.contains(letter);
    !segment.is_empty()
        && !segment.starts_with('.')
        && !segment.ends_with('.')
        && !segment.contains(is_reserved)
}

impl fmt::Display for HubFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hub:{}/{}", self.repository, self.path)?;
        match &*self.revision {
            "main" => Ok(()),
            revision => write!(f, "@{revision}"),
        }
    }
}
