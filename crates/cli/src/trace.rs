//! The trace of a run: blocks of text for its events, such as a thought, a call, an observation or
//! an answer.

use std::{
    fmt::Write as _,
    io,
    time::{Duration, Instant},
};

use anstyle::{AnsiColor, Style};
use haft_core::{
    RunEvent, RunOutput, ToolResult,
    agent::{RunAnswer, StopReason},
    call::PendingKind,
    usage::Usage,
};

use crate::{
    prices::PriceSource,
    spinner::Spinner,
    terminal::{paint, remove_control_chars},
};

/// The width of the column for block names such as `thought`, in characters.
const LABEL_WIDTH: usize = 13;
/// The maximum length of an observation in the trace, in characters. Longer observations are
/// truncated.
const MAX_OBSERVATION_CHARS: usize = 2_000;

const THOUGHT_STYLE: Style = Style::new().dimmed();
const CALL_STYLE: Style = AnsiColor::Cyan.on_default();
const OBSERVATION_STYLE: Style = AnsiColor::Green.on_default();
const FAILED_STYLE: Style = AnsiColor::Red.on_default();
const ANSWER_STYLE: Style = Style::new().bold();

/// A text trace of a run, written while the run is in progress.
pub(crate) struct Trace {
    spinner: Spinner,
    /// The reasoning of the current reply so far.
    thought: String,
    /// The text of the current reply so far. It is written as a thought if a call or another model
    /// request follows.
    text: String,
    started: Instant,
    /// The source of the prices. If there is one, the summary includes the cost of the run.
    price_source: Option<PriceSource>,
}

impl Trace {
    /// Creates the trace of a run, with the progress in `spinner`.
    pub(crate) fn new(spinner: Spinner, price_source: Option<PriceSource>) -> Self {
        Self { spinner, thought: String::new(), text: String::new(), started: Instant::now(), price_source }
    }

    /// Writes `event` as a block of text or shows it in the progress line, depending on its type.
    pub(crate) fn write(&mut self, event: &RunEvent) -> io::Result<()> {
        match event {
            RunEvent::RequestStarted { request } => {
                self.flush_text_as_thought()?;
                self.spinner.set_message(format!("waiting for the model, request {request}"));
            }
            RunEvent::ReasoningDelta { text } => {
                self.thought.push_str(text);
                self.spinner.show_tail(&self.thought);
            }
            RunEvent::TextDelta { text } => {
                self.text.push_str(text);
                self.spinner.show_tail(&self.text);
            }
            RunEvent::RequestFinished { .. } => self.flush_thought()?,
            RunEvent::ReplyRejected { problem } => {
                self.text.clear();
                self.thought.clear();
                self.write_block("rejected", FAILED_STYLE, problem, "")?;
            }
            RunEvent::CallStarted { call } => {
                self.flush_text_as_thought()?;
                self.write_block("call", CALL_STYLE, &format!("{} {}", call.name, call.arguments), "")?;
                self.spinner.set_message(format!("calling {}", remove_control_chars(&call.name)));
            }
            RunEvent::CallProgress { progress, .. } => {
                if let Some(message) = &progress.message {
                    self.spinner.show_tail(message);
                }
            }
            RunEvent::Nested { event, .. } => {
                if let RunEvent::CallStarted { call } = &**event {
                    self.spinner.set_message(format!("calling {}", remove_control_chars(&call.name)));
                }
            }
            RunEvent::CallFinished { result } => self.write_observation(result)?,
            RunEvent::CallPending { pending } => {
                let state = match pending.pending.kind {
                    PendingKind::Postponed => "waits for an earlier call",
                    _ => "needs a decision",
                };
                let text = format!("{} {state}", pending.call.name);
                self.write_block("pending", FAILED_STYLE, &text, "")?;
            }
            RunEvent::Done { output: RunOutput::Answer(answer) } => self.write_answer(answer)?,
            _ => {}
        }
        Ok(())
    }

    fn flush_thought(&mut self) -> io::Result<()> {
        let thought = std::mem::take(&mut self.thought);
        self.write_block("thought", THOUGHT_STYLE, &thought, "")
    }

