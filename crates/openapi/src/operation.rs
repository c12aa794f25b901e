//! Operations of a document: their parameters, bodies, responses, servers and security.

mod arguments;
mod body;
pub(crate) mod media_type;
mod parameter;
mod response;
mod security;
mod server;
mod template;

use std::collections::HashMap;

use reqwest::{Method, Url, header::HeaderName};
use serde_json::Value;

use crate::document::Document;

pub(crate) use arguments::{Arguments, BodyArguments};
pub(crate) use body::{BodyFormat, FieldEncoding, RequestBody};
pub(crate) use parameter::{Location, Parameter, Style};
pub(crate) use response::{DocumentedResponse, Responses, status_object};
pub(crate) use security::{SchemeKind, SecurityAlternative, SecurityScheme, schemes};
pub(crate) use server::{Servers, check_base_url, document_servers};
pub(crate) use template::{PathTemplate, Segment};

/// The fields of a path item that are operations (OpenAPI 3.2, section 4.9.1).
const METHODS: [&str; 9] = ["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"];

/// The methods that no tool has. A server sends a request with `TRACE` back with its credentials
/// (RFC 9110, section 9.3.8), and so does IIS with `TRACK`. `CONNECT` has no path.
const UNSUPPORTED_METHODS: [&str; 3] = ["CONNECT", "TRACE", "TRACK"];

/// The number of security schemes that a name is compared with in one step of the document's
/// budget.
const SCHEMES_PER_STEP: usize = 16;

/// An operation, before its parts are parsed.
#[derive(Clone)]
pub(crate) struct OperationHead<'d> {
    /// The `operationId`, or `METHOD PATH`. Unique in the document.
    pub(crate) id: String,
    pub(crate) method: Method,
    pub(crate) path: &'d str,
    pub(crate) operation: &'d Value,
}

impl<'d> OperationHead<'d> {
    pub(crate) fn tags(&self) -> impl Iterator<Item = &'d str> {
        let tags = self.operation.get("tags").and_then(Value::as_array);
        tags.into_iter().flatten().filter_map(Value::as_str)
    }

    pub(crate) fn text(&self, key: &str) -> Option<&'d str> {
        self.operation.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
    }

    pub(crate) fn is_deprecated(&self) -> bool {
        self.operation.get("deprecated") == Some(&Value::Bool(true))
    }
}

/// An operation with its path item.
pub(crate) struct OperationEntry<'d> {
    pub(crate) head: OperationHead<'d>,
    /// The path item, or the fault of its reference.
    pub(crate) path_item: Result<&'d Value, String>,
}

/// Returns the operations of `document`, in order.
///
/// An operation without `operationId` has the id `METHOD PATH`. Operations that share an
/// `operationId` have the id `ID METHOD PATH`, so that an id does not depend on their order.
pub(crate) fn operations(document: &Document) -> Vec<OperationEntry<'_>> {
    let paths = document.root().get("paths").and_then(Value::as_object);
    let is_path = |(path, _): &(&String, &Value)| path.starts_with('/');
    let paths = paths.into_iter().flatten().filter(is_path);
    let mut entries: Vec<_> = paths.flat_map(|(path, item)| path_operations(document, path, item)).collect();
    let mut uses: HashMap<String, usize> = HashMap::new();
    for entry in &entries {
        *uses.entry(entry.head.id.clone()).or_default() += 1;
    }
    for OperationEntry { head, .. } in &mut entries {
        if uses.get(&head.id).is_some_and(|uses| *uses > 1) {
            head.id = format!("{} {}", head.id, default_id(&head.method, head.path));
        }
    }
    entries
}

fn path_operations<'d>(document: &'d Document, path: &'d str, item: &'d Value) -> Vec<OperationEntry<'d>> {
    let resolved = document.resolve(item);
    let Ok(path_item) = resolved else {
        let head = OperationHead { id: path.to_owned(), method: Method::GET, path, operation: &Value::Null };
        return vec![OperationEntry { head, path_item: resolved }];
    };
    let fixed = METHODS.iter().filter_map(|name| Some((*name, path_item.get(name)?)));
    let additional = path_item.get("additionalOperations").and_then(Value::as_object);
    let additional = additional.into_iter().flatten().map(|(name, operation)| (name.as_str(), operation));
    fixed
        .chain(additional)
        .filter(|(_, operation)| operation.is_object())
        .filter_map(|(name, operation)| {
            let method = Method::from_bytes(name.to_uppercase().as_bytes()).ok()?;
            let id = operation.get("operationId").and_then(Value::as_str).filter(|id| !id.is_empty());
            let id = id.map_or_else(|| default_id(&method, path), str::to_owned);
            let head = OperationHead { id, method, path, operation };
            Some(OperationEntry { head, path_item: Ok(path_item) })
        })
        .collect()
}

fn default_id(method: &Method, path: &str) -> String {
    format!("{} {path}", method.as_str().to_lowercase())
}

/// A parsed operation: everything that a request needs.
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) server: Url,
    pub(crate) path: PathTemplate,
    pub(crate) arguments: Arguments,
    pub(crate) responses: Responses,
    /// The alternatives of the security requirement, in order.
    pub(crate) security: Vec<SecurityAlternative>,
}

impl Operation {
    /// Parses the operation `entry`. `schemes` are those of the document, and `server` is the base
    /// URL of its requests. The parameters with the names `fixed_headers` are not arguments.
    /// Without `has_output_schemas`, responses are not checked.
    ///
    /// # Errors
    ///
    /// Fails with a description of the fault, for a diagnostic.
    pub(crate) fn parse(
        document: &Document,
        schemes: &[SecurityScheme],
        entry: &OperationEntry<'_>,
        server: Url,
        fixed_headers: &[HeaderName],
        has_output_schemas: bool,
    ) -> Result<Self, String> {
        let OperationHead { method, path, operation, .. } = &entry.head;
        let path_item = entry.path_item.clone()?;
        if UNSUPPORTED_METHODS.contains(&method.as_str()) {
            return Err(format!(
                "the method {method} is not supported, because it shows the credentials of a request to others"
            ));
        }
        let mut parameters = parameter::parse_all(document, path_item, operation, schemes)?;
        parameters.retain(|it| {
            it.location != Location::Header || !fixed_headers.iter().any(|name| it.has_name(name))
        });
        let path = PathTemplate::parse(path, &parameters)?;
        // A parameter in the path of the operation has its value there.
        let fixed = path.query_names();
        parameters.retain(|it| it.location != Location::Query || !fixed.contains(&it.name));
        let body = match operation.get("requestBody") {
            // The semantics of a body are not defined for these methods (RFC 9110, section 9.3).
            Some(_) if matches!(*method, Method::GET | Method::HEAD) => None,
            Some(body) => RequestBody::parse(document, document.resolve(body)?)?,
            None => None,
        };
        Ok(Self {
            method: method.clone(),
            server,
            path,
            arguments: Arguments::build(document, parameters, body)?,
            responses: Responses::parse(document, method, operation, has_output_schemas),
            security: security::alternatives(document, operation, schemes)?,
        })
    }
}
