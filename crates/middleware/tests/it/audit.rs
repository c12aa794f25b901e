//! Every call has an audit record, and no audit record contains a secret.

use std::{
    fmt::{Debug, Write as _},
    sync::{Arc, Mutex},
    time::Duration,
};

use expect_test::{Expect, expect};
use futures::FutureExt as _;
use haft_core::{
    Pipeline, Schema, Timestamp, Tool, ToolCall, ToolContext, ToolDefinition, ToolError, ToolExt, ToolName,
    Toolset,
    call::{Decision, Pending, PendingKind, ToolResponse},
    pipeline::CallOutcome,
    tool,
    tool::{DynamicTool, Principal, RunContext, ToolPolicy},
    toolset::ToolList,
};
use haft_middleware::ToolMiddleware as _;
use haft_middleware::{AuditEntry, AuditLog, ResultCache};
use serde_json::{Value, json};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

const CANARY: &str = "c4n4ry";

/// The audit records of all calls in a test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<AuditEntry>>>);

impl Log {
    fn pipeline(&self) -> Pipeline {
        let log = self.clone();
        Pipeline::new().with_recorder(AuditLog::new(move |entry| log.0.lock().unwrap().push(entry)))
    }

    fn entries(&self) -> Vec<AuditEntry> {
        self.0.lock().unwrap().clone()
    }
}

fn definition_named(name: &str) -> ToolDefinition {
    ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object())
}

fn with_policy(tool: DynamicTool, policy: ToolPolicy) -> impl Tool {
    tool.with_definition(|it| it.with_policy(policy))
}

fn context_of_ann() -> ToolContext {
    let principal = Principal { id: "ann".into(), scopes: ["read".to_owned()].into() };
    let run = RunContext { run_id: "run_1".into(), principal: Some(principal), ..RunContext::default() };
    ToolContext::new(Arc::new(run), "call_1")
}

/// Formats `entry` as JSON, with the start time and the duration set to 0, so that the text is
/// reproducible.
fn reproducible_line(mut entry: AuditEntry) -> String {
    (entry.started_at, entry.duration_ms) = (Timestamp::from_unix_millis(0), 0);
    entry.to_string()
}

