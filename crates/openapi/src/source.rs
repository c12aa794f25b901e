//! [`OpenApiSource`]: the operations of a document as tools.

use std::{fmt, path::Path, sync::Arc};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use haft_core::{
    ToolSource,
    toolset::{Diagnostic, ListContext, SourceError, ToolList},
};
use reqwest::{
    Url,
    header::{HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret as _, SecretString};

use crate::{
    Credentials, OpenApiError, OpenApiOptions, definition,
    document::{self, Document},
    http,
    operation::{
        self, Operation, SchemeKind, SecurityScheme, Servers, check_base_url, document_servers, operations,
    },
    request::display_url,
    tool::{OpenApiTool, SharedSettings},
};

/// A tool source from an OpenAPI document: one tool per operation.
///
/// The document is read once. A call sends one HTTP request.
///
/// # Faults
///
/// - **An operation cannot be a tool**, for example because of a reference to another document: it
///   is reported as a [`Diagnostic`]. The other operations are not affected.
/// - **No operation has a permitted server**: an [`OpenApiError::NoServer`].
/// - **A request fails**: the variant of the [`ToolError`](haft_core::ToolError) is documented in
///   the [crate documentation](crate#errors-of-calls).
///
/// # Examples
///
/// ```
/// use haft_core::Toolset;
/// use haft_openapi::{OpenApiOptions, OpenApiSource};
///
/// let document = r#"
/// openapi: 3.1.0
/// info: { title: Pets, version: "1" }
/// servers: [{ url: "https://pets.example.org" }]
/// paths:
///   /pets/{id}:
///     get:
///       operationId: getPet
///       parameters: [{ name: id, in: path, required: true, schema: { type: integer } }]
///       responses: { "200": { description: A pet. } }
/// "#;
/// let source = OpenApiSource::from_text("pets", document, &OpenApiOptions::default())?;
/// assert_eq!(source.tool_list().names().next().unwrap().as_str(), "getPet");
/// let tools = Toolset::new().with_source(source);
/// # let _ = tools;
/// # Ok::<(), haft_openapi::OpenApiError>(())
/// ```
pub struct OpenApiSource {
    label: String,
    tools: ToolList,
}

impl OpenApiSource {
    /// Creates a source from `text`, a document in JSON or YAML. `name` becomes a part of the
    /// source's label, for example `openapi:pets`.
    ///
    /// # Errors
    ///
    /// Fails if the document as a whole or an option cannot be used.
    pub fn from_text(name: &str, text: &str, options: &OpenApiOptions) -> Result<Self, OpenApiError> {
        let document = Document::parse(text, None, options.max_document_bytes)?;
        Self::build(name, &document, options)
    }

    /// Creates a source from the document in the file `path`. `name` becomes a part of the source's
    /// label. Blocks the thread while it reads and parses: large documents take seconds.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, and for the reasons of [`from_text`](Self::from_text).
    pub fn from_path(
        name: &str,
        path: impl AsRef<Path>,
        options: &OpenApiOptions,
    ) -> Result<Self, OpenApiError> {
        let text = document::read(path.as_ref(), options.max_document_bytes)?;
        Self::from_text(name, &text, options)
    }

    /// Creates a source from the document at `url`. `name` becomes a part of the source's label.
    ///
    /// No credentials and no [headers of the options](OpenApiOptions::with_header) are sent to
    /// fetch the document. A relative server of the document is resolved against `url`, and only
    /// servers of the same origin are called, unless the options permit others.
    ///
    /// Requires a tokio runtime with I/O and time enabled.
    ///
    /// # Errors
    ///
    /// Fails if the document cannot be fetched within the timeout of the options, and for the
    /// reasons of [`from_text`](Self::from_text).
    pub async fn fetch(name: &str, url: &str, options: &OpenApiOptions) -> Result<Self, OpenApiError> {
        let url = parse_url("url", url)?;
        let client = client(options)?;
        let text = document::fetch(&client, &url, options.max_document_bytes, options.timeout).await?;
        let (name, options) = (name.to_owned(), options.clone());
        // Large documents take seconds.
        let building = tokio::task::spawn_blocking(move || {
            let document = Document::parse(&text, Some(url), options.max_document_bytes)?;
            Self::build(&name, &document, &options)
        });
        building.await.unwrap_or_else(|error| {
            Err(OpenApiError::Unreadable { location: "the URL".to_owned(), reason: error.to_string() })
        })
    }

    /// Returns the tools, with diagnostics about the operations that are no tools.
    pub fn tool_list(&self) -> &ToolList {
        &self.tools
    }

    fn build(name: &str, document: &Document, options: &OpenApiOptions) -> Result<Self, OpenApiError> {
        let label = format!("openapi:{name}");
        let schemes = operation::schemes(document);
        check_credentials(&schemes, options)?;
        let base_url = options.base_url.as_deref().map(parse_base_url).transpose()?;
        let allowed = options.allowed_origins.iter().map(|url| parse_url("allowed_origins", url));
        let allowed = allowed.collect::<Result<Vec<_>, _>>()?;
        let servers = document_servers(document, base_url, &options.server_variables, &allowed);
        let shared = Arc::new(shared_settings(options)?);
        let fixed_headers: Vec<_> = shared.headers.iter().map(|(name, _)| name.clone()).collect();
        let (mut tools, mut diagnostics) = (Vec::new(), Vec::new());
        // The operations without a server, and the first reason.
        let (mut without_server, mut no_server) = (0, None);
        let selected = operations(document).into_iter().filter(|entry| options.filter.selects(&entry.head));
        for entry in selected {
            let result = match server(&servers, &entry) {
                Ok(url) => Operation::parse(
                    document,
                    &schemes,
                    &entry,
                    url,
                    &fixed_headers,
                    options.has_output_schemas,
                ),
                Err(reason) => {
                    without_server += 1;
                    no_server.get_or_insert_with(|| reason.clone());
                    Err(reason)
                }
            };
            let tool = result.and_then(|operation| {
                let definition = definition::build(document, &entry.head, &operation)?;
                Ok(OpenApiTool::new(definition, operation, Arc::clone(&shared)))
            });
            match tool {
                Ok(tool) => tools.push((label.as_str(), Arc::new(tool) as _)),
                Err(reason) => diagnostics.push(Diagnostic::Quarantined {
                    tool: entry.head.id.clone(),
                    source_label: label.clone(),
                    reason,
                }),
            }
        }
        if let Some(reason) = no_server.filter(|_| tools.is_empty() && without_server == diagnostics.len()) {
            return Err(OpenApiError::NoServer { reason });
        }
        let tools = ToolList::collect(tools, diagnostics);
        Ok(Self { label, tools })
    }
}

fn server(servers: &Servers<'_>, entry: &operation::OperationEntry<'_>) -> Result<Url, String> {
    servers.base_url(entry.path_item.clone()?, entry.head.operation)
}

/// Checks that each credential has one of `schemes`, the security schemes of the document.
fn check_credentials(schemes: &[SecurityScheme], options: &OpenApiOptions) -> Result<(), OpenApiError> {
    let supported = schemes.iter().filter(|scheme| scheme.kind != SchemeKind::Unsupported);
    let known: Vec<_> = supported.map(|scheme| scheme.name.as_str()).collect();
    let mut used = [&options.credentials]
        .into_iter()
        .chain(options.principal_credentials.values())
        .flat_map(Credentials::schemes);
    match used.find(|scheme| !known.contains(scheme)) {
        None => Ok(()),
        Some(unknown) => {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let reason = format!("the document has no security scheme {unknown:?}; known: {known}");
            Err(OpenApiError::InvalidOption { option: "credentials", reason })
        }
    }
}

fn client(options: &OpenApiOptions) -> Result<reqwest::Client, OpenApiError> {
    options.client.clone().map_or_else(http::new_client, Ok)
}

fn shared_settings(options: &OpenApiOptions) -> Result<SharedSettings, OpenApiError> {
    let invalid = |reason: String| OpenApiError::InvalidOption { option: "headers", reason };
    let header = |(name, value): &(String, SecretString)| {
        let parsed = HeaderName::from_bytes(name.as_bytes());
        let parsed = parsed.map_err(|_| invalid(format!("{name:?} is not a valid name of a header")))?;
        let value = HeaderValue::from_str(value.expose_secret());
        let mut value =
            value.map_err(|_| invalid(format!("the value of {name:?} is not printable ASCII text")))?;
        value.set_sensitive(true);
        Ok((parsed, value))
    };
    if options.timeout.is_zero() {
        let reason = "each call would time out: set a positive duration".to_owned();
        return Err(OpenApiError::InvalidOption { option: "timeout", reason });
    }
    Ok(SharedSettings {
        client: client(options)?,
        headers: options.headers.iter().map(header).collect::<Result<_, _>>()?,
        header_secrets: options.headers.iter().flat_map(|(_, value)| header_secrets(value)).collect(),
        credentials: options.credentials.clone(),
        principal_credentials: options.principal_credentials.clone(),
        provider: options.provider.clone(),
        timeout: options.timeout,
        max_retry_wait: options.max_retry_wait,
        max_response_bytes: options.max_response_bytes,
    })
}

/// The minimum length of a part of a header value that is a secret, in bytes. A shorter one, such
/// as `dark` in `theme=dark`, may be a word of a response.
const MIN_SECRET_PART_BYTES: usize = 8;

/// Returns the secrets in the header value `value`: the value, and the password behind `Basic`.
/// Other parts of at least [`MIN_SECRET_PART_BYTES`] are secrets as well: the token after `Bearer`,
/// and the values of cookies.
fn header_secrets(value: &SecretString) -> Vec<SecretString> {
    let text = value.expose_secret();
    let bare = text.rsplit_once(' ').map(|(_, bare)| bare).filter(|_| !text.contains(';'));
    let cookies = text.split(';').filter_map(|pair| Some(pair.split_once('=')?.1.trim()));
    let parts = bare.into_iter().chain(cookies).filter(|part| part.len() >= MIN_SECRET_PART_BYTES);
    let mut secrets: Vec<_> = std::iter::once(text).chain(parts).map(str::to_owned).collect();
    let decoded = text.strip_prefix("Basic ").and_then(|encoded| STANDARD.decode(encoded.trim()).ok());
    if let Some(login) = decoded.and_then(|bytes| String::from_utf8(bytes).ok()) {
        secrets.extend(login.split_once(':').map(|(_, password)| password.to_owned()));
        secrets.push(login);
    }
    secrets.into_iter().map(SecretString::from).collect()
}

fn parse_url(option: &'static str, url: &str) -> Result<Url, OpenApiError> {
    match Url::parse(url) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        Ok(url) => {
            let reason = format!("{}: use the scheme http or https", display_url(&url));
            Err(OpenApiError::InvalidOption { option, reason })
        }
        Err(error) => Err(OpenApiError::InvalidOption { option, reason: error.to_string() }),
    }
}

