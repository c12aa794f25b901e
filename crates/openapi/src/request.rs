//! HTTP requests from the arguments of a call.

mod encode;
mod form;
mod secrets;
mod style;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haft_core::ToolError;
use reqwest::{
    Request, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderName, HeaderValue},
};
use secrecy::SecretString;
use serde_json::{Map, Value};

pub(crate) use self::secrets::without_secrets;

use self::encode::{encode, encode_cookie, scalar_text};
use crate::{
    Credentials, number,
    operation::{
        BodyArguments, BodyFormat, Location, Operation, Parameter, RequestBody, SchemeKind, SecurityScheme,
        Segment, Style,
    },
};

/// A request and the secrets in it.
pub(crate) struct PreparedRequest {
    pub(crate) request: Request,
    /// The secrets that a server may repeat in an error message.
    pub(crate) secrets: Vec<SecretString>,
    /// The schemes of the security requirement, if none of its alternatives has all credentials.
    pub(crate) missing_schemes: Vec<String>,
}

/// The parts of a request that parameters and credentials add to.
#[derive(Default)]
struct Parts {
    query: Vec<String>,
    headers: Vec<(String, String)>,
    cookies: Vec<String>,
    secrets: Vec<SecretString>,
}

/// Builds the request of a call to `operation`. `headers` are those of the options.
///
/// # Errors
///
/// Fails with [`ToolError::InvalidArguments`] if an argument cannot be part of the request.
pub(crate) async fn prepare(
    operation: &Operation,
    arguments: &Map<String, Value>,
    credentials: &Credentials,
    headers: &[(HeaderName, HeaderValue)],
) -> Result<PreparedRequest, ToolError> {
    for (argument, value) in arguments {
        if let Some(number) = number::first_rounded(value) {
            let reason =
                format!("the number {number} is beyond 64 bits and may be rounded: send fewer digits");
            return Err(invalid(argument, &reason));
        }
    }
    let mut parts = Parts::default();
    parts.query.extend(operation.path.query.clone());
    for (argument, parameter) in &operation.arguments.parameters {
        match arguments.get(argument) {
            None | Some(Value::Null) => {}
            Some(value) => {
                check_exploded_names(operation, parameter, value, headers)
                    .map_err(|reason| invalid(argument, &reason))?;
                parts.add_parameter(parameter, value).map_err(|reason| invalid(argument, &reason))?;
            }
        }
    }
    let missing_schemes = parts.add_credentials(operation, credentials);
    let mut url = operation.server.clone();
    url.set_path(&path(operation, arguments)?);
    url.set_query((!parts.query.is_empty()).then(|| parts.query.join("&")).as_deref());
    let mut request = Request::new(operation.method.clone(), url);
    request.headers_mut().extend(headers.iter().map(|(name, value)| (Some(name.clone()), value.clone())));
    if let Ok(accept) = HeaderValue::from_str(&operation.responses.accept) {
        request.headers_mut().entry(ACCEPT).or_insert(accept);
    }
    if !parts.cookies.is_empty() {
        let fixed = request.headers().get(COOKIE).and_then(|cookies| cookies.to_str().ok());
        parts.cookies.splice(0..0, fixed.map(str::to_owned));
        parts.headers.push((COOKIE.to_string(), parts.cookies.join("; ")));
    }
    for (name, value) in &parts.headers {
        let (Ok(name), Ok(mut value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        else {
            let message =
                format!("the credential for the header {name:?} has characters that a header cannot have");
            return Err(ToolError::Failed { message, source: None });
        };
        value.set_sensitive(matches!(name, AUTHORIZATION | COOKIE));
        request.headers_mut().insert(name, value);
    }
    if let Some((body, layout)) = &operation.arguments.body {
        add_body(&mut request, body, layout, operation, arguments).await?;
    }
    Ok(PreparedRequest { request, secrets: parts.secrets, missing_schemes })
}

/// Checks the members of `value`, an object whose members become parameters of their own. They must
/// not be other parameters of the operation, parameters in its path, its credentials, or cookies in
/// `headers`.
fn check_exploded_names(
    operation: &Operation,
    parameter: &Parameter,
    value: &Value,
    headers: &[(HeaderName, HeaderValue)],
) -> Result<(), String> {
    let names: Vec<String> = match (parameter.style, value) {
        (Style::Form { explode: true, .. }, Value::Object(members)) => members.keys().cloned().collect(),
        (Style::DeepObject { .. }, Value::Object(members)) => {
            members.keys().map(|key| format!("{}[{key}]", parameter.name)).collect()
        }
        _ => return Ok(()),
    };
    let is_deep = matches!(parameter.style, Style::DeepObject { .. });
    let mut others: Vec<String> = Vec::new();
    for (_, other) in &operation.arguments.parameters {
        if other.location == parameter.location && other.name != parameter.name {
            others.push(other.name.clone());
        }
    }
    for scheme in operation.security.iter().flatten() {
        if let SchemeKind::ApiKey { name, location } = &scheme.kind
            && *location == parameter.location
        {
            others.push(name.clone());
        }
    }
    match parameter.location {
        Location::Query => others.extend(operation.path.query_names()),
        Location::Cookie => others.extend(cookie_names(headers)),
        Location::Path | Location::Header => {}
    }
    // Some servers ignore case, or read `a[]` as a value of `a`.
    let base = |name: &str| {
        let name = if is_deep { name } else { name.split('[').next().unwrap_or_default() };
        name.trim().to_ascii_lowercase()
    };
    match names.iter().find(|name| others.iter().any(|other| base(other) == base(name))) {
        Some(name) => Err(format!("the member {name:?} is another parameter of the operation")),
        None => Ok(()),
    }
}

fn cookie_names(headers: &[(HeaderName, HeaderValue)]) -> Vec<String> {
    let cookies = headers.iter().filter(|(name, _)| *name == COOKIE);
    let pairs = cookies.filter_map(|(_, value)| value.to_str().ok()).flat_map(|text| text.split(';'));
    pairs.map(|pair| pair.split('=').next().unwrap_or_default().trim().to_owned()).collect()
}

fn invalid(argument: &str, reason: &str) -> ToolError {
    ToolError::InvalidArguments(format!("/{argument}: {reason}").into())
}

impl Parts {
    fn add_parameter(&mut self, parameter: &Parameter, value: &Value) -> Result<(), String> {
        match parameter.location {
            // The path is built from its template.
            Location::Path => {}
            Location::Query => self.query.extend(style::query(&parameter.name, parameter.style, value)),
            Location::Header => {
                let text = style::header(parameter.style, value);
                if HeaderValue::from_str(&text).is_err() {
                    return Err("a header has only printable ASCII characters".to_owned());
                }
                self.headers.push((parameter.name.clone(), text));
            }
            Location::Cookie => {
                self.cookies.extend(style::cookies(&parameter.name, parameter.style, value));
            }
        }
        Ok(())
    }

    /// Adds the credentials of the first alternative for which all of them are known. Returns the
    /// names of the schemes in all alternatives if there is none.
    fn add_credentials(&mut self, operation: &Operation, credentials: &Credentials) -> Vec<String> {
        let has_all = |schemes: &[SecurityScheme]| {
            schemes.iter().all(|it| it.kind != SchemeKind::Unsupported && credentials.get(&it.name).is_some())
        };
        let complete = operation.security.iter().find(|schemes| !schemes.is_empty() && has_all(schemes));
        let Some(schemes) = complete else {
            let is_optional = operation.security.iter().any(Vec::is_empty);
            let names = operation.security.iter().flatten().filter(|_| !is_optional);
            return names.map(|scheme| scheme.name.clone()).collect();
        };
        for scheme in schemes {
            if let Some(secret) = credentials.get(&scheme.name) {
                self.add_credential(&scheme.kind, secret);
            }
        }
        Vec::new()
    }

    fn add_credential(&mut self, kind: &SchemeKind, secret: &str) {
        self.secrets.push(secret.to_owned().into());
        match kind {
            SchemeKind::ApiKey { name, location: Location::Header } => {
                self.headers.push((name.clone(), secret.to_owned()));
            }
            SchemeKind::ApiKey { name, location: Location::Query } => {
                let encoded = encode(secret);
                self.query.push(format!("{}={encoded}", encode(name)));
                self.secrets.push(encoded.into());
            }
            SchemeKind::ApiKey { name, .. } => {
                self.cookies.push(format!("{}={}", encode(name), encode_cookie(secret)));
            }
            SchemeKind::Bearer => self.headers.push((AUTHORIZATION.to_string(), format!("Bearer {secret}"))),
            SchemeKind::Basic => {
                let encoded = STANDARD.encode(secret);
                self.secrets.push(encoded.clone().into());
                self.secrets.extend(secret.split_once(':').map(|(_, password)| password.to_owned().into()));
                self.headers.push((AUTHORIZATION.to_string(), format!("Basic {encoded}")));
            }
            SchemeKind::Unsupported => {}
        }
    }
}

/// Returns the path of the request, below the path of the server.
///
/// An argument cannot change the structure of the path: its delimiters are encoded, it is not
/// empty, and it forms no segment `.` or `..`, which a URL parser would remove.
fn path(operation: &Operation, arguments: &Map<String, Value>) -> Result<String, ToolError> {
    let mut path = operation.server.path().trim_end_matches('/').to_owned();
    let start = path.len();
    let mut last_argument = "";
    for segment in &operation.path.segments {
        match segment {
            Segment::Literal(text) => path.push_str(text),
            Segment::Parameter(name) => {
                let parameters = &operation.arguments.parameters;
                let found =
                    parameters.iter().find(|(_, it)| it.location == Location::Path && it.name == *name);
                let Some((argument, parameter)) = found else { continue };
                let value = arguments.get(argument).unwrap_or(&Value::Null);
                let text = style::path(name, parameter.style, value);
                if is_empty(value) || text.is_empty() {
                    return Err(invalid(argument, "a part of the path must not be empty"));
                }
                if text.bytes().all(|byte| byte == b'.') {
                    last_argument = argument;
                }
                path.push_str(&text);
            }
        }
    }
    match path[start..].split('/').any(|segment| matches!(segment, "." | "..")) {
        true => Err(invalid(last_argument, "it would change the path of the request")),
        false => Ok(path),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Adds the body to `request`, unless it is optional and no argument belongs to it.
async fn add_body(
    request: &mut Request,
    body: &RequestBody,
    layout: &BodyArguments,
    operation: &Operation,
    arguments: &Map<String, Value>,
) -> Result<(), ToolError> {
    let (name, value) = match layout {
        BodyArguments::Single(name) => (name.as_str(), arguments.get(name).cloned()),
        BodyArguments::Members => {
            let is_parameter = |key: &str| operation.arguments.parameters.iter().any(|(name, _)| name == key);
            let members = arguments.iter().filter(|(key, _)| !is_parameter(key));
            let members: Map<_, _> = members.map(|(key, value)| (key.clone(), value.clone())).collect();
            ("", (body.is_required || !members.is_empty()).then_some(Value::Object(members)))
        }
    };
    let Some(value) = value else { return Ok(()) };
    let mut content_type = body.media_type.clone();
    let bytes = match &body.format {
        BodyFormat::Json => serde_json::to_vec(&value).map_err(|error| invalid(name, &error.to_string()))?,
        BodyFormat::UrlEncoded(fields) => form::url_encoded(&value, fields).into_bytes(),
        BodyFormat::Multipart(fields) => {
            let multipart = form::multipart(&value, fields).await?;
            content_type = format!("multipart/form-data; boundary={}", multipart.boundary);
            multipart.bytes
        }
        BodyFormat::Text => scalar_text(&value).into_bytes(),
        BodyFormat::Binary => {
            form::decode_base64(&scalar_text(&value)).map_err(|reason| invalid(name, &reason))?
        }
    };
    let content_type = HeaderValue::from_str(&content_type);
    let content_type = content_type.map_err(|_| invalid(name, "the media type of the body is invalid"))?;
    request.headers_mut().insert(CONTENT_TYPE, content_type);
    *request.body_mut() = Some(bytes.into());
    Ok(())
}

/// Returns the scheme, the host, the port and the path of `url`. The query may contain secrets.
pub(crate) fn display_url(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}
