use std::{
    fmt,
    ops::Deref,
    sync::{Arc, LazyLock},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::AgentStep;

/// The calls of a run, in order: a list, made when somebody first looks at it. A clone shares it.
///
/// # Examples
///
/// ```
/// use haft_core::agent::Steps;
///
/// let steps = Steps::lazy(Vec::new);
/// assert!(steps.is_empty());
/// for step in &steps {
///     println!("{}. {}", step.step_number, step.tool_name);
/// }
/// ```
#[derive(Clone)]
pub struct Steps(Arc<Made>);

type Made = LazyLock<Vec<AgentStep>, Box<dyn FnOnce() -> Vec<AgentStep> + Send>>;

impl Steps {
    /// A list that is made when it is needed: most runs are asked only for their answer.
    pub fn lazy(make: impl FnOnce() -> Vec<AgentStep> + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(make))))
    }
}

impl Deref for Steps {
    type Target = [AgentStep];

    fn deref(&self) -> &[AgentStep] {
        &self.0
    }
}

impl<'a> IntoIterator for &'a Steps {
    type Item = &'a AgentStep;
    type IntoIter = std::slice::Iter<'a, AgentStep>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<Vec<AgentStep>> for Steps {
    fn from(steps: Vec<AgentStep>) -> Self {
        Self::lazy(move || steps)
    }
}

impl FromIterator<AgentStep> for Steps {
    fn from_iter<I: IntoIterator<Item = AgentStep>>(steps: I) -> Self {
        Vec::from_iter(steps).into()
    }
}

impl Default for Steps {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl PartialEq for Steps {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Serialize for Steps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

impl<'de> Deserialize<'de> for Steps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}
