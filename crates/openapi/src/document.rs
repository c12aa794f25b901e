//! [`Document`]: an OpenAPI document as JSON, with its version and its references.

mod fetch;
mod swagger;

use haft_core::text::truncate;
use reqwest::Url;
use serde_json::Value;

use crate::OpenApiError;

pub(crate) use fetch::{fetch, read};

/// The maximum number of consecutive references that are followed, as in `a → b → c`.
const MAX_HOPS: usize = 16;
/// The maximum nesting of a YAML document. `serde_json` limits JSON to 127 levels.
const MAX_DEPTH: usize = 127;
/// The maximum number of values in a YAML document, with the values of repeated aliases. The
/// document of GitHub has about 600,000.
const MAX_YAML_NODES: usize = 4_000_000;

/// A parsed OpenAPI document.
pub(crate) struct Document {
    /// The document in the form of OpenAPI 3.
    root: Value,
    pub(crate) dialect: Dialect,
    /// The URL from which the document was fetched.
    pub(crate) url: Option<Url>,
}

/// The dialect of the schemas in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// The extended subset of JSON Schema in Swagger 2.0 and OpenAPI 3.0.
    OpenApi30,
    /// JSON Schema 2020-12, of OpenAPI 3.1 and later.
    JsonSchema,
}

impl Document {
    /// Parses `text`, as JSON if it starts with `{`, and otherwise as YAML. A document of Swagger
    /// 2.0 is converted to OpenAPI 3.0.
    pub(crate) fn parse(text: &str, url: Option<Url>, max_bytes: usize) -> Result<Self, OpenApiError> {
        if text.len() > max_bytes {
            return Err(OpenApiError::TooLarge { limit: max_bytes });
        }
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let root = if text.starts_with('{') { parse_json(text) } else { parse_yaml(text) }?;
        match version(&root) {
            Some((_, 2)) => {
                let root = swagger::to_openapi(root, url.as_ref());
                Ok(Self { root, dialect: Dialect::OpenApi30, url })
            }
            Some((0, 3)) => Ok(Self { root, dialect: Dialect::OpenApi30, url }),
            Some((1 | 2, 3)) => Ok(Self { root, dialect: Dialect::JsonSchema, url }),
            _ => Err(OpenApiError::UnsupportedVersion { found: describe_version(&root) }),
        }
    }

    pub(crate) fn root(&self) -> &Value {
        &self.root
    }

    /// Returns `value`, or the target of its `$ref`.
    ///
    /// # Errors
    ///
    /// Fails with a description of the fault if the reference is external, circular or has no
    /// target.
    pub(crate) fn resolve<'d>(&'d self, mut value: &'d Value) -> Result<&'d Value, String> {
        for _ in 0..MAX_HOPS {
            let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return Ok(value) };
            value = self.target(reference)?.1;
        }
        Err("a `$ref` is circular".to_owned())
    }

    /// Returns the JSON pointer and the value that `reference`, the value of a `$ref`, stands for.
    pub(crate) fn target(&self, reference: &str) -> Result<(String, &Value), String> {
        let shown = truncate(reference, 200);
        let Some(fragment) = reference.strip_prefix('#') else {
            return Err(format!(
                "the reference {shown:?} is to another document, which is not fetched: bundle the documents into one"
            ));
        };
        let decoded = percent_encoding::percent_decode_str(fragment).decode_utf8();
        let pointer =
            decoded.map_err(|_| format!("the reference {shown:?} is not valid UTF-8"))?.into_owned();
        match self.root.pointer(&pointer) {
            Some(target) => Ok((pointer, target)),
            None => Err(format!("the reference {shown:?} has no target")),
        }
    }
}

fn parse_json(text: &str) -> Result<Value, OpenApiError> {
    serde_json::from_str(text)
        .map_err(|error| OpenApiError::Syntax { format: "JSON", reason: error.to_string() })
}

/// Parses `text` as YAML 1.2 with the limits of this module. An alias counts with all its values.
fn parse_yaml(text: &str) -> Result<Value, OpenApiError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_YAML_NODES,
            max_events: 2 * MAX_YAML_NODES,
            max_documents: 1,
        },
        // Values such as `no` and `on` are strings (YAML 1.2, section 10.3.2).
        strict_booleans: true,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let error = error.without_snippet().to_string();
        // This remedy is for the program, and not for the author of the document.
        let reason = error.replace(", set DuplicateKeyPolicy in Options if acceptable", "");
        OpenApiError::Syntax { format: "YAML", reason }
    })
}

/// Returns the minor and the major version of the document.
fn version(root: &Value) -> Option<(u32, u32)> {
    let declared = root.get("openapi").or_else(|| root.get("swagger"))?;
    // In YAML, `openapi: 3.1` is a number.
    let text = declared.as_str().map_or_else(|| declared.to_string(), str::to_owned);
    let mut parts = text.split('.').map(|part| part.parse().ok());
    let major = parts.next()??;
    let is_swagger = root.get("openapi").is_none();
    let minor = parts.next().flatten().unwrap_or(0);
    (is_swagger == (major == 2)).then_some((minor, major))
}

fn describe_version(root: &Value) -> String {
    let shown = |value: &Value| truncate(&value.to_string(), 40).to_owned();
    match (root.get("openapi"), root.get("swagger"), root.get("swaggerVersion"), root.get("asyncapi")) {
        (Some(version), ..) => format!("OpenAPI {} is not supported", shown(version)),
        (_, Some(version), ..) => format!("Swagger {} is not supported", shown(version)),
        (_, _, Some(version), _) => format!("Swagger {} is not supported", shown(version)),
        (_, _, _, Some(_)) => "an AsyncAPI document is not supported".to_owned(),
        _ => "the document has neither `openapi` nor `swagger`".to_owned(),
    }
}

#[cfg(test)]
mod tests;
