/// An error in the source of a diagram. The error message is sent to the model, so that the model
/// can correct the source.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum DiagramError {
    #[error("line {line}: {problem}")]
    Syntax { line: usize, problem: String },
    #[error("there is nothing to draw: {0}")]
    Empty(&'static str),
    #[error("{found} {of} are too many: at most {most} can be drawn")]
    TooMany { found: usize, of: &'static str, most: usize },
}
