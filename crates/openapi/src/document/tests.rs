use expect_test::expect;
use reqwest::Url;
use serde_json::json;

use super::{Dialect, Document};
use crate::OpenApiError;

fn parse(text: &str) -> Result<Document, OpenApiError> {
    Document::parse(text, None, 1 << 20)
}

#[test]
fn versions_are_detected() {
    for (text, dialect) in [
        (r#"{"openapi": "3.0.4"}"#, Dialect::OpenApi30),
        ("\u{feff}openapi: 3.1.0", Dialect::JsonSchema),
        ("openapi: 3.2", Dialect::JsonSchema),
        ("swagger: '2.0'", Dialect::OpenApi30),
    ] {
        assert_eq!(parse(text).ok().unwrap().dialect, dialect, "{text}");
    }
}

#[test]
fn unusable_documents_are_explained() {
    let mut errors = String::new();
    for text in [
        "openapi: 4.0.0",
        r#"{"swaggerVersion": "1.2"}"#,
        "asyncapi: 3.0.0",
        "<html></html>",
        "{\"openapi\": \"3.0.0\",",
        "openapi: 3.0.0\npaths: [",
        "openapi: 3.0.0\nopenapi: 3.1.0",
    ] {
        errors.push_str(&format!("{}\n", parse(text).err().unwrap()));
    }
    expect![[r#"
        OpenAPI "4.0.0" is not supported: expected a document of OpenAPI 3.0, 3.1 or 3.2, or of Swagger 2.0; convert it first
        Swagger "1.2" is not supported: expected a document of OpenAPI 3.0, 3.1 or 3.2, or of Swagger 2.0; convert it first
        an AsyncAPI document is not supported: expected a document of OpenAPI 3.0, 3.1 or 3.2, or of Swagger 2.0; convert it first
        the document has neither `openapi` nor `swagger`: expected a document of OpenAPI 3.0, 3.1 or 3.2, or of Swagger 2.0; convert it first
        the document is not valid JSON: EOF while parsing a value at line 1 column 20
        the document is not valid YAML: unclosed bracket '[' at line 2, column 8
        the document is not valid YAML: duplicate mapping key: openapi at line 2, column 1
    "#]]
    .assert_eq(&errors);
}

/// An alias bomb, deep nesting and a long text are rejected before they take memory.
#[test]
fn documents_are_bounded() {
    let mut bomb = "openapi: 3.0.0\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    let deep = format!("openapi: 3.0.0\na: {}1{}", "[".repeat(5000), "]".repeat(5000));
    let deep_json = format!("{{\"openapi\": {}1{}}}", "[".repeat(5000), "]".repeat(5000));
    for text in [bomb, deep, deep_json] {
        assert!(matches!(parse(&text), Err(OpenApiError::Syntax { .. })));
    }
    let long = format!("openapi: 3.0.0\ninfo: {}", "x".repeat(1 << 20));
    assert!(matches!(parse(&long), Err(OpenApiError::TooLarge { limit: 1_048_576 })));
}

/// Keys such as `200` and values such as `no` and dates are strings (YAML 1.2).
#[test]
fn yaml_has_the_types_of_json() {
    let document =
        parse("openapi: 3.0.0\nx: &x\n  200: no\n  a: [on, 2020-01-01, 1.5, ~, true]\ny: *x\n").ok().unwrap();
    let expected = json!({"200": "no", "a": ["on", "2020-01-01", 1.5, null, true]});
    assert_eq!(document.root().get("x"), Some(&expected));
    assert_eq!(document.root().get("y"), Some(&expected));
}

#[test]
fn circular_references_end() {
    let document = parse(
        r##"{"openapi": "3.0.0", "a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}, "c": {"$ref": "#/d~1e"}, "d/e": 1}"##,
    );
    let document = document.ok().unwrap();
    let resolve = |key: &str| document.resolve(document.root().get(key).unwrap()).cloned();
    assert_eq!(resolve("a"), Err("a `$ref` is circular".to_owned()));
    assert_eq!(resolve("c"), Ok(json!(1)));
}

#[test]
fn swagger_is_converted() {
    let text = r##"{
        "swagger": "2.0", "host": "pets.example.org", "basePath": "/v1", "schemes": ["http", "https"],
        "consumes": ["application/json"], "produces": ["application/json"],
        "securityDefinitions": {"login": {"type": "basic"}},
        "parameters": {"limit": {"name": "limit", "in": "query", "type": "integer", "maximum": 100}},
        "definitions": {"Pet": {"type": "object"}},
        "paths": {
            "/pets": {
                "parameters": [{"$ref": "#/parameters/limit"}],
                "get": {
                    "parameters": [{"name": "tags", "in": "query", "type": "array", "items": {"type": "string"}, "collectionFormat": "multi"}],
                    "responses": {"200": {"description": "Pets.", "schema": {"$ref": "#/definitions/Pet"}}}
                },
                "post": {
                    "parameters": [{"name": "pet", "in": "body", "required": true, "schema": {"$ref": "#/definitions/Pet"}}],
                    "responses": {"204": {"description": "Added."}}
                }
            },
            "/photo": {"post": {"parameters": [
                {"name": "file", "in": "formData", "type": "file", "required": true, "description": "The photo."},
                {"name": "title", "in": "formData", "type": "string"}
            ]}}
        }
    }"##;
    let document = parse(text).ok().unwrap();
    let field = |pointer: &str| document.root().pointer(pointer).unwrap().to_string();
    let mut converted = String::new();
    for pointer in [
        "/servers",
        "/components",
        "/paths/~1pets/get",
        "/paths/~1pets/post/requestBody",
        "/paths/~1photo/post/requestBody",
    ] {
        converted.push_str(&format!("{pointer}: {}\n", field(pointer)));
    }
    expect![[r##"
        /servers: [{"url":"https://pets.example.org/v1"}]
        /components: {"securitySchemes":{"login":{"type":"http","scheme":"basic"}}}
        /paths/~1pets/get: {"responses":{"200":{"description":"Pets.","content":{"application/json":{"schema":{"$ref":"#/definitions/Pet"}}}}},"parameters":[{"name":"limit","in":"query","style":"form","explode":false,"schema":{"type":"integer","maximum":100}},{"name":"tags","in":"query","style":"form","explode":true,"schema":{"type":"array","items":{"type":"string"}}}]}
        /paths/~1pets/post/requestBody: {"content":{"application/json":{"schema":{"$ref":"#/definitions/Pet"}}},"required":true,"description":null}
        /paths/~1photo/post/requestBody: {"content":{"multipart/form-data":{"schema":{"type":"object","properties":{"file":{"type":"file","description":"The photo."},"title":{"type":"string"}},"required":["file"]}}},"required":true}
    "##]].assert_eq(&converted);
}

/// Without a host, the server is relative to the URL of the document.
#[test]
fn swagger_without_host_is_relative() {
    let text = r#"{"swagger": "2.0", "basePath": "/api"}"#;
    let url = Url::parse("http://localhost:8000/swagger.json").unwrap();
    let document = Document::parse(text, Some(url), 1000).ok().unwrap();
    assert_eq!(document.root().pointer("/servers/0/url"), Some(&json!("/api")));
}
