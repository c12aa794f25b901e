//! Documents in the style of real ones: their tools and diagnostics.

use expect_test::{Expect, expect};
use haft_core::Toolset;
use haft_openapi::{OpenApiError, OpenApiOptions, OpenApiSource, OperationFilter};
use serde_json::json;

use crate::{
    call_ok,
    web::{Api, json},
};

const PETSTORE_30: &str = include_str!("../documents/petstore-3.0.json");
const PETSTORE_31: &str = include_str!("../documents/petstore-3.1.yaml");
const REPOSITORIES: &str = include_str!("../documents/repositories.yaml");
const BROKEN: &str = include_str!("../documents/broken.yaml");

/// Checks the tools of `document`, with their annotations, schemas and deprecations, and its
/// diagnostics.
fn check(document: &str, options: &OpenApiOptions, expected: &Expect) {
    let source = OpenApiSource::from_text("test", document, options).unwrap();
    let list = source.tool_list();
    let mut text = String::new();
    for tool in list.tools() {
        let definition = tool.definition();
        let hints = definition.annotations();
        let flags = [
            (hints.read_only, "read-only"),
            (hints.destructive, "destructive"),
            (hints.idempotent, "idempotent"),
        ];
        let flags: Vec<_> =
            flags.iter().filter(|(flag, _)| *flag == Some(true)).map(|(_, name)| *name).collect();
        text.push_str(&format!(
            "{} [{}] {:?}\n",
            definition.name(),
            flags.join(", "),
            definition.description()
        ));
        text.push_str(&format!("  in: {}\n", definition.input_schema().as_value()));
        if let Some(schema) = definition.output_schema() {
            text.push_str(&format!("  out: {}\n", schema.as_value()));
        }
        if let Some(deprecation) = definition.deprecation() {
            text.push_str(&format!("  {deprecation}\n"));
        }
    }
    for diagnostic in list.diagnostics() {
        text.push_str(&format!("{diagnostic}\n"));
    }
    expected.assert_eq(&text);
}

