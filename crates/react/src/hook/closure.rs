//! Hooks made of a closure for one event.

use std::sync::Arc;

use futures::future::BoxFuture;
use haft_core::{Message, ToolOutput, ToolResult, agent::AgentStep, export::async_trait};
use serde_json::Value;

use super::{CallArguments, Hook, HookContext, HookEvent, HookResult, RequestDraft};
use crate::{dialect::Reply, output::Output};

pub(crate) type Function<In, Out> =
    Arc<dyn Fn(In, HookContext) -> BoxFuture<'static, HookResult<Out>> + Send + Sync>;

/// A closure that runs at one event.
#[derive(Clone)]
pub(crate) enum Closure {
    Input(Function<Vec<Arc<Message>>, Vec<Message>>),
    Request(Function<RequestDraft, RequestDraft>),
    Reply(Function<Reply, Reply>),
    Call(Function<CallArguments, Value>),
    Result(Function<ToolResult, ToolOutput>),
    Results(Function<Arc<[AgentStep]>, Output>),
    Answer(Function<Output, Output>),
}

impl Closure {
    pub(crate) fn event(&self) -> HookEvent {
        match self {
            Self::Input(_) => HookEvent::Input,
            Self::Request(_) => HookEvent::Request,
            Self::Reply(_) => HookEvent::Reply,
            Self::Call(_) => HookEvent::Call,
            Self::Result(_) => HookEvent::Result,
            Self::Results(_) => HookEvent::Results,
            Self::Answer(_) => HookEvent::Answer,
        }
    }
}

/// Implements the methods of [`Hook`] for the closures of their events.
macro_rules! methods {
    ($($method:ident: $variant:ident($data:ty) -> $out:ty),* $(,)?) => {
        #[async_trait]
        impl Hook for Closure {
            fn runs_at(&self, event: HookEvent) -> bool {
                self.event() == event
            }

            $(async fn $method(&self, data: $data, cx: &HookContext) -> HookResult<$out> {
                match self {
                    Self::$variant(function) => function(data, cx.clone()).await,
                    _ => Ok(super::Verdict::Pass),
                }
            })*
        }
    };
}

methods! {
    on_input: Input(Vec<Arc<Message>>) -> Vec<Message>,
    before_request: Request(RequestDraft) -> RequestDraft,
    after_reply: Reply(Reply) -> Reply,
    before_call: Call(CallArguments) -> Value,
    after_call: Result(ToolResult) -> ToolOutput,
    after_calls: Results(Arc<[AgentStep]>) -> Output,
    on_answer: Answer(Output) -> Output,
}
