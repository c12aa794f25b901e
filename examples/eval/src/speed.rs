//! Compares the speed and the memory of the model in process with those of the llama.cpp server,
//! which has the same weights and the same number of threads.

use std::{
    error::Error,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use haft_core::{
    ChatModel, Message, ToolError, ToolOutput,
    model::{ChatEvent, ChatRequest},
    tool::DynamicTool,
    toolset::ToolList,
};
use haft_local::{Downloader, KnownModel, LocalModel, ModelProgressBar, ModelStore, PromptProfile};
use serde_json::{Value, json};

use crate::{cases::CaseFile, server::Server};

/// The explanation that is printed above the table.
pub(crate) const ABOUT: &str = "Tokens per second of a prompt with 200 or 1780 words and of the answer after it; the time to a finished call with 16 tools,
with a new list and with the same list again; the peak memory of the process after the first two calls, divided by the size
of the model file. The prompt of haft permits an answer instead of a call, and the schema for llama.cpp does not. A ratio
above 1 is better than llama.cpp. Each rate and time is the best of three. haft is built for this processor; llama.cpp is the
build in the package xllamacpp.";

/// The number of repetitions of each measurement. The best is printed, because other programs on
/// the machine only make a measurement slower.
const REPETITIONS: usize = 3;
/// The number of tokens in the answer after a prompt.
const ANSWER_TOKENS: u32 = 64;
/// The number of words in the short and in the long prompt. A word has about one token.
const PROMPT_WORDS: [usize; 2] = [200, 1780];
/// The toolsets that are offered for a call: 16 tools.
const TOOLSETS: [&str; 3] = ["weather", "organizer", "mail"];
const CITIES: [&str; 2 * REPETITIONS] = ["Oslo", "Porto", "Dublin", "Vienna", "Athens", "Prague"];

/// The measurements of one engine.
#[derive(Default)]
struct Row {
    /// The tokens per second of each prompt in [`PROMPT_WORDS`], and of the answer after it.
    rates: [Rates; PROMPT_WORDS.len()],
    first_call: Duration,
    second_call: Duration,
    /// The peak memory after the first two calls.
    memory_bytes: u64,
}

#[derive(Clone, Copy, Default)]
struct Rates {
    prompt: f64,
    answer: f64,
}

impl Rates {
    fn best(self, other: Self) -> Self {
        Self { prompt: self.prompt.max(other.prompt), answer: self.answer.max(other.answer) }
    }
}

/// Measures the models `names` of the catalogue. `python` is a Python interpreter that has the
/// package `xllamacpp`. If it is `None`, llama.cpp is not measured.
pub(crate) async fn run(python: Option<&Path>, names: &[String]) -> Result<(), Box<dyn Error>> {
    println!("{}", head());
    for name in names {
        let known = KnownModel::find(name).ok_or_else(|| format!("there is no model {name}"))?;
        let progress = ModelProgressBar::new();
        let store = ModelStore::new()?;
        let path = Downloader::new().pull(&store, known, &|event| progress.on_pull_event(&event)).await?;
        let file_bytes = fs::metadata(&path)?.len();
        let own = measure_local(&path, known).await?;
        println!("{}", own.line(&format!("{name}, haft"), file_bytes));
        let Some(python) = python else { continue };
        let other = measure_server(&Server::start(python, &path)?).await?;
        println!("{}", other.line(&format!("{name}, llama.cpp"), file_bytes));
        println!("{}", own.ratio_line(&other));
    }
    Ok(())
}

async fn measure_local(path: &Path, known: &KnownModel) -> Result<Row, Box<dyn Error>> {
    reset_peak_memory();
    let mut row = Row { first_call: Duration::MAX, second_call: Duration::MAX, ..Row::default() };
    for repetition in 0..REPETITIONS {
        let builder = LocalModel::builder().prompt_profile(PromptProfile::for_model(known));
        let model = builder.prefix_cache(None).open(path).await?;
        let [first, second] = call_requests(repetition)?;
        row.first_call = row.first_call.min(time_of_call(&model, &first).await?);
        row.second_call = row.second_call.min(time_of_call(&model, &second).await?);
        if repetition == 0 {
            row.memory_bytes = peak_memory("self");
        }
        for (rates, words) in row.rates.iter_mut().zip(PROMPT_WORDS) {
            *rates = rates.best(rates_of(&model, repetition, words).await?);
        }
    }
    Ok(row)
}

/// Returns the rates of a prompt with `words` words and of the answer after it.
async fn rates_of(model: &LocalModel, repetition: usize, words: usize) -> Result<Rates, Box<dyn Error>> {
    let mut request = ChatRequest::new([Message::user(prompt(repetition, words))]);
    request.settings.temperature = Some(0.0);
    request.settings.max_tokens = Some(ANSWER_TOKENS);
    let start = Instant::now();
    let mut first = None;
    let mut events = model.stream(&request);
    while let Some(event) = events.next().await {
        match event? {
            ChatEvent::TextDelta { .. } => {
                first.get_or_insert_with(|| start.elapsed());
            }
            ChatEvent::Finished(response) => {
                let (usage, total) = (response.usage, start.elapsed());
                let first = first.ok_or("the model did not answer")?;
                let read = usage.input_tokens.saturating_sub(usage.cached_input_tokens);
                let written = usage.output_tokens.saturating_sub(1);
                return Ok(Rates {
                    prompt: read as f64 / first.as_secs_f64(),
                    answer: written as f64 / (total - first).as_secs_f64(),
                });
            }
            _ => {}
        }
    }
    Err("the model did not finish the answer".into())
}

/// Returns the time until the model has finished a call.
async fn time_of_call(model: &LocalModel, request: &ChatRequest) -> Result<Duration, Box<dyn Error>> {
    let start = Instant::now();
    let response = model.chat(request).await?;
    let took = start.elapsed();
    match response.message.tool_calls.len() {
        1 => Ok(took),
        calls => Err(format!("the local model made {calls} calls").into()),
    }
}

/// Returns two requests with the same tools and different questions. In each repetition, the tools
/// are in another order, so that no prefix of an earlier repetition is reused.
fn call_requests(repetition: usize) -> Result<[ChatRequest; 2], Box<dyn Error>> {
    let mut definitions = CaseFile::built_in()?.toolsets(&TOOLSETS)?;
    definitions.rotate_left(repetition);
    let tools = definitions.into_iter().map(|definition| {
        DynamicTool::new(definition, |_, _| async { Ok::<_, ToolError>(ToolOutput::from("done")) })
    });
    let tools = ToolList::new("speed", tools);
    let request = |offset: usize| {
        let city = CITIES.get(2 * repetition + offset).copied().unwrap_or("Rome");
        let question = format!("What is the weather in {city} right now?");
        let mut request = ChatRequest::new([Message::user(question)]).with_tools(tools.clone());
        request.settings.temperature = Some(0.0);
        request.settings.parallel_tool_calls = Some(false);
        request
    };
    Ok([request(0), request(1)])
}

async fn measure_server(server: &Server) -> Result<Row, Box<dyn Error>> {
    let client = ServerClient { client: reqwest::Client::new(), base_url: server.base_url.clone() };
    let mut row = Row { first_call: Duration::MAX, second_call: Duration::MAX, ..Row::default() };
    for repetition in 0..REPETITIONS {
        let [first, second] = call_requests(repetition)?;
        row.first_call = row.first_call.min(client.time_of_call(&first, false).await?);
        row.second_call = row.second_call.min(client.time_of_call(&second, true).await?);
        if repetition == 0 {
            row.memory_bytes = peak_memory(&server.id().to_string());
        }
        for (rates, words) in row.rates.iter_mut().zip(PROMPT_WORDS) {
            *rates = rates.best(client.rates_of(repetition, words).await?);
        }
    }
    Ok(row)
}

/// A client for the llama.cpp server.
struct ServerClient {
    client: reqwest::Client,
    base_url: String,
}

impl ServerClient {
    /// Returns the rates that the server reports.
    async fn rates_of(&self, repetition: usize, words: usize) -> Result<Rates, Box<dyn Error>> {
        let body = json!({
            "messages": [{"role": "user", "content": prompt(repetition, words)}],
            "max_tokens": ANSWER_TOKENS,
            "temperature": 0,
        });
        let timings = &self.post(body).await?["timings"];
        let rate = |name: &str| timings[name].as_f64().ok_or("the server reports no timings");
        Ok(Rates { prompt: rate("prompt_per_second")?, answer: rate("predicted_per_second")? })
    }

    /// Returns the time until the server has sent a call, as JSON that the schemas of the tools
    /// constrain. The model does not write calls in the format of its template. `reuses_prefix`
    /// permits the server to reuse the prefix of the previous request.
    async fn time_of_call(
        &self,
        request: &ChatRequest,
        reuses_prefix: bool,
    ) -> Result<Duration, Box<dyn Error>> {
        let question = request.all_messages().next().map(|message| message.text());
        let definitions = request.tools.tools().iter().map(|tool| tool.definition().clone());
        let definitions: Vec<_> = definitions.collect();
        let tools = json!(&*haft_openai::encode_tools(&request.tools));
        let alternatives = definitions.iter().map(|definition| {
            json!({
                "type": "object",
                "properties": {
                    "name": {"const": definition.name()},
                    "arguments": definition.input_schema().as_value(),
                },
                "required": ["name", "arguments"],
                "additionalProperties": false,
            })
        });
        let schema = json!({"anyOf": alternatives.collect::<Vec<_>>()});
        let body = json!({
            "messages": [
                {"role": "system", "content": format!("Answer with a call of one of these functions: {tools}")},
                {"role": "user", "content": question},
            ],
            "response_format": {"type": "json_schema", "json_schema": {"name": "call", "schema": schema}},
            "cache_prompt": reuses_prefix,
            "max_tokens": 256,
            "temperature": 0,
        });
        let start = Instant::now();
        let reply = self.post(body).await?;
        let took = start.elapsed();
        let content = reply["choices"][0]["message"]["content"].as_str().unwrap_or_default();
        let call: Value = serde_json::from_str(content)?;
        let name = call["name"].as_str().unwrap_or_default();
        let definition = definitions.iter().find(|definition| definition.name().as_str() == name);
        match definition.is_some_and(|definition| definition.input_schema().is_valid(&call["arguments"])) {
            true => Ok(took),
            false => Err(format!("the llama.cpp server made no valid call: {reply}").into()),
        }
    }

    async fn post(&self, body: Value) -> Result<Value, Box<dyn Error>> {
        let url = format!("{}/v1/chat/completions", self.base_url);
        let request = self.client.post(url).header("content-type", "application/json");
        let response = request.body(body.to_string()).send().await?.error_for_status()?;
        Ok(serde_json::from_str(&response.text().await?)?)
    }
}

/// Returns a prompt with `words` words. It begins differently in each repetition, so that no prefix
/// is reused.
fn prompt(repetition: usize, words: usize) -> String {
    const WORDS: [&str; 12] = [
        "red", "harbour", "seven", "window", "slowly", "garden", "the", "engine", "of", "paper", "north",
        "sings",
    ];
    // Without a common divisor, all words occur.
    const STEPS: [usize; REPETITIONS] = [5, 7, 11];
    let word = |index: usize| {
        WORDS
            .get(index * STEPS.get(repetition).copied().unwrap_or(1) % WORDS.len())
            .copied()
            .unwrap_or_default()
    };
    let text: Vec<_> = (0..words).map(word).collect();
    format!("Text {repetition}: {}. Write a long story about these words.", text.join(" "))
}

/// Resets the peak memory of this process. Does nothing on other systems than Linux.
fn reset_peak_memory() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Returns the peak memory of the process `process` in bytes, or 0 on other systems than Linux.
fn peak_memory(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .map_or(0, |kilobytes: u64| kilobytes * 1024)
}

fn head() -> String {
    let [short, long] = PROMPT_WORDS;
    let columns = [
        &format!("{short}: prompt"),
        "answer",
        &format!("{long}: prompt"),
        "answer",
        "first call",
        "second call",
        "memory",
    ];
    line("", columns)
}

impl Row {
    fn line(&self, name: &str, file_bytes: u64) -> String {
        let [short, long] = self.rates;
        let rates = [short.prompt, short.answer, long.prompt, long.answer].map(|rate| format!("{rate:.1}"));
        let times = [self.first_call, self.second_call].map(|time| format!("{:.2} s", time.as_secs_f64()));
        let memory = format!("{:.2} x", self.memory_bytes as f64 / file_bytes as f64);
        line(name, [&rates[0], &rates[1], &rates[2], &rates[3], &times[0], &times[1], &memory])
    }

    /// Formats the ratios to the measurements of `other`. A ratio above 1 is better.
    fn ratio_line(&self, other: &Self) -> String {
        let rates = self.rates.iter().zip(&other.rates);
        let rates: Vec<_> =
            rates.flat_map(|(own, other)| [own.prompt / other.prompt, own.answer / other.answer]).collect();
        let time = |own: Duration, other: Duration| other.as_secs_f64() / own.as_secs_f64();
        let calls = [time(self.first_call, other.first_call), time(self.second_call, other.second_call)];
        let memory = other.memory_bytes as f64 / self.memory_bytes.max(1) as f64;
        let ratios: Vec<_> =
            rates.into_iter().chain(calls).chain([memory]).map(|ratio| format!("{ratio:.2}")).collect();
        line("ratio", std::array::from_fn(|index| ratios.get(index).map_or("", String::as_str)))
    }
}

fn line(name: &str, cells: [&str; 7]) -> String {
    let cells: String = cells.iter().map(|cell| format!(" {cell:>12}")).collect();
    format!("{name:32}{cells}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_above_one_are_better() {
        let row = |scale: f64, seconds: u64| Row {
            rates: [Rates { prompt: 100.0 * scale, answer: 20.0 * scale }; 2],
            first_call: Duration::from_secs(seconds),
            second_call: Duration::from_secs(seconds),
            memory_bytes: seconds * 300,
        };
        let ratios = row(2.0, 1).ratio_line(&row(1.0, 3));
        let cells: Vec<_> = ratios.split_whitespace().collect();
        assert_eq!(cells, ["ratio", "2.00", "2.00", "2.00", "2.00", "3.00", "3.00", "3.00"]);
        let line = row(1.0, 3).line("haft", 1800);
        let cells: Vec<_> = line.split_whitespace().collect();
        assert_eq!(cells, ["haft", "100.0", "20.0", "100.0", "20.0", "3.00", "s", "3.00", "s", "0.50", "x"]);
    }

    /// A prompt or tool list with the prefix of an earlier one would be read faster.
    #[test]
    fn repetitions_share_no_prefix() {
        let prompts: Vec<_> = (0..REPETITIONS).map(|repetition| prompt(repetition, 50)).collect();
        let lists = (0..REPETITIONS).map(|repetition| call_requests(repetition).unwrap());
        let first_tools: Vec<_> =
            lists.map(|[request, _]| request.tools.names().next().map(ToString::to_string)).collect();
        for index in 1..REPETITIONS {
            assert_ne!(prompts[index].get(..8), prompts[index - 1].get(..8));
            assert_ne!(first_tools[index], first_tools[index - 1]);
        }
    }
}
