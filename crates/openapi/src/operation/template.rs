use percent_encoding::percent_decode_str;

use super::{Location, Parameter};

/// The path of an operation, as literal text and parameters.
#[derive(Debug, PartialEq)]
pub(crate) struct PathTemplate {
    pub(crate) segments: Vec<Segment>,
    /// The query string in the path. The specification forbids it, but some documents have it.
    pub(crate) query: Option<String>,
}

/// A piece of a path template.
#[derive(Debug, PartialEq)]
pub(crate) enum Segment {
    Literal(String),
    /// The name of a path parameter.
    Parameter(String),
}

impl PathTemplate {
    /// Parses `path`, such as `/users/{id}`. Each name in braces must be a path parameter.
    pub(super) fn parse(path: &str, parameters: &[Parameter]) -> Result<Self, String> {
        let path = path.split('#').next().unwrap_or_default();
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (path, None),
        };
        let mut segments = Vec::new();
        let mut rest = path;
        while let Some((literal, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or("a brace of the path is not closed")?;
            let is_known = |it: &&Parameter| it.location == Location::Path && it.name == name;
            if !parameters.iter().any(|it| is_known(&it)) {
                return Err(format!("the path has no parameter {name:?}: declare it with `in: path`"));
            }
            if !literal.is_empty() {
                segments.push(Segment::Literal(literal.to_owned()));
            }
            segments.push(Segment::Parameter(name.to_owned()));
            rest = after;
        }
        if !rest.is_empty() {
            segments.push(Segment::Literal(rest.to_owned()));
        }
        Ok(Self { segments, query })
    }

    /// Returns the names of the parameters in the query string of the path.
    pub(crate) fn query_names(&self) -> Vec<String> {
        let pairs = self.query.as_deref().unwrap_or_default().split(['&', ';']);
        let names = pairs.filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty());
        let decode =
            |name: &str| percent_decode_str(&name.replace('+', " ")).decode_utf8_lossy().into_owned();
        names.map(decode).collect()
    }
}
