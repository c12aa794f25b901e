//! Pinned tool definitions: a definition that changes after it was accepted is withheld.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    path::{Path, PathBuf},
};

use haft_core::text::truncate_with_ellipsis;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{hidden_chars::escape_hidden, listing::is_for_models, locked_file::LockedFile};

/// The version of the file format.
const VERSION: u64 = 1;
/// The fields of a tool that are pinned. A model reads them, or they describe its effects.
const PINNED_FIELDS: [&str; 5] = ["title", "description", "inputSchema", "outputSchema", "annotations"];
/// The maximum length of a value in the description of a change, in bytes.
const MAX_VALUE_BYTES: usize = 400;
/// The length of the text before the first difference in an excerpt, in bytes.
const CONTEXT_BYTES: usize = 60;

/// A file with the accepted tool definitions of servers, like a lock file of packages.
///
/// The first listing of a server accepts its definitions. Later, a tool with another definition and
/// a new tool are withheld with a diagnostic, until [`ServerPins::accept`] is called. Key order and
/// unpinned fields such as `_meta` are ignored. Several processes can use the file.
///
/// # Examples
///
/// ```no_run
/// use haft_mcp::{McpSource, ServerOptions, StdioServer, pins::PinFile};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let pins = PinFile::new("mcp-pins.json").server("files");
/// let options = ServerOptions::default().with_pins(pins.clone());
/// let server = StdioServer::new("file-server").with_options(options);
/// let source = McpSource::connect("files", server).await?;
/// for change in pins.changes()? {
///     println!("{change}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinFile {
    file: LockedFile,
}

/// The pins of one server in a [`PinFile`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPins {
    file: LockedFile,
    server: String,
}

/// A definition that differs from the accepted one. Its [`Display`](fmt::Display) form lists the
/// differences, one per line, with hidden characters escaped. Long values are shortened, except in
/// the alternate form (`{:#}`).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DefinitionChange {
    /// The name that the server uses for the tool.
    pub tool: String,
    /// The accepted definition. `None` if the tool is new.
    pub accepted: Option<Map<String, Value>>,
    /// The definition in the latest listing.
    pub proposed: Map<String, Value>,
}

/// The content of the file.
#[derive(Default, Serialize, Deserialize)]
struct PinContent {
    servers: BTreeMap<String, Pins>,
}

/// The definitions of the tools of a server, by name.
#[derive(Default, Serialize, Deserialize)]
struct Pins {
    accepted: BTreeMap<String, Map<String, Value>>,
    /// The definitions in the latest listing that differ from the accepted ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    proposed: BTreeMap<String, Map<String, Value>>,
}

impl Pins {
    fn changes(&self) -> Vec<DefinitionChange> {
        let change = |(tool, proposed): (&String, &Map<String, Value>)| DefinitionChange {
            tool: tool.clone(),
            accepted: self.accepted.get(tool).cloned(),
            proposed: proposed.clone(),
        };
        self.proposed.iter().map(change).collect()
    }
}

impl PinFile {
    /// Creates a handle to the file at `path`. The first listing creates the file and its folder.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { file: LockedFile::new(path.into()) }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the pins of the server with the key `server`, usually its name.
    pub fn server(&self, server: impl Into<String>) -> ServerPins {
        ServerPins { file: self.file.clone(), server: server.into() }
    }
}

impl ServerPins {
    /// Returns the changes in the latest listing that were not accepted, sorted by name.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or if it is invalid.
    pub fn changes(&self) -> io::Result<Vec<DefinitionChange>> {
        let content: PinContent = self.file.read(VERSION)?;
        Ok(content.servers.get(&self.server).map(Pins::changes).unwrap_or_default())
    }

    /// Accepts `changes`, which [`changes`](Self::changes) returned. The tools are offered from the
    /// next start of the server, if their definitions have not changed again.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or written, or if it is invalid.
    pub fn accept(&self, changes: &[DefinitionChange]) -> io::Result<()> {
        self.file.change(VERSION, |content: &mut PinContent| {
            let pins = content.servers.entry(self.server.clone()).or_default();
            for DefinitionChange { tool, proposed, .. } in changes {
                pins.accepted.insert(tool.clone(), proposed.clone());
                if pins.proposed.get(tool) == Some(proposed) {
                    pins.proposed.remove(tool);
                }
            }
            true
        })
    }

    /// Removes the pins of the server. The next listing accepts its definitions.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or written, or if it is invalid.
    pub fn remove(&self) -> io::Result<()> {
        self.file.change(VERSION, |content: &mut PinContent| content.servers.remove(&self.server).is_some())
    }

    /// Returns the accepted definitions, as entries of a tool list. Returns `None` if the server
    /// has no pins.
    pub(crate) fn accepted(&self) -> io::Result<Option<Vec<Value>>> {
        let mut content: PinContent = self.file.read(VERSION)?;
        let pins = content.servers.remove(&self.server);
        let entry = |(name, mut definition): (String, Map<String, Value>)| {
            definition.insert("name".to_owned(), Value::String(name));
            Value::Object(definition)
        };
        Ok(pins.map(|pins| pins.accepted.into_iter().map(entry).collect()))
    }

