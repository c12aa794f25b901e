use std::time::Duration;

use haft_core::{ChatModel, Tool, call::BoxError, toolset::ToolSource};
use haft_middleware::{ModelMiddleware, ToolMiddleware, ToolsetMiddleware};
use tower::{ServiceBuilder, limit::RateLimitLayer};

/// An error without an implementation of `std::error::Error`.
struct Overloaded;

fn tool(tool: impl Tool + 'static) {
    tool.layer(ServiceBuilder::new().map_err(|_error: BoxError| Overloaded));
}

fn toolset(tools: impl ToolSource + 'static) {
    tools.layered(ServiceBuilder::new().map_err(|_error: BoxError| Overloaded));
}

fn model(model: impl ChatModel + 'static) {
    model.layer(ServiceBuilder::new().map_err(|_error: BoxError| Overloaded));
}

fn without_clone(tool: impl Tool + 'static) {
    tool.layer(RateLimitLayer::new(5, Duration::from_secs(1)));
}

fn main() {}
