/// The defects of a tool definition: at most one each for the name, the input schema and the output
/// schema. A defect is cleared when the invalid name or schema is replaced with a valid one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Defects {
    pub(super) name: Option<String>,
    pub(super) input: Option<String>,
    pub(super) output: Option<String>,
}

impl Defects {
    /// Returns the description of the first defect, for error messages. `None` if the definition is
    /// valid.
    pub(super) fn first(&self) -> Option<&str> {
        let Self { name, input, output } = self;
        [name, input, output].into_iter().find_map(Option::as_deref)
    }
}
