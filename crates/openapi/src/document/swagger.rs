//! Conversion of Swagger 2.0 to the form of OpenAPI 3.0.
//!
//! References such as `#/definitions/Pet` stay valid, because all other fields of the document are
//! kept.

use std::collections::BTreeMap;

use reqwest::Url;
use serde_json::{Map, Value, json};

/// The fields of a path item that are operations.
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];
const URL_ENCODED: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data";
const JSON: &str = "application/json";
/// The maximum number of media types of a body.
const MAX_MEDIA_TYPES: usize = 16;

/// The fields of a parameter that are not a part of its schema.
const PARAMETER_FIELDS: [&str; 7] =
    ["name", "in", "required", "description", "collectionFormat", "allowEmptyValue", "schema"];

/// Converts `root`. `url` is the URL of the document, with the defaults of its host and scheme.
pub(super) fn to_openapi(root: Value, url: Option<&Url>) -> Value {
    let mut converted = root.clone();
    let Value::Object(fields) = &mut converted else { return root };
    if let Some(server) = server(&root, url) {
        fields.insert("servers".to_owned(), json!([{ "url": server }]));
    }
    let schemes = root.get("securityDefinitions").and_then(Value::as_object).into_iter().flatten();
    let schemes: Map<_, _> = schemes.map(|(name, scheme)| (name.clone(), security_scheme(scheme))).collect();
    fields.insert("components".to_owned(), json!({ "securitySchemes": schemes }));
    let paths = fields.get_mut("paths").and_then(Value::as_object_mut).into_iter().flatten();
    for (_, item) in paths {
        convert_path_item(&root, item);
    }
    converted
}

/// Returns the base URL. `None` if the document has no `host` and no `basePath`.
fn server(root: &Value, url: Option<&Url>) -> Option<String> {
    let text = |key: &str| root.get(key).and_then(Value::as_str);
    let base = text("basePath").unwrap_or("/");
    let Some(host) = text("host") else { return text("basePath").map(str::to_owned) };
    let schemes: Vec<_> = strings(root.get("schemes")).collect();
    let scheme = match schemes.as_slice() {
        [] => url.map_or("https", |url| url.scheme()),
        schemes if schemes.contains(&"https") => "https",
        [first, ..] => first,
    };
    Some(format!("{scheme}://{host}/{}", base.trim_start_matches('/')))
}

fn strings(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn security_scheme(scheme: &Value) -> Value {
    match scheme.get("type").and_then(Value::as_str) {
        Some("basic") => json!({"type": "http", "scheme": "basic"}),
        _ => scheme.clone(),
    }
}

fn convert_path_item(root: &Value, item: &mut Value) {
    let Some(fields) = item.as_object_mut() else { return };
    let shared = fields.shift_remove("parameters");
    for method in METHODS {
        if let Some(operation) = fields.get_mut(method).and_then(Value::as_object_mut) {
            convert_operation(root, operation, shared.as_ref());
        }
    }
}

/// Converts the parameters and responses of `operation`. `shared` are the parameters of its path
/// item.
fn convert_operation(root: &Value, operation: &mut Map<String, Value>, shared: Option<&Value>) {
    let own = operation.shift_remove("parameters");
    // A parameter of the operation replaces one of its path item.
    let mut parameters: BTreeMap<_, &Value> = BTreeMap::new();
    let mut order = Vec::new();
    for parameter in [shared, own.as_ref()].into_iter().flatten().filter_map(Value::as_array).flatten() {
        let parameter = resolve(root, parameter);
        let field = |key: &str| parameter.get(key).and_then(Value::as_str).unwrap_or_default();
        let identity = (field("name"), field("in"));
        if parameters.insert(identity, parameter).is_none() {
            order.push(identity);
        }
    }
    let parameters: Vec<&Value> = order.iter().filter_map(|it| parameters.get(it).copied()).collect();
    let location = |it: &Value| it.get("in").and_then(Value::as_str).unwrap_or_default().to_owned();
    let consumes = media_types(root, operation, "consumes");
    let (fields, others): (Vec<_>, Vec<_>) =
        parameters.into_iter().partition(|it| location(it) == "formData");
    let (bodies, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|it| location(it) == "body");
    if let Some(body) = bodies.first() {
        operation.insert("requestBody".to_owned(), request_body(body, &consumes));
    } else if !fields.is_empty() {
        operation.insert("requestBody".to_owned(), form_body(&fields, &consumes));
    }
    let parameters: Vec<_> = others.into_iter().map(parameter).collect();
    operation.insert("parameters".to_owned(), parameters.into());
    let produces = media_types(root, operation, "produces");
    let responses = operation.get_mut("responses").and_then(Value::as_object_mut).into_iter().flatten();
    for (_, response) in responses {
        *response = convert_response(resolve(root, response), &produces);
    }
}

/// Returns the target of the `$ref` of `value`, or `value`.
fn resolve<'v>(root: &'v Value, value: &'v Value) -> &'v Value {
    let pointer = value.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix('#'));
    pointer.and_then(|pointer| root.pointer(pointer)).unwrap_or(value)
}

