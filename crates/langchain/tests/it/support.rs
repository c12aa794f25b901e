//! Components of LangChain and haft that several tests use.

use std::{error::Error, sync::Arc};

use async_trait::async_trait;
use haft_langchain::langchain_rust::tools::{FunctionTool, Tool};
use serde_json::{Value, json};

/// A structured LangChain tool that adds the integers `x` and `y`.
pub(crate) fn adder() -> Arc<dyn Tool> {
    #[derive(serde::Deserialize)]
    struct Add {
        x: i64,
        y: i64,
    }
    let parameters = json!({
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["x", "y"],
    });
    Arc::new(FunctionTool::new("adder", "Adds two integers.", parameters, |add: Add| async move {
        Ok::<_, String>(add.x + add.y)
    }))
}

/// A LangChain tool with LangChain's default schema and default `parse_input`, whose error is not
/// `Send`.
pub(crate) struct Echo;

#[async_trait]
impl Tool for Echo {
    fn name(&self) -> String {
        " Echo Text ".to_owned()
    }

    fn description(&self) -> String {
        "Returns its input.".to_owned()
    }

    async fn run(&self, input: Value) -> Result<String, Box<dyn Error>> {
        #[derive(Debug, thiserror::Error)]
        #[error("the text {text} is forbidden")]
        struct Forbidden {
            text: std::rc::Rc<str>,
        }
        match input.as_str() {
            Some("secret") => Err(Box::new(Forbidden { text: "secret".into() })),
            Some(text) => Ok(format!("<{text}>")),
            None => Err("no text".into()),
        }
    }
}

/// A LangChain tool that reads its input as plain text, never as JSON.
pub(crate) struct Shout;

#[async_trait]
impl Tool for Shout {
    fn name(&self) -> String {
        "shout".to_owned()
    }

    fn description(&self) -> String {
        "Returns its input in upper case.".to_owned()
    }

    async fn run(&self, input: Value) -> Result<String, Box<dyn Error>> {
        Ok(input.as_str().ok_or("no text")?.to_uppercase())
    }

    async fn parse_input(&self, input: &str) -> Value {
        input.into()
    }
}
