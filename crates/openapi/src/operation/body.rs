//! Request bodies: the choice of the media type, and the encoding of its fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    Style,
    media_type::{essence, is_json, is_text},
};
use crate::document::Document;

/// The maximum number of nested lists, `anyOf` and references around the schema of a file.
const MAX_FILE_DEPTH: usize = 8;

/// A request body in one of its documented media types.
#[derive(Clone, Debug)]
pub(crate) struct RequestBody {
    /// The media type of the request, for example `application/json`.
    pub(crate) media_type: String,
    pub(crate) format: BodyFormat,
    pub(crate) is_required: bool,
    pub(super) description: Option<String>,
    /// The schema as in the document, or the schema of the text of a raw body.
    pub(super) schema: Value,
}

/// The encoding of a request body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Json,
    UrlEncoded(BTreeMap<String, FieldEncoding>),
    Multipart(BTreeMap<String, FieldEncoding>),
    /// A string argument, sent as UTF-8.
    Text,
    /// A string argument in base64, sent as bytes.
    Binary,
}

/// The encoding of a field of a form (OpenAPI 3.1, section 4.8.15).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldEncoding {
    /// The declared media types, which may be ranges such as `image/*`. Empty without a
    /// declaration.
    pub(crate) media_types: Vec<String>,
    /// The style of a field in a form of type `application/x-www-form-urlencoded`, and of a list in
    /// a multipart form.
    pub(crate) style: Option<Style>,
    /// `true` if the argument is base64, and the field has the decoded bytes.
    pub(crate) is_binary: bool,
}

impl FieldEncoding {
    /// Returns `preferred` if it is declared, or else the first declared media type that is not a
    /// range.
    pub(crate) fn media_type<'s>(&'s self, preferred: Option<&'s str>) -> Option<&'s str> {
        let accepts = |media_type: &str| self.media_types.iter().any(|range| is_in_range(media_type, range));
        let first = self.media_types.iter().map(String::as_str).find(|it| !it.contains('*'));
        preferred.filter(|it| self.media_types.is_empty() || accepts(it)).or(first)
    }

    /// Returns `true` if the declared media types are neither text nor JSON.
    fn declares_bytes(&self) -> bool {
        let is_bytes = |media_type: &String| {
            let essence = essence(media_type);
            let is_range = essence.starts_with('*') || essence == "application/*";
            !is_range
                && !is_text(&essence)
                && !is_json(&essence)
                && essence != "application/x-www-form-urlencoded"
        };
        !self.media_types.is_empty() && self.media_types.iter().all(is_bytes)
    }

    /// Returns the declared media type of a text that JSON cannot replace, such as XML.
    fn text_type(&self) -> Option<&str> {
        self.media_type(None).filter(|it| is_text(it) && !is_json(it))
    }
}

fn is_in_range(media_type: &str, range: &str) -> bool {
    let (media_type, range) = (essence(media_type), essence(range));
    range == "*/*"
        || media_type == range
        || range.strip_suffix('*').is_some_and(|it| media_type.starts_with(it))
}

impl RequestBody {
    /// Parses `body`. Returns `None` if it has no media type.
    ///
    /// Of several media types, the first of this list is used: JSON, a form with fields in a
    /// multipart body, a URL-encoded form, text, and any other.
    pub(super) fn parse(document: &Document, body: &Value) -> Result<Option<Self>, String> {
        let content = body.get("content").and_then(Value::as_object).into_iter().flatten();
        let Some((media_type, entry)) = content.min_by_key(|(media_type, _)| rank(media_type)) else {
            return Ok(None);
        };
        let entry = document.resolve(entry)?;
        let schema = entry.get("schema").cloned().unwrap_or(Value::Bool(true));
        let encodings = |document| field_encodings(document, &schema, entry);
        let format = match rank(media_type) {
            0..=2 => BodyFormat::Json,
            3 => BodyFormat::Multipart(encodings(document)?),
            4 => BodyFormat::UrlEncoded(encodings(document)?),
            5 => BodyFormat::Text,
            _ => BodyFormat::Binary,
        };
        let schema = match &format {
            BodyFormat::Json | BodyFormat::UrlEncoded(_) => schema,
            BodyFormat::Multipart(encodings) => with_field_arguments(document, schema, encodings, 0)?,
            BodyFormat::Text => {
                json!({"type": "string", "description": format!("The body, as {media_type}.")})
            }
            BodyFormat::Binary => {
                let description = format!("The body of type {media_type}, in base64.");
                json!({"type": "string", "contentEncoding": "base64", "description": description})
            }
        };
        let media_type = match (&format, media_type.as_str()) {
            (BodyFormat::Json, media_type) if media_type.contains('*') => "application/json",
            (_, media_type) if media_type.contains('*') => "application/octet-stream",
            (_, media_type) => media_type,
        };
        Ok(Some(Self {
            media_type: media_type.to_owned(),
            format,
            is_required: body.get("required").and_then(Value::as_bool).unwrap_or(false),
            description: body.get("description").and_then(Value::as_str).map(str::to_owned),
            schema,
        }))
    }
}

