/// The capabilities of a model. Agents and adapters build requests accordingly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelProfile {
    /// The name of the model in the provider's API.
    pub name: String,
    /// Supports tool definitions and tool calls (function calling).
    pub native_tools: bool,
    /// Supports replies constrained by a JSON Schema (structured output).
    pub json_schema: bool,
    /// Accepts images.
    pub images: bool,
    /// Accepts audio.
    pub audio: bool,
    /// Accepts document files, such as PDF.
    pub files: bool,
    /// Maximum tokens of a request and its reply together, if known.
    pub context_window: Option<u64>,
}

impl ModelProfile {
    /// Makes the profile of a text model with tool calls and structured output.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            native_tools: true,
            json_schema: true,
            images: false,
            audio: false,
            files: false,
            context_window: None,
        }
    }
}
