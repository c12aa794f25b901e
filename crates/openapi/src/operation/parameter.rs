use std::collections::HashMap;

use reqwest::header::HeaderName;
use serde_json::{Map, Value};

use super::{SCHEMES_PER_STEP, SchemeKind, SecurityScheme};
use crate::document::Document;

/// The headers that are not arguments. OpenAPI 3.1, section 4.8.12.2, excludes the first three. The
/// others belong to the connection, or are set from the security requirement.
const RESERVED_HEADERS: [&str; 11] = [
    "accept",
    "accept-encoding",
    "content-type",
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "host",
    "proxy-authorization",
    "te",
    "transfer-encoding",
];

/// A parameter of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    /// The name in the request.
    pub(crate) name: String,
    pub(crate) location: Location,
    pub(crate) is_required: bool,
    pub(crate) style: Style,
    /// The schema as in the document, with the description of the parameter.
    pub(super) schema: Value,
}

/// The part of a request that contains a parameter (`in`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Location {
    Path,
    Query,
    Header,
    Cookie,
}

/// The serialization of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Simple {
        explode: bool,
    },
    Label {
        explode: bool,
    },
    Matrix {
        explode: bool,
    },
    Form {
        explode: bool,
        allow_reserved: bool,
    },
    /// Items are separated by this character. With `explode`, it is `Form`.
    Delimited {
        separator: char,
        allow_reserved: bool,
    },
    DeepObject {
        allow_reserved: bool,
    },
    /// JSON text, from `content` (OpenAPI 3.1, section 4.8.12.2.2).
    Json,
}

impl Parameter {
    /// Returns `true` if the parameter is the header `name`.
    pub(super) fn has_name(&self, name: &HeaderName) -> bool {
        self.name.eq_ignore_ascii_case(name.as_str())
    }
}

impl Location {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "path" => Self::Path,
            "query" => Self::Query,
            "header" => Self::Header,
            "cookie" => Self::Cookie,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }
}

/// Parses the parameters of `operation` and of its path item. A parameter of the operation replaces
/// a parameter of the path item with the same name and location.
pub(super) fn parse_all(
    document: &Document,
    path_item: &Value,
    operation: &Value,
    schemes: &[SecurityScheme],
) -> Result<Vec<Parameter>, String> {
    let mut parameters: Vec<Parameter> = Vec::new();
    let mut places: HashMap<(String, Location), usize> = HashMap::new();
    for owner in [path_item, operation] {
        let listed = owner.get("parameters").and_then(Value::as_array);
        for parameter in listed.into_iter().flatten() {
            document.spend(1 + schemes.len() / SCHEMES_PER_STEP)?;
            let Some(parameter) = parse(document, document.resolve(parameter)?)? else { continue };
            let key = (parameter.name.clone(), parameter.location);
            let place = *places.entry(key).or_insert(parameters.len());
            match parameters.get_mut(place) {
                Some(earlier) => *earlier = parameter,
                None => parameters.push(parameter),
            }
        }
    }
    parameters.retain(|parameter| !is_credential(parameter, schemes));
    Ok(parameters)
}

/// Returns `true` if a security scheme sets the parameter.
fn is_credential(parameter: &Parameter, schemes: &[SecurityScheme]) -> bool {
    schemes.iter().any(|scheme| match &scheme.kind {
        SchemeKind::ApiKey { name, location } => {
            *location == parameter.location
                && match location {
                    Location::Header => name.eq_ignore_ascii_case(&parameter.name),
                    _ => *name == parameter.name,
                }
        }
        _ => false,
    })
}

