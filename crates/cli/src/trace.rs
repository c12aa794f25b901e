//! A run as people read it: a block for each thought, call, observation and answer.

use std::{
    fmt::Write as _,
    io,
    time::{Duration, Instant},
};

use anstyle::{AnsiColor, Style};
use haft_core::{
    RunEvent, RunOutput, ToolResult,
    agent::{RunAnswer, StopReason},
    usage::Usage,
};

use crate::{
    spinner::Spinner,
    terminal::{paint, plain},
};

/// How wide the names of the blocks are.
const MARGIN: usize = 13;
/// How much of an observation is shown, in characters.
const OBSERVATION: usize = 2_000;

const THOUGHT: Style = Style::new().dimmed();
const CALL: Style = AnsiColor::Cyan.on_default();
const OBSERVED: Style = AnsiColor::Green.on_default();
const FAILED: Style = AnsiColor::Red.on_default();
const ANSWER: Style = Style::new().bold();

/// Writes a run for people, as it goes.
pub(crate) struct Trace {
    spinner: Spinner,
    thought: String,
    /// What the model says: words before a call, or the answer. Which of them shows in what follows.
    words: String,
    started: Instant,
    /// Whether it is told what the run cost.
    has_prices: bool,
}

impl Trace {
    pub(crate) fn new(has_prices: bool) -> Self {
        Self {
            spinner: Spinner::new(),
            thought: String::new(),
            words: String::new(),
            started: Instant::now(),
            has_prices,
        }
    }

    /// Tells of one event.
    pub(crate) fn tell(&mut self, event: &RunEvent) -> io::Result<()> {
        match event {
            RunEvent::RequestStarted { request } => {
                self.aloud()?;
                self.spinner.say(format!("asking the model, request {request}"));
            }
            RunEvent::ThoughtDelta { text } => {
                self.thought.push_str(text);
                self.spinner.follow(&self.thought);
            }
            RunEvent::TextDelta { text } => {
                self.words.push_str(text);
                self.spinner.follow(&self.words);
            }
            RunEvent::RequestFinished { .. } => self.thoughts()?,
            RunEvent::ReplyRefused { problem } => {
                self.words.clear();
                self.thought.clear();
                self.block("refused", FAILED, problem, "")?;
            }
            RunEvent::CallStarted { call } => {
                self.aloud()?;
                self.block("call", CALL, &format!("{} {}", call.name, call.arguments), "")?;
                self.spinner.say(format!("calling {}", plain(&call.name)));
            }
            RunEvent::CallProgress { progress, .. } => {
                if let Some(message) = &progress.message {
                    self.spinner.follow(message);
                }
            }
            RunEvent::CallFinished { result } => self.observation(result)?,
            RunEvent::CallPending { pending } => {
                self.block("waits", FAILED, &format!("{} waits for an answer", pending.call.name), "")?;
            }
            RunEvent::Done { output: RunOutput::Answer(answer) } => self.answer(answer)?,
            _ => {}
        }
        Ok(())
    }

    fn thoughts(&mut self) -> io::Result<()> {
        let thought = std::mem::take(&mut self.thought);
        self.block("thought", THOUGHT, &thought, "")
    }

    /// Words that were not the answer were thought aloud.
    fn aloud(&mut self) -> io::Result<()> {
        let words = std::mem::take(&mut self.words);
        self.block("thought", THOUGHT, &words, "")
    }

    fn observation(&self, result: &ToolResult) -> io::Result<()> {
        for repair in &result.repairs {
            self.block("repair", THOUGHT, &repair.to_string(), &result.name)?;
        }
        let style = if result.is_success() { OBSERVED } else { FAILED };
        let note = format!("{}, {}", result.name, seconds(result.duration));
        self.block("observation", style, &shortened(&result.model_text()), &note)
    }

    fn answer(&self, answer: &RunAnswer) -> io::Result<()> {
        self.block("answer", ANSWER, &answer.text, "")?;
        let why = match answer.stop_reason {
            StopReason::LimitReached => ", cut short by a limit",
            StopReason::Tool => ", as a tool gave it",
            StopReason::Refused => ", the model declined",
            _ => "",
        };
        let cost = if self.has_prices { cost(answer.usage) } else { String::new() };
        let summary = format!("{} · {}{cost}{why}", seconds(self.started.elapsed()), used(answer.usage));
        self.spinner.write(&format!("\n{}\n", paint(THOUGHT, &summary)))
    }

    /// Writes a named block, its lines under each other, with a note behind it.
    fn block(&self, name: &str, style: Style, text: &str, note: &str) -> io::Result<()> {
        let text = plain(text.trim());
        if text.is_empty() && note.is_empty() {
            return Ok(());
        }
        let lines = text.lines().collect::<Vec<_>>().join(&format!("\n{:MARGIN$}", ""));
        let mut block = format!("{}{lines}", paint(style, &format!("{name:MARGIN$}")));
        if !note.is_empty() {
            let _ = write!(block, "  {}", paint(THOUGHT, &format!("({})", plain(note))));
        }
        self.spinner.write(&(block + "\n"))
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(OBSERVATION) {
        None => text.to_owned(),
        Some((end, _)) => {
            let start = text.get(..end).unwrap_or(text);
            format!("{start} … ({} characters in all)", text.chars().count())
        }
    }
}

fn used(usage: Usage) -> String {
    let requests = if usage.requests == 1 { "request" } else { "requests" };
    let Usage { requests: count, input_tokens, output_tokens, cached_input_tokens, .. } = usage;
    let cached =
        if cached_input_tokens > 0 { format!(" ({cached_input_tokens} cached)") } else { String::new() };
    format!("{count} {requests} · {input_tokens} tokens read{cached}, {output_tokens} written")
}

/// What is known of it.
fn cost(Usage { cost, priced, requests, .. }: Usage) -> String {
    match priced {
        0 => " · cost unknown: the model has no price".to_owned(),
        _ if priced >= requests => format!(" · cost {cost}"),
        _ => format!(" · cost {cost} for {priced} of the requests"),
    }
}

/// A duration in the unit that it is read best in.
fn seconds(duration: Duration) -> String {
    match duration.as_secs_f64() {
        seconds if seconds >= 1.0 => format!("{seconds:.1} s"),
        seconds => format!("{:.1} ms", seconds * 1000.0),
    }
}
