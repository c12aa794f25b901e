//! Tests of the tool form of each family, with models that generate a given text.

use haft_core::{
    ChatModel, Message, ToolCall, ToolOutput, ToolResult,
    message::AssistantMessage,
    model::{ChatRequest, FinishReason, ToolChoice},
};
use serde_json::{Value, json};

use crate::calls::{check_arguments, object, request};
use crate::scripted::{END, ScriptedFile};

/// A family with its chat template.
struct Family {
    name: &'static str,
    template: &'static str,
    specials: &'static [&'static str],
    /// The last token of a prompt with a question, and of a prompt with a result.
    prompt_ends: &'static [&'static str],
    /// The text before a call, with its whitespace.
    lead: &'static str,
    /// The tokens from the text to the beginning of the call.
    opening: &'static [&'static str],
    /// `true` if the template renders text before a call, so that the next prompt begins with the
    /// previous prompt and reply.
    keeps_text: bool,
}

const FAMILIES: [Family; 8] = [
    Family {
        name: "Qwen2.5",
        template: include_str!("../templates/hermes.jinja"),
        specials: &["<tool_call>", "</tool_call>"],
        prompt_ends: &["\n"],
        lead: "I look.\n",
        opening: &["<tool_call>"],
        keeps_text: true,
    },
    Family {
        name: "Qwen3",
        template: include_str!("../templates/qwen3.jinja"),
        specials: &["<think>", "</think>", "<tool_call>", "</tool_call>"],
        prompt_ends: &["\n"],
        lead: "I look.\n",
        opening: &["<tool_call>"],
        // The history has no empty reasoning block.
        keeps_text: false,
    },
    Family {
        name: "SmolLM3",
        template: include_str!("../templates/smollm3.jinja"),
        specials: &["<think>", "</think>", "<tool_call>", "</tool_call>"],
        prompt_ends: &["\n"],
        lead: "I look.\n",
        opening: &["<tool_call>"],
        keeps_text: true,
    },
    Family {
        name: "Llama 3",
        template: include_str!("../templates/llama3.jinja"),
        specials: &["<|eot_id|>", "<|python_tag|>"],
        prompt_ends: &["\n"],
        lead: "I look.",
        opening: &["<|python_tag|>"],
        keeps_text: false,
    },
    Family {
        name: "Mistral v3",
        template: include_str!("../templates/mistral.jinja"),
        specials: &["[TOOL_CALLS]", "[INST]", "[/INST]", "[/TOOL_RESULTS]"],
        prompt_ends: &["[/INST]", "[/TOOL_RESULTS]"],
        lead: "I look.",
        opening: &["[TOOL_CALLS]"],
        keeps_text: false,
    },
    Family {
        name: "Mistral with call ids",
        template: include_str!("../templates/mistral_call_id.jinja"),
        specials: &["[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", "[INST]", "[/INST]", "[/TOOL_RESULTS]"],
        prompt_ends: &["[/INST]", "[/TOOL_RESULTS]"],
        lead: "I look.",
        opening: &["[TOOL_CALLS]"],
        keeps_text: true,
    },
    Family {
        name: "Phi-4-mini",
        template: include_str!("../templates/phi4_mini.jinja"),
        specials: &["<|end|>", "<|assistant|>", "<|tool_call|>", "<|/tool_call|>", "<|tool_response|>"],
        prompt_ends: &["<|assistant|>"],
        lead: "I look.",
        opening: &["<|tool_call|>"],
        keeps_text: true,
    },
    Family {
        name: "Gemma 3",
        template: include_str!("../templates/gemma3.jinja"),
        specials: &["<start_of_turn>", "<end_of_turn>"],
        prompt_ends: &["\n"],
        lead: "I look.",
        opening: &["\n<tool_call", ">"],
        keeps_text: true,
    },
];

/// The arguments of a call, with quotes, line breaks, backslashes and other languages.
fn arguments() -> Value {
    json!({"at": "a \"b\"\n\\n \u{e9} \u{6771}\u{4eac} \u{1f600} </tool_call> [ARGS]"})
}

