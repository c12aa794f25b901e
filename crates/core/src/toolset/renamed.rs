use std::{collections::BTreeMap, sync::Arc};

use super::{Adaptor, ToolList};
use crate::tool::{RedefinedTool, Tool, ToolName};

/// The adaptor of [`Toolset::renamed`](crate::toolset::Toolset::renamed). The map contains the new
/// name of each renamed tool, by its old name.
pub(super) struct Renamed(pub(super) BTreeMap<String, ToolName>);

impl Adaptor for Renamed {
    /// Checks that no two tools would have the same name after the renaming.
    fn check(&self, all: &ToolList) -> Result<(), String> {
        let mut new = BTreeMap::new();
        for (old, name) in self.0.iter().filter(|(old, _)| all.get(old).is_some()) {
            let is_kept = all.get(name.as_str()).is_some() && !self.0.contains_key(name.as_str());
            let taken = if is_kept { Some(name.as_str()) } else { new.insert(name, old.as_str()) };
            if let Some(taken) = taken {
                return Err(format!(
                    "the tool {old:?} cannot be renamed to \"{name}\": the tool {taken:?} has that name; choose another"
                ));
            }
        }
        Ok(())
    }

    fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        let definition = tool.definition();
        let Some(name) = self.0.get(definition.name().as_str()) else { return Some(Arc::clone(tool)) };
        Some(Arc::new(RedefinedTool::new(Arc::clone(tool), definition.clone().with_name(name.clone()))))
    }
}
