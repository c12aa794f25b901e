use std::collections::HashSet;

use serde::{Deserialize, Serialize};

/// The routes of a [`Router`](super::Router) or a [`HandoffGroup`](crate::HandoffGroup), as data.
/// Each route leads to one agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RouteTable {
    /// The routes to the agents. Must contain at least one route.
    pub routes: Vec<Route>,
    /// The clarifying question of a [`Router`](super::Router) for a task without a clear route. By
    /// default, the question lists the descriptions of the possible routes. A
    /// [`HandoffGroup`](crate::HandoffGroup) ignores this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}

/// A route to one agent, with a description of the agent's purpose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// The name of the route. It is also the name of the agent.
    pub name: String,
    /// The purpose of the agent in a few words. It appears in clarifying questions, in the prompt
    /// of a [`ModelClassifier`](super::ModelClassifier), and in the hand-off tools of a
    /// [`HandoffGroup`](crate::HandoffGroup).
    pub description: String,
    /// Words and phrases that indicate this route to the
    /// [`KeywordClassifier`](super::KeywordClassifier). Empty by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<Keyword>,
}

/// A word or phrase that indicates a route. Its JSON form is a string, or an object with the keys
/// `text` and `weight`.
///
/// The keyword matches whole words and ignores case. If it ends with `*`, it matches the start of a
/// word. The symbols in words such as `C++`, `C#` and `.NET` are part of the word. In scripts
/// without spaces, such as Chinese, Japanese and Thai, the keyword matches anywhere in a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "KeywordJson", into = "KeywordJson")]
pub struct Keyword {
    /// The word or phrase, for example `refund` or `diagram*`.
    pub text: String,
    /// The weight that a match adds to the score of the route. A negative weight lowers the score.
    /// Default: 1.
    pub weight: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum KeywordJson {
    Plain(String),
    Weighted {
        text: String,
        #[serde(default = "default_weight")]
        weight: f64,
    },
}

fn default_weight() -> f64 {
    1.0
}

/// An error in a [`RouteTable`], or a mismatch between its routes and the agents.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteTableError {
    /// The table has no routes.
    #[error("the table has no route")]
    NoRoutes,
    /// Two routes have this name.
    #[error("two routes are named {0:?}: rename one")]
    DuplicateRoute(String),
    /// The route with this name has no agent.
    #[error("the route {0:?} has no agent: give one of that name")]
    RouteWithoutAgent(String),
    /// Two agents have this name.
    #[error("two agents are named {0:?}: rename one, or leave one out")]
    DuplicateAgent(String),
    /// A keyword contains no letter and no digit, so it can never match.
    #[error(
        "the keyword {keyword:?} of the route {route:?} can never be found: it has no letter and no digit"
    )]
    UnmatchableKeyword {
        /// The name of the route with the keyword.
        route: String,
        /// The text of the keyword.
        keyword: String,
    },
    /// An agent has no route.
    #[error("there is no route for the agent {agent:?}; routes: {}", .routes.join(", "))]
    AgentWithoutRoute {
        /// The name of the agent without a route.
        agent: String,
        /// The names of the routes in the table.
        routes: Vec<String>,
    },
}

impl RouteTable {
    /// Creates a table with the default clarifying question.
    pub fn new(routes: impl IntoIterator<Item = Route>) -> Self {
        Self { routes: routes.into_iter().collect(), question: None }
    }

    pub(super) fn route_names(&self) -> impl Iterator<Item = &str> {
        self.routes.iter().map(|route| route.name.as_str())
    }

    pub(crate) fn check_agents<'a>(
        &self,
        agents: impl Iterator<Item = &'a str>,
    ) -> Result<(), RouteTableError> {
        let agents: Vec<_> = agents.collect();
        if self.routes.is_empty() {
            return Err(RouteTableError::NoRoutes);
        }
        let mut known = HashSet::new();
        for route in &self.routes {
            let name = route.name.as_str();
            if !known.insert(name) {
                return Err(RouteTableError::DuplicateRoute(name.to_owned()));
            }
            if !agents.contains(&name) {
                return Err(RouteTableError::RouteWithoutAgent(name.to_owned()));
            }
            route.check()?;
        }
        let mut named = HashSet::new();
        if let Some(twice) = agents.iter().find(|agent| !named.insert(**agent)) {
            return Err(RouteTableError::DuplicateAgent((*twice).to_owned()));
        }
        match agents.iter().find(|agent| !known.contains(*agent)) {
            None => Ok(()),
            Some(agent) => Err(RouteTableError::AgentWithoutRoute {
                agent: (*agent).to_owned(),
                routes: self.route_names().map(str::to_owned).collect(),
            }),
        }
    }
}

impl Route {
    fn check(&self) -> Result<(), RouteTableError> {
        let empty = self.keywords.iter().find(|keyword| !keyword.text.contains(char::is_alphanumeric));
        empty.map_or(Ok(()), |keyword| {
            let (route, keyword) = (self.name.clone(), keyword.text.clone());
            Err(RouteTableError::UnmatchableKeyword { route, keyword })
        })
    }

    /// Creates a route without keywords.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), keywords: Vec::new() }
    }

    /// Adds `keywords` to the route.
    #[must_use]
    pub fn with_keywords<K: Into<Keyword>>(mut self, keywords: impl IntoIterator<Item = K>) -> Self {
        self.keywords.extend(keywords.into_iter().map(Into::into));
        self
    }
}

impl From<&str> for Keyword {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), weight: 1.0 }
    }
}

impl From<(&str, f64)> for Keyword {
    fn from((text, weight): (&str, f64)) -> Self {
        Self { text: text.to_owned(), weight }
    }
}

impl From<KeywordJson> for Keyword {
    fn from(form: KeywordJson) -> Self {
        match form {
            KeywordJson::Plain(text) => Self { text, weight: 1.0 },
            KeywordJson::Weighted { text, weight } => Self { text, weight },
        }
    }
}

impl From<Keyword> for KeywordJson {
    fn from(keyword: Keyword) -> Self {
        match keyword {
            Keyword { text, weight: 1.0 } => Self::Plain(text),
            Keyword { text, weight } => Self::Weighted { text, weight },
        }
    }
}