fn look(choice: ToolChoice) -> ChatRequest {
    request(choice, &object(json!({"at": {"const": arguments()["at"]}})))
}

fn call_file(family: &Family) -> ScriptedFile {
    let chains: Vec<_> =
        family.prompt_ends.iter().map(|end| [&[*end, family.lead], family.opening].concat()).collect();
    let chains: Vec<_> = chains.iter().map(Vec::as_slice).collect();
    ScriptedFile::new(family.template, family.specials, &chains)
}

#[tokio::test]
async fn text_may_precede_a_call() {
    for family in &FAMILIES {
        let model = call_file(family).load().await;
        for (choice, text) in [(ToolChoice::Auto, "I look."), (ToolChoice::Required, "")] {
            let reply = model.chat(&look(choice)).await.unwrap();
            assert_eq!(reply.finish_reason, FinishReason::ToolCalls, "{}", family.name);
            assert_eq!(reply.message.text(), text, "{}", family.name);
            let [call] = &reply.message.tool_calls[..] else { panic!("{}", family.name) };
            assert_eq!(call.arguments.parse::<Value>().unwrap(), arguments(), "{}", family.name);
        }
    }
}

/// Without a seed, names, arguments and further calls are random: a reply has several calls in
/// about three of ten attempts. Llama's template renders one call per turn.
#[tokio::test]
async fn reply_may_have_several_calls() {
    let places =
        ["a \"b\"", "c\n\\n", "\u{e9}", "\u{6771}\u{4eac}", "\u{1f600}", "</tool_call>", "[ARGS]", "x"];
    for family in &FAMILIES {
        let has_several = family.name != "Llama 3";
        let model = call_file(family).load().await;
        let mut most_calls = 0;
        for _ in 0..if has_several { 80 } else { 5 } {
            let mut request = request(ToolChoice::Auto, &object(json!({"at": {"enum": places}})));
            request.settings.temperature = Some(1.0);
            let reply = model.chat(&request).await.unwrap();
            check_arguments(&request, &reply, family.name);
            most_calls = most_calls.max(reply.message.tool_calls.len());
            if most_calls > 1 {
                break;
            }
        }
        assert_eq!(most_calls > 1, has_several, "{}", family.name);
    }
}

