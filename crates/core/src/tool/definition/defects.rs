/// The defects of a tool definition, at most one each for its name, input schema and output schema.
/// Setting a valid name or schema clears its defect.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Defects {
    pub(super) name: Option<String>,
    pub(super) input: Option<String>,
    pub(super) output: Option<String>,
}

impl Defects {
    /// Returns the first defect, for the error message about the tool. `None` if the definition is
    /// valid.
    pub(super) fn first(&self) -> Option<&str> {
        let Self { name, input, output } = self;
        [name, input, output].into_iter().find_map(Option::as_deref)
    }
}
