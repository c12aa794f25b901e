use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;

use super::{ListContext, SourceError, ToolList, ToolSource, remembered::Remembered};
use crate::{Redefined, ToolName};

/// A source of which some tools have other names, as [`ToolSourceExt::renamed`](crate::ToolSourceExt::renamed) makes it.
pub struct Renamed<S> {
    source: S,
    names: BTreeMap<String, ToolName>,
    answers: Remembered,
}

impl<S: ToolSource> Renamed<S> {
    pub(super) fn new(source: S, names: BTreeMap<String, ToolName>) -> Self {
        Self { source, names, answers: Remembered::default() }
    }

    /// A new name that another tool has.
    fn clash(&self, all: &ToolList) -> Result<(), SourceError> {
        let mut new = BTreeMap::new();
        for (old, name) in self.names.iter().filter(|(old, _)| all.get(old).is_some()) {
            let is_kept = all.get(name.as_str()).is_some() && !self.names.contains_key(name.as_str());
            let taken = if is_kept { Some(name.as_str()) } else { new.insert(name, old.as_str()) };
            if let Some(taken) = taken {
                let reason = format!(
                    "the tool {old:?} cannot be renamed to \"{name}\": the tool {taken:?} has that name; choose another"
                );
                return Err(SourceError::new(self.label(), reason));
            }
        }
        Ok(())
    }
}

#[async_trait]
impl<S: ToolSource> ToolSource for Renamed<S> {
    fn label(&self) -> &str {
        self.source.label()
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        let all = self.source.tools(cx).await?;
        self.clash(&all)?;
        Ok(self.answers.each(self.label(), &all, |tool| {
            let definition = tool.definition();
            let Some(name) = self.names.get(definition.name().as_str()) else {
                return Some(Arc::clone(tool));
            };
            Some(Arc::new(Redefined::new(Arc::clone(tool), definition.clone().with_name(name.clone()))))
        }))
    }
}