#[tokio::test(start_paused = true)]
async fn every_call_has_one_record() {
    let done = || DynamicTool::new(definition_named("done"), |_, _| async { "done" });
    let rename = |tool: DynamicTool, name: &str| tool.with_definition(|it| it.with_name(name));
    let strict = json!({"properties": {"x": {"type": "integer"}}, "additionalProperties": false});
    let hang = DynamicTool::new(definition_named("hang"), |_, _| std::future::pending::<()>());
    let tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(done()),
        Arc::new(with_policy(
            DynamicTool::new(definition_named("admin"), |_, _| async {}),
            ToolPolicy { required_scopes: vec!["admin".into()], ..ToolPolicy::default() },
        )),
        Arc::new(rename(done(), "strict").with_definition(|it| it.with_input_schema(strict))),
        Arc::new(DynamicTool::new(definition_named("panic"), |_, _| async {
            if true {
                panic!("oh")
            }
        })),
        Arc::new(with_policy(
            hang.clone(),
            ToolPolicy { timeout: Some(Duration::from_secs(2)), ..ToolPolicy::default() },
        )),
        Arc::new(hang.with_definition(|it| it.with_name("dropped"))),
        Arc::new(DynamicTool::new(definition_named("outside"), |_, _| async {
            ToolResponse::Pending(Pending::new(PendingKind::External))
        })),
    ];
    let (log, tools) = (Log::default(), ToolList::new("test", tools));
    let pipeline = log.pipeline();
    for (name, arguments) in [
        ("done", r#"{"x": 1}"#),
        ("dnoe", r#"{"x": 1}"#),
        ("admin", "{}"),
        ("strict", r#"{"x": "3"}"#),
        ("strict", r#"{"y": 1}"#),
        ("done", r#"{"x": 1"#),
        ("panic", "{}"),
        ("hang", "{}"),
        ("outside", "{}"),
    ] {
        pipeline.call(&tools, &ToolCall::new("call_1", name, arguments), &context_of_ann()).await;
    }
    let dropped = ToolCall::new("call_1", "dropped", "{}");
    assert!(pipeline.call(&tools, &dropped, &context_of_ann()).now_or_never().is_none());
    assert_eq!(log.entries()[7].duration_ms, 2000);
    let lines: Vec<_> = log.entries().into_iter().map(reproducible_line).collect();
    expect![[r#"
        {"started_at":0,"duration_ms":0,"run_id":"run_1","call_id":"call_1","principal":{"id":"ann","scopes":["read"]},"tool":"done","arguments":{"x":1},"outcome":{"type":"done"}}
        {"started_at":0,"duration_ms":0,"run_id":"run_1","call_id":"call_1","principal":{"id":"ann","scopes":["read"]},"tool":"dnoe","arguments":{"x":"[redacted]"},"outcome":{"type":"failed","kind":"not_found"}}
        {"started_at":0,"duration_ms":0,"run_id":"run_1","call_id":"call_1","principal":{"id":"ann","scopes":["read"]},"tool":"admin","arguments":{},"outcome":{"type":"failed","kind":"denied"}}
        {"started_at":0,"duration_ms":0,"run_id":"run_1","call_id":"call_1","principal":{"id":"ann","scopes":["read"]},"tool":"strict","arguments":{"x":3},"outcome":{"type":"done"}}
        {"started_at":0,"duration_ms":0,"run_id":"run_1","call_id":"call_1","principal":{"id":"ann","scopes":["read"]},"tool":"strict","arguments":{"y":1},"outcome":{"type":"failed","kind":"invalid_arguments"}}
        {"started_at":0,"duration_ms":0,"run_id":"run_1","call_id":"call_1","principal":{"id":"ann","scopes":["read"]},"tool":"done","arguments":"[7 bytes that are no JSON object]","outcome":{"type":"failed","kind":"invalid_arguments"}}
        {"started_at":0,"duration_ms":0,"run_id":"run_1","call_id":"call_1","principal":{"id":"ann","scopes":["read"]},"tool":"panic","arguments":{},"outcome":{"type":"failed","kind":"failed"}}
        {"started_at":0,"duration_ms":0,"run_id":"run_1","call_id":"call_1","principal":{"id":"ann","scopes":["read"]},"tool":"hang","arguments":{},"outcome":{"type":"failed","kind":"timed_out"}}
        {"started_at":0,"duration_ms":0,"run_id":"run_1","call_id":"call_1","principal":{"id":"ann","scopes":["read"]},"tool":"outside","arguments":{},"outcome":{"type":"pending","waits_for":"external"}}
        {"started_at":0,"duration_ms":0,"run_id":"run_1","call_id":"call_1","principal":{"id":"ann","scopes":["read"]},"tool":"dropped","arguments":{},"outcome":{"type":"failed","kind":"cancelled"}}"#]].assert_eq(&lines.join("\n"));
    let again: AuditEntry = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(reproducible_line(again), lines[0]);
}

/// A call that is suspended and then resumed must have two records. The second record must be
/// marked as resumed and, if the call was approved, contain the approved arguments. The record of a
/// call with a cached result must be marked as cached.
#[tokio::test]
async fn resumed_and_cached_calls_are_marked() {
    let approval = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let pay = with_policy(DynamicTool::new(definition_named("pay"), |_, _| async { "paid" }), approval);
    let cacheable = ToolPolicy { idempotent: true, ..ToolPolicy::default() };
    let look = with_policy(DynamicTool::new(definition_named("look"), |_, _| async { "seen" }), cacheable)
        .layer(ResultCache::new(Duration::from_secs(60)));
    let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(pay), Arc::new(look)];
    let (log, tools) = (Log::default(), ToolList::new("test", tools));
    let pipeline = log.pipeline();
    let pay = ToolCall::new("call_1", "pay", r#"{"cents": 500, "pin": "1234"}"#);
    let CallOutcome::Pending(suspended) = pipeline.call(&tools, &pay, &context_of_ann()).await else {
        panic!()
    };
    for answer in
        [Decision::approved_with_arguments(json!({"cents": 5, "pin": "4321"})), Decision::denied("no")]
    {
        let resumed = context_of_ann().with_resumed(suspended.pending.clone().resume(answer).unwrap());
        pipeline.call(&tools, &pay, &resumed).await;
    }
    for _ in 0..2 {
        pipeline.call(&tools, &ToolCall::new("call_2", "look", "{}"), &ToolContext::default()).await;
    }
    let lines: Vec<_> = log.entries().into_iter().map(reproducible_line).collect();
    expect![[r#"
        {"started_at":0,"duration_ms":0,"run_id":"run_1","call_id":"call_1","principal":{"id":"ann","scopes":["read"]},"tool":"pay","arguments":{"cents":500,"pin":"[redacted]"},"outcome":{"type":"pending","waits_for":"approval"}}
        {"started_at":0,"duration_ms":0,"run_id":"run_1","call_id":"call_1","principal":{"id":"ann","scopes":["read"]},"tool":"pay","arguments":{"cents":5,"pin":"[redacted]"},"outcome":{"type":"done"},"resumed":true}
        {"started_at":0,"duration_ms":0,"run_id":"run_1","call_id":"call_1","principal":{"id":"ann","scopes":["read"]},"tool":"pay","arguments":{"cents":500,"pin":"[redacted]"},"outcome":{"type":"failed","kind":"denied"},"resumed":true}
        {"started_at":0,"duration_ms":0,"call_id":"call_2","principal":null,"tool":"look","arguments":{},"outcome":{"type":"done"}}
        {"started_at":0,"duration_ms":0,"call_id":"call_2","principal":null,"tool":"look","arguments":{},"outcome":{"type":"done"},"cached":true}"#]].assert_eq(&lines.join("\n"));
}

async fn check(definition: ToolDefinition, arguments: &str, expected: Expect) {
    expected.assert_eq(&recorded_arguments(definition, arguments).await.to_string());
}

/// Calls a tool with the given `definition`, and returns the arguments as they appear in the audit
/// record.
async fn recorded_arguments(definition: ToolDefinition, arguments: &str) -> Value {
    let log = Log::default();
    let name = definition.name().to_string();
    let tools = ToolList::new("test", [DynamicTool::new(definition, |_, _| async {})]);
    log.pipeline().call(&tools, &ToolCall::new("1", name, arguments), &ToolContext::default()).await;
    let [entry] = <[AuditEntry; 1]>::try_from(log.entries()).unwrap();
    entry.arguments
}

#[tokio::test]
async fn members_with_secret_names_are_redacted() {
    check(
        definition_named("login"),
        r#"{"user": "ann", "password": "x", "apiKey": "x", "OPENAI-API-KEY": "x", "PIN": 1234}"#,
        expect![[r#"{"user":"ann","password":"[redacted]","apiKey":"[redacted]","OPENAI-API-KEY":"[redacted]","PIN":"[redacted]"}"#]],
    )
    .await;
    check(
        definition_named("login"),
        r#"{"options": [{"headers": {"Authorization": "x", "Accept": "y"}}], "accessToken": "x"}"#,
        expect![[r#"{"options":[{"headers":{"Authorization":"[redacted]","Accept":"y"}}],"accessToken":"[redacted]"}"#]],
    )
    .await;
    // Counts, flags, `null` and names that only resemble secrets are not redacted.
    check(
        definition_named("login"),
        r#"{"max_tokens": 100, "has_password": true, "token": null, "shopping": "y", "author": "y"}"#,
        expect![[r#"{"max_tokens":100,"has_password":true,"token":null,"shopping":"y","author":"y"}"#]],
    )
    .await;
    // Secrets in a JSON string are redacted. A string with an invalid JSON object or array is
    // replaced by its length.
    check(
        definition_named("login"),
        r#"{"body": "{\"user\": \"ann\", \"secret\": \"x\"}", "list": "[1, 2]", "bad": "{\"secret\": \"x"}"#,
        expect![[r#"{"body":"{\"user\":\"ann\",\"secret\":\"[redacted]\"}","list":"[1, 2]","bad":"[13 bytes that are not valid JSON]"}"#]],
    )
    .await;
}

/// The names of secrets must be recognized in any case and style, with or without separators, and
/// with a number at the end.
#[tokio::test]
async fn secret_names_match_in_any_style() {
    let names = "accesstoken ACCESSTOKEN authtoken userpwd dbpass cvv2 CVC2 token1 subscription_key SSH-Key DSN databaseUrl";
    for name in names.split(' ') {
        let arguments = json!({name: "x"}).to_string();
        assert_eq!(
            recorded_arguments(definition_named("login"), &arguments).await,
            json!({name: "[redacted]"}),
            "{name}"
        );
    }
    check(
        definition_named("login"),
        r#"{"token": 482913, "total_tokens": 7, "maxTokens": 8}"#,
        expect![[r#"{"token":"[redacted]","total_tokens":7,"maxTokens":8}"#]],
    )
    .await;
}

/// The name of a secret can also be the value of another member, as in `{"name": …, "value": …}`,
/// or be in the same string as the secret, as in a header or a URL. All these forms must be
/// redacted.
#[tokio::test]
async fn name_value_pairs_headers_and_urls_are_redacted() {
    check(
        definition_named("fetch"),
        r#"{"headers": [{"name": "Authorization", "value": "Bearer x"}, {"name": "Accept", "value": "y"}], "more": ["X-Api-Key: x", "Accept: y"], "env": ["DB_PASSWORD=x", "HOME=/y"]}"#,
        expect![[r#"{"headers":[{"name":"Authorization","value":"[redacted]"},{"name":"Accept","value":"y"}],"more":["X-Api-Key: [redacted]","Accept: y"],"env":["DB_PASSWORD=[redacted]","HOME=/y"]}"#]],
    )
    .await;
    check(
        definition_named("fetch"),
        r#"{"headers": "Accept: y\r\nAuthorization: Bearer x\r\nHost: h", "env": "HOME=/y\nDB_PASSWORD=x\n"}"#,
        expect![[r#"{"headers":"Accept: y\r\nAuthorization: [redacted]\r\nHost: h","env":"HOME=/y\nDB_PASSWORD=[redacted]\n"}"#]],
    )
    .await;
    // The other lines of a secret are secret, too.
    check(
        definition_named("fetch"),
        r#"{"env": "PRIVATE_KEY=-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIE\nab==\n-----END RSA PRIVATE KEY-----\nHOME=/y", "yaml": "password: >\n  x\nuser: ann", "folded": "Authorization: Bearer\r\n x\r\nHost: h", "note": "see https://h/?token=x\nthanks"}"#,
        expect![[r#"{"env":"PRIVATE_KEY=[redacted]\nHOME=/y","yaml":"password: [redacted]\nuser: ann","folded":"Authorization: [redacted]\r\nHost: h","note":"see https://h/?token=[redacted]\nthanks"}"#]],
    )
    .await;
    check(
        definition_named("fetch"),
        r#"{"url": "https://ann:x@h.example/a?api_key=x&q=y#z", "text": "see [docs](https://h.example), [todo] call Bob", "list": "[todo] call Bob", "twice": "\"{\\\"pin\\\": \\\"x\\\"}\""}"#,
        expect![[r##"{"url":"https://[redacted]@h.example/a?api_key=[redacted]&q=y#z","text":"see [docs](https://h.example), [todo] call Bob","list":"[todo] call Bob","twice":"\"{\\\"pin\\\":\\\"[redacted]\\\"}\""}"##]],
    )
    .await;
}

/// Each text contains `s3cret` as its only secret.
#[tokio::test]
async fn secrets_in_commands_keys_and_urls_are_redacted() {
    let key = "-----BEGIN OPENSSH PRIVATE KEY-----\ns3cret\ns3cret==\n-----END OPENSSH PRIVATE KEY-----";
    let texts = [
        (
            "curl -H 'Authorization: Bearer s3cret' https://h/a",
            "curl -H 'Authorization: [redacted]' https://h/a",
        ),
        ("curl -H \"X-Api-Key: s3cret\" -d x", "curl -H \"X-Api-Key: [redacted]\" -d x"),
        ("curl --header=\"Cookie: a=s3cret\" h", "curl --header=\"Cookie: [redacted]\" h"),
        ("curl -H Authorization:s3cret h", "curl -H Authorization:[redacted] h"),
        ("send Authorization: Bearer s3cret now", "send Authorization: [redacted]"),
        ("curl -H'Authorization: Bearer s3cret' h", "curl -H'Authorization: [redacted]"),
        ("bash -c \"curl -H \\\"Cookie: a=s3cret\\\" h\"", "bash -c \"curl -H \\\"Cookie: [redacted]"),
        ("curl -u ann:s3cret --user bob:s3cret h", "curl -u ann:[redacted] --user bob:[redacted] h"),
        ("curl --user='ann:s3cret' h", "curl --user='ann:[redacted]' h"),
        ("db --password s3cret --host h", "db --password [redacted] --host h"),
        ("db --password 's3cret two' --host h", "db --password '[redacted]' --host h"),
        ("db --password=s3cret -v", "db --password=[redacted] -v"),
        ("db --api-key  s3cret", "db --api-key  [redacted]"),
        ("keytool -passphrase s3cret -v", "keytool -passphrase [redacted] -v"),
        ("export DB_PASSWORD=s3cret && run", "export DB_PASSWORD=[redacted] && run"),
        ("don't run x --token s3cret", "don't run x --token [redacted]"),
        ("\"quoted\" --token s3cret", "\"quoted\" --token [redacted]"),
        (
            "GET https://b.s3.example/k?X-Amz-Date=1&X-Amz-Signature=s3cret",
            "GET https://b.s3.example/k?X-Amz-Date=1&X-Amz-Signature=[redacted]",
        ),
        ("'https://h/c?sv=1&sig=s3cret&sp=r'", "'https://h/c?sv=1&sig=[redacted]&sp=r'"),
        ("wget --url=https://h/?Signature=s3cret#a", "wget --url=https://h/?Signature=[redacted]#a"),
        (
            "https://h/?X-Goog-Signature=s3cret&X-Goog-Credential=s3cret",
            "https://h/?X-Goog-Signature=[redacted]&X-Goog-Credential=[redacted]",
        ),
        ("https://h/maps?key=s3cret&q=a", "https://h/maps?key=[redacted]&q=a"),
    ];
    for (text, expected) in texts {
        let arguments = json!({"text": text, "list": [text]}).to_string();
        let recorded = recorded_arguments(definition_named("run"), &arguments).await;
        assert_eq!(recorded, json!({"text": expected, "list": [expected]}), "{text}");
    }
    for (text, expected) in [
        (key.to_owned(), "[redacted]".to_owned()),
        (format!("the key:\n{key}\nand more"), "the key:\n[redacted]\nand more".to_owned()),
        (format!("a {} b", key.replace('\n', " ")), "a [redacted] b".to_owned()),
        (format!("{key}\n{key}"), "[redacted]\n[redacted]".to_owned()),
        (key[..60].to_owned(), "[redacted]".to_owned()),
        ("---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\ns3cret".to_owned(), "[redacted]".to_owned()),
        (
            key.replace("PRIVATE", "PUBLIC").replace("s3cret", "open"),
            key.replace("PRIVATE", "PUBLIC").replace("s3cret", "open"),
        ),
    ] {
        let recorded = recorded_arguments(definition_named("run"), &json!({"text": text}).to_string()).await;
        assert_eq!(recorded, json!({"text": expected}), "{text}");
    }
    check(
        definition_named("run"),
        r#"{"argv": ["db", "--password", "s3cret", "--pin", 1234, "-u", "ann:s3cret", "--max-tokens", 100, "--max-tokens", "100", "--token", "--force"]}"#,
        expect![[r#"{"argv":["db","--password","[redacted]","--pin","[redacted]","-u","ann:[redacted]","--max-tokens",100,"--max-tokens","100","--token","--force"]}"#]],
    )
    .await;
    // Text without a secret is unchanged.
    for text in [
        "see src/auth.rs:45 and run -u root --name x, it's \"fine\" = ok",
        "curl -H 'Accept: text/html' 'https://h/?q=a b&signed=1'",
        "END and BEGIN of a PRIVATE KEY discussion - no key",
    ] {
        let recorded = recorded_arguments(definition_named("run"), &json!({"text": text}).to_string()).await;
        assert_eq!(recorded, json!({"text": text}));
    }
}

/// A line of an audit log has no raw hidden characters, and the same value.
#[tokio::test]
async fn hidden_characters_are_escaped_in_a_line() {
    let log = Log::default();
    let text = "a\u{202e}b\u{2028}c\u{e0041}\u{1b}";
    let call = ToolCall::new("1", format!("x{text}"), json!({}).to_string());
    log.pipeline().call(&ToolList::default(), &call, &ToolContext::default()).await;
    let [entry] = <[AuditEntry; 1]>::try_from(log.entries()).unwrap();
    let line = entry.to_string();
    assert!(line.is_ascii(), "{line}");
    assert_eq!(serde_json::from_str::<AuditEntry>(&line).unwrap().tool, format!("x{text}"));
}

#[tokio::test]
async fn arguments_that_are_no_object_are_withheld() {
    check(
        definition_named("login"),
        r#"{"password": "x"#,
        expect![[r#""[15 bytes that are no JSON object]""#]],
    )
    .await;
    check(definition_named("login"), "password=x", expect![[r#""[10 bytes that are no JSON object]""#]])
        .await;
    check(definition_named("login"), r#"["x"]"#, expect![[r#""[5 bytes that are no JSON object]""#]]).await;
    check(definition_named("login"), r#""x""#, expect![[r#""[3 bytes that are no JSON object]""#]]).await;
    check(
        definition_named("login"),
        r#""{\"password\": \"x\", \"user\": \"ann\"}""#,
        expect![[r#"{"password":"[redacted]","user":"ann"}"#]],
    )
    .await;
}

#[tokio::test]
async fn secrets_of_schema_and_policy_are_redacted() {
    let schema = json!({
        "properties": {
            "phrase": {"type": "string", "format": "password"},
            "words": {"type": "array", "items": {"$ref": "#/$defs/word"}},
            "card": {"properties": {"digits": {"writeOnly": true}, "holder": {"type": "string"}}},
            "free": {"patternProperties": {"^x": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/word"}]}}},
            "plain": {"type": "string"},
        },
        "$defs": {"word": {"type": "string", "writeOnly": true}},
    });
    let definition = definition_named("login").with_input_schema(schema);
    let arguments = r#"{"phrase": "x", "words": ["x"], "card": {"digits": [1], "holder": "ann"}, "free": {"xy": "x"}, "plain": "y", "Iban": "x"}"#;
    check(definition.clone(), arguments, expect![[r#"{"phrase":"[redacted]","words":"[redacted]","card":{"digits":"[redacted]","holder":"ann"},"free":"[redacted]","plain":"y","Iban":"x"}"#]]).await;
    let host = ToolPolicy { redacted: vec!["iban".into(), "plain".into()], ..ToolPolicy::default() };
    check(definition.clone().with_policy(host), arguments, expect![[r#"{"phrase":"[redacted]","words":"[redacted]","card":{"digits":"[redacted]","holder":"ann"},"free":"[redacted]","plain":"[redacted]","Iban":"[redacted]"}"#]]).await;
    // A secret is redacted even at a place that the schema does not declare, here inside `args`.
    // The arguments fail validation.
    check(
        definition.clone(),
        r#"{"args": {"phrase": "x"}, "plain": 7}"#,
        expect![[r#"{"args":{"phrase":"[redacted]"},"plain":7}"#]],
    )
    .await;
    let whole =
        definition_named("login").with_input_schema(json!({"additionalProperties": {"writeOnly": true}}));
    check(whole, r#"{"a": "x", "b": 1}"#, expect![[r#"{"a":"[redacted]","b":"[redacted]"}"#]]).await;
    // A `format` keyword inside `examples` is data and does not mark a secret.
    let data = definition_named("login")
        .with_input_schema(json!({"properties": {"a": {"examples": [{"format": "password"}]}}}));
    check(data, r#"{"a": "y"}"#, expect![[r#"{"a":"y"}"#]]).await;
}

/// The argument of a parameter with `#[tool(format = "password")]` must be redacted.
#[tokio::test]
async fn parameter_with_password_format_is_redacted() {
    /// Opens a door.
    #[tool]
    fn open(#[tool(format = "password")] word: String, door: u32) -> String {
        format!("{door} got {} letters", word.len())
    }
    let log = Log::default();
    let tools = Toolset::new().with_tool(Open).with_pipeline(log.pipeline());
    let opened = tools.call("open", json!({"word": "sesame", "door": 3})).await;
    assert_eq!(opened.model_text(), "3 got 6 letters");
    assert_eq!(log.entries()[0].arguments, json!({"word": "[redacted]", "door": 3}));
}

/// A `tracing` subscriber that writes all spans and events to a string, except those at the levels
/// `debug` and `trace`.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<String>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Trace {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = self.0.lock().unwrap();
        text.push_str(span.metadata().name());
        span.record(&mut Fields(&mut text));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Fields(&mut self.0.lock().unwrap()));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Fields(&mut self.0.lock().unwrap()));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A secret in the arguments of a call is in no audit record, span or log, for any outcome of the
/// call.
#[tokio::test(start_paused = true)]
async fn secret_arguments_are_never_logged() {
    #[derive(Debug, thiserror::Error)]
    #[error("refused")]
    struct Refused(#[source] std::io::Error);
    let trace = Trace::default();
    // With only one subscriber, `tracing` caches the interest in a callsite when a thread first
    // reaches it, and this thread may belong to another test. A second subscriber disables this
    // cache.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    let _guard = tracing::subscriber::set_default(trace.clone());
    let message = |arguments: &Value| format!("bad password {}", arguments["password"]);
    let definition = |name: &str| {
        let schema =
            json!({"properties": {"password": {"type": "string", "maxLength": 9}, "n": {"type": "integer"}}});
        let policy = ToolPolicy { timeout: Some(Duration::from_secs(1)), ..ToolPolicy::default() };
        definition_named(name).with_input_schema(schema).with_policy(policy)
    };
    let tools = [
        DynamicTool::new(definition("ok"), |_, _| async { "ok" }),
        DynamicTool::new(definition("echo"), move |arguments, _| async move { message(&arguments) }),
        DynamicTool::new(definition("fail"), move |arguments, _| async move {
            Err::<(), _>(ToolError::failed(Refused(std::io::Error::other(message(&arguments)))))
        }),
        DynamicTool::new(definition("panic"), move |arguments, _| async move {
            if arguments.is_object() {
                std::panic::resume_unwind(Box::new(message(&arguments)));
            }
        }),
        DynamicTool::new(definition("hang"), |_, _| std::future::pending::<()>()),
    ];
    let (log, tools) = (Log::default(), ToolList::new("test", tools));
    let pipeline = log.pipeline();
    let texts = [
        format!(r#"{{"password": "{CANARY}"}}"#),
        format!(r#"{{"password": "{CANARY}", "n": "x"}}"#),
        format!(r#"{{"password": "{CANARY}{CANARY}"}}"#),
        format!(r#"{{"args": {{"password": "{CANARY}"}}}}"#),
        format!(r#""{{\"password\": \"{CANARY}\"}}""#),
        format!(r#"{{"password": "{CANARY}"#),
        format!(r#"["{CANARY}"]"#),
        CANARY.to_owned(),
    ];
    for name in ["ok", "echo", "fail", "panic", "hang", "login"] {
        for text in &texts {
            pipeline.call(&tools, &ToolCall::new("1", name, text), &ToolContext::default()).await;
        }
    }
    let entries: Vec<_> = log.entries().iter().map(AuditEntry::to_string).collect();
    assert_eq!(entries.len(), 48);
    assert!(!entries.concat().contains(CANARY));
    let trace = trace.0.lock().unwrap();
    assert!(trace.contains("execute_tool") && trace.contains("a tool panicked"), "{trace}");
    assert!(!trace.contains(CANARY), "{trace}");
}
