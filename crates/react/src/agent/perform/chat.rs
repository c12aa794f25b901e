//! Model requests, and the events of their replies.

use std::{borrow::Cow, sync::Arc};

use futures::stream::StreamExt as _;
use haft_core::{
    Message, RunEvent,
    agent::AgentErrorKind,
    message::AssistantMessage,
    model::{ChatEvent, ChatRequest, ChatResponse, ChatSettings, ModelError, ToolChoice},
};
use tracing::{Instrument as _, Span, field};

use super::{LastOutcome, OutcomeSender, Performer, prepare::current_dialect, send};
use crate::{
    Dialect, Outcome,
    agent::{clock::with_time_limit, reply_events::ReplyEvents, scope::StepInputs, trace_content},
    dialect::{Prompt, Reply, ReplyContext, StreamParser, read_failed_generation, read_reply, stream_parser},
    hook::{HookEvent, Judgement},
    host_panic::{catch_dialect_panic, model_name, profile_of},
    run::{ModelReply, ToolSnapshot},
};

impl Performer {
    /// Performs [`Effect::Chat`](crate::Effect::Chat).
    pub(super) async fn chat(self: Box<Self>, outcomes: OutcomeSender) -> LastOutcome {
        let inputs = self.inputs(&outcomes).await?;
        let reply = {
            let request = self.build_request(&inputs)?;
            // The future is boxed, because each wrapper would copy it.
            let reply = Box::pin(self.request_reply(&inputs, &request));
            let reply = with_time_limit(self.run.time_left(), reply);
            let reply = self.or_cancelled(async { reply.await?.transpose() }).await?;
            match reply {
                None => return Ok(Some(self.time_is_up())),
                Some(Err(error)) => return Ok(Some(Outcome::Replied(Err(error)))),
                Some(Ok(reply)) => reply,
            }
        };
        let hooks = &self.agent.0.hooks;
        let (mut reply, mut judgement) = (reply, Judgement::default());
        if hooks.has(HookEvent::Reply) {
            // The usage is known to the run even if a hook fails.
            send(&outcomes, Outcome::Used(reply.usage)).await;
            (reply, judgement) = hooks.judge_reply(reply, &self.hook_context()).await?;
        }
        let tools = ToolSnapshot::of_calls(&reply.message.tool_calls, &inputs.tools);
        Ok(Some(Outcome::Replied(Ok(Box::new(ModelReply { reply, tools, judgement })))))
    }

    fn build_request(&self, inputs: &StepInputs) -> Result<ChatRequest, AgentErrorKind> {
        let run = &self.run;
        let dialect = current_dialect(run, &inputs.dialect)?;
        let settings = self.limited_settings(&inputs.settings);
        let prompt = Prompt {
            messages: self.scope.take_messages().unwrap_or_else(|| run.view()),
            tools: &inputs.tools,
            instructions: inputs.instructions.as_ref(),
            outputs: run.answer_schema(),
            must_answer: run.must_answer(),
            tool_choice: run.tool_choice(),
            settings: &settings,
        };
        let mut request = catch_dialect_panic("Dialect::build_request", || dialect.build_request(&prompt))?;
        request.hosted_tools = Arc::clone(&self.agent.0.hosted_tools);
        if !request.hosted_tools.is_empty() {
            let profile = profile_of(&*inputs.model).map_err(|_| ModelError::Panicked)?;
            request.check_hosted_tools(profile).map_err(AgentErrorKind::Model)?;
        }
        Ok(request)
    }