/// Returns the media types in the field `key` of `operation` or `root`.
fn media_types(root: &Value, operation: &Map<String, Value>, key: &str) -> Vec<String> {
    let own = operation.get(key).or_else(|| root.get(key));
    let mut media_types: Vec<_> = strings(own).map(str::to_owned).collect();
    // Each of them gets a copy of the schema.
    media_types.truncate(MAX_MEDIA_TYPES);
    media_types
}

fn request_body(parameter: &Value, consumes: &[String]) -> Value {
    let schema = parameter.get("schema").cloned().unwrap_or(Value::Bool(true));
    let is_form = |media_type: &&String| [URL_ENCODED, MULTIPART].contains(&media_type.as_str());
    let mut content: Map<_, _> = consumes
        .iter()
        .filter(|media_type| !is_form(media_type))
        .map(|media_type| (media_type.clone(), json!({ "schema": schema })))
        .collect();
    if content.is_empty() {
        content.insert(JSON.to_owned(), json!({ "schema": schema }));
    }
    json!({
        "content": content,
        "required": parameter.get("required").cloned().unwrap_or(Value::Bool(false)),
        "description": parameter.get("description").cloned().unwrap_or_default(),
    })
}

/// Returns the body of a form with `fields`, the parameters with `in: formData`.
fn form_body(fields: &[&Value], consumes: &[String]) -> Value {
    let name = |field: &Value| field.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_file = |field: &&Value| field.get("type").is_some_and(|it| it == "file");
    let is_required = |field: &&&Value| field.get("required") == Some(&Value::Bool(true));
    let properties: Map<_, _> =
        fields.iter().map(|field| (name(field), parameter_schema(field, true))).collect();
    let required: Vec<_> = fields.iter().filter(is_required).map(|field| name(field)).collect();
    let has_files = fields.iter().any(is_file);
    let is_multipart = has_files || consumes.first().is_some_and(|it| it == MULTIPART);
    let media_type = if is_multipart { MULTIPART } else { URL_ENCODED };
    let schema = json!({"type": "object", "properties": properties, "required": required});
    let lists = fields.iter().filter(|field| field.get("type").is_some_and(|it| it == "array"));
    let encoding = |field: &&&Value| {
        let (style, explode) = list_style(field);
        (name(field), json!({"style": style, "explode": explode}))
    };
    let encodings: Map<_, _> = lists.map(|field| encoding(&field)).collect();
    let mut content = json!({ "schema": schema });
    if let Some(content) = content.as_object_mut().filter(|_| !encodings.is_empty()) {
        content.insert("encoding".to_owned(), encodings.into());
    }
    json!({"content": { media_type: content }, "required": !required.is_empty()})
}

fn parameter(parameter: &Value) -> Value {
    let mut converted = Map::new();
    for key in ["name", "in", "required", "description"] {
        converted.extend(parameter.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    let is_query = parameter.get("in").is_some_and(|it| it == "query");
    if is_query {
        let (style, explode) = list_style(parameter);
        converted.insert("style".to_owned(), style.into());
        converted.insert("explode".to_owned(), explode.into());
    }
    converted.insert("schema".to_owned(), parameter_schema(parameter, false));
    Value::Object(converted)
}

/// Returns the style of a list and its `explode`. The default is values with commas.
fn list_style(parameter: &Value) -> (&'static str, bool) {
    match parameter.get("collectionFormat").and_then(Value::as_str) {
        Some("multi") => ("form", true),
        Some("ssv") => ("spaceDelimited", false),
        Some("pipes") => ("pipeDelimited", false),
        Some("tsv") => ("tabDelimited", false),
        _ => ("form", false),
    }
}

/// Returns the schema in the fields of `parameter`. The schema of a form field has its description.
fn parameter_schema(parameter: &Value, with_description: bool) -> Value {
    let fields = parameter.as_object().into_iter().flatten();
    let is_schema =
        |key: &str| !PARAMETER_FIELDS.contains(&key) || (with_description && key == "description");
    let schema = fields.filter(|(key, _)| is_schema(key)).map(|(key, value)| (key.clone(), value.clone()));
    Value::Object(schema.collect())
}

fn convert_response(response: &Value, produces: &[String]) -> Value {
    let mut converted = json!({"description": response.get("description").cloned().unwrap_or_default()});
    let Some(schema) = response.get("schema") else { return converted };
    let default = [JSON.to_owned()];
    let media_types = if produces.is_empty() { &default } else { produces };
    let content: Map<_, _> =
        media_types.iter().map(|media_type| (media_type.clone(), json!({ "schema": schema }))).collect();
    if let Some(fields) = converted.as_object_mut() {
        fields.insert("content".to_owned(), content.into());
    }
    converted
}
