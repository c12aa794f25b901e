//! Security schemes and security requirements (OpenAPI 3.1, sections 4.8.27 and 4.8.30).

use serde_json::Value;

use super::{Location, SCHEMES_PER_STEP};
use crate::document::Document;

/// A security scheme that a credential can satisfy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecurityScheme {
    /// The key in `components.securitySchemes`.
    pub(crate) name: String,
    pub(crate) kind: SchemeKind,
}

/// The place of a credential in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SchemeKind {
    ApiKey {
        name: String,
        location: Location,
    },
    /// `http` with `bearer`, `oauth2` and `openIdConnect`.
    Bearer,
    /// `http` with `basic`. The credential is `user:password`.
    Basic,
    /// A scheme without a credential of this crate, such as `digest` and `mutualTLS`.
    Unsupported,
}

/// The schemes that are required together.
pub(crate) type SecurityAlternative = Vec<SecurityScheme>;

/// Returns the security schemes of `document`.
pub(crate) fn schemes(document: &Document) -> Vec<SecurityScheme> {
    let schemes = document.root().pointer("/components/securitySchemes").and_then(Value::as_object);
    let schemes = schemes.into_iter().flatten();
    let parsed = schemes.map(|(name, scheme)| {
        let kind = document.resolve(scheme).map_or(SchemeKind::Unsupported, parse);
        SecurityScheme { name: name.clone(), kind }
    });
    parsed.collect()
}

fn parse(scheme: &Value) -> SchemeKind {
    let text = |key: &str| scheme.get(key).and_then(Value::as_str);
    match text("type") {
        Some("apiKey") => match (text("name"), text("in")) {
            (Some(name), Some("header")) => api_key(name, Location::Header),
            (Some(name), Some("query")) => api_key(name, Location::Query),
            (Some(name), Some("cookie")) => api_key(name, Location::Cookie),
            _ => SchemeKind::Unsupported,
        },
        Some("oauth2" | "openIdConnect") => SchemeKind::Bearer,
        Some("http") => match text("scheme").map(str::to_ascii_lowercase).as_deref() {
            Some("bearer") => SchemeKind::Bearer,
            Some("basic") => SchemeKind::Basic,
            _ => SchemeKind::Unsupported,
        },
        _ => SchemeKind::Unsupported,
    }
}

fn api_key(name: &str, location: Location) -> SchemeKind {
    SchemeKind::ApiKey { name: name.to_owned(), location }
}

/// Returns the alternatives of the security requirement of `operation`, or of `document` if the
/// operation has none. An empty alternative permits requests without a credential.
///
/// # Errors
///
/// Fails if the document takes too many steps.
pub(super) fn alternatives(
    document: &Document,
    operation: &Value,
    schemes: &[SecurityScheme],
) -> Result<Vec<SecurityAlternative>, String> {
    let requirement = operation.get("security").or_else(|| document.root().get("security"));
    let requirement = requirement.and_then(Value::as_array).into_iter().flatten();
    let mut alternatives = Vec::new();
    for alternative in requirement {
        let names = alternative.as_object();
        document.spend(1 + names.map_or(0, |names| names.len() * (1 + schemes.len() / SCHEMES_PER_STEP)))?;
        let scheme = |name: &String| {
            let known = schemes.iter().find(|scheme| scheme.name == *name).cloned();
            known.unwrap_or_else(|| SecurityScheme { name: name.clone(), kind: SchemeKind::Unsupported })
        };
        alternatives.push(names.into_iter().flatten().map(|(name, _)| scheme(name)).collect());
    }
    Ok(alternatives)
}