    /// Returns `settings` with the limit on the output tokens of one request as the upper bound of
    /// [`ChatSettings::max_tokens`].
    fn limited_settings<'a>(&self, settings: &'a ChatSettings) -> Cow<'a, ChatSettings> {
        match self.run.config().limits.request_output_tokens {
            Some(limit) if settings.max_tokens.is_none_or(|max| max > limit) => {
                Cow::Owned(ChatSettings { max_tokens: Some(limit), ..settings.clone() })
            }
            _ => Cow::Borrowed(settings),
        }
    }

    /// Returns what the reply can contain.
    fn reply_context<'a>(&'a self, inputs: &'a StepInputs) -> ReplyContext<'a> {
        let (run, choice) = (&self.run, self.run.tool_choice());
        let is_final = run.must_answer() || *choice == ToolChoice::None;
        ReplyContext {
            tools: Some(&inputs.tools).filter(|_| !is_final),
            outputs: run.answer_schema(),
            output_property: run.config().output_property.as_deref(),
            may_finish: *choice != ToolChoice::Required,
        }
    }

    /// Sends `request` to the model of this step, emits the events of its reply, and returns the
    /// reply as read by the dialect, or the error of the model. Fails if the dialect panics.
    async fn request_reply(
        &self,
        inputs: &StepInputs,
        request: &ChatRequest,
    ) -> Result<Result<Reply, ModelError>, AgentErrorKind> {
        let content = self.agent.0.traces_content;
        let span = tracing::info_span!(
            "chat",
            gen_ai.operation.name = "chat",
            gen_ai.request.model = model_name(&*inputs.model),
            gen_ai.request.temperature = request.settings.temperature,
            gen_ai.request.max_tokens = request.settings.max_tokens,
            gen_ai.system_instructions =
                content.then(|| trace_content::parts_json(request.instructions.as_deref())),
            gen_ai.input.messages = content.then(|| trace_content::messages_json(request.messages.iter())),
            gen_ai.output.messages = field::Empty,
            gen_ai.response.finish_reasons = field::Empty,
            gen_ai.response.model = field::Empty,
            gen_ai.response.id = field::Empty,
            gen_ai.usage.input_tokens = field::Empty,
            gen_ai.usage.output_tokens = field::Empty,
        );
        let events = self.scope.events();
        events.emit(|| RunEvent::RequestStarted { request: self.run.requests() }).await;
        let reply = self.call_model(inputs, request).instrument(span).await?;
        if let Ok(reply) = &reply {
            // The enclosing run counts the usage even if this run is dropped by a reader of the
            // event.
            self.scope.budget().report_up_to(self.run.usage() + reply.usage.counted_as_request());
            events.emit(|| RunEvent::RequestFinished { usage: reply.usage }).await;
        }
        Ok(reply)
    }

    /// Calls the model and records the reply in the current span. The reply is streamed only if the
    /// events of the run have a reader.
    async fn call_model(
        &self,
        inputs: &StepInputs,
        request: &ChatRequest,
    ) -> Result<Result<Reply, ModelError>, AgentErrorKind> {
        let events = self.scope.events();
        let (dialect, context) = (current_dialect(&self.run, &inputs.dialect)?, self.reply_context(inputs));
        let mut reply_events = events.has_reader().then(|| ReplyEvents::new(&self.run));
        let response = match &mut reply_events {
            Some(reply_events) => self.stream_reply(inputs, dialect, request, reply_events).await?,
            None => ModelError::catch_panic(async { inputs.model.chat(request).await }).await,
        };
        reads_written_calls(dialect)?;
        let mut reply = match response {
            Ok(response) => {
                self.trace_response(&response);
                let read = || read_reply(dialect, response, &context);
                Ok(catch_dialect_panic("Dialect::parse_reply", read)?)
            }
            Err(error) => {
                let read = || read_failed_generation(dialect, error, &context);
                catch_dialect_panic("Dialect::parse_reply", read)?
            }
        };
        if let (Ok(reply), Some(reply_events)) = (&mut reply, reply_events) {
            for event in reply_events.complete(reply) {
                events.emit(|| event).await;
            }
        }
        Ok(reply)
    }

    fn trace_response(&self, response: &ChatResponse) {
        let span = Span::current();
        span.record("gen_ai.response.model", response.model.as_deref());
        span.record("gen_ai.response.id", response.id.as_deref());
        span.record(
            "gen_ai.response.finish_reasons",
            trace_content::finish_reason_name(&response.finish_reason),
        );
        if self.agent.0.traces_content {
            let message = Arc::new(Message::assistant(response.message.clone()));
            span.record("gen_ai.output.messages", trace_content::messages_json([&message]));
        }
        span.record("gen_ai.usage.input_tokens", response.usage.input_tokens);
        span.record("gen_ai.usage.output_tokens", response.usage.output_tokens);
    }

    /// Streams the reply to `request`, and emits its deltas. Returns the complete reply, or the
    /// error of the model. Fails if the dialect panics.
    async fn stream_reply(
        &self,
        inputs: &StepInputs,
        dialect: &dyn Dialect,
        request: &ChatRequest,
        reply_events: &mut ReplyEvents<'_>,
    ) -> Result<Result<ChatResponse, ModelError>, AgentErrorKind> {
        reads_written_calls(dialect)?;
        let context = self.reply_context(inputs);
        let mut parser: Box<dyn StreamParser> =
            catch_dialect_panic("Dialect::stream_parser", || stream_parser(dialect, &context))?;
        let mut reply = match ModelError::catch_panic(async { Ok(inputs.model.stream(request)) }).await {
            Ok(reply) => reply,
            Err(error) => return Ok(Err(error)),
        };
        let mut received = None;
        loop {
            let event = match ModelError::catch_panic(async { reply.next().await.transpose() }).await {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(error) => return Ok(Err(to_truncated_error(error, received.take()))),
            };
            let text: &mut String = received.get_or_insert_default();
            if let ChatEvent::TextDelta { text: delta } = &event {
                text.push_str(delta);
            }
            if let Some(event) = hosted_call_event(&event) {
                self.scope.events().emit(|| event).await;
            }
            for delta in catch_dialect_panic("StreamParser::push", || parser.push(&event))? {
                if let Some(event) = reply_events.convert(delta) {
                    self.scope.events().emit(|| event).await;
                }
            }
            if let ChatEvent::Finished(response) = event {
                return Ok(Ok(*response));
            }
        }
        let reason = "the stream ended before the reply".to_owned();
        Ok(Err(truncated_error(reason, received.unwrap_or_default())))
    }
}

