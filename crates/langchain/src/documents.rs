//! Retrievers and document loaders as tools.

use std::{pin::pin, sync::Arc};

use futures::StreamExt as _;
use langchain_rust::{
    document_loaders::Loader,
    schemas::{Document, Retriever},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use haft_core::{
    ToolDefinition, ToolError, ToolOutput,
    content::Content,
    export::schemars::JsonSchema,
    tool::{DynamicTool, parse_arguments},
};

use crate::tool::{definition, failed};

/// The argument of a retriever.
const QUERY_ARGUMENT: &str = "query";

/// The maximum size of the loaded text of one call, in bytes. The last document is truncated.
const MAX_LOADED_BYTES: usize = 16 << 20;

/// Creates a tool from a retriever, for example
/// [`vectorstore::Retriever`](langchain_rust::vectorstore::Retriever) around a vector store.
///
/// The tool has one argument, `query`. The model reads the text of the documents, each with its
/// number and its metadata. The structured output is a list of objects with `page_content`,
/// `metadata` and `score`.
///
/// # Examples
///
/// ```
/// use std::error::Error;
///
/// use haft_core::ToolExt;
/// use haft_langchain::{langchain_rust::schemas::{Document, Retriever}, retriever_tool};
/// use haft_core::export::async_trait;
/// use serde_json::json;
///
/// struct Manual;
///
/// #[async_trait]
/// impl Retriever for Manual {
///     async fn get_relevant_documents(&self, query: &str) -> Result<Vec<Document>, Box<dyn Error>> {
///         Ok(vec![Document::new(format!("A page about {query}."))])
///     }
/// }
///
/// # futures::executor::block_on(async {
/// let manual = retriever_tool("search_manual", "Searches the manual.", Manual);
/// let result = manual.invoke(json!({"query": "valves"})).await;
/// assert_eq!(result.model_text(), "[1]\nA page about valves.");
/// # });
/// ```
pub fn retriever_tool(
    name: &str,
    description: &str,
    retriever: impl Into<Box<dyn Retriever>>,
) -> DynamicTool {
    let schema = json!({
        "type": "object",
        "properties": {QUERY_ARGUMENT: {"type": "string", "description": "The text to search for."}},
        "required": [QUERY_ARGUMENT],
        "additionalProperties": false,
    });
    let definition = definition(name, description).with_input_schema(schema);
    let retriever: Arc<dyn Retriever> = Arc::from(retriever.into());
    DynamicTool::new(definition, move |arguments, _cx| {
        let retriever = Arc::clone(&retriever);
        async move {
            let query = arguments.get(QUERY_ARGUMENT).and_then(Value::as_str).unwrap_or_default();
            // The error is not `Send`, so it must not be alive at a later `await`.
            let documents =
                retriever.get_relevant_documents(query).await.map_err(|error| failed(error.to_string()))?;
            Ok::<_, ToolError>(documents_output(&documents))
        }
    })
}

/// Creates a tool from a document loader. `loader` creates the loader of a call from its arguments.
/// The fields of `A` are the arguments of the tool. For a tool without arguments, use a
/// [`Value`] or an empty struct.
///
/// The output is like that of [`retriever_tool`]. At most 16 MiB of text are loaded: the document
/// at the limit is truncated and further documents are omitted, with a warning.
///
/// A model chooses the arguments. Do not pass a path from them to a loader without a check.
///
/// # Examples
///
/// ```
/// use haft_core::ToolExt;
/// use haft_langchain::{langchain_rust::document_loaders::TextLoader, loader_tool};
/// use serde_json::{Value, json};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let read = |_: Value| TextLoader::new("The valve is open.");
/// let report = loader_tool("read_report", "Reads the report.", read);
/// assert_eq!(report.invoke(json!({})).await.model_text(), "[1]\nThe valve is open.");
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn loader_tool<A, L, F>(name: &str, description: &str, loader: F) -> DynamicTool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    L: Loader + 'static,
    F: Fn(A) -> L + Send + Sync + 'static,
{
    let definition = ToolDefinition::from_types::<A, ToolOutput>(name).with_description(description);
    let loader = Arc::new(loader);
    DynamicTool::new(definition, move |arguments, _cx| {
        let loader = Arc::clone(&loader);
        async move { load(loader(parse_arguments(arguments)?)).await }
    })
}

async fn load(loader: impl Loader) -> Result<ToolOutput, ToolError> {
    let stream = loader.load().await.map_err(ToolError::failed)?;
    let mut stream = pin!(stream);
    let (mut documents, mut size): (Vec<Document>, usize) = (Vec::new(), 0);
    while let Some(document) = stream.next().await {
        let mut document = document.map_err(ToolError::failed)?;
        let content = &mut document.page_content;
        let available = MAX_LOADED_BYTES.saturating_sub(size);
        let is_too_long = content.len() > available;
        content.truncate(content.floor_char_boundary(available));
        size = size.saturating_add(content.len());
        documents.push(document);
        if is_too_long {
            let count = documents.len();
            let warning = format!(
                "document {count} is truncated, and later documents are omitted: the text is too long"
            );
            return Ok(documents_output(&documents).with_warning(warning));
        }
    }
    Ok(documents_output(&documents))
}

/// Returns the documents as text for a model, and as structured data.
fn documents_output(documents: &[Document]) -> ToolOutput {
    let text = if documents.is_empty() {
        "no documents".to_owned()
    } else {
        let texts = (1..).zip(documents).map(|(number, document)| {
            let metadata = serde_json::to_value(&document.metadata).unwrap_or_default();
            let metadata = if document.metadata.is_empty() { String::new() } else { format!(" {metadata}") };
            format!("[{number}]{metadata}\n{}", document.page_content)
        });
        texts.collect::<Vec<_>>().join("\n\n")
    };
    let structured = serde_json::to_value(documents).ok();
    ToolOutput { content: vec![Content::text(text)], structured, ..ToolOutput::default() }
}