    /// Writes the text of the reply as a thought. It is not the answer, because a call or another
    /// model request follows.
    fn flush_text_as_thought(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.text);
        self.write_block("thought", THOUGHT_STYLE, &text, "")
    }

    fn write_observation(&self, result: &ToolResult) -> io::Result<()> {
        for repair in &result.repairs {
            self.write_block("repair", THOUGHT_STYLE, &repair.to_string(), &result.name)?;
        }
        let style = if result.is_success() { OBSERVATION_STYLE } else { FAILED_STYLE };
        let note = format!("{}, {}", result.name, format_duration(result.duration));
        self.write_block("observation", style, &shorten(&result.model_text()), &note)
    }

    fn write_answer(&self, answer: &RunAnswer) -> io::Result<()> {
        self.write_block("answer", ANSWER_STYLE, &answer.text, "")?;
        let reason = match answer.stop_reason {
            StopReason::LimitReached => ", stopped at a limit",
            StopReason::Tool => ", returned by a tool",
            StopReason::Refusal => ", refused by the model",
            _ => "",
        };
        let cost = self.price_source.map_or_else(String::new, |source| format_cost(answer.usage, source));
        let duration = format_duration(self.started.elapsed());
        let summary = format!("{duration} · {}{cost}{reason}", format_usage(answer.usage));
        self.spinner.write(&format!("\n{}\n", paint(THOUGHT_STYLE, &summary)))
    }

    /// Writes a block of the trace: `name`, the lines of `text`, and `note` in parentheses. Lines
    /// after the first are indented. Does nothing if both `text` and `note` are empty.
    fn write_block(&self, name: &str, style: Style, text: &str, note: &str) -> io::Result<()> {
        let text = remove_control_chars(text.trim());
        if text.is_empty() && note.is_empty() {
            return Ok(());
        }
        let lines = text.lines().collect::<Vec<_>>().join(&format!("\n{:LABEL_WIDTH$}", ""));
        let mut block = format!("{}{lines}", paint(style, &format!("{name:LABEL_WIDTH$}")));
        if !note.is_empty() {
            let _ = write!(block, "  {}", paint(THOUGHT_STYLE, &format!("({})", remove_control_chars(note))));
        }
        self.spinner.write(&(block + "\n"))
    }
}

/// Truncates `text` to [`MAX_OBSERVATION_CHARS`] and appends the number of characters in the whole
/// text. Returns a shorter text unchanged.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_OBSERVATION_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => {
            let start = text.get(..end).unwrap_or(text);
            format!("{start} … ({} characters in total)", text.chars().count())
        }
    }
}

fn format_usage(usage: Usage) -> String {
    let requests = if usage.requests == 1 { "request" } else { "requests" };
    let Usage { requests: count, input_tokens, output_tokens, cached_input_tokens, .. } = usage;
    let cached =
        if cached_input_tokens > 0 { format!(" ({cached_input_tokens} cached)") } else { String::new() };
    format!("{count} {requests} · {input_tokens} input tokens{cached}, {output_tokens} output tokens")
}

/// Formats the cost of a run. If only some requests have a price, the text includes the number of
/// these requests. If no request has a price, the cost is unknown. A cost with prices of the
/// catalogue includes their currency and date.
fn format_cost(Usage { cost, priced_requests: priced, requests, .. }: Usage, source: PriceSource) -> String {
    let source = source.describe();
    let (currency, source) = match &source {
        Some(source) => (" USD", format!(", at {source}")),
        None => ("", String::new()),
    };
    match priced {
        // The model has a price, but the server reported no tokens.
        0 if !source.is_empty() => String::new(),
        0 => " · cost unknown: the model has no price".to_owned(),
        _ if priced >= requests => format!(" · cost {cost}{currency}{source}"),
        _ => format!(" · cost {cost}{currency} for {priced} of the requests{source}"),
    }
}

/// Formats a duration in seconds, or in milliseconds if it is below one second.
fn format_duration(duration: Duration) -> String {
    match duration.as_secs_f64() {
        seconds if seconds >= 1.0 => format!("{seconds:.1} s"),
        seconds => format!("{:.1} ms", seconds * 1000.0),
    }
}
