//! The requests of calls: parameters and bodies.

use expect_test::{Expect, expect};
use haft_core::call::FailureKind;
use serde_json::{Value, json};

use crate::{call_failed, call_ok, tools, web::Api};

/// Calls the operation `op` with `arguments`, and checks the request: its line, the headers `shown`
/// and its body.
async fn check(paths: &str, arguments: Value, shown: &[&str], expected: &Expect) {
    let api = Api::ok().await;
    call_ok(&tools(&api, paths), "op", arguments).await;
    expected.assert_eq(&api.take_request().describe(shown));
}

#[tokio::test]
async fn parameters_follow_their_location() {
    let paths = r#"
  /users/{user}/files/{file}:
    parameters: [{name: user, in: path, required: true, schema: {type: string}}]
    get:
      operationId: op
      parameters:
      - {name: file, in: path, required: true, schema: {type: string}}
      - {name: tags, in: query, schema: {type: array, items: {type: string}}}
      - {name: fields, in: query, explode: false, schema: {type: array, items: {type: string}}}
      - {name: filter, in: query, style: deepObject, schema: {type: object}}
      - {name: q, in: query, content: {application/json: {schema: {type: object}}}}
      - {name: X-Trace, in: header, schema: {type: integer}}
      - {name: session, in: cookie, schema: {type: string}}
      - {name: Authorization, in: header, schema: {type: string}}
      - {name: unused, in: query, schema: {type: string}}
"#;
    let arguments = json!({
        "user": "a/b c", "file": "ü?#.txt", "tags": ["x", "y&z"], "fields": ["id", "name"],
        "filter": {"status": "open"}, "q": {"a": 1}, "X-Trace": 7, "session": "a;b",
    });
    check(paths, arguments, &["x-trace", "cookie", "authorization", "accept"], &expect![[r#"
        GET /users/a%2Fb%20c/files/%C3%BC%3F%23.txt?tags=x&tags=y%26z&fields=id,name&filter%5Bstatus%5D=open&q=%7B%22a%22%3A1%7D
        x-trace: 7
        cookie: session=a%3Bb
        accept: application/json, */*;q=0.5
    "#]]).await;
}

#[tokio::test]
async fn json_bodies_have_the_arguments_that_are_no_parameters() {
    let paths = r#"
  /pets/{id}:
    put:
      operationId: op
      parameters:
      - {name: id, in: path, required: true, schema: {type: integer}}
      - {name: dry, in: query, schema: {type: boolean}}
      requestBody:
        required: true
        content:
          application/merge-patch+json:
            schema:
              type: object
              properties: {name: {type: string}, tag: {type: [string, 'null']}}
              additionalProperties: {type: integer}
"#;
    let arguments = json!({"id": 7, "dry": true, "name": "Rex", "tag": null, "age": 3});
    check(
        paths,
        arguments,
        &["content-type"],
        &expect![[r#"
        PUT /pets/7?dry=true
        content-type: application/merge-patch+json
        {"name":"Rex","tag":null,"age":3}"#]],
    )
    .await;
}

/// Without arguments for it, an optional body is not sent, and a required body is an empty object.
#[tokio::test]
async fn empty_bodies_depend_on_required() {
    for (is_required, expected) in [(true, "POST /pets\n{}"), (false, "POST /pets\n")] {
        let paths = format!(
            "  /pets:\n    post:\n      operationId: op\n      requestBody:\n        required: {is_required}\n        \
             content: {{application/json: {{schema: {{type: object, properties: {{name: {{type: string}}}}}}}}}}\n"
        );
        let api = Api::ok().await;
        call_ok(&tools(&api, &paths), "op", json!({})).await;
        assert_eq!(api.take_request().describe(&[]), expected);
    }
}

#[tokio::test]
async fn forms_are_url_encoded() {
    let paths = r#"
  /charges:
    post:
      operationId: op
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema:
              type: object
              properties:
                amount: {type: integer}
                note: {type: string}
                ids: {type: array, items: {type: integer}}
                address: {type: object}
                metadata: {type: object}
            encoding: {metadata: {style: deepObject, explode: true}}
"#;
    let arguments = json!({
        "amount": 5, "note": "a & b=c+d", "ids": [1, 2], "address": {"city": "Rome"}, "metadata": {"k": {"n": "v"}},
    });
    check(paths, arguments, &["content-type"], &expect![[r#"
        POST /charges
        content-type: application/x-www-form-urlencoded
        amount=5&note=a%20%26%20b%3Dc%2Bd&ids=1&ids=2&address=%7B%22city%22%3A%22Rome%22%7D&metadata%5Bk%5D%5Bn%5D=v"#]]).await;
}

#[tokio::test]
async fn files_are_sent_as_bytes() {
    let paths = r#"
  /photos:
    post:
      operationId: op
      requestBody:
        required: true
        content:
          multipart/form-data:
            schema:
              type: object
              required: [file]
              properties:
                file: {type: string, format: binary}
                meta: {type: object}
                tags: {type: array, items: {type: string}}
            encoding: {file: {contentType: image/png}}
"#;
    let api = Api::ok().await;
    let arguments = json!({"file": "iVBORw==", "meta": {"a": 1}, "tags": ["x", "y"]});
    call_ok(&tools(&api, paths), "op", arguments).await;
    let request = api.take_request();
    let boundary = request.header("content-type").strip_prefix("multipart/form-data; boundary=").unwrap();
    assert!(request.body.windows(4).any(|bytes| bytes == b"\x89PNG"));
    let text = String::from_utf8_lossy(&request.body).replace(boundary, "BOUNDARY").replace('\r', "");
    expect![[r#"
        --BOUNDARY
        Content-Disposition: form-data; name="file"; filename="file"
        Content-Type: image/png

        �PNG
        --BOUNDARY
        Content-Disposition: form-data; name="meta"
        Content-Type: application/json

        {"a":1}
        --BOUNDARY
        Content-Disposition: form-data; name="tags"

        x
        --BOUNDARY
        Content-Disposition: form-data; name="tags"

        y
        --BOUNDARY--
    "#]]
    .assert_eq(&text);
    let (kind, message) = call_failed(&tools(&api, paths), "op", json!({"file": "%"})).await;
    assert_eq!(kind, FailureKind::InvalidArguments);
    assert!(message.contains("/file: it is not base64"), "{message}");
}

#[tokio::test]
async fn raw_bodies_are_one_argument() {
    let paths = |media_type: &str| {
        format!(
            "  /raw:\n    post:\n      operationId: op\n      requestBody: {{required: true, content: {{{media_type}: {{}}}}}}\n"
        )
    };
    check(
        &paths("text/csv"),
        json!({"body": "a,b\n1,2"}),
        &["content-type"],
        &expect![[r#"
        POST /raw
        content-type: text/csv
        a,b
        1,2"#]],
    )
    .await;
    check(
        &paths("application/pdf"),
        json!({"body": "JVBERg=="}),
        &["content-type"],
        &expect![[r#"
        POST /raw
        content-type: application/pdf
        %PDF"#]],
    )
    .await;
}

/// An argument cannot select another operation: `DELETE /pets/` could delete all pets.
#[tokio::test]
async fn arguments_cannot_change_the_path() {
    let paths = r#"
  /pets/{id}/{part}.json:
    delete:
      operationId: op
      parameters:
      - {name: id, in: path, required: true, schema: {}}
      - {name: part, in: path, required: true, schema: {type: string}}
  /trees/{path}:
    get:
      operationId: tree
      parameters: [{name: path, in: path, required: true, style: label, schema: {type: string}}]
"#;
    let api = Api::ok().await;
    let tools = tools(&api, paths);
    for id in [json!(""), json!(".."), json!("."), json!([]), json!({}), json!(null)] {
        let (kind, message) = call_failed(&tools, "op", json!({"id": id, "part": "a"})).await;
        assert_eq!(kind, FailureKind::InvalidArguments, "{message}");
    }
    let (kind, _) = call_failed(&tools, "tree", json!({"path": "."})).await;
    assert_eq!(kind, FailureKind::InvalidArguments);
    assert!(api.requests().is_empty());
    call_ok(&tools, "op", json!({"id": "../%2e%2e\\..", "part": ".."})).await;
    assert_eq!(api.take_request().line, "DELETE /pets/..%2F%252e%252e%5C../...json");
}

/// A value with a line break would add a header.
#[tokio::test]
async fn arguments_cannot_add_headers() {
    let paths = "  /a:\n    get:\n      operationId: op\n      parameters: [{name: X-Note, in: header, schema: {type: string}}]\n";
    let api = Api::ok().await;
    let (kind, message) = call_failed(&tools(&api, paths), "op", json!({"X-Note": "a\r\nX-Admin: 1"})).await;
    assert_eq!(
        (kind, &*message),
        (
            FailureKind::InvalidArguments,
            "invalid arguments: /X-Note: a header has only printable ASCII characters"
        )
    );
    assert!(api.requests().is_empty());
}

/// Calls the operation with a form of `media_type`, and returns the request without its boundary.
async fn sent_form(media_type: &str, schema: &str, encoding: &str, arguments: Value) -> String {
    let paths = format!(
        "  /forms:\n    post:\n      operationId: op\n      requestBody:\n        required: true\n        \
         content: {{{media_type}: {{schema: {schema}, encoding: {encoding}}}}}\n"
    );
    let api = Api::ok().await;
    call_ok(&tools(&api, &paths), "op", arguments).await;
    let request = api.take_request();
    let boundary = request.header("content-type").split("boundary=").nth(1).unwrap_or("none").to_owned();
    let text =
        String::from_utf8_lossy(&request.body).replace(&format!("--{boundary}"), "--").replace('\r', "");
    text.replace("Content-Disposition: form-data; ", "")
}

/// A part has the media type of the document, and its value is encoded in that type.
#[tokio::test]
async fn parts_are_encoded_in_their_declared_type() {
    let schema = r#"{allOf: [
        {type: object, properties: {
            list: {type: array, items: {type: integer}}, text: {type: string}, count: {type: integer}, ready: {type: string},
            note: {type: object, properties: {a: {type: integer}}}}},
        {type: object, properties: {
            photo: {type: string}, icons: {type: array, items: {type: string}}, any: {type: string, format: binary},
            scan: {type: string, contentMediaType: image/tiff}, plain: {type: string}, csv: {type: array, items: {type: integer}}}}]}"#;
    let encoding = r#"{
        list: {contentType: application/json}, text: {contentType: application/json}, count: {contentType: application/vnd.a+json},
        ready: {contentType: application/json}, note: {contentType: application/xml},
        photo: {contentType: 'image/png, image/jpeg'}, icons: {contentType: image/*}, any: {contentType: 'application/pdf'},
        plain: {contentType: 'text/markdown; charset=utf-8'}, csv: {style: form, explode: false}}"#;
    let arguments = json!({
        "list": [1, 2], "text": "a \"b\"", "count": 3, "ready": "{\"k\": [1]}", "note": "<a>1</a>",
        "photo": "data:image/jpeg;base64,/9j/", "icons": ["data:image/gif;base64,R0lG", "iVBORw=="], "any": "JVBERg==",
        "scan": "SUkq", "plain": "*a*", "csv": [1, 2],
    });
    let text = sent_form("multipart/form-data", schema, encoding, arguments).await;
    expect![[r#"
        --
        name="list"
        Content-Type: application/json

        [1,2]
        --
        name="text"
        Content-Type: application/json

        "a \"b\""
        --
        name="count"
        Content-Type: application/vnd.a+json

        3
        --
        name="ready"
        Content-Type: application/json

        {"k": [1]}
        --
        name="note"
        Content-Type: application/xml

        <a>1</a>
        --
        name="photo"; filename="photo"
        Content-Type: image/jpeg

        ���
        --
        name="icons"; filename="icons"
        Content-Type: image/gif

        GIF
        --
        name="icons"; filename="icons"
        Content-Type: application/octet-stream

        �PNG
        --
        name="any"; filename="any"
        Content-Type: application/pdf

        %PDF
        --
        name="scan"; filename="scan"
        Content-Type: image/tiff

        II*
        --
        name="plain"
        Content-Type: text/markdown; charset=utf-8

        *a*
        --
        name="csv"

        1,2
        ----
    "#]]
    .assert_eq(&text);
    let schema = "{type: object, properties: {list: {type: array, items: {type: integer}}, text: {type: string}, note: {type: object}, tags: {type: array, items: {type: string}}}}";
    let encoding = "{list: {contentType: application/json}, text: {contentType: application/json}, note: {contentType: application/json}}";
    let arguments = json!({"list": [1, 2], "text": "a", "note": {"a": 1}, "tags": ["x", "y"]});
    let text = sent_form("application/x-www-form-urlencoded", schema, encoding, arguments).await;
    assert_eq!(text, "list=%5B1%2C2%5D&text=%22a%22&note=%7B%22a%22%3A1%7D&tags=x&tags=y");
}

/// An integer is never exponential, and a number that may have been rounded is not sent.
#[tokio::test]
async fn numbers_are_exact() {
    let paths = r#"
  /items/{id}:
    get:
      operationId: op
      parameters:
      - {name: id, in: path, required: true, schema: {type: [integer, number]}}
      - {name: ids, in: query, schema: {type: array, items: {type: number}}}
      - {name: X-Limit, in: header, schema: {type: number}}
"#;
    let api = Api::ok().await;
    let tools = tools(&api, paths);
    for (value, text) in [
        (json!(18_446_744_073_709_551_615_u64), "18446744073709551615"),
        (json!(i64::MIN), "-9223372036854775808"),
        (json!(1e20), "100000000000000000000"),
        (json!(1e15), "1000000000000000"),
        (json!(9_007_199_254_740_993_i64), "9007199254740993"),
        (json!(3.0), "3"),
        (json!(-0.0), "0"),
        (json!(1e-7), "0.0000001"),
        (json!(0.30000000000000004), "0.30000000000000004"),
    ] {
        call_ok(&tools, "op", json!({"id": value, "ids": [value], "X-Limit": value})).await;
        let request = api.take_request();
        assert_eq!(request.line, format!("GET /items/{text}?ids={text}"));
        assert_eq!(request.header("x-limit"), text);
    }
    // `serde_json` reads 12345678901234567890123 as this number.
    for arguments in
        [json!({"id": 1.234_567_890_123_456_8e22}), json!({"id": 1, "ids": [-1.234_567_890_123_456_8e22]})]
    {
        let (kind, message) = call_failed(&tools, "op", arguments).await;
        assert_eq!(kind, FailureKind::InvalidArguments);
        assert!(message.contains("is beyond 64 bits and may be rounded"), "{message}");
    }
    assert!(api.requests().is_empty());
}