#[test]
fn petstore_30() {
    check(
        PETSTORE_30,
        &OpenApiOptions::default(),
        &expect![[r##"
            listPets [read-only, idempotent] "List all pets"
              in: {"type":"object","properties":{"limit":{"type":"integer","format":"int32","maximum":100,"description":"How many items to return","exclusiveMinimum":0},"tags":{"type":"array","items":{"type":"string"},"description":"Tags to filter by"}},"additionalProperties":false}
              out: {"anyOf":[{"type":"array","maxItems":100,"items":{"$ref":"#/$defs/Pet"}},{"type":"object","description":"A success without the documented body.","required":["http_status"],"properties":{"http_status":{"type":"integer"},"location":{"type":"string"},"body":{}},"additionalProperties":false}],"$defs":{"Pet":{"type":"object","required":["id","name"],"properties":{"id":{"type":"integer","format":"int64"},"name":{"type":"string","minLength":1,"examples":["Rex"]},"tag":{"type":["string","null"]},"parent":{"anyOf":[{"allOf":[{"$ref":"#/$defs/Pet"}]},{"type":"null"}]}}}}}
            createPet [] "Create a pet"
              in: {"type":"object","properties":{"name":{"type":"string","minLength":1,"examples":["Rex"]},"tag":{"type":["string","null"]},"parent":{"anyOf":[{"allOf":[{"$ref":"#/$defs/Pet"}]},{"type":"null"}]}},"required":["name"],"$defs":{"Pet":{"type":"object","required":["name"],"properties":{"name":{"type":"string","minLength":1,"examples":["Rex"]},"tag":{"type":["string","null"]},"parent":{"anyOf":[{"allOf":[{"$ref":"#/$defs/Pet"}]},{"type":"null"}]}}}}}
            showPetById [read-only, idempotent] "Info for a specific pet"
              in: {"type":"object","properties":{"petId":{"type":"integer","format":"int64","description":"The id of the pet"}},"required":["petId"],"additionalProperties":false}
              out: {"type":"object","anyOf":[{"type":"object","required":["id","name"],"properties":{"id":{"type":"integer","format":"int64"},"name":{"type":"string","minLength":1,"examples":["Rex"]},"tag":{"type":["string","null"]},"parent":{"anyOf":[{"allOf":[{"$ref":"#/$defs/Pet"}]},{"type":"null"}]}}},{"type":"object","description":"A success without the documented body.","required":["http_status"],"properties":{"http_status":{"type":"integer"},"location":{"type":"string"},"body":{}},"additionalProperties":false}],"$defs":{"Pet":{"type":"object","required":["id","name"],"properties":{"id":{"type":"integer","format":"int64"},"name":{"type":"string","minLength":1,"examples":["Rex"]},"tag":{"type":["string","null"]},"parent":{"anyOf":[{"allOf":[{"$ref":"#/$defs/Pet"}]},{"type":"null"}]}}}}}
            deletePet [destructive, idempotent] "DELETE /pets/{petId}"
              in: {"type":"object","properties":{"petId":{"type":"integer","format":"int64","description":"The id of the pet"}},"required":["petId"],"additionalProperties":false}
              deprecated
        "##]],
    );
}

#[test]
fn petstore_31() {
    check(
        PETSTORE_31,
        &OpenApiOptions::default(),
        &expect![[r##"
            updatePet [destructive, idempotent] "Update an existing pet by id."
              in: {"type":"object","properties":{"id":{"type":"integer","examples":[10]},"name":{"type":"string"},"category":{"$ref":"#/$defs/Category","description":"The category of the pet."},"photoUrls":{"type":"array","items":{"type":"string"}},"status":{"type":["string","null"],"enum":["available","sold",null]}},"required":["name","photoUrls"],"$defs":{"Category":{"type":"object","properties":{"name":{"type":"string","pattern":"^[a-z]+$"}}}}}
              out: {"type":"object","anyOf":[{"type":"object","required":["name","photoUrls"],"properties":{"id":{"type":"integer","examples":[10]},"name":{"type":"string"},"category":{"$ref":"#/$defs/Category","description":"The category of the pet."},"photoUrls":{"type":"array","items":{"type":"string"}},"status":{"type":["string","null"],"enum":["available","sold",null]}}},{"type":"object","description":"A success without the documented body.","required":["http_status"],"properties":{"http_status":{"type":"integer"},"location":{"type":"string"},"body":{}},"additionalProperties":false}],"$defs":{"Category":{"type":"object","properties":{"name":{"type":"string","pattern":"^[a-z]+$"}}}}}
            uploadFile [] "Uploads an image."
              in: {"type":"object","properties":{"petId":{"type":"integer"},"body":{"type":"string","contentEncoding":"base64","description":"The body of type application/octet-stream, in base64."}},"required":["petId"],"additionalProperties":false}
        "##]],
    );
}

#[test]
fn repositories() {
    check(
        REPOSITORIES,
        &OpenApiOptions::default(),
        &expect![[r##"
            issues_list-for-repo_c2c334ff65a1 [read-only, idempotent] "List repository issues\n\nList issues in a repository. Only open issues will be listed.\n\n> [!NOTE] Every pull request is an issue, but not every issue is a pull request."
              in: {"type":"object","properties":{"owner":{"type":"string","description":"The account owner. The name is not case sensitive."},"repo":{"type":"string"},"milestone":{"type":"string","description":"If an `integer` is passed, it should refer to a milestone by its `number` field."},"state":{"type":"string","enum":["open","closed","all"],"default":"open"},"labels":{"type":"array","items":{"type":"string"},"description":"A list of comma separated label names. Example: `bug,ui,@high`"},"per_page":{"type":"integer","default":30,"description":"The number of results per page (max 100)."},"page":{"type":"integer","default":1},"X-Api-Version":{"type":"string","enum":["2022-11-28"]}},"required":["owner","repo"],"additionalProperties":false}
              out: {"anyOf":[{"type":"array","items":{"$ref":"#/$defs/issue"}},{"type":"object","description":"A success without the documented body.","required":["http_status"],"properties":{"http_status":{"type":"integer"},"location":{"type":"string"},"body":{}},"additionalProperties":false}],"$defs":{"issue":{"title":"Issue","type":"object","required":["id","title"],"properties":{"id":{"type":"integer","format":"int64"},"title":{"type":"string"},"assignee":{"$ref":"#/$defs/nullable-user"}}},"nullable-user":{"type":["object","null"],"properties":{"login":{"type":"string","examples":["octocat"]}}}}}
            issues_create_ee7a18aa040b [] "Create an issue"
              in: {"type":"object","properties":{"owner":{"type":"string","description":"The account owner. The name is not case sensitive."},"repo":{"type":"string"},"title":{"description":"The title of the issue.","oneOf":[{"type":"string"},{"type":"integer"}]},"body":{"type":"string","description":"The contents of the issue."},"labels":{"type":"array","items":{"oneOf":[{"type":"string"},{"type":"object","properties":{"name":{"type":"string"},"color":{"type":["string","null"]}}}]}}},"required":["owner","repo","title"]}
              out: {"type":"object","anyOf":[{"title":"Issue","type":"object","required":["id","title"],"properties":{"id":{"type":"integer","format":"int64"},"title":{"type":"string"},"assignee":{"$ref":"#/$defs/nullable-user"}}},{"type":"object","description":"A success without the documented body.","required":["http_status"],"properties":{"http_status":{"type":"integer"},"location":{"type":"string"},"body":{}},"additionalProperties":false}],"$defs":{"nullable-user":{"type":["object","null"],"properties":{"login":{"type":"string","examples":["octocat"]}}}}}
            tool "repos/upload-release-asset" of openapi:test is quarantined: the server https://uploads.repositories.example may not be called, because it is not the server of the document: set a base URL, or allow the origin
        "##]],
    );
}

/// A broken operation never costs the others.
#[test]
fn broken_operations_are_diagnostics() {
    check(
        BROKEN,
        &OpenApiOptions::default(),
        &expect![[r##"
        brokenResponse [read-only, idempotent] "GET /responses"
          in: {"type":"object","properties":{},"additionalProperties":false}
        works [read-only, idempotent] "GET /works"
          in: {"type":"object","properties":{},"additionalProperties":false}
        tool "externalParameter" of openapi:test is quarantined: the reference "common.yaml#/Limit" is to another document, which is not fetched: bundle the documents into one
        tool "/file" of openapi:test is quarantined: the reference "paths/file.yaml" is to another document, which is not fetched: bundle the documents into one
        tool "missingSchema" of openapi:test is quarantined: the reference "#/components/schemas/None" has no target
        tool "invalidSchema" of openapi:test is quarantined: its arguments: invalid schema at /properties/q/type: "int" is not a type of JSON Schema, expected "integer"
        tool "invalidPattern" of openapi:test is quarantined: its arguments: invalid schema at /properties/q/pattern: expected string of format regex, received string "("
        tool "undeclaredParameter" of openapi:test is quarantined: the path has no parameter "id": declare it with `in: path`
        tool "unknownStyle" of openapi:test is quarantined: parameter "q": `style: matrix` is not supported in a query
        tool "unknownPlace" of openapi:test is quarantined: parameter "q": the location `in: body` is not supported
        tool "namelessParameter" of openapi:test is quarantined: a parameter has no `name`
        tool "otherServer" of openapi:test is quarantined: the server https://elsewhere.example may not be called, because it is not the server of the document: set a base URL, or allow the origin
    "##]],
    );
}

#[test]
fn operations_are_selected() {
    let names = |filter| {
        let options = OpenApiOptions::default().with_filter(filter);
        let source = OpenApiSource::from_text("test", PETSTORE_30, &options).unwrap();
        source.tool_list().names().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(names(OperationFilter::default().read_only()), ["listPets", "showPetById"]);
    assert_eq!(names(OperationFilter::default().include(["*Pet"])), ["createPet", "deletePet"]);
}

/// All schemas of a document of Swagger 2.0 are valid for strict clients too.
#[test]
fn schemas_of_swagger_are_strict() {
    let text = r##"{
        "swagger": "2.0", "host": "pets.example.org",
        "definitions": {
            "Pet": {"type": "object", "required": ["kind", "kind"], "discriminator": "kind", "properties": {"kind": {"type": "string"}}},
            "Cat": {"allOf": [{"$ref": "#/definitions/Pet"}, {"type": "object", "required": ["lives"], "properties": {"lives": {"type": "integer", "enum": [9, 9], "x-nullable": true}}}]}},
        "paths": {
            "/pets": {"post": {"operationId": "add", "parameters": [
                {"name": "sort", "in": "query", "type": "string", "enum": ["up", "down", "up"]},
                {"name": "pet", "in": "body", "required": true, "schema": {"$ref": "#/definitions/Pet"}}],
                "responses": {"200": {"description": "ok", "schema": {"$ref": "#/definitions/Pet"}}}}},
            "/cats": {"post": {"operationId": "addCat", "parameters": [
                {"name": "cat", "in": "body", "required": true, "schema": {"$ref": "#/definitions/Cat"}}]}},
            "/forms": {"post": {"operationId": "form", "consumes": ["application/x-www-form-urlencoded"], "parameters": [
                {"name": "ids", "in": "formData", "type": "array", "items": {"type": "integer", "enum": [1, 1]}, "required": true},
                {"name": "ids", "in": "formData", "type": "array", "items": {"type": "integer", "enum": [1, 1]}, "required": true}]}}
        }}"##;
    check(
        text,
        &OpenApiOptions::default(),
        &expect![[r##"
        add [] "POST /pets"
          in: {"type":"object","properties":{"sort":{"type":"string","enum":["up","down"]},"body":{"$ref":"#/$defs/Pet"}},"required":["body"],"additionalProperties":false,"$defs":{"Pet":{"type":"object","anyOf":[{"$ref":"#/$defs/Pet_2"},{"$ref":"#/$defs/Cat"}]},"Pet_2":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string","const":"Pet"}}},"Cat":{"allOf":[{"$ref":"#/$defs/Pet_3"},{"type":"object","required":["lives"],"properties":{"lives":{"type":["integer","null"],"enum":[9,null]}}}],"properties":{"kind":{"const":"Cat"}},"required":["kind"]},"Pet_3":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string"}}}}}
          out: {"type":"object","anyOf":[{"type":"object","anyOf":[{"$ref":"#/$defs/Pet"},{"$ref":"#/$defs/Cat"}]},{"type":"object","description":"A success without the documented body.","required":["http_status"],"properties":{"http_status":{"type":"integer"},"location":{"type":"string"},"body":{}},"additionalProperties":false}],"$defs":{"Pet":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string","const":"Pet"}}},"Cat":{"allOf":[{"$ref":"#/$defs/Pet_2"},{"type":"object","required":["lives"],"properties":{"lives":{"type":["integer","null"],"enum":[9,null]}}}],"properties":{"kind":{"const":"Cat"}}},"Pet_2":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string"}}}}}
        addCat [] "POST /cats"
          in: {"type":"object","properties":{"kind":{"type":"string"},"lives":{"type":["integer","null"],"enum":[9,null]}},"required":["kind","lives"]}
        form [] "POST /forms"
          in: {"type":"object","properties":{"ids":{"type":"array","items":{"type":"integer","enum":[1]}}},"required":["ids"]}
    "##]],
    );
}

/// A list in a form of Swagger 2.0 has the separator of its `collectionFormat`.
#[tokio::test]
async fn lists_in_forms_of_swagger_are_separated() {
    let api = Api::ok().await;
    let list = |name: &str, format: &str| {
        format!(
            r#"{{"name": "{name}", "in": "formData", "type": "array", "items": {{"type": "integer"}}{format}}}"#
        )
    };
    let lists = [
        list("a", ""),
        list("b", r#", "collectionFormat": "multi""#),
        list("c", r#", "collectionFormat": "pipes""#),
    ]
    .join(", ");
    let text = format!(
        r#"{{"swagger": "2.0", "host": "{}", "schemes": ["http"], "paths": {{"/forms": {{"post": {{"operationId": "form", "parameters": [{lists}]}}}}}}}}"#,
        api.url.trim_start_matches("http://")
    );
    let source = OpenApiSource::from_text("a", &text, &OpenApiOptions::default()).unwrap();
    let tools = Toolset::new().with_source(source);
    call_ok(&tools, "form", json!({"a": [1, 2], "b": [1, 2], "c": [1, 2]})).await;
    assert_eq!(api.take_request().describe(&[]), "POST /forms\na=1%2C2&b=1&b=2&c=1%7C2".replace("%2C", ","));
}

/// A short document whose operations all refer to the same large schemas would take minutes.
#[test]
fn work_for_a_document_is_bounded() {
    let properties: Vec<_> =
        (0..900).map(|index| format!(r#""p{index}": {{"type": "string", "maxLength": {index}}}"#)).collect();
    let paths: Vec<_> = (0..300)
        .map(|index| format!(r##""/p{index}": {{"post": {{"operationId": "op{index}", "requestBody": {{"content": {{"application/json": {{"schema": {{"$ref": "#/components/schemas/Big"}}}}}}}}}}}}"##))
        .collect();
    let text = format!(
        r#"{{"openapi": "3.1.0", "servers": [{{"url": "http://localhost"}}], "paths": {{{}}}, "components": {{"schemas": {{"Big": {{"type": "object", "required": ["p0"], "properties": {{{}}}}}}}}}}}"#,
        paths.join(", "),
        properties.join(", ")
    );
    let source = OpenApiSource::from_text("a", &text, &OpenApiOptions::default()).unwrap();
    let list = source.tool_list();
    assert!((30..200).contains(&list.tools().len()), "{}", list.tools().len());
    let last = list.diagnostics().last().unwrap().to_string();
    expect![[r#"tool "op299" of openapi:a is quarantined: the schemas of all operations have more than 363616 values, too many for a document of this size: select fewer operations"#]].assert_eq(&last);
    // The selected operations of the same document fit.
    let filter = OperationFilter::default().include(["op29*"]);
    let source =
        OpenApiSource::from_text("a", &text, &OpenApiOptions::default().with_filter(filter)).unwrap();
    assert_eq!(source.tool_list().diagnostics().len(), 0);
}

/// Compiling takes most of the time for a document whose operations share large schemas.
#[test]
fn equal_schemas_are_compiled_once() {
    let operation = |id: &str| {
        let content = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}});
        let responses = json!({"200": {"description": "ok", "content": content}});
        json!({"put": {"operationId": id, "requestBody": {"content": content}, "responses": responses}})
    };
    let document = json!({
        "openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": "https://x.example"}],
        "paths": {"/a": operation("a"), "/b": operation("b")},
        "components": {"schemas": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}}}},
    });
    let options = OpenApiOptions::default();
    let source = OpenApiSource::from_text("test", &document.to_string(), &options).unwrap();
    let list = source.tool_list();
    let [a, b] = ["a", "b"].map(|name| list.get(name).unwrap().definition());
    assert!(std::ptr::eq(a.input_schema().as_value(), b.input_schema().as_value()));
    let outputs = [a, b].map(|definition| definition.output_schema().unwrap().as_value());
    assert!(std::ptr::eq(outputs[0], outputs[1]));
}

/// Schemas that refer to each other many times are not searched without end.
#[test]
fn search_in_nested_schemas_is_bounded() {
    let level = |index: usize, keyword: &str| {
        let next = format!(r##"{{"$ref": "#/components/schemas/{keyword}{}"}}"##, index + 1);
        format!(r#""{keyword}{index}": {{"type": "object", "{keyword}": [{}]}}"#, vec![next; 30].join(", "))
    };
    let levels = ["allOf", "anyOf", "oneOf"]
        .map(|keyword| (0..10).map(|index| level(index, keyword)).collect::<Vec<_>>().join(", "));
    let operation = |keyword: &str| {
        let schema = format!(r##"{{"$ref": "#/components/schemas/{keyword}0"}}"##);
        format!(
            r#""/{keyword}": {{"post": {{"operationId": "{keyword}", "requestBody": {{"content": {{"multipart/form-data": {{"schema": {{"type": "object", "properties": {{"a": {schema}}}, "allOf": [{schema}]}}}}}}}}}}}}"#
        )
    };
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let leaves = ["allOf10", "anyOf10", "oneOf10"]
            .map(|name| format!(r#""{name}": {{"type": "object"}}"#))
            .join(", ");
        let text = format!(
            r#"{{"openapi": "3.0.0", "servers": [{{"url": "http://localhost"}}], "paths": {{{}}}, "components": {{"schemas": {{{}, {leaves}}}}}}}"#,
            operation(keyword),
            levels.join(", ")
        );
        OpenApiSource::from_text("a", &text, &OpenApiOptions::default()).unwrap();
    }
}

/// Operations that share an id get names that do not depend on their order.
#[test]
fn duplicate_ids_get_different_names() {
    let text = "openapi: 3.0.0\nservers: [{url: 'http://localhost'}]\npaths:\n  /a: {get: {operationId: list}}\n  \
                /b: {get: {operationId: list}, post: {}}\n";
    let source = OpenApiSource::from_text("test", text, &OpenApiOptions::default()).unwrap();
    let names: Vec<_> = source.tool_list().names().map(ToString::to_string).collect();
    expect![[r#"
        list_get__a_d64fecb96756
        list_get__b_cbe3a6390838
        post__b_afac27984f2b"#]]
    .assert_eq(&names.join("\n"));
}

/// The document, its relative server and the calls are at one origin.
#[tokio::test]
async fn fetched_document_calls_its_own_server() {
    let text = "openapi: 3.1.0\nservers: [{url: /api}]\npaths:\n  /pets: {get: {operationId: listPets}}\n";
    let api = Api::start(move |request| match request.line.as_str() {
        "GET /docs/openapi.yaml" => (200, vec![("content-type", "application/yaml".to_owned())], text.into()),
        _ => json(200, "[1]"),
    })
    .await;
    let options = OpenApiOptions::default().with_header("Authorization", "Bearer s3cret");
    let source =
        OpenApiSource::fetch("pets", &format!("{}/docs/openapi.yaml", api.url), &options).await.unwrap();
    let tools = Toolset::new().with_source(source);
    let result = call_ok(&tools, "listPets", json!({})).await;
    assert_eq!(result.output().unwrap().structured, Some(json!([1])));
    let requests = api.requests();
    let lines: Vec<_> =
        requests.iter().map(|it| format!("{} {}", it.line, it.header("authorization"))).collect();
    assert_eq!(lines, ["GET /docs/openapi.yaml ", "GET /api/pets Bearer s3cret"]);
}

/// A document cannot direct requests to a server of its choice.
#[tokio::test]
async fn fetched_document_cannot_call_other_servers() {
    let text =
        "openapi: 3.1.0\nservers: [{url: 'http://169.254.169.254'}]\npaths:\n  /a: {get: {operationId: a}}\n";
    let api = Api::start(move |_| (200, Vec::new(), text.into())).await;
    let error = OpenApiSource::fetch("a", &api.url, &OpenApiOptions::default()).await.unwrap_err();
    let message = error.to_string().replace(&api.url, "URL");
    expect!["the server http://169.254.169.254 may not be called, because the document comes from URL: set a base URL, or allow the origin"].assert_eq(&message);
    let options = OpenApiOptions::default().with_base_url("http://127.0.0.1:9");
    assert!(OpenApiSource::fetch("a", &api.url, &options).await.is_ok());
}

#[tokio::test]
async fn unreadable_documents_are_explained() {
    let api = Api::start(|_| (404, Vec::new(), Vec::new())).await;
    let url = format!("{}/openapi.json?key=s3cret", api.url);
    let error = OpenApiSource::fetch("a", &url, &OpenApiOptions::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot read the document from {}/openapi.json: HTTP 404 Not Found", api.url)
    );
    let error =
        OpenApiSource::from_path("a", "/nonexistent/openapi.json", &OpenApiOptions::default()).unwrap_err();
    assert!(matches!(error, OpenApiError::Unreadable { .. }), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("openapi.json");
    std::fs::write(&path, "x".repeat(100)).unwrap();
    let options = OpenApiOptions::default().with_max_document_bytes(99);
    let error = OpenApiSource::from_path("a", &path, &options).unwrap_err();
    assert!(matches!(error, OpenApiError::TooLarge { limit: 99 }), "{error}");
    std::fs::write(&path, b"\xff\xfe{\0}\0").unwrap();
    let error = OpenApiSource::from_path("a", &path, &OpenApiOptions::default()).unwrap_err();
    assert!(error.to_string().ends_with("it is UTF-16: save it as UTF-8"), "{error}");
}

/// Relative servers of a file need a base URL.
#[test]
fn document_without_server_needs_a_base_url() {
    let text = "openapi: 3.1.0\nservers: [{url: /api}]\npaths:\n  /a: {get: {operationId: a}}\n";
    let error = OpenApiSource::from_text("a", text, &OpenApiOptions::default()).unwrap_err();
    expect![[r#"the server "/api" of the document is relative: set a base URL"#]]
        .assert_eq(&error.to_string());
}