fn parse_base_url(url: &str) -> Result<Url, OpenApiError> {
    let url = parse_url("base_url", url)?;
    check_base_url(url).map_err(|reason| OpenApiError::InvalidOption { option: "base_url", reason })
}

#[async_trait]
impl ToolSource for OpenApiSource {
    fn label(&self) -> &str {
        &self.label
    }

    async fn tools(&self, _cx: &ListContext) -> Result<ToolList, SourceError> {
        Ok(self.tools.clone())
    }
}

impl fmt::Debug for OpenApiSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenApiSource").field("label", &self.label).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::header_secrets;

    /// A short part of a header may be a word of a response.
    #[test]
    fn short_parts_of_headers_are_no_secrets() {
        for (value, expected) in [
            ("session=abcdef0123; theme=dark", &["session=abcdef0123; theme=dark", "abcdef0123"][..]),
            ("session=abc; theme=dark", &["session=abc; theme=dark"]),
            ("Bearer t0ken-7", &["Bearer t0ken-7"]),
            ("Bearer t0ken-77", &["Bearer t0ken-77", "t0ken-77"]),
            ("Basic dXNlcjpwYXNz", &["Basic dXNlcjpwYXNz", "dXNlcjpwYXNz", "pass", "user:pass"]),
        ] {
            let secrets = header_secrets(&value.to_owned().into());
            let secrets: Vec<_> = secrets.iter().map(ExposeSecret::expose_secret).collect();
            assert_eq!(secrets, expected);
        }
    }
}
