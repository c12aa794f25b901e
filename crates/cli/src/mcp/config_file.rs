use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use etcetera::BaseStrategy as _;
use haft_mcp::{CredentialFile, McpConfig, pins::PinFile};
use serde_json::{Map, Value, json};

use crate::{error::CliError, text_file};

/// The keys of the object of servers in a file that the commands change.
const ROOT_KEYS: [&str; 2] = ["mcpServers", "servers"];
/// The keys of the object of servers in a file of another program, with other forms of entries.
const OTHER_ROOT_KEYS: [&str; 2] = ["context_servers", "mcp"];

/// The file with the configured MCP servers.
pub(super) struct ConfigFile {
    path: PathBuf,
    /// The text of the file. Empty if there is no file.
    text: String,
}

/// Returns the path of the configuration file of the user: `haft/mcp.json` in `$XDG_CONFIG_HOME` or
/// `~/.config`. Returns `None` if the user has no home folder.
pub(crate) fn default_path() -> Option<PathBuf> {
    Some(etcetera::choose_base_strategy().ok()?.config_dir().join("haft/mcp.json"))
}

/// Returns the file with the OAuth tokens of the user: `haft/credentials.json` beside the
/// configuration file. Returns `None` if the user has no home folder.
pub(crate) fn credentials() -> Option<CredentialFile> {
    Some(CredentialFile::new(default_path()?.with_file_name("credentials.json")))
}

/// Adds the file with the protocol revisions that are slow to detect to `config`:
/// `haft/mcp-revisions.json` in `$XDG_CACHE_HOME` or `~/.cache`. Returns `config` unchanged if the
/// user has no home folder.
pub(crate) fn with_revision_cache(config: McpConfig) -> McpConfig {
    match etcetera::choose_base_strategy() {
        Ok(folders) => config.with_revision_cache(folders.cache_dir().join("haft/mcp-revisions.json")),
        Err(_) => config,
    }
}

/// Returns the file with the accepted tool definitions of the servers in the configuration file at
/// `path`: `mcp.pins.json` beside `mcp.json`.
pub(crate) fn pin_file(path: &Path) -> PinFile {
    PinFile::new(path.with_extension("pins.json"))
}

/// Returns the accepted definitions of the servers in the configuration file at `path`. For another
/// file than that of the user, returns `None` until `haft mcp accept` has created them.
pub(crate) fn pins_in_use(path: &Path) -> Option<PinFile> {
    let pins = pin_file(path);
    (default_path().as_deref() == Some(path) || pins.path().exists()).then_some(pins)
}

impl ConfigFile {
    /// Reads the file at `path`, or else the file of the user. A missing file is empty.
    pub(super) fn open(path: Option<PathBuf>) -> Result<Self, CliError> {
        let path = path
            .or_else(default_path)
            .ok_or_else(|| CliError::new("no configuration folder: set HOME, or name a file with --mcp"))?;
        let text = match text_file::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(CliError::new(format!("{}: cannot be read: {error}", path.display()))),
        };
        Ok(Self { path, text })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the servers of the file.
    pub(super) fn config(&self) -> Result<McpConfig, CliError> {
        if self.text.is_empty() {
            return Ok(McpConfig::default());
        }
        let config = McpConfig::from_json(&self.text).map_err(|error| self.error(&error.to_string()))?;
        let config = with_revision_cache(config);
        Ok(match credentials() {
            Some(credentials) => config.with_credentials(&credentials),
            None => config,
        })
    }

    /// Adds the server `name` with `entry`.
    ///
    /// # Errors
    ///
    /// Fails if the file has a server `name`, unless `replace` is `true`.
    pub(super) fn add(&mut self, name: &str, entry: Value, replace: bool) -> Result<(), CliError> {
        let mut shown = entry.clone();
        // Headers may contain secrets.
        for value in shown.get_mut("headers").and_then(Value::as_object_mut).into_iter().flatten() {
            *value.1 = "…".into();
        }
        let snippet = json!({ name: shown });
        self.edit(&format!("add this entry by hand: {snippet}"), |servers| {
            if servers.contains_key(name) && !replace {
                return Err(format!("the server \"{name}\" exists: replace it with --replace"));
            }
            servers.insert(name.to_owned(), entry);
            Ok(())
        })
    }

    /// Removes the server `name`.
    ///
    /// # Errors
    ///
    /// Fails if the file has no server `name`.
    pub(super) fn remove(&mut self, name: &str) -> Result<(), CliError> {
        self.edit("remove the entry by hand", |servers| match servers.shift_remove(name) {
            Some(_) => Ok(()),
            None => Err(format!("no server \"{name}\"")),
        })
    }

    /// Changes the object of servers. `remedy` is for a file with comments, which would be lost.
    fn edit(
        &mut self,
        remedy: &str,
        change: impl FnOnce(&mut Map<String, Value>) -> Result<(), String>,
    ) -> Result<(), CliError> {
        let mut root = match self.text.as_str() {
            "" => json!({}),
            text => serde_json::from_str(text).map_err(|error| {
                let has_comments = McpConfig::from_json(text).is_ok();
                let fault =
                    if has_comments { "has comments".to_owned() } else { format!("not JSON: {error}") };
                self.error(&fault).with_remedy(Some(remedy))
            })?,
        };
        let invalid = || self.error("the root has no object \"mcpServers\" or \"servers\"");
        let object = root.as_object_mut().ok_or_else(invalid)?;
        // A second object of servers would hide the first.
        if let Some(other) = OTHER_ROOT_KEYS.into_iter().find(|key| object.contains_key(*key)) {
            return Err(self.error(&format!("the servers are in \"{other}\"")).with_remedy(Some(remedy)));
        }
        let key = ROOT_KEYS.into_iter().find(|key| object.contains_key(*key)).unwrap_or(ROOT_KEYS[0]);
        let servers = object.entry(key).or_insert_with(|| json!({}));
        let servers = servers.as_object_mut().ok_or_else(invalid)?;
        change(servers).map_err(|reason| self.error(&reason))?;
        self.text = format!("{root:#}\n");
        Ok(())
    }

    /// Replaces the file. Only its owner can read it, because it may contain secrets.
    pub(super) fn save(&self) -> Result<(), CliError> {
        self.write().map_err(|error| self.error(&format!("cannot be written: {error}")))
    }

    fn write(&self) -> io::Result<()> {
        // The target of a symbolic link is replaced, and not the link.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        // A temporary file has the mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(self.text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(&path)?;
        Ok(())
    }

    fn error(&self, reason: &str) -> CliError {
        CliError::new(format!("{}: {reason}", self.path.display()))
    }
}
