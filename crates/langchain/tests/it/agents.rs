//! Agents and chains in both directions.

use std::{
    error::Error,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use expect_test::expect;
use futures::StreamExt as _;
use haft_core::{
    Agent as _, Message, RunEvent, RunInput, ToolExt as _, Toolset,
    agent::{AgentErrorKind, RunLimits},
    call::FailureKind,
    tool,
};
use haft_langchain::{
    HaftAgent, HaftChain, HaftLlm, HaftMemory, LangChainAgent, chain_tool, external_tools,
    langchain_rust::{
        agent::{Agent as _, AgentExecutor, OpenAiToolAgent, OpenAiToolAgentBuilder},
        chain::{Chain, ChainError, LLMChainBuilder, SequentialChainBuilder},
        document_loaders::{CsvLoader, TextLoader},
        fmt_template,
        language_models::{GenerateResult, LLMError, LLMEvent, llm::LLM},
        llm::AnthropicError,
        memory::{SimpleMemory, WindowBufferMemory},
        message_formatter,
        prompt::{HumanMessagePromptTemplate, PromptArgs},
        prompt_args,
        schemas::{
            BaseMemory, Document, MessageType, Retriever,
            agent::{AgentAction, AgentEvent},
        },
        template_fstring,
        tools::Tool,
        vectorstore::{self, VecStoreOptions, VectorStore},
    },
    loader_tool, read_memory, retriever_tool,
};
use haft_react::ReactAgent;
use haft_testing::{ScriptedModel, TestModel, conformance};
use serde_json::{Value, json};

use crate::support::{Echo, FakeLlm, adder, calls, text};

/// Adds two integers.
#[tool]
fn add(x: i64, y: i64) -> i64 {
    x + y
}

fn react(model: &ScriptedModel, tools: Toolset) -> ReactAgent {
    ReactAgent::new(model.clone(), tools).unwrap()
}

/// A haft agent with external tools, driven by LangChain's executor.
fn executor(model: &ScriptedModel, tools: Vec<Arc<dyn Tool>>) -> AgentExecutor<HaftAgent> {
    let agent = react(model, Toolset::new().with_tools(external_tools(&tools)));
    AgentExecutor::from_agent(HaftAgent::new(agent, tools))
}

/// A model that calls `add`.
fn calling() -> ScriptedModel {
    ScriptedModel::new().reply_calls([("call_1", "add", r#"{"x":17,"y":25}"#)])
}

/// A model that calls `add` and gives the answer.
fn adding() -> ScriptedModel {
    calling().reply_text("It is 42.")
}

/// A haft agent runs as a LangChain chain, with history and tokens.
#[tokio::test]
async fn haft_agent_runs_as_a_chain() {
    let model = adding();
    let chain = HaftChain::new(react(&model, Toolset::new().with_tool(Add)));
    let history = json!([{"content": "I am Ann.", "message_type": "human", "id": null, "tool_calls": null, "images": null}]);
    let inputs = prompt_args! {"input" => "What is 17 plus 25?", "chat_history" => history};
    let output = chain.execute(inputs).await.unwrap();
    assert_eq!(output["output"], "It is 42.");
    let texts: Vec<_> = model.requests()[0].messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["I am Ann.", "What is 17 plus 25?"]);
    assert!(matches!(
        chain.call(prompt_args! {"question" => "hi"}).await,
        Err(ChainError::MissingInputVariable(key)) if key == "input"
    ));
}

#[tokio::test]
async fn haft_agent_is_a_step_of_a_sequential_chain() {
    let prompt = message_formatter![fmt_template!(HumanMessagePromptTemplate::new(template_fstring!(
        "Translate {sum}.",
        "sum"
    )))];
    let translate = LLMChainBuilder::new()
        .prompt(prompt)
        .llm(FakeLlm::with_results([text("Es ist 42.")]))
        .output_key("german")
        .build()
        .unwrap();
    let add = HaftChain::new(react(&adding(), Toolset::new().with_tool(Add))).with_output_key("sum");
    let chain = SequentialChainBuilder::new().add_chain(add).add_chain(translate).build();
    let output = chain.execute(prompt_args! {"input" => "What is 17 plus 25?"}).await.unwrap();
    assert_eq!(output["german"], "Es ist 42.");
}

/// A chain saves its run to its memory, with calls and results, and reads it again.
#[tokio::test]
async fn chain_keeps_its_conversation_in_a_memory() {
    let model = adding().reply_text("42, as before.");
    let memory: Arc<tokio::sync::Mutex<dyn BaseMemory>> = SimpleMemory::new().into();
    let chain = HaftChain::new(react(&model, Toolset::new().with_tool(Add))).with_memory(Arc::clone(&memory));
    chain.invoke(prompt_args! {"input" => "What is 17 plus 25?"}).await.unwrap();
    assert_eq!(chain.invoke(prompt_args! {"input" => "And now?"}).await.unwrap(), "42, as before.");
    let saved = read_memory(&*memory.lock().await).await.unwrap();
    assert_eq!(saved.len(), 6);
    assert_eq!(saved.tool_result("call_1").unwrap().model_text(), "42");
    assert_eq!(model.requests()[2].tool_results().next().unwrap().name, "add");
}

/// A memory that evicted a call before its result is a valid history.
#[tokio::test]
async fn window_of_a_memory_can_begin_with_a_result() {
    let model = adding().reply_text("42, as before.");
    let memory: Arc<tokio::sync::Mutex<dyn BaseMemory>> = WindowBufferMemory::new(2).into();
    let chain = HaftChain::new(react(&model, Toolset::new().with_tool(Add))).with_memory(Arc::clone(&memory));
    chain.invoke(prompt_args! {"input" => "What is 17 plus 25?"}).await.unwrap();
    let messages = memory.lock().await.messages().await.unwrap();
    assert_eq!(messages[0].message_type, MessageType::ToolMessage);
    assert_eq!(chain.invoke(prompt_args! {"input" => "And now?"}).await.unwrap(), "42, as before.");
    let texts: Vec<_> = model.requests()[2].messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["It is 42.", "And now?"]);

    let agent = HaftAgent::new(react(&ScriptedModel::new().reply_text("Hi."), Toolset::new()), Vec::new());
    let inputs = prompt_args! {"input" => "Hello.", "chat_history" => json!(messages)};
    assert!(matches!(agent.plan(&[], inputs).await, Ok(AgentEvent::Finish(_))));
}

/// A chain streams the text of the agent, and ends with its answer.
#[tokio::test]
async fn chain_streams_the_text_of_the_agent() {
    let model = ScriptedModel::new().reply_chunks(["It is ", "42."]).reply_chunks(["It is ", "42."]);
    let memory = Arc::new(tokio::sync::Mutex::new(HaftMemory::default()));
    let chain = HaftChain::new(react(&model, Toolset::new())).with_memory(memory.clone());
    let inputs = prompt_args! {"input" => "What is 17 plus 25?"};
    let events: Vec<_> = chain.call_stream(inputs.clone()).map(Result::unwrap).collect().await;
    let [LLMEvent::Text(one), LLMEvent::Text(two), LLMEvent::Done(result)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((one.as_str(), two.as_str(), result.generation.as_str()), ("It is ", "42.", "It is 42."));
    let items = chain.stream(inputs).await.unwrap();
    let text: Vec<_> = items.map(|item| item.unwrap().content).collect().await;
    assert_eq!(text.concat(), "It is 42.");
    assert_eq!(memory.lock().await.transcript().len(), 4);
}

/// A limit and an approval are errors of a chain, never a text of the answer.
#[tokio::test]
async fn limits_and_approvals_are_errors_of_a_chain() {
    let again = [("call_1", "add", r#"{"x":1,"y":2}"#)];
    let model = ScriptedModel::new().reply_calls(again);
    let limits = RunLimits { requests: Some(1), ..RunLimits::default() };
    let agent =
        ReactAgent::builder(model).tools(Toolset::new().with_tool(Add)).limits(limits).build().unwrap();
    let error = HaftChain::new(agent).invoke(prompt_args! {"input" => "Add."}).await.unwrap_err();
    assert_eq!(error.to_string(), "Agent error: the limit of 1 model requests is reached");

    let agent = react(&calling(), Toolset::new().with_tool(Add.with_approval()));
    let error = HaftChain::new(agent).invoke(prompt_args! {"input" => "Add."}).await.unwrap_err().to_string();
    assert!(error.contains("the run is suspended"), "{error}");
}

/// LangChain's executor drives a haft agent, and executes its external calls.
#[tokio::test]
async fn executor_drives_a_haft_agent() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "adder", r#"{"x":17,"y":25}"#), ("b", "Echo_Text", r#"{"input":"hi"}"#)])
        .reply_calls([("a", "adder", r#"{"x":1,"y":2}"#)])
        .reply_text("42, hi and 3.");
    let memory: Arc<tokio::sync::Mutex<dyn BaseMemory>> = SimpleMemory::new().into();
    let executor = executor(&model, vec![adder(), Arc::new(Echo)]).with_memory(Arc::clone(&memory));
    let answer = executor.invoke(prompt_args! {"input" => "Go."}).await.unwrap();
    assert_eq!(answer, "42, hi and 3.");
    let texts: Vec<_> = model.requests()[2].tool_results().map(|it| it.model_text().into_owned()).collect();
    assert_eq!(texts, ["42", "<hi>", "3"]);

    // The executor fills its memory from the logs of the actions. The repeated id was replaced.
    let saved = memory.lock().await.messages().await.unwrap();
    let roles: Vec<_> = saved.iter().map(|message| message.message_type.to_string()).collect();
    assert_eq!(roles, ["human", "ai", "tool", "tool", "ai", "tool", "ai"]);
    assert_eq!(saved[1].parse_tool_calls().len(), 2);
    assert_ne!(saved[5].id, saved[2].id);
}

/// The memory of an executor is the history of a haft agent, with calls and ids.
#[tokio::test]
async fn memory_of_an_executor_is_the_history_of_a_haft_agent() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "adder", r#"{"x":17,"y":25}"#)])
        .reply_text("It is 42.")
        .reply_text("42, as before.");
    let executor = executor(&model, vec![adder()]).with_memory(SimpleMemory::new().into());
    executor.invoke(prompt_args! {"input" => "What is 17 plus 25?"}).await.unwrap();
    let answer = executor.invoke(prompt_args! {"input" => "And now?"}).await.unwrap();
    assert_eq!(answer, "42, as before.");
    let requests = model.requests();
    let result = requests[2].tool_results().next().unwrap();
    assert_eq!((result.call_id.as_str(), result.name.as_str(), &*result.model_text()), ("a", "adder", "42"));
    assert_eq!(requests[2].messages.iter().count(), 5);
}

/// An executor streams the text, the calls and the tokens of a haft agent.
#[tokio::test]
async fn executor_streams_a_haft_agent() {
    let usage = haft_core::usage::Usage::one_request(7, 3);
    let answer = haft_core::model::ChatResponse { usage, ..haft_core::model::ChatResponse::new("It is 3.") };
    let model = ScriptedModel::new()
        .reply_text_and_calls("Adding.", [("a", "adder", r#"{"x":1,"y":2}"#)])
        .reply(answer);
    let executor = executor(&model, vec![adder()]);
    let events: Vec<_> =
        executor.stream_events(prompt_args! {"input" => "Go."}).map(Result::unwrap).collect().await;
    expect![[r#"
        Text("Adding.")
        ToolStart { tool: "adder", input: "{\"x\":1,\"y\":2}" }
        ToolEnd { tool: "adder", output: "3" }
        Text("It is 3.")
        Usage(TokenUsage { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 })
        Finish { output: "It is 3." }
    "#]]
    .assert_eq(&events.iter().map(|event| format!("{event:?}\n")).collect::<String>());
}

/// LangChain's executor gets repaired arguments.
#[tokio::test]
async fn executor_gets_repaired_arguments() {
    let model =
        ScriptedModel::new().reply_calls([("a", "adder", r#"{"x":"17","y":25}"#)]).reply_text("It is 42.");
    let answer = executor(&model, vec![adder()]).invoke(prompt_args! {"input" => "Add."}).await.unwrap();
    assert_eq!(answer, "It is 42.");
    assert_eq!(model.requests()[1].tool_results().next().unwrap().model_text(), "42");
}

/// The error of a tool in LangChain's executor is a failed call of the haft agent.
#[tokio::test]
async fn failed_tool_of_the_executor_is_a_failed_call() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "Echo_Text", r#"{"input":"secret"}"#)])
        .reply_text("It is forbidden.");
    let answer = executor(&model, vec![Arc::new(Echo)]).invoke(prompt_args! {"input" => "Go."}).await;
    assert_eq!(answer.unwrap(), "It is forbidden.");
    let failure = model.requests()[1].tool_results().next().unwrap().failure().cloned().unwrap();
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::Failed, "the text secret is forbidden")
    );
}

/// A call to an unknown tool is explained to the model and does not abort the executor.
#[tokio::test]
async fn unknown_tool_does_not_abort_the_executor() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "subtractor", "{}"), ("b", "adder", r#"{"x":1,"y":2}"#)])
        .reply_text("It is 3.");
    let answer = executor(&model, vec![adder()]).invoke(prompt_args! {"input" => "Go."}).await.unwrap();
    assert_eq!(answer, "It is 3.");
    let results: Vec<_> = model.requests()[1].tool_results().map(|it| it.model_text().into_owned()).collect();
    assert_eq!(results, [r#"unknown tool "subtractor"; available: adder"#, "3"]);
}

/// Plans have no state in the agent, so executions are independent.
#[tokio::test]
async fn plans_of_concurrent_executions_are_independent() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "adder", r#"{"x":1,"y":2}"#)])
        .reply_calls([("a", "adder", r#"{"x":3,"y":4}"#)])
        .reply_text("second")
        .reply_text("first");
    let agent = react(&model, Toolset::new().with_tools(external_tools(&[adder()])));
    let agent = HaftAgent::new(agent, vec![adder()]);
    let inputs = |text: &str| prompt_args! {"input" => text};
    let actions = |event| match event {
        AgentEvent::Action(actions) => actions,
        AgentEvent::Finish(finish) => panic!("{finish:?}"),
    };
    let one = actions(agent.plan(&[], inputs("one")).await.unwrap());
    let two = actions(agent.plan(&[], inputs("two")).await.unwrap());
    assert_eq!(two[0].tool_input, r#"{"x":3,"y":4}"#);
    agent.plan(&[(two[0].clone(), "7".to_owned())], inputs("two")).await.unwrap();
    agent.plan(&[(one[0].clone(), "3".to_owned())], inputs("one")).await.unwrap();
    let requests = model.requests();
    assert_eq!(requests[2].tool_results().next().unwrap().model_text(), "7");
    assert_eq!(requests[3].messages.iter().next().unwrap().text(), "one");
}

/// An approval, and steps of another agent, are errors of a plan that name the fault.
#[tokio::test]
async fn plan_without_external_calls_is_an_error() {
    let agent = HaftAgent::new(react(&calling(), Toolset::new().with_tool(Add.with_approval())), Vec::new());
    let inputs = prompt_args! {"input" => "Add."};
    let error = agent.plan(&[], inputs.clone()).await.unwrap_err().to_string();
    assert!(error.contains("only external calls") && error.contains("call_1"), "{error}");
    let action = AgentAction {
        tool: "add".to_owned(),
        tool_input: "{}".to_owned(),
        log: json!({"tool_id": "a", "tools": "[]"}).to_string(),
    };
    let error = agent.plan(&[(action, "3".to_owned())], inputs).await.unwrap_err().to_string();
    assert!(error.contains("not the last action of a plan"), "{error}");

    let model = ScriptedModel::new().reply_calls([("a", "adder", r#"{"x":1,"y":2}"#)]);
    let agent = react(&model, Toolset::new().with_tools(external_tools(&[adder()])));
    let error = HaftAgent::new(agent, vec![Arc::new(Echo)]).plan(&[], prompt_args! {"input" => "Add."}).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains(r#"the external tool "adder" is missing"#), "{error}");
}

/// An executor with a LangChain agent and LangChain tools.
fn langchain_executor(llm: FakeLlm) -> AgentExecutor<OpenAiToolAgent> {
    AgentExecutor::from_agent(OpenAiToolAgentBuilder::new().tools(&[adder()]).build(llm).unwrap())
}

/// A LangChain executor is a haft agent, with history, tokens and a transcript.
#[tokio::test]
async fn langchain_executor_is_a_haft_agent() {
    let llm = FakeLlm::with_results([calls([("a", "adder", r#"{"x":17,"y":25}"#)]), text("It is 42.")]);
    let agent = LangChainAgent::new(langchain_executor(llm.clone()));
    let input = RunInput::new("What is 17 plus 25?");
    let answer = agent.run(input).await.unwrap().into_answer().unwrap();
    assert_eq!((answer.text.as_str(), answer.transcript.len()), ("It is 42.", 2));
    assert_eq!((answer.usage.requests, answer.usage.total_tokens()), (1, 30));
    assert_eq!(llm.requests.lock().unwrap()[1].last().unwrap().content, "42");
}

#[tokio::test]
async fn langchain_executor_gets_the_history_of_a_run() {
    let llm = FakeLlm::with_results([text("You are Ann."), text("I do not know.")]);
    let script = llm.clone();
    let agent = LangChainAgent::from_fn(move |memory| {
        let agent = OpenAiToolAgentBuilder::new().tools(&[adder()]).build(script.clone());
        agent.map(|agent| AgentExecutor::from_agent(agent).with_memory(memory))
    });
    let history = haft_core::Transcript::from_iter([Message::user("I am Ann."), Message::assistant("Hi.")]);
    agent.run(RunInput::new("Who am I?").with_history(history)).await.unwrap();
    agent.run(RunInput::new("Who am I?")).await.unwrap();
    let requests = llm.requests.lock().unwrap().clone();
    let texts = |request: usize| {
        let messages = requests[request].iter().filter(|it| it.message_type != MessageType::SystemMessage);
        messages.map(|message| message.content.clone()).collect::<Vec<_>>()
    };
    assert_eq!(texts(0), ["I am Ann.", "Hi.", "Who am I?"]);
    assert_eq!(texts(1), ["Who am I?"], "runs share no memory");

    let broken = LangChainAgent::from_fn(|_| {
        Err::<AgentExecutor<OpenAiToolAgent>, _>(std::io::Error::other("no key"))
    });
    let error = broken.run("Hi.".into()).await.unwrap_err().to_string();
    assert!(error.contains("no key"), "{error}");
}

#[tokio::test]
async fn model_error_of_a_chain_keeps_its_kind() {
    struct Busy;
    #[async_trait]
    impl Chain for Busy {
        async fn call(&self, _: PromptArgs) -> Result<GenerateResult, ChainError> {
            Err(LLMError::from(AnthropicError::OverloadedError("x".repeat(5000))).into())
        }
    }
    let error = LangChainAgent::new(Busy).run("Hi.".into()).await.unwrap_err();
    assert!(error.to_string().len() < 1200);
    let AgentErrorKind::Model(error) = *error.kind else { panic!("{error}") };
    assert!(error.is_transient(), "{error}");
}

/// `Max iterations reached` and an unknown tool of an executor are errors in haft.
#[tokio::test]
async fn defects_of_the_executor_are_errors() {
    let again = || calls([("a", "adder", r#"{"x":1,"y":2}"#)]);
    let executor = || langchain_executor(FakeLlm::with_results([again(), again()])).with_max_iterations(2);
    let error = LangChainAgent::new(executor()).run("Add.".into()).await.unwrap_err().to_string();
    assert!(error.contains("`with_max_iterations`"), "{error}");
    let result = chain_tool("add", "Adds.", executor()).invoke(json!({"input": "Add."})).await;
    assert_eq!(result.failure().unwrap().kind, FailureKind::Failed);

    let unknown = langchain_executor(FakeLlm::with_results([calls([("a", "sub", "{}")])]));
    let error = LangChainAgent::new(unknown).run("Subtract.".into()).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Model(_)));
    assert_eq!(error.transcript.len(), 1);
}

fn answer_chain(llm: impl LLM + 'static) -> impl Chain {
    let prompt = message_formatter![fmt_template!(HumanMessagePromptTemplate::new(template_fstring!(
        "Answer {question}.",
        "question"
    )))];
    LLMChainBuilder::new().prompt(prompt).llm(llm).build().unwrap()
}

/// A LangChain chain is a tool, with its input keys as arguments.
#[tokio::test]
async fn langchain_chain_is_a_tool() {
    let llm = FakeLlm::with_results([text("42.")]);
    let tool = chain_tool("answer", "Answers a question.", answer_chain(llm.clone()));
    assert_eq!(tool.argument_schemas(), [("question", &json!({"type": "string"}))]);
    assert_eq!(tool.invoke(json!({"question": "17 plus 25"})).await.model_text(), "42.");
    assert_eq!(llm.requests.lock().unwrap()[0][0].content, "Answer 17 plus 25.");
}

/// The adapters of chains pass the conformance checks for agents.
#[tokio::test(flavor = "multi_thread")]
async fn langchain_agents_conform() {
    let llm = FakeLlm::with_results((0..20).map(|_| text("Hello.")));
    let agent = LangChainAgent::new(answer_chain(llm)).with_input_key("question");
    conformance::agent(agent).await.assert_conforms();
    let chain = answer_chain(HaftLlm::new(TestModel::new()));
    conformance::agent(LangChainAgent::new(chain).with_input_key("question")).await.assert_conforms();
}

/// A chain as an agent streams its text, and gets history and images.
#[tokio::test]
async fn chain_as_an_agent_streams_its_text() {
    struct Inputs(Arc<Mutex<Option<Value>>>);
    #[async_trait]
    impl Chain for Inputs {
        async fn call(&self, inputs: PromptArgs) -> Result<GenerateResult, ChainError> {
            *self.0.lock().unwrap() = Some(json!(inputs));
            Ok(text("Hi Ann."))
        }
    }
    let received = Arc::new(Mutex::new(None));
    let agent = LangChainAgent::new(Inputs(Arc::clone(&received))).with_variable("tone", "friendly");
    let history = haft_core::Transcript::from_iter([Message::user("I am Ann."), Message::assistant("Hi.")]);
    let input = RunInput::new("Who am I?").with_history(history);
    let events: Vec<_> = agent.stream(input).map(Result::unwrap).collect().await;
    assert!(matches!(&events[1], RunEvent::TextDelta { text } if text == "Hi Ann."));
    let inputs = received.lock().unwrap().take().unwrap();
    assert_eq!((&inputs["input"], &inputs["tone"]), (&json!("Who am I?"), &json!("friendly")));
    assert_eq!(inputs["chat_history"][1]["message_type"], json!(MessageType::AIMessage));
    let error = agent.run(RunInput::continue_from(haft_core::Transcript::new())).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::InvalidInput(_)));
}

struct Shelf;

#[async_trait]
impl Retriever for Shelf {
    async fn get_relevant_documents(&self, query: &str) -> Result<Vec<Document>, Box<dyn Error>> {
        match query {
            "fire" => Err("the shelf is on fire".into()),
            "nothing" => Ok(Vec::new()),
            _ => {
                let page =
                    |number: u32| Document::new(format!("Page {number} about {query}.")).with_score(0.5);
                let metadata = [("page".to_owned(), json!(2))].into();
                Ok(vec![page(1), page(2).with_metadata(metadata)])
            }
        }
    }
}

/// A retriever is a tool with text for the model and data for the program.
#[tokio::test]
async fn retriever_is_a_tool() {
    let tool = retriever_tool("search", "Searches the shelf.", Shelf);
    let result = tool.invoke(json!({"query": "valves"})).await;
    assert_eq!(result.model_text(), "[1]\nPage 1 about valves.\n\n[2] {\"page\":2}\nPage 2 about valves.");
    assert_eq!(result.output().unwrap().structured.as_ref().unwrap()[0]["score"], json!(0.5));
    assert_eq!(tool.invoke(json!({"query": "nothing"})).await.model_text(), "no documents");
    assert_eq!(tool.invoke(json!({"query": "fire"})).await.model_text(), "the shelf is on fire");
    assert_eq!(tool.invoke(json!({})).await.failure().unwrap().kind, FailureKind::InvalidArguments);
}

#[tokio::test]
async fn retriever_of_a_vector_store_is_a_tool() {
    struct Store;
    #[async_trait]
    impl VectorStore for Store {
        type Options = VecStoreOptions<Value>;
        async fn add_documents(
            &self,
            _: &[Document],
            _: &Self::Options,
        ) -> Result<Vec<String>, Box<dyn Error>> {
            Ok(Vec::new())
        }
        async fn similarity_search(
            &self,
            query: &str,
            limit: usize,
            _: &Self::Options,
        ) -> Result<Vec<Document>, Box<dyn Error>> {
            Ok((0..limit).map(|_| Document::new(query)).collect())
        }
    }
    let tool = retriever_tool("search", "Searches.", vectorstore::Retriever::new(Store, 2));
    assert_eq!(tool.invoke(json!({"query": "valves"})).await.model_text(), "[1]\nvalves\n\n[2]\nvalves");
}

/// A document loader is a tool, and its arguments select the documents.
#[tokio::test]
async fn document_loader_is_a_tool() {
    #[derive(serde::Deserialize, haft_core::export::schemars::JsonSchema)]
    #[schemars(crate = "haft_core::export::schemars")]
    struct Column {
        column: String,
    }
    let people =
        |Column { column }: Column| CsvLoader::new("name,age\nAnn,40\nBob,30\n".as_bytes(), vec![column]);
    let tool = loader_tool("read_people", "Reads a column.", people);
    let result = tool.invoke(json!({"column": "name"})).await;
    let text = result.model_text();
    assert!(text.contains("name: Ann") && text.contains("name: Bob") && !text.contains("40"), "{text}");

    let long = loader_tool("read", "Reads.", |_: Value| TextLoader::new("x".repeat((16 << 20) + 1)));
    let result = long.invoke(json!({})).await;
    let text = result.model_text();
    assert!(text.starts_with("[1]\nxxx"), "{}", &text[..20]);
    assert!(text.contains("document 1 is truncated, and later documents are omitted"));
}