/// Returns the position of `media_type` in the order of preference.
fn rank(media_type: &str) -> u8 {
    let essence = essence(media_type);
    match essence.as_str() {
        "application/json" => 0,
        "*/*" | "application/*" => 2,
        essence if is_json(essence) => 1,
        "multipart/form-data" => 3,
        "application/x-www-form-urlencoded" => 4,
        essence if is_text(essence) => 5,
        _ => 6,
    }
}

/// Returns the encodings of the fields of a form with the schema `schema`.
fn field_encodings(
    document: &Document,
    schema: &Value,
    entry: &Value,
) -> Result<BTreeMap<String, FieldEncoding>, String> {
    let mut fields: BTreeMap<String, FieldEncoding> = BTreeMap::new();
    let encodings = entry.get("encoding").and_then(Value::as_object);
    for (name, encoding) in encodings.into_iter().flatten() {
        let text = |key: &str| encoding.get(key).and_then(Value::as_str);
        let flag = |key: &str| encoding.get(key).and_then(Value::as_bool);
        let style = text("style").or_else(|| flag("explode").map(|_| "form"));
        let field = fields.entry(name.clone()).or_default();
        field.style = style.and_then(|style| {
            let explode = flag("explode").unwrap_or(style == "form");
            Style::parse(style, explode, flag("allowReserved").unwrap_or(false))
        });
        let media_types = text("contentType").unwrap_or_default().split(',').map(str::trim);
        field.media_types = media_types.filter(|it| !it.is_empty()).map(str::to_owned).collect();
    }
    let mut properties = Map::new();
    collect_properties(document, schema, &mut properties, 0)?;
    for (name, property) in &properties {
        let field = fields.entry(name.clone()).or_default();
        field.is_binary = file_schema(document, property, field.declares_bytes(), 0).is_some();
        if field.is_binary && field.media_types.is_empty() {
            field.media_types.extend(content_media_type(document, property));
        }
    }
    Ok(fields)
}

/// Adds the properties of `schema` and of its `allOf` to `properties`.
fn collect_properties(
    document: &Document,
    schema: &Value,
    properties: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    let schema = document.resolve(schema)?;
    let own = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (name, property) in own {
        document.spend(1)?;
        properties.entry(name.clone()).or_insert_with(|| property.clone());
    }
    for member in composed(schema, depth) {
        document.spend(1)?;
        collect_properties(document, member, properties, depth + 1)?;
    }
    Ok(())
}

fn composed(schema: &Value, depth: usize) -> impl Iterator<Item = &Value> {
    let members = schema.get("allOf").and_then(Value::as_array).filter(|_| depth < MAX_FILE_DEPTH);
    members.into_iter().flatten()
}

/// Returns `contentMediaType` of the bytes that `property` describes.
fn content_media_type(document: &Document, property: &Value) -> Option<String> {
    let property = document.resolve(property).ok()?;
    let property = property.get("items").and_then(|items| document.resolve(items).ok()).unwrap_or(property);
    property.get("contentMediaType")?.as_str().map(str::to_owned)
}

