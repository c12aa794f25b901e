use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use haft_core::model::{ChatEvent, ChatResponse, FinishReason, ModelError, ResponseFormat, ToolChoice};
use haft_langchain::{
    HaftLlm,
    langchain_rust::{
        agent::{AgentExecutor, OpenAiToolAgentBuilder},
        chain::{Chain, LLMChainBuilder, builder::ConversationalChainBuilder, options::ChainCallOptions},
        fmt_template,
        language_models::{LLMEvent, llm::LLM, options::CallOptions},
        message_formatter,
        prompt::HumanMessagePromptTemplate,
        prompt_args,
        schemas::{
            FunctionCallBehavior, FunctionDefinition, Message, ResponseFormat as ForeignFormat, ToolCall,
        },
        template_fstring,
    },
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::support::adder;

/// A haft model drives LangChain's tool agent, with tools and call ids.
#[tokio::test]
async fn haft_model_drives_a_langchain_agent() {
    let model =
        ScriptedModel::new().reply_calls([("call_1", "adder", r#"{"x":17,"y":25}"#)]).reply_text("It is 42.");
    let agent = OpenAiToolAgentBuilder::new()
        .tools(&[adder()])
        .options(ChainCallOptions::new().with_max_tokens(100))
        .build(HaftLlm::new(model.clone()))
        .unwrap();
    let executor = AgentExecutor::from_agent(agent);
    let answer = executor.invoke(prompt_args! {"input" => "What is 17 plus 25?"}).await.unwrap();
    assert_eq!(answer, "It is 42.");
    let requests = model.requests();
    assert_eq!(requests[0].tools.names().collect::<Vec<_>>(), [&"adder"]);
    assert_eq!(requests[0].settings.max_tokens, Some(100));
    assert!(requests[0].instructions.is_some());
    let result = requests[1].tool_results().next().unwrap();
    assert_eq!(
        (result.call_id.as_str(), result.name.as_str(), &*result.model_text()),
        ("call_1", "adder", "42")
    );
}

/// A haft model drives LangChain's chains, streamed or not, with memory.
#[tokio::test]
async fn haft_model_drives_langchain_chains() {
    let prompt = message_formatter![fmt_template!(HumanMessagePromptTemplate::new(template_fstring!(
        "Translate {text}.",
        "text"
    )))];
    let model = ScriptedModel::new().reply_text("Hallo").reply_chunks(["Hal", "lo"]);
    let chain = LLMChainBuilder::new().prompt(prompt).llm(HaftLlm::new(model.clone())).build().unwrap();
    assert_eq!(chain.invoke(prompt_args! {"text" => "hello"}).await.unwrap(), "Hallo");
    let items = chain.stream(prompt_args! {"text" => "hello"}).await.unwrap();
    let texts: Vec<_> = items.map(|item| item.unwrap().content).collect().await;
    assert_eq!(texts, ["Hal", "lo", ""]);
    assert_eq!(model.requests()[1].messages.iter().next().unwrap().text(), "Translate hello.");

    let model = ScriptedModel::new().reply_text("Hi Ann.").reply_text("You are Ann.");
    let chain = ConversationalChainBuilder::new().llm(HaftLlm::new(model.clone())).build().unwrap();
    chain.invoke(prompt_args! {"input" => "I am Ann."}).await.unwrap();
    assert_eq!(chain.invoke(prompt_args! {"input" => "Who am I?"}).await.unwrap(), "You are Ann.");
    assert!(model.requests()[1].messages.iter().next().unwrap().text().contains("Hi Ann."));
}

/// Options become settings, and a repeated function replaces the earlier one.
#[tokio::test]
async fn options_become_settings() {
    let model = ScriptedModel::new().reply_text("ok");
    let function = |text| FunctionDefinition::new("find city", text, json!({"type": "object"}));
    let options = CallOptions::new()
        .with_temperature(0.7)
        .with_stop_words(vec!["END".to_owned()])
        .with_seed(3)
        .with_functions(vec![function("old")])
        .with_function_call_behavior(FunctionCallBehavior::Named("find_city".to_owned()))
        .with_response_format(ForeignFormat::JsonObject);
    let mut llm = HaftLlm::new(model.clone()).with_options(options);
    llm.add_options(CallOptions::new().with_functions(vec![function("new")]));
    llm.generate(&[Message::new_system_message("Be brief."), Message::new_human_message("hi")])
        .await
        .unwrap();
    let request = &model.requests()[0];
    assert_eq!(request.settings.temperature, Some(0.7));
    assert_eq!((request.settings.seed, &request.settings.stop[..]), (Some(3), &["END".to_owned()][..]));
    assert_eq!(request.tools.len(), 1);
    assert_eq!(request.tools.get("find_city").unwrap().definition().description(), "new");
    assert!(matches!(&request.tool_choice, ToolChoice::Tool(name) if *name == "find_city"));
    assert_eq!(request.response_format, ResponseFormat::JsonObject);
    assert_eq!(request.instructions.as_ref().unwrap().text(), "Be brief.");
}

#[tokio::test]
async fn function_with_an_invalid_schema_is_an_error() {
    let functions = vec![FunctionDefinition::new("find", "", json!({"type": "objct"}))];
    let llm = HaftLlm::new(ScriptedModel::new()).with_options(CallOptions::new().with_functions(functions));
    let error = llm.generate(&[Message::new_human_message("hi")]).await.unwrap_err().to_string();
    assert!(error.contains(r#"tool "find" of langchain is quarantined"#), "{error}");
}

/// A repeated id of the conversation is replaced, because LangChain's agents merge calls with equal
/// ids and arguments.
#[tokio::test]
async fn repeated_ids_are_not_merged_by_langchain() {
    let again = [("call_1", "adder", r#"{"x":1,"y":2}"#)];
    let model = ScriptedModel::new().reply_calls(again).reply_calls(again).reply_text("3 twice.");
    let agent = OpenAiToolAgentBuilder::new().tools(&[adder()]).build(HaftLlm::new(model.clone())).unwrap();
    AgentExecutor::from_agent(agent).invoke(prompt_args! {"input" => "Add twice."}).await.unwrap();
    let last = &model.requests()[2];
    let ids: Vec<_> = last.tool_results().map(|result| result.call_id.clone()).collect();
    assert_eq!(ids, ["call_1", "call_1_2"]);
    let replies = last.messages.iter().filter(|message| !message.tool_calls().is_empty()).count();
    assert_eq!(replies, 2);
}

/// A streaming function and the events of a stream receive each piece of the text.
#[tokio::test]
async fn streams_have_the_pieces_of_the_text() {
    let pieces = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&pieces);
    let options = CallOptions::new().with_streaming_func(move |piece| {
        received.lock().unwrap().push(piece);
        async { Ok(()) }
    });
    let model = ScriptedModel::new().reply_chunks(["Hel", "lo"]).reply_chunks(["Hel", "lo"]);
    let llm = HaftLlm::new(model).with_options(options);
    let messages = [Message::new_human_message("hi")];
    assert_eq!(llm.generate(&messages).await.unwrap().generation, "Hello");
    assert_eq!(*pieces.lock().unwrap(), ["Hel", "lo"]);
    let events: Vec<_> = llm.generate_stream(&messages).map(Result::unwrap).collect().await;
    let [LLMEvent::Text(one), LLMEvent::Text(two), LLMEvent::Done(result)] = &events[..] else { panic!() };
    assert_eq!((one.as_str(), two.as_str(), result.generation.as_str()), ("Hel", "lo", "Hello"));
}

#[tokio::test]
async fn calls_of_a_reply_are_typed() {
    let model = ScriptedModel::new().reply_calls([("call_1", "add", r#"{"x":1}"#)]);
    let result = HaftLlm::new(model).generate(&[Message::new_human_message("hi")]).await.unwrap();
    assert_eq!(result.tool_calls, [ToolCall::new("call_1", "add", r#"{"x":1}"#)]);
}

/// A truncated stream and a filtered reply are errors for LangChain.
#[tokio::test]
async fn incomplete_replies_are_errors() {
    let cut = [Ok(ChatEvent::TextDelta { text: "It".to_owned() }), Err(ModelError::EmptyResponse)];
    let filtered = ChatResponse { finish_reason: FinishReason::ContentFilter, ..ChatResponse::new("no") };
    let model = ScriptedModel::new().reply_events(cut).reply(filtered);
    let llm = HaftLlm::new(model);
    let messages = [Message::new_human_message("hi")];
    let items: Vec<_> = llm.stream(&messages).await.unwrap().collect().await;
    assert_eq!(items.len(), 2);
    assert!(items[1].is_err());
    let error = llm.generate(&messages).await.unwrap_err().to_string();
    assert!(error.contains("content filter"), "{error}");
}
