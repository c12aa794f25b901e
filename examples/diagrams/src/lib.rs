//! A router that draws diagrams. It passes each request to one of two agents. If a request is
//! ambiguous, the router returns a question to the user.
//!
//! The first agent writes graphs in Graphviz' DOT language, and the second writes sequence diagrams
//! in Mermaid. Each agent has a tool that draws a source as an SVG file. If the source is invalid,
//! the tool returns the syntax error to the model. A run ends when a file is drawn. `main.rs` uses
//! a local model, and the tests use scripted models. The tools can also be those of an MCP server,
//! `bin/diagrams-server.rs`.

mod error;
mod graph;
mod sequence;
mod svg;

use std::{error::Error, fs, path::PathBuf};

use haft_core::{ChatModel, ToolError, Toolset, tools};
use haft_react::{
    ReactAgent, ReactAgentBuilder, Router,
    router::{Route, RouteTable},
};

pub use error::DiagramError;
pub use graph::Graph;
pub use sequence::Sequence;

const ARCHITECTURE: &str = "You draw architectures and other graphs. Write one in the DOT language of Graphviz: a name for each box, an \
                            arrow `a -> b [label=\"…\"]` for each connection, a label for what needs more than a word. Call draw_graph \
                            with it.";

const SEQUENCE: &str = "You draw sequence diagrams. Write one in the language of Mermaid: a line `Alice->>Bob: text` for each message, \
                        `Bob-->>Alice: text` for an answer. Call draw_sequence with it.";

/// The tools that draw files into a folder. The names of the files are fixed, so the model cannot
/// choose a path.
#[derive(Clone)]
struct Canvas {
    folder: PathBuf,
}

#[tools]
impl Canvas {
    /// Draws a graph.
    #[tool]
    fn draw_graph(
        &self,
        /// In the DOT language, one arrow per line: `a -> b [label="calls"]`. Use the names of the
        /// request.
        source: String,
    ) -> Result<String, ToolError> {
        let graph = Graph::parse(&source).map_err(|error| ToolError::retry(error.to_string()))?;
        let (boxes, arrows) = graph.size();
        self.write("architecture.svg", &graph.to_svg(), &format!("{boxes} boxes, {arrows} arrows"))
    }

    /// Draws a sequence diagram.
    #[tool]
    fn draw_sequence(
        &self,
        /// In the language of Mermaid, one message per line: `Alice->>Bob: Hello`.
        source: String,
    ) -> Result<String, ToolError> {
        let sequence = Sequence::parse(&source).map_err(|error| ToolError::retry(error.to_string()))?;
        let (participants, messages) = sequence.size();
        self.write(
            "sequence.svg",
            &sequence.to_svg(),
            &format!("{participants} participants, {messages} messages"),
        )
    }

    fn write(&self, name: &str, svg: &str, content: &str) -> Result<String, ToolError> {
        let file = self.folder.join(name);
        fs::write(&file, svg).map_err(ToolError::failed)?;
        Ok(format!("Drawn: {content}. Open {}", file.display()))
    }
}

/// Returns the tools that draw files into `folder`.
pub fn tools(folder: impl Into<PathBuf>) -> Toolset {
    Toolset::new().with_tools(Canvas { folder: folder.into() })
}

/// Creates a router for both agents, which draw with `tools`. The route table is plain data, so a
/// program could also read it from a file.
pub fn router(
    architect: impl ChatModel + 'static,
    sequencer: impl ChatModel + 'static,
    tools: &Toolset,
) -> Result<Router, Box<dyn Error>> {
    let table = RouteTable::new([
        Route::new("architecture", "a diagram of an architecture: boxes and connections").with_keywords([
            ("architecture", 2.0),
            ("graph", 2.0),
            ("component*", 1.0),
            ("system*", 1.0),
            ("service*", 1.0),
            ("box*", 1.0),
        ]),
        Route::new("sequence", "a sequence diagram: messages between participants, in order").with_keywords(
            [("sequence", 2.0), ("message*", 1.0), ("handshake", 1.0), ("protocol", 1.0), ("login", 1.0)],
        ),
    ]);
    let specialist = |model: ReactAgentBuilder, tool: &'static str, instructions: &str| {
        let own = tools.clone().filtered(move |it| it.name().as_str() == tool);
        model.tools(own).stop_on([tool]).instructions(instructions).build()
    };
    let architect = specialist(ReactAgent::builder(architect), "draw_graph", ARCHITECTURE)?;
    let sequencer = specialist(ReactAgent::builder(sequencer), "draw_sequence", SEQUENCE)?;
    Ok(Router::new(table, [("architecture", architect), ("sequence", sequencer)])?)
}
