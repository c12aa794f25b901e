//! Tools in both directions.

use std::sync::{
    Arc, RwLock,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use expect_test::expect;
use haft_core::{
    Pipeline, Schema, ToolDefinition, ToolExt as _, ToolName, ToolSource, Toolset,
    call::FailureKind,
    tool,
    tool::{DynamicTool, Principal, RunContext},
    toolset::{ListContext, ToolList, ToolsetError},
};
use haft_langchain::{
    HaftMemory, LangChainSource, LangChainTool, ToolsetExt as _,
    langchain_rust::{
        agent::{AgentExecutor, ConversationalAgentBuilder, OpenAiToolAgentBuilder},
        chain::Chain as _,
        prompt_args,
        tools::{Calculator, Tool},
    },
};
use haft_react::ReactAgent;
use haft_testing::{ScriptedModel, conformance};
use serde_json::{Value, json};

use crate::support::{Echo, FakeLlm, Shout, adder, calls, text};

/// Adds two integers.
#[tool]
fn add(x: i64, y: i64) -> i64 {
    x + y
}

/// Sends a message.
#[tool]
fn send(
    /// The text of the message.
    text: String,
    #[tool(default = 1)] copies: u8,
) -> String {
    format!("sent {copies}: {text}")
}

fn toolset() -> Toolset {
    Toolset::new().with_tools((Add, Send))
}

#[tokio::test]
async fn structured_tool_gets_its_arguments_as_an_object() {
    let tools = Toolset::new().with_tool(LangChainTool::new(adder()));
    let definition = tools.definition("adder").await.unwrap();
    assert_eq!(definition.description(), "Adds two integers.");
    assert_eq!(definition.input_schema().as_value(), &adder().parameters());
    assert_eq!(tools.call("adder", json!({"x": 17, "y": 25})).await.model_text(), "42");
    assert_eq!(
        tools.call("adder", json!({"x": 17})).await.failure().unwrap().kind,
        FailureKind::InvalidArguments
    );
}

/// A LangChain tool with the default schema gets the text of its one argument.
#[tokio::test]
async fn default_schema_passes_the_text() {
    let tools = Toolset::new().with_tool(LangChainTool::new(Arc::new(Echo)));
    assert_eq!(tools.names().await, ["Echo_Text"]);
    for text in ["hello", "42", r#"{"input":"inner"}"#, "[1, 2]"] {
        let result = tools.call("Echo_Text", json!({"input": text})).await;
        assert_eq!(result.model_text(), format!("<{text}>"));
    }
}

#[tokio::test]
async fn plain_string_tool_gets_the_text_itself() {
    let tool = LangChainTool::new(Arc::new(Shout)).with_text_input();
    expect![[r#"
        {
          "type": "object",
          "properties": {
            "input": {
              "type": "string",
              "description": "Returns its input in upper case."
            }
          },
          "required": [
            "input"
          ],
          "additionalProperties": false
        }"#]]
    .assert_eq(&format!("{:#}", haft_core::Tool::definition(&tool).input_schema().as_value()));
    assert_eq!(tool.invoke(json!({"input": "hello"})).await.model_text(), "HELLO");
}

/// The error of a LangChain tool fails its call only, and the model reads its text.
#[tokio::test]
async fn error_of_a_langchain_tool_fails_its_call() {
    let result = LangChainTool::new(Arc::new(Echo)).invoke(json!({"input": "secret"})).await;
    assert_eq!(result.failure().unwrap().kind, FailureKind::Failed);
    assert_eq!(result.model_text(), "the text secret is forbidden");
}

/// Invalid parameters withhold their own tool only.
#[tokio::test]
async fn invalid_parameters_withhold_one_tool() {
    struct Broken;
    #[async_trait]
    impl Tool for Broken {
        fn name(&self) -> String {
            "broken".to_owned()
        }
        fn description(&self) -> String {
            String::new()
        }
        fn parameters(&self) -> Value {
            json!({"type": "object", "properties": {"x": {"type": "integr"}}})
        }
        async fn run(&self, _: Value) -> Result<String, Box<dyn std::error::Error>> {
            Ok(String::new())
        }
    }
    let source = LangChainSource::new("langchain", || vec![Arc::new(Broken), adder()]);
    let list = Toolset::new().with_source(source).list(&ListContext::default()).await;
    assert_eq!(list.names().collect::<Vec<_>>(), [&"adder"]);
    let diagnostic = list.diagnostics()[0].to_string();
    assert!(diagnostic.starts_with(r#"tool "broken" of langchain is quarantined"#), "{diagnostic}");
}

/// A change of a list of LangChain tools is in the next listing.
#[tokio::test]
async fn changed_list_is_in_the_next_listing() {
    let list = Arc::new(RwLock::new(vec![adder()]));
    let shared = Arc::clone(&list);
    let source = LangChainSource::new("langchain", move || shared.read().unwrap().clone());
    let cx = ListContext::default();
    let first = source.tools(&cx).await.unwrap();
    assert_eq!(source.tools(&cx).await.unwrap().snapshot_id(), first.snapshot_id());
    list.write().unwrap().push(Arc::new(Calculator::new()));
    let second = source.tools(&cx).await.unwrap();
    assert_eq!(second.names().collect::<Vec<_>>(), [&"adder", &"calculator"]);
    list.write().unwrap().remove(0);
    assert_eq!(source.tools(&cx).await.unwrap().names().collect::<Vec<_>>(), [&"calculator"]);
}

/// LangChain tools in a haft agent run in parallel, and a call to an unknown tool does not abort
/// the run.
#[tokio::test]
async fn langchain_tools_run_in_parallel() {
    struct Meet(tokio::sync::Barrier);
    #[async_trait]
    impl Tool for Meet {
        fn name(&self) -> String {
            "meet".to_owned()
        }
        fn description(&self) -> String {
            "Waits for another call.".to_owned()
        }
        async fn run(&self, _: Value) -> Result<String, Box<dyn std::error::Error>> {
            self.0.wait().await;
            Ok("met".to_owned())
        }
    }
    let meet = LangChainTool::new(Arc::new(Meet(tokio::sync::Barrier::new(2))));
    let call = |id: &'static str, name: &'static str| (id, name, r#"{"input":""}"#);
    let model = ScriptedModel::new()
        .reply_calls([call("a", "meet"), call("b", "meat"), call("c", "meet")])
        .reply_text("done");
    let agent = ReactAgent::new(model, Toolset::new().with_tool(meet)).unwrap();
    let answer = agent.run("Meet.").await.unwrap().into_answer().unwrap();
    let texts: Vec<_> = answer.steps.iter().map(|step| step.result.model_text().into_owned()).collect();
    assert_eq!(texts, ["met", r#"unknown tool "meat"; did you mean "meet"? available: meet"#, "met"]);
}

/// The adapters of tools pass the conformance checks.
#[tokio::test(flavor = "multi_thread")]
async fn langchain_tools_conform() {
    conformance::tool(LangChainTool::new(adder())).arguments(json!({"x": 1, "y": 2})).await.assert_conforms();
    conformance::tool(LangChainTool::new(Arc::new(Shout)).with_text_input())
        .arguments(json!({"input": "a"}))
        .await
        .assert_conforms();
    let tools = vec![adder()];
    conformance::source(LangChainSource::new("langchain", move || tools.clone())).await.assert_conforms();
}

/// Name, description and parameters of a haft tool reach LangChain, and arguments reach the
/// function as an object.
#[tokio::test]
async fn exported_tool_gets_its_arguments_as_an_object() {
    let [add] = &toolset().langchain_tools(["add"]).await.unwrap()[..] else { panic!() };
    assert_eq!((add.name(), add.description()), ("add".to_owned(), "Adds two integers.".to_owned()));
    assert_eq!(&add.parameters(), haft_core::Tool::definition(&Add).input_schema().as_value());
    assert_eq!(add.call(r#"{"x": 17, "y": 25}"#).await.unwrap(), "42");
    // Repair of the pipeline.
    assert_eq!(add.call(r#"{"x": "17", "y": 25}"#).await.unwrap(), "42");
}

#[tokio::test]
async fn plain_text_is_the_only_argument_of_an_exported_tool() {
    let tools = toolset().langchain_tools(["send", "add"]).await.unwrap();
    assert_eq!(tools[0].call("good morning").await.unwrap(), "sent 1: good morning");
    assert_eq!(tools[0].call(r#""quoted""#).await.unwrap(), "sent 1: quoted");
    let error = tools[1].call("17").await.unwrap_err().to_string();
    assert!(error.starts_with("invalid arguments"), "{error}");
}

#[tokio::test]
async fn json_text_of_a_string_argument_stays_text() {
    /// Searches.
    #[tool]
    fn search(query: String) -> String {
        format!("about {query}")
    }
    /// Doubles a number.
    #[tool]
    fn double(n: i64) -> i64 {
        2 * n
    }
    let tools =
        Toolset::new().with_tools((Search, Double)).langchain_tools(["search", "double"]).await.unwrap();
    for text in ["2024", "true", "null", "[1, 2]"] {
        assert_eq!(tools[0].call(text).await.unwrap(), format!("about {text}"));
    }
    assert_eq!(tools[0].call(r#""2024""#).await.unwrap(), "about 2024");
    assert_eq!(tools[1].call("21").await.unwrap(), "42");
}

/// The error of an exported tool has a text that a model can use.
#[tokio::test]
async fn error_of_an_exported_tool_explains_the_fault() {
    let tools = toolset().langchain_tools(["add"]).await.unwrap();
    let error = tools[0].call(r#"{"x": 1, "z": 2}"#).await.unwrap_err().to_string();
    expect![[r#"
        invalid arguments: /: missing required property "y" (integer)
        /: unknown property "z"; known properties: "x", "y""#]]
    .assert_eq(&error);
}

/// The named tools are exported in the given order, and the error for a missing name contains it.
#[tokio::test]
async fn named_tools_are_exported() {
    let names = |tools: Vec<Arc<dyn Tool>>| tools.iter().map(|tool| tool.name()).collect::<Vec<_>>();
    let tools = toolset();
    assert_eq!(names(tools.langchain_tools(["send", "add"]).await.unwrap()), ["send", "add"]);
    assert_eq!(names(tools.langchain_tools(tools.names().await).await.unwrap()), ["add", "send"]);
    let Err(error) = tools.langchain_tools(["add", "sned"]).await else { panic!("exported") };
    expect![[r#"unknown tool "sned"; did you mean "send"? available: add, send"#]]
        .assert_eq(&error.to_string());
}

/// A tool without its host state is not exported, and the error has the reason.
#[tokio::test]
async fn tool_without_its_state_is_not_exported() {
    #[tool]
    fn count(#[tool(state)] total: u32) -> u32 {
        total
    }
    let tools = Toolset::new().with_tool(Count);
    let Err(ToolsetError::Defect { name, reason }) = tools.langchain_tools(["count"]).await else {
        panic!("exported")
    };
    assert_eq!(name, "count");
    assert!(reason.contains("u32"), "{reason}");
    let context = RunContext { state: tool::HostState::default().with_value(7_u32), ..RunContext::default() };
    let exported = tools.langchain_tools_with(["count"], context).await.unwrap();
    assert_eq!(exported[0].call("{}").await.unwrap(), "7");
}

#[tokio::test]
async fn calls_of_an_exported_tool_go_through_the_pipeline() {
    let pay = Add.map_policy(|policy| policy.with_required_scope("pay"));
    let records = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&records);
    let recorder = move |record: &haft_core::pipeline::CallRecord<'_>| {
        assert!(record.call.id.starts_with("langchain_"));
        counter.fetch_add(1, Ordering::Relaxed);
    };
    let tools = Toolset::new()
        .with_tools((pay, Send.with_approval()))
        .with_pipeline(Pipeline::new().with_recorder(Recording(recorder)));
    let exported = tools.langchain_tools(["add", "send"]).await.unwrap();
    let denied = exported[0].call(r#"{"x": 1, "y": 2}"#).await.unwrap_err().to_string();
    assert_eq!(denied, r#"denied: the caller lacks the scope "pay""#);
    let suspended = exported[1].call("hello").await.unwrap_err().to_string();
    assert!(suspended.contains("needs an approval"), "{suspended}");

    let ann = Principal { id: "ann".to_owned(), scopes: ["pay".to_owned()].into() };
    let context = RunContext { principal: Some(ann), ..RunContext::default() };
    let exported = tools.langchain_tools_with(["add"], context).await.unwrap();
    assert_eq!(exported[0].call(r#"{"x": 1, "y": 2}"#).await.unwrap(), "3");
    assert!(records.load(Ordering::Relaxed) >= 2);
}

struct Recording<F>(F);

impl<F: Fn(&haft_core::pipeline::CallRecord<'_>) + std::marker::Send + Sync> haft_core::pipeline::Recorder
    for Recording<F>
{
    fn record(&self, record: &haft_core::pipeline::CallRecord<'_>) {
        (self.0)(record);
    }
}

/// A call runs the current tool of the exported name, and a removed tool fails it.
#[tokio::test]
async fn exported_tool_runs_the_current_tool() {
    struct Current(RwLock<ToolList>);
    #[async_trait]
    impl ToolSource for Current {
        fn label(&self) -> &'static str {
            "current"
        }
        async fn tools(&self, _: &ListContext) -> Result<ToolList, haft_core::toolset::SourceError> {
            Ok(self.0.read().unwrap().clone())
        }
    }
    let version = |number: u32| {
        let definition = ToolDefinition::new(ToolName::new("version").unwrap(), Schema::object());
        ToolList::new("current", [DynamicTool::new(definition, move |_, _| async move { number })])
    };
    let source = Arc::new(Current(RwLock::new(version(1))));
    let tools = Toolset::new().with_source(Arc::clone(&source)).langchain_tools(["version"]).await.unwrap();
    assert_eq!(tools[0].call("").await.unwrap(), "1");
    *source.0.write().unwrap() = version(2);
    assert_eq!(tools[0].call("{}").await.unwrap(), "2");
    *source.0.write().unwrap() = ToolList::default();
    let error = tools[0].call("{}").await.unwrap_err().to_string();
    assert_eq!(error, r#"unknown tool "version"; no tools are available"#);
}

/// An exported tool works in LangChain's tool agent: name, description and parameters arrive,
/// arguments reach the function as an object, and the result is text in its memory.
#[tokio::test]
async fn exported_tool_works_in_a_tool_agent() {
    let llm = FakeLlm::with_results([calls([("c1", "add", r#"{"x":17,"y":25}"#)]), text("It is 42.")]);
    let tools = toolset().langchain_tools(["add", "send"]).await.unwrap();
    let agent = OpenAiToolAgentBuilder::new().tools(&tools).build(llm.clone()).unwrap();
    let memory = Arc::new(tokio::sync::Mutex::new(HaftMemory::default()));
    let executor = AgentExecutor::from_agent(agent).with_memory(memory.clone());
    assert_eq!(executor.invoke(prompt_args! {"input" => "What is 17 plus 25?"}).await.unwrap(), "It is 42.");
    let options = llm.options_log.lock().unwrap()[0].clone();
    let functions = options.functions.unwrap();
    assert_eq!(
        (functions[0].name.as_str(), functions[0].description.as_str()),
        ("add", "Adds two integers.")
    );
    assert_eq!(functions[0].parameters, tools[0].parameters());
    let memory = memory.lock().await;
    let result = memory.transcript().tool_result("c1").unwrap();
    assert_eq!((result.name.as_str(), &*result.model_text()), ("add", "42"));
    assert_eq!(memory.transcript().len(), 4);
}

/// An exported tool works in LangChain's conversational agent, which writes plain text, and the
/// model reads the text of an error.
#[tokio::test]
async fn exported_tool_works_in_a_conversational_agent() {
    let action =
        |input: &str| text(&format!("```json\n{{\"action\": \"send\", \"action_input\": {input}}}\n```"));
    let finish = text("```json\n{\"action\": \"Final Answer\", \"action_input\": \"done\"}\n```");
    let llm = FakeLlm::with_results([
        action(r#""good morning""#),
        action(r#"{"text": "hi", "copies": 1000}"#),
        finish,
    ]);
    let tools = toolset().langchain_tools(["send"]).await.unwrap();
    let agent = ConversationalAgentBuilder::new().tools(&tools).build(llm.clone()).unwrap();
    let answer = AgentExecutor::from_agent(agent).invoke(prompt_args! {"input" => "Greet."}).await.unwrap();
    assert_eq!(answer, "done");
    let requests = llm.requests.lock().unwrap();
    let observation = |request: usize| requests[request].last().unwrap().content.clone();
    assert!(observation(1).contains("sent 1: good morning"), "{}", observation(1));
    assert!(observation(2).contains("/copies"), "{}", observation(2));
}
