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
              out: {"type":"array","maxItems":100,"items":{"$ref":"#/$defs/Pet"},"$defs":{"Pet":{"type":"object","required":["id","name"],"properties":{"id":{"type":"integer","format":"int64"},"name":{"type":"string","minLength":1,"examples":["Rex"]},"tag":{"type":["string","null"]},"parent":{"anyOf":[{"allOf":[{"$ref":"#/$defs/Pet"}]},{"type":"null"}]}}}}}
            createPet [] "Create a pet"
              in: {"type":"object","properties":{"name":{"type":"string","minLength":1,"examples":["Rex"]},"tag":{"type":["string","null"]},"parent":{"anyOf":[{"allOf":[{"$ref":"#/$defs/Pet"}]},{"type":"null"}]}},"required":["name"],"$defs":{"Pet":{"type":"object","required":["name"],"properties":{"name":{"type":"string","minLength":1,"examples":["Rex"]},"tag":{"type":["string","null"]},"parent":{"anyOf":[{"allOf":[{"$ref":"#/$defs/Pet"}]},{"type":"null"}]}}}}}
            showPetById [read-only, idempotent] "Info for a specific pet"
              in: {"type":"object","properties":{"petId":{"type":"integer","format":"int64","description":"The id of the pet"}},"required":["petId"],"additionalProperties":false}
              out: {"type":"object","required":["id","name"],"properties":{"id":{"type":"integer","format":"int64"},"name":{"type":"string","minLength":1,"examples":["Rex"]},"tag":{"type":["string","null"]},"parent":{"anyOf":[{"allOf":[{"$ref":"#/$defs/Pet"}]},{"type":"null"}]}},"$defs":{"Pet":{"type":"object","required":["id","name"],"properties":{"id":{"type":"integer","format":"int64"},"name":{"type":"string","minLength":1,"examples":["Rex"]},"tag":{"type":["string","null"]},"parent":{"anyOf":[{"allOf":[{"$ref":"#/$defs/Pet"}]},{"type":"null"}]}}}}}
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
              out: {"type":"object","required":["name","photoUrls"],"properties":{"id":{"type":"integer","examples":[10]},"name":{"type":"string"},"category":{"$ref":"#/$defs/Category","description":"The category of the pet."},"photoUrls":{"type":"array","items":{"type":"string"}},"status":{"type":["string","null"],"enum":["available","sold",null]}},"$defs":{"Category":{"type":"object","properties":{"name":{"type":"string","pattern":"^[a-z]+$"}}}}}
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
              out: {"type":"array","items":{"$ref":"#/$defs/issue"},"$defs":{"issue":{"title":"Issue","type":"object","required":["id","title"],"properties":{"id":{"type":"integer","format":"int64"},"title":{"type":"string"},"assignee":{"$ref":"#/$defs/nullable-user"}}},"nullable-user":{"type":["object","null"],"properties":{"login":{"type":"string","examples":["octocat"]}}}}}
            issues_create_ee7a18aa040b [] "Create an issue"
              in: {"type":"object","properties":{"owner":{"type":"string","description":"The account owner. The name is not case sensitive."},"repo":{"type":"string"},"title":{"description":"The title of the issue.","oneOf":[{"type":"string"},{"type":"integer"}]},"body":{"type":"string","description":"The contents of the issue."},"labels":{"type":"array","items":{"oneOf":[{"type":"string"},{"type":"object","properties":{"name":{"type":"string"},"color":{"type":["string","null"]}}}]}}},"required":["owner","repo","title"]}
              out: {"title":"Issue","type":"object","required":["id","title"],"properties":{"id":{"type":"integer","format":"int64"},"title":{"type":"string"},"assignee":{"$ref":"#/$defs/nullable-user"}},"$defs":{"nullable-user":{"type":["object","null"],"properties":{"login":{"type":"string","examples":["octocat"]}}}}}
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
}

/// Relative servers of a file need a base URL.
#[test]
fn document_without_server_needs_a_base_url() {
    let text = "openapi: 3.1.0\nservers: [{url: /api}]\npaths:\n  /a: {get: {operationId: a}}\n";
    let error = OpenApiSource::from_text("a", text, &OpenApiOptions::default()).unwrap_err();
    expect![[r#"the server "/api" of the document is relative: set a base URL"#]]
        .assert_eq(&error.to_string());
}