/// Returns the schema of a multipart body, in which files are strings in base64, and objects of a
/// text type such as XML are strings.
fn with_field_arguments(
    document: &Document,
    schema: Value,
    encodings: &BTreeMap<String, FieldEncoding>,
    depth: usize,
) -> Result<Value, String> {
    if !encodings.values().any(|field| field.is_binary || field.text_type().is_some()) {
        return Ok(schema);
    }
    document.spend(1)?;
    let mut schema = document.resolve(&schema)?.clone();
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        let Some(field) = encodings.get(name) else { continue };
        let described = document.resolve(property)?;
        let description = described.get("description").and_then(Value::as_str).filter(|it| !it.is_empty());
        if let Some(mut file) = file_schema(document, property, field.declares_bytes(), 0) {
            let note = match description {
                Some(description) => format!("{} The file is in base64.", description.trim_end()),
                None => "The content of the file, in base64.".to_owned(),
            };
            file.insert("description".to_owned(), note.into());
            *property = Value::Object(file);
        } else if let Some(media_type) = field.text_type().filter(|_| is_object(described)) {
            let description = description.map(|it| format!("{} ", it.trim_end())).unwrap_or_default();
            *property =
                json!({"type": "string", "description": format!("{description}The text, as {media_type}.")});
        }
    }
    if depth < MAX_FILE_DEPTH
        && let Some(Value::Array(members)) = schema.get_mut("allOf")
    {
        for member in members {
            *member = with_field_arguments(document, member.take(), encodings, depth + 1)?;
        }
    }
    Ok(schema)
}

fn is_object(schema: &Value) -> bool {
    schema.get("type").map_or_else(|| schema.get("properties").is_some(), |it| it == "object")
}

/// Returns the schema of an argument in base64 if `schema` describes bytes or a list of bytes.
/// `None` for other values. With `declares_bytes`, a string is bytes.
fn file_schema(
    document: &Document,
    schema: &Value,
    declares_bytes: bool,
    depth: usize,
) -> Option<Map<String, Value>> {
    document.spend(1).ok()?;
    let schema = document.resolve(schema).ok().filter(|_| depth < MAX_FILE_DEPTH)?;
    let mut file = Map::new();
    if is_bytes(schema) || (declares_bytes && is_plain_string(schema)) {
        file.insert("type".to_owned(), "string".into());
        file.insert("contentEncoding".to_owned(), "base64".into());
        return Some(file);
    }
    if let Some(items) = schema.get("items") {
        let items = file_schema(document, items, declares_bytes, depth + 1)?;
        file.insert("type".to_owned(), "array".into());
        file.insert("items".to_owned(), items.into());
        let bounds = ["minItems", "maxItems"].into_iter();
        file.extend(bounds.filter_map(|key| Some((key.to_owned(), schema.get(key)?.clone()))));
        return Some(file);
    }
    // FastAPI describes an optional file as `anyOf` of a file and null.
    let members = schema.get("anyOf").and_then(Value::as_array)?;
    members.iter().find_map(|member| file_schema(document, member, declares_bytes, depth + 1))
}

/// Returns `true` for a string, or any value, without a keyword about its form.
fn is_plain_string(schema: &Value) -> bool {
    let Some(keywords) = schema.as_object() else { return schema == &Value::Bool(true) };
    keywords.get("type").is_none_or(|it| it == "string")
        && keywords.keys().all(|key| {
            key.starts_with("x-")
                || matches!(
                    &**key,
                    "type"
                        | "title"
                        | "description"
                        | "example"
                        | "examples"
                        | "contentMediaType"
                        | "nullable"
                )
        })
}

/// Returns `true` for `format: binary` of OpenAPI 3.0, `type: file` of Swagger 2.0, and a string
/// with a `contentMediaType` that is not text and without `contentEncoding` of OpenAPI 3.1.
fn is_bytes(schema: &Value) -> bool {
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    let media_type = text("contentMediaType").filter(|_| text("contentEncoding").is_none());
    text("format") == Some("binary")
        || text("type") == Some("file")
        || media_type.is_some_and(|it| !is_text(it) && !is_json(it))
}
