use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;

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
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "KeywordJson")]
pub struct Keyword {
    /// The word or phrase, for example `refund` or `diagram*`.
    pub text: String,
    /// The weight that a match adds to the score of the route. A negative weight lowers the score.
    /// Default: 1.
    pub weight: f64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum KeywordJson {
    Plain(String),
    Weighted { text: String, weight: Option<f64> },
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

    /// Checks the table, and that there is one agent for each route. `agents` are the names of the
    /// agents.
    pub(crate) fn check_agents<'a>(
        &self,
        agents: impl Iterator<Item = &'a str>,
    ) -> Result<(), RouteTableError> {
        let agents: Vec<_> = agents.collect();
        let routes: Vec<_> = self.routes.iter().map(|route| route.name.clone()).collect();
        if routes.is_empty() {
            return Err(RouteTableError::NoRoutes);
        }
        for (index, route) in self.routes.iter().enumerate() {
            let name = route.name.clone();
            if routes.iter().take(index).any(|earlier| *earlier == name) {
                return Err(RouteTableError::DuplicateRoute(name));
            }
            if !agents.contains(&&*name) {
                return Err(RouteTableError::RouteWithoutAgent(name));
            }
            let mut keywords = route.keywords.iter();
            if let Some(keyword) = keywords.find(|keyword| !keyword.text.contains(char::is_alphanumeric)) {
                return Err(RouteTableError::UnmatchableKeyword {
                    route: name,
                    keyword: keyword.text.clone(),
                });
            }
        }
        for (index, agent) in agents.iter().enumerate() {
            let agent_name = (*agent).to_owned();
            if agents.iter().take(index).any(|earlier| earlier == agent) {
                return Err(RouteTableError::DuplicateAgent(agent_name));
            }
            if !routes.contains(&agent_name) {
                return Err(RouteTableError::AgentWithoutRoute { agent: agent_name, routes });
            }
        }
        Ok(())
    }
}

impl Route {
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
    fn from(json: KeywordJson) -> Self {
        match json {
            KeywordJson::Plain(text) => Self { text, weight: 1.0 },
            KeywordJson::Weighted { text, weight } => Self { text, weight: weight.unwrap_or(1.0) },
        }
    }
}

impl Serialize for Keyword {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self { text, weight: 1.0 } => text.serialize(serializer),
            Self { text, weight } => json!({"text": text, "weight": weight}).serialize(serializer),
        }
    }
}
