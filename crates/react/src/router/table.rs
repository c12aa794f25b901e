use std::collections::HashSet;

use serde::{Deserialize, Serialize};

/// Where tasks can go, as data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RouteTable {
    /// The routes.
    pub routes: Vec<Route>,
    /// What is asked back where it is not clear which route is meant. Default: a question that names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}

/// What one agent is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// Its name, which is that of its agent.
    pub name: String,
    /// What it is for, in a few words: a person reads it in the question back, a model in its choice.
    pub description: String,
    /// What speaks for it, for [`Keywords`](super::Keywords).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<Keyword>,
}

/// A word or phrase that speaks for a route: a text, or `{"text": …, "weight": …}`.
///
/// It is found as whole words, whatever their case; with `*` at its end, as the beginning of one. Signs belong to a word as in
/// `C++`, `C#` and `.NET`. In scripts without spaces, such as Chinese, Japanese and Thai, it is found anywhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Keyword {
    /// The word or phrase.
    pub text: String,
    /// How much it speaks for the route. Default: 1. What speaks against it is below 0.
    pub weight: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Plain(String),
    Weighted {
        text: String,
        #[serde(default = "usual_weight")]
        weight: f64,
    },
}

fn usual_weight() -> f64 {
    1.0
}

/// Why there can be no router of a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouterError {
    /// The table is empty.
    #[error("the table has no route")]
    NoRoute,
    /// Two routes have one name.
    #[error("two routes are named {0:?}: rename one")]
    DuplicateRoute(String),
    /// A route has no agent.
    #[error("the route {0:?} has no agent: give one of that name")]
    NoAgent(String),
    /// Two agents have one name.
    #[error("two agents are named {0:?}: rename one, or leave one out")]
    DuplicateAgent(String),
    /// A keyword is in no text.
    #[error(
        "the keyword {keyword:?} of the route {route:?} can never be found: it has no letter and no digit"
    )]
    EmptyKeyword {
        /// The name of the route.
        route: String,
        /// The keyword.
        keyword: String,
    },
    /// An agent has no route.
    #[error("there is no route for the agent {agent:?}; routes: {}", .routes.join(", "))]
    UnknownRoute {
        /// The name of the agent.
        agent: String,
        /// The routes that there are.
        routes: Vec<String>,
    },
}

impl RouteTable {
    /// Makes a table of routes.
    pub fn new(routes: impl IntoIterator<Item = Route>) -> Self {
        Self { routes: routes.into_iter().collect(), question: None }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.routes.iter().map(|route| route.name.as_str())
    }

    pub(crate) fn check<'a>(&self, agents: impl Iterator<Item = &'a str>) -> Result<(), RouterError> {
        let agents: Vec<_> = agents.collect();
        if self.routes.is_empty() {
            return Err(RouterError::NoRoute);
        }
        let mut known = HashSet::new();
        for route in &self.routes {
            let name = route.name.as_str();
            if !known.insert(name) {
                return Err(RouterError::DuplicateRoute(name.to_owned()));
            }
            if !agents.contains(&name) {
                return Err(RouterError::NoAgent(name.to_owned()));
            }
            route.check()?;
        }
        let mut named = HashSet::new();
        if let Some(twice) = agents.iter().find(|agent| !named.insert(**agent)) {
            return Err(RouterError::DuplicateAgent((*twice).to_owned()));
        }
        match agents.iter().find(|agent| !known.contains(*agent)) {
            None => Ok(()),
            Some(agent) => Err(RouterError::UnknownRoute {
                agent: (*agent).to_owned(),
                routes: self.names().map(str::to_owned).collect(),
            }),
        }
    }
}

impl Route {
    fn check(&self) -> Result<(), RouterError> {
        let empty = self.keywords.iter().find(|keyword| !keyword.text.contains(char::is_alphanumeric));
        empty.map_or(Ok(()), |keyword| {
            let (route, keyword) = (self.name.clone(), keyword.text.clone());
            Err(RouterError::EmptyKeyword { route, keyword })
        })
    }

    /// Makes a route without keywords.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), keywords: Vec::new() }
    }

    /// Adds what speaks for it.
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

impl From<Written> for Keyword {
    fn from(written: Written) -> Self {
        match written {
            Written::Plain(text) => Self { text, weight: 1.0 },
            Written::Weighted { text, weight } => Self { text, weight },
        }
    }
}

impl From<Keyword> for Written {
    fn from(keyword: Keyword) -> Self {
        match keyword {
            Keyword { text, weight: 1.0 } => Self::Plain(text),
            Keyword { text, weight } => Self::Weighted { text, weight },
        }
    }
}
