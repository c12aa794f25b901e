/// What a model can do, for whoever puts a request together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelProfile {
    /// The model's name, as its provider calls it.
    pub name: String,
    /// Whether it takes tools and asks for calls by itself (function calling).
    pub native_tools: bool,
    /// Whether it can be made to answer in JSON of a given schema.
    pub json_schema: bool,
    /// Whether it reads pictures.
    pub images: bool,
    /// Whether it hears sound.
    pub audio: bool,
    /// Whether it reads documents, such as PDF, as they are.
    pub files: bool,
    /// How many tokens it reads and writes in one request, where that is known.
    pub context_window: Option<u64>,
}

impl ModelProfile {
    /// A model of this name that takes tools and schemas, and reads text.
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
