/// The defects of a tool definition: at most one for each of its parts. Replacing a part by a valid
/// one clears its defect.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Defects {
    pub(super) name: Option<String>,
    pub(super) input: Option<String>,
    pub(super) output: Option<String>,
}

impl Defects {
    /// Returns the first defect, for the error message about the tool.
    pub(super) fn first(&self) -> Option<&str> {
        let Self { name, input, output } = self;
        [name, input, output].into_iter().find_map(Option::as_deref)
    }
}
