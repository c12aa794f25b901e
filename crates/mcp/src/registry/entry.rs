//! Entries for `mcp.json` from packages and remote servers of a registry.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    Installation, RegistryVariable,
    wire::{Argument, Input, NamedInput, Package, Remote, without_variables},
};

/// The public registry of npm, which `npx` uses by default.
const NPM: &str = "https://registry.npmjs.org";
/// The public registry of Python packages, which `uvx` uses by default.
const PYPI: &str = "https://pypi.org";

/// Returns the entry that runs `package`.
///
/// # Errors
///
/// Returns the reason why the package is not supported.
pub(super) fn from_package(package: &Package) -> Result<Installation, String> {
    let Package { registry_type: kind, identifier, transport, .. } = package;
    if transport.kind != "stdio" {
        return Err(format!("the {kind} package {identifier:?} uses the transport {:?}", transport.kind));
    }
    if identifier.is_empty() || identifier.starts_with('-') {
        return Err(format!("the identifier {identifier:?} of the {kind} package is invalid"));
    }
    let mut values = Values::default();
    let env = values.named(&package.environment_variables);
    let runtime_arguments = values.arguments(&package.runtime_arguments);
    let package_arguments = values.arguments(&package.package_arguments);
    let (program, mut args) = match kind.as_str() {
        "npm" => ("npx", vec!["-y".to_owned()]),
        "pypi" => ("uvx", Vec::new()),
        "oci" => ("docker", vec!["run".to_owned(), "-i".to_owned(), "--rm".to_owned()]),
        "nuget" => ("dnx", Vec::new()),
        _ => return Err(format!("the package {identifier:?} has the unsupported type {kind:?}")),
    };
    let foreign = package.registry_base_url.as_deref().map(|url| url.trim_end_matches('/'));
    match (kind.as_str(), foreign) {
        ("npm", Some(url)) if url != NPM => args.push(format!("--registry={url}")),
        ("pypi", Some(url)) if url != PYPI => args.push(format!("--default-index={url}")),
        ("oci", _) => args.extend(env.keys().flat_map(|name| ["-e".to_owned(), name.clone()])),
        _ => {}
    }
    args.extend(runtime_arguments);
    args.push(versioned(kind, identifier, package.version.as_deref()));
    if kind == "nuget" {
        args.extend(["--yes".to_owned(), "--".to_owned()]);
    }
    args.extend(package_arguments);
    let mut entry =
        Map::from_iter([("command".to_owned(), Value::from(program)), ("args".to_owned(), json!(args))]);
    if !env.is_empty() {
        entry.insert("env".to_owned(), json!(env));
    }
    Ok(values.installation(kind, entry))
}

/// Returns the entry that contacts `remote`, a server with the name `server_name`.
///
/// # Errors
///
/// Returns the reason why the server is not supported.
pub(super) fn from_remote(server_name: &str, remote: &Remote) -> Result<Installation, String> {
    let mut values = Values::for_remote(server_name);
    let url = values.filled(&remote.url, &remote.variables);
    let transport = match remote.kind.as_str() {
        "streamable-http" => None,
        "sse" => Some("sse"),
        other => return Err(format!("the remote server uses the transport {other:?}")),
    };
    let is_http = ["http://", "https://", "${"].iter().any(|start| url.starts_with(start));
    if !is_http {
        return Err("the URL of the remote server does not begin with http:// or https://".to_owned());
    }
    let mut entry = Map::from_iter([("url".to_owned(), Value::from(url))]);
    if let Some(transport) = transport {
        entry.insert("type".to_owned(), transport.into());
    }
    let headers = values.named(&remote.headers);
    if !headers.is_empty() {
        entry.insert("headers".to_owned(), json!(headers));
    }
    Ok(values.installation("remote", entry))
}