    /// Compares `tools`, a complete tool list, with the accepted definitions. Returns the
    /// differences. Accepts all definitions if the server has no pins.
    pub(crate) fn check(&self, tools: &[Value]) -> io::Result<Vec<DefinitionChange>> {
        let mut definitions = BTreeMap::new();
        let for_models = tools.iter().filter(|tool| is_for_models(tool));
        for (name, definition) in for_models.filter_map(pinned_definition) {
            // Of two tools with the same name, the first is offered.
            definitions.entry(name).or_insert(definition);
        }
        // The file is only locked and written if it changes, so that it may be read-only.
        let mut content: PinContent = self.file.read(VERSION)?;
        let (changes, is_new) = self.compare(&mut content, definitions.clone());
        if !is_new {
            return Ok(changes);
        }
        let mut changes = Vec::new();
        self.file.change(VERSION, |content: &mut PinContent| {
            let is_new;
            (changes, is_new) = self.compare(content, definitions);
            is_new
        })?;
        Ok(changes)
    }

    /// Compares `tools` with the accepted definitions in `content`. Returns the differences, and
    /// `true` if it has changed `content`.
    fn compare(
        &self,
        content: &mut PinContent,
        tools: BTreeMap<String, Map<String, Value>>,
    ) -> (Vec<DefinitionChange>, bool) {
        let Some(pins) = content.servers.get_mut(&self.server) else {
            let pins = Pins { accepted: tools, proposed: BTreeMap::new() };
            content.servers.insert(self.server.clone(), pins);
            return (Vec::new(), true);
        };
        let changed =
            tools.into_iter().filter(|(tool, definition)| pins.accepted.get(tool) != Some(definition));
        let proposed: BTreeMap<_, _> = changed.collect();
        let is_new = pins.proposed != proposed;
        pins.proposed = proposed;
        (pins.changes(), is_new)
    }
}

/// Returns the name and the pinned fields of `tool`, an entry of a tool list.
fn pinned_definition(tool: &Value) -> Option<(String, Map<String, Value>)> {
    let name = tool.get("name").and_then(Value::as_str)?;
    let field = |key: &str| Some((key.to_owned(), tool.get(key).filter(|value| !value.is_null())?.clone()));
    Some((name.to_owned(), PINNED_FIELDS.into_iter().filter_map(field).collect()))
}

impl fmt::Display for DefinitionChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.accepted.is_some() { "has changed" } else { "is new" };
        write!(f, "{:?} {state}", self.tool)?;
        write_differences(f, "", self.accepted.as_ref().unwrap_or(&Map::new()), &self.proposed)
    }
}

/// Writes a line for each difference between the objects `old` and `new` at `path`.
fn write_differences(
    f: &mut fmt::Formatter<'_>,
    path: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> fmt::Result {
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    for key in keys {
        let name = escape_hidden(key);
        let path = if path.is_empty() { name } else { format!("{path}/{name}") };
        match (old.get(key), new.get(key)) {
            (Some(old), Some(new)) if old == new => {}
            (Some(Value::Object(old)), Some(Value::Object(new))) => write_differences(f, &path, old, new)?,
            (Some(old), Some(new)) => {
                let (old, new) = (old.to_string(), new.to_string());
                // An excerpt begins shortly before the first difference.
                let same = old.bytes().zip(new.bytes()).take_while(|(old, new)| old == new).count();
                let start = same.saturating_sub(CONTEXT_BYTES);
                write!(f, "\n  {path}: {} -> {}", excerpt(f, &old, start), excerpt(f, &new, start))?;
            }
            (Some(old), None) => write!(f, "\n  {path}: {} is removed", excerpt(f, &old.to_string(), 0))?,
            (None, Some(new)) => write!(f, "\n  {path}: {} is added", excerpt(f, &new.to_string(), 0))?,
            (None, None) => {}
        }
    }
    Ok(())
}

/// Returns the JSON text `json`, with hidden characters escaped. Without the alternate form
/// (`{:#}`), returns an excerpt that begins at the offset `start`.
fn excerpt(f: &fmt::Formatter<'_>, json: &str, start: usize) -> String {
    if f.alternate() || json.len() <= MAX_VALUE_BYTES {
        return escape_hidden(json);
    }
    let start = (0..=start).rev().find(|start| json.is_char_boundary(*start)).unwrap_or_default();
    let text = json.get(start..).unwrap_or_default();
    let ellipsis = if start > 0 { "…" } else { "" };
    format!("{ellipsis}{}", escape_hidden(&truncate_with_ellipsis(text, MAX_VALUE_BYTES)))
}

#[cfg(test)]
mod tests;
