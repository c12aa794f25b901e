/// What is wrong with the parts of a definition. Each is forgotten when its part is replaced.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Defects {
    pub(super) name: Option<String>,
    pub(super) input: Option<String>,
    pub(super) output: Option<String>,
}

impl Defects {
    /// The one to tell.
    pub(super) fn first(&self) -> Option<&str> {
        let Self { name, input, output } = self;
        [name, input, output].into_iter().find_map(Option::as_deref)
    }
}