/// Returns `identifier` with `version`, in the syntax of the package type `kind`.
fn versioned(kind: &str, identifier: &str, version: Option<&str>) -> String {
    match (kind, version) {
        // A tag or a digest may be part of the identifier.
        ("oci", Some(version)) if !identifier.rsplit('/').next().unwrap_or_default().contains([':', '@']) => {
            format!("{identifier}:{version}")
        }
        ("oci", _) | (_, None) => identifier.to_owned(),
        (_, Some(version)) => format!("{identifier}@{version}"),
    }
}

/// The values of an entry, and the variables in them.
#[derive(Default)]
struct Values {
    variables: Vec<RegistryVariable>,
    /// The beginning of the names of variables: the name of the server. Otherwise, a remote server
    /// could name any environment variable of the user.
    prefix: String,
}

impl Values {
    fn for_remote(server_name: &str) -> Self {
        let prefix = format!("{}_", server_name.rsplit('/').next().unwrap_or_default());
        Self { variables: Vec::new(), prefix }
    }

    /// Returns the arguments of a command line. Optional arguments without a fixed value are
    /// omitted.
    fn arguments(&mut self, arguments: &[Argument]) -> Vec<String> {
        let argument = |argument: &Argument| {
            let Argument { name, value_hint, input } = argument;
            let hint = value_hint.as_deref().or(name.as_deref()).unwrap_or("value");
            match (self.value(hint, input), name) {
                (Some(value), Some(name)) => Some(format!("{name}={value}")),
                (None, Some(name)) if input.is_required => Some(name.clone()),
                (value, _) => value,
            }
        };
        arguments.iter().filter_map(argument).collect()
    }

    /// Returns the values of headers or environment variables by name.
    fn named(&mut self, inputs: &[NamedInput]) -> BTreeMap<String, String> {
        let value = |it: &NamedInput| Some((it.name.clone(), self.value(&it.name, &it.input)?));
        inputs.iter().filter_map(value).collect()
    }

    /// Returns the fixed value of `input`, its default, or a variable named after `hint`. Returns
    /// `None` if the input is optional and has no fixed value.
    fn value(&mut self, hint: &str, input: &Input) -> Option<String> {
        match (&input.value, &input.default) {
            (Some(value), _) => Some(self.filled(value, &input.variables)),
            _ if !input.is_required => None,
            (None, Some(default)) if !input.is_secret => Some(default.clone()),
            _ => Some(self.variable(hint, input)),
        }
    }

    /// Replaces the variables in braces in `template`. Braces of unknown variables remain.
    fn filled(&mut self, template: &str, variables: &BTreeMap<String, Input>) -> String {
        let mut text = template.to_owned();
        let braces = |name: &str| format!("{{{name}}}");
        for (name, input) in variables {
            if let Some(value) = fixed_value(input) {
                text = text.replace(&braces(name), value);
            }
        }
        // Several texts of the publisher may form a variable of `mcp.json`.
        text = without_variables(&text);
        for (name, input) in variables {
            if fixed_value(input).is_none() && text.contains(&braces(name)) {
                text = text.replace(&braces(name), &self.variable(name, input));
            }
        }
        text
    }

    /// Returns the variable for `input`, such as `${API_KEY}`.
    fn variable(&mut self, hint: &str, input: &Input) -> String {
        let hint = format!("{}{}", self.prefix, hint.trim_start_matches('-'));
        let letters = hint.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
        let letters = if letters.is_empty() { "value" } else { letters };
        let letters = letters.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
        let name = letters.collect::<String>().to_uppercase();
        let text = format!("${{{name}}}");
        if !self.variables.iter().any(|known| known.name == name) {
            let (description, is_secret) = (input.description.clone(), input.is_secret);
            self.variables.push(RegistryVariable { name, description, is_secret });
        }
        text
    }

    fn installation(self, kind: &str, entry: Map<String, Value>) -> Installation {
        Installation { kind: kind.to_owned(), entry, variables: self.variables }
    }
}

/// Returns the value of `input` that the publisher sets. Returns `None` if the user provides it.
fn fixed_value(input: &Input) -> Option<&str> {
    let default = input.default.as_deref().filter(|_| !input.is_secret);
    input.value.as_deref().or(default)
}
