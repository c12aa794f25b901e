/// The defects of a tool definition: at most one each for the name, the input schema, the output
/// schema and the policy. A defect is cleared when the invalid value is replaced with a valid one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Defects {
    pub(super) name: Option<String>,
    pub(super) input: Option<String>,
    pub(super) output: Option<String>,
    pub(super) policy: Option<String>,
}

impl Defects {
    /// Returns the description of the first defect, for error messages. `None` if the definition is
    /// valid.
    pub(super) fn first(&self) -> Option<&str> {
        let Self { name, input, output, policy } = self;
        [name, input, output, policy].into_iter().find_map(Option::as_deref)
    }
}