/// Parses `parameter`. Returns `None` for a header that is not an argument.
fn parse(document: &Document, parameter: &Value) -> Result<Option<Parameter>, String> {
    let name = parameter.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    let name = name.ok_or("a parameter has no `name`")?.to_owned();
    let location = parameter.get("in").and_then(Value::as_str).unwrap_or_default();
    let location = Location::parse(location)
        .ok_or_else(|| format!("parameter {name:?}: the location `in: {location}` is not supported"))?;
    if location == Location::Header {
        if RESERVED_HEADERS.iter().any(|it| name.eq_ignore_ascii_case(it)) {
            return Ok(None);
        }
        HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("parameter {name:?}: it is not a valid name of a header"))?;
    }
    let flag = |key: &str| parameter.get(key).and_then(Value::as_bool);
    let (schema, style) = match parameter.get("content").and_then(Value::as_object) {
        Some(content) => (content_schema(document, content, &name)?, Style::Json),
        None => (
            parameter.get("schema").cloned().unwrap_or(Value::Bool(true)),
            style(parameter, location, &name)?,
        ),
    };
    let is_required = location == Location::Path || flag("required").unwrap_or(false);
    let schema = with_notes(schema, parameter);
    Ok(Some(Parameter { name, location, is_required, style, schema }))
}

fn content_schema(document: &Document, content: &Map<String, Value>, name: &str) -> Result<Value, String> {
    let Some((media_type, entry)) = content.iter().next() else {
        return Err(format!("parameter {name:?}: its `content` has no media type"));
    };
    if !super::media_type::is_json(media_type) {
        return Err(format!("parameter {name:?}: the media type {media_type:?} is not supported"));
    }
    let schema = document.resolve(entry)?.get("schema");
    Ok(schema.cloned().unwrap_or(Value::Bool(true)))
}

fn style(parameter: &Value, location: Location, name: &str) -> Result<Style, String> {
    let default = match location {
        Location::Path | Location::Header => "simple",
        Location::Query | Location::Cookie => "form",
    };
    let style = parameter.get("style").and_then(Value::as_str).unwrap_or(default);
    let allow_reserved = parameter.get("allowReserved").and_then(Value::as_bool).unwrap_or(false);
    let explode = parameter.get("explode").and_then(Value::as_bool).unwrap_or(style == "form");
    Style::parse(style, explode, allow_reserved).filter(|style| style.is_allowed_in(location)).ok_or_else(
        || format!("parameter {name:?}: `style: {style}` is not supported in a {}", location.name()),
    )
}

impl Style {
    /// Returns the style `name`. `None` if there is no such style.
    pub(super) fn parse(name: &str, explode: bool, allow_reserved: bool) -> Option<Self> {
        Some(match name {
            "simple" => Self::Simple { explode },
            "label" => Self::Label { explode },
            "matrix" => Self::Matrix { explode },
            "form" => Self::Form { explode, allow_reserved },
            "spaceDelimited" | "pipeDelimited" if explode => Self::Form { explode, allow_reserved },
            "spaceDelimited" => Self::Delimited { separator: ' ', allow_reserved },
            "pipeDelimited" => Self::Delimited { separator: '|', allow_reserved },
            // `collectionFormat: tsv` of Swagger 2.0.
            "tabDelimited" => Self::Delimited { separator: '\t', allow_reserved },
            "deepObject" => Self::DeepObject { allow_reserved },
            _ => return None,
        })
    }

    /// Returns `true` if the style is defined for `location` (OpenAPI 3.1, section 4.8.12.3).
    fn is_allowed_in(self, location: Location) -> bool {
        match self {
            Self::Simple { .. } => matches!(location, Location::Path | Location::Header),
            Self::Label { .. } | Self::Matrix { .. } => location == Location::Path,
            Self::Form { .. } => matches!(location, Location::Query | Location::Cookie),
            Self::Delimited { .. } | Self::DeepObject { .. } => location == Location::Query,
            Self::Json => true,
        }
    }
}

/// Adds the description, the example and the deprecation of `parameter` to its schema.
fn with_notes(schema: Value, parameter: &Value) -> Value {
    let mut schema = match schema {
        Value::Object(keywords) => keywords,
        Value::Bool(true) => Map::new(),
        other => return other,
    };
    if let Some(description) =
        parameter.get("description").filter(|it| it.as_str().is_some_and(|it| !it.is_empty()))
    {
        schema.insert("description".to_owned(), description.clone());
    }
    if let Some(example) = parameter.get("example")
        && !schema.contains_key("example")
        && !schema.contains_key("$ref")
    {
        schema.insert("example".to_owned(), example.clone());
    }
    if parameter.get("deprecated") == Some(&Value::Bool(true)) {
        schema.insert("deprecated".to_owned(), true.into());
    }
    Value::Object(schema)
}