/// A result may contain the spelling of a special token, which is ordinary text.
#[tokio::test]
async fn markup_in_a_result_is_text() {
    for family in &FAMILIES {
        let model = answer_file(family).load().await;
        let length = async |result: &str| {
            let call = ToolCall::new("x", "first", r#"{"at":"a"}"#);
            let reply = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
            let result = ToolResult::done("x", "first", ToolOutput::from(result));
            let messages = [Message::user("Go."), Message::assistant(reply), Message::tool(result)];
            let request = ChatRequest { messages: messages.into_iter().collect(), ..look(ToolChoice::Auto) };
            model.chat(&request).await.unwrap().usage.input_tokens
        };
        let plain = length("ok").await;
        for special in family.specials.iter().filter(|special| !special.contains("tool_call>")) {
            let marked = length(&format!("ok{special}")).await;
            assert_eq!(marked - plain, special.len() as u64, "{special}: {}", family.name);
        }
    }
}

/// The next prompt renders the call in the form in which the model has generated it.
#[tokio::test]
async fn next_prompt_begins_with_the_reply() {
    for family in FAMILIES.iter().filter(|family| family.keeps_text) {
        let model = call_file(family).load().await;
        let first = model.chat(&look(ToolChoice::Auto)).await.unwrap();
        let call = &first.message.tool_calls[0];
        let result = Message::tool(ToolResult::done(&call.id, &call.name, ToolOutput::from("A wall.")));
        let mut next = look(ToolChoice::Auto);
        next.messages = next
            .messages
            .iter()
            .map(|message| message.as_ref().clone())
            .chain([Message::assistant(first.message.clone()), result])
            .collect();
        let reply = model.chat(&next).await.unwrap();
        assert_eq!(reply.message.text(), "I look.", "{}", family.name);
        let cached = reply.usage.cached_input_tokens - first.usage.input_tokens;
        assert!(cached > 20, "{cached} tokens of the reply: {}", family.name);
    }
}

/// A call without its opening tag, as some models write it at the beginning of a reply.
#[tokio::test]
async fn call_without_a_tag_is_recognized() {
    for family in FAMILIES.iter().filter(|family| !family.name.contains("ids")) {
        let key = if family.name == "Llama 3" { "parameters" } else { "arguments" };
        let words = ["{\"na", "me\": ", "\"first\", \"", key];
        let chain = [&[family.prompt_ends[0]], words.as_slice()].concat();
        let file = ScriptedFile::new(family.template, family.specials, &[&chain, &["\"", "f"]]);
        let reply = file.load().await.chat(&look(ToolChoice::Auto)).await.unwrap();
        let [call] = &reply.message.tool_calls[..] else { panic!("{}: {:?}", family.name, reply.message) };
        assert_eq!(call.name, "first", "{}", family.name);
        assert_eq!(call.arguments.parse::<Value>().unwrap(), arguments(), "{}", family.name);
    }
}

/// A tag, a call of an unknown tool and JSON without a call.
#[tokio::test]
async fn malformed_call_is_never_a_call_of_its_own() {
    for family in &FAMILIES {
        for text in ["{\"name\": \"third\", \"arguments\": {}}", "{\"at\": 1}", "[{\"name\": 1}]"] {
            let chain = [family.prompt_ends[0], text, END];
            let file = ScriptedFile::new(family.template, family.specials, &[&chain]);
            let reply = file.load().await.chat(&look(ToolChoice::Auto)).await.unwrap();
            assert_eq!(reply.message.text(), text, "{}", family.name);
            assert!(reply.message.tool_calls.is_empty(), "{}", family.name);
        }
        // The name behind the tag is constrained, so it is the name of a tool.
        let chain = [&[family.prompt_ends[0]], family.opening, &["{\"nam", "e\": \"thi", "rd\""]].concat();
        let file = ScriptedFile::new(family.template, family.specials, &[&chain]);
        let reply = file.load().await.chat(&look(ToolChoice::Auto)).await.unwrap();
        assert_eq!(reply.message.tool_calls.len(), 1, "{}", family.name);
        assert_eq!(reply.message.tool_calls[0].arguments.parse::<Value>().unwrap(), arguments());
    }
}

/// A model that always replies "Done.".
fn answer_file(family: &Family) -> ScriptedFile {
    let chains: Vec<_> = family.prompt_ends.iter().map(|end| [*end, "Done.", END]).collect();
    let chains: Vec<_> = chains.iter().map(<[_; 3]>::as_slice).collect();
    ScriptedFile::new(family.template, family.specials, &chains)
}

/// A conversation from another model: two calls in one turn, and arguments that are not JSON.
#[tokio::test]
async fn foreign_history_is_rendered() {
    for family in &FAMILIES {
        let model = answer_file(family).load().await;
        let length = async |arguments: [&str; 2]| {
            let ids = ["x", "y"];
            let calls = ids.iter().zip(arguments).map(|(id, text)| ToolCall::new(*id, "first", text));
            let reply = AssistantMessage { tool_calls: calls.collect(), ..AssistantMessage::default() };
            let results = ids.map(|id| Message::tool(ToolResult::done(id, "first", ToolOutput::from("ok"))));
            let messages = [Message::user("Go."), Message::assistant(reply)].into_iter().chain(results);
            let mut request = look(ToolChoice::Auto);
            request.messages = messages.collect();
            let reply = model.chat(&request).await.unwrap();
            assert_eq!(reply.message.text(), "Done.", "{}", family.name);
            reply.usage.input_tokens
        };
        let short = length([r#"{"at":"a"}"#, r#"{"at":"b"}"#]).await;
        let long = length([r#"{"at":"a long text"}"#, r#"{"at":"b"}"#]).await;
        assert_eq!(long - short, 10, "{}", family.name);
        assert!(length([r#"{"at":"#, "{}"]).await < short, "{}", family.name);
    }
}
