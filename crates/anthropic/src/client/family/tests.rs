use expect_test::expect;

use super::{Family, version_of};

#[test]
fn versions_are_parsed() {
    let names = [
        "claude-opus-5-5",
        "claude-sonnet-5",
        "claude-opus-4-7",
        "claude-sonnet-4-6",
        "claude-haiku-4-5-20251001",
        "anthropic.claude-opus-4-1-20250805-v1:0",
        "us.anthropic.claude-sonnet-4-20250514-v1:0",
        "claude-3-7-sonnet-latest",
        "claude-3-5-haiku@20241022",
        "claude-3-opus-20240229",
        "anthropic/claude-sonnet-4.5",
        "claude-mythos-preview",
        "other-model-4-6",
    ];
    let lines = names.map(|name| {
        let Family { context_window, max_tokens, thinking, has_sampling, .. } = Family::of(name);
        format!("{name}: {:?} {context_window} {max_tokens} {thinking:?} {has_sampling}", version_of(name))
    });
    expect![[r#"
        claude-opus-5-5: Some((5, 5)) 1000000 32000 Adaptive false
        claude-sonnet-5: Some((5, 0)) 1000000 32000 Adaptive false
        claude-opus-4-7: Some((4, 7)) 1000000 32000 Adaptive false
        claude-sonnet-4-6: Some((4, 6)) 1000000 32000 ManualOrAdaptive true
        claude-haiku-4-5-20251001: Some((4, 5)) 200000 32000 Manual true
        anthropic.claude-opus-4-1-20250805-v1:0: Some((4, 1)) 200000 32000 Manual true
        us.anthropic.claude-sonnet-4-20250514-v1:0: Some((4, 0)) 200000 32000 Manual true
        claude-3-7-sonnet-latest: Some((3, 7)) 200000 32000 Manual true
        claude-3-5-haiku@20241022: Some((3, 5)) 200000 8192 None true
        claude-3-opus-20240229: Some((3, 0)) 200000 4096 None true
        anthropic/claude-sonnet-4.5: Some((4, 5)) 200000 32000 Manual true
        claude-mythos-preview: None 200000 8192 Unknown true
        other-model-4-6: None 200000 8192 Unknown true"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn profile_lists_the_hosted_tools() {
    let profile = Family::of("claude-opus-5-5").profile("claude-opus-5-5");
    expect![[r#"{"name":"claude-opus-5-5","native_tools":true,"json_schema":true,"images":true,"files":true,"context_window":1000000,"hosted_tools":["web_search","mcp_server","code_execution"]}"#]].assert_eq(&serde_json::to_string(&profile).unwrap_or_default());
}