/// Returns the event of a run for `event`, if it is about a call of a hosted tool.
fn hosted_call_event(event: &ChatEvent) -> Option<RunEvent> {
    match event {
        ChatEvent::HostedCallStarted { id, tool } => {
            Some(RunEvent::HostedCallStarted { id: id.clone(), tool: tool.clone() })
        }
        ChatEvent::HostedCallFinished { call } => Some(RunEvent::HostedCallFinished { call: call.clone() }),
        _ => None,
    }
}

/// Fails if this method of `dialect`, which reads replies, panics.
fn reads_written_calls(dialect: &dyn Dialect) -> Result<bool, AgentErrorKind> {
    catch_dialect_panic("Dialect::reads_written_calls", || dialect.reads_written_calls())
}

/// Converts a temporary error in the middle of a stream to [`ModelError::Truncated`], so that the
/// run repeats the request. `received` is the text of the stream up to the error. Temporary errors
/// are server errors, connection errors and rate limits that are not permanent.
///
/// Other errors are returned unchanged. An error before the first event (`received` is `None`) is
/// also returned unchanged, because the model has already retried the request.
fn to_truncated_error(error: ModelError, received: Option<String>) -> ModelError {
    match (error, received) {
        (
            error @ (ModelError::Server { .. }
            | ModelError::RateLimited { permanent: false, .. }
            | ModelError::Unreachable { .. }),
            Some(received),
        ) => truncated_error(error.to_string(), received),
        (error, _) => error,
    }
}

fn truncated_error(reason: String, received: String) -> ModelError {
    let partial = if received.is_empty() { AssistantMessage::default() } else { received.into() };
    ModelError::Truncated { reason, partial: Box::new(partial) }
}
