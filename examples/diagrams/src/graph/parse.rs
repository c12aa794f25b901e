//! A parser for graphs such as `digraph { a -> b [label="…"]; b [label="…"] }`.

use std::{iter::Peekable, str::Chars};

use super::{Edge, Graph, Node};
use crate::DiagramError;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Arrow,
    Sign(char),
}

/// A lexer that splits a DOT source into tokens. It counts the lines, for error messages.
struct Lexer<'s> {
    letters: Peekable<Chars<'s>>,
    line: usize,
}

impl Lexer<'_> {
    fn error(&self, problem: impl Into<String>) -> DiagramError {
        DiagramError::Syntax { line: self.line, problem: problem.into() }
    }

    fn skip_line(&mut self) {
        while self.letters.next_if(|letter| *letter != '\n').is_some() {}
    }

    fn token(&mut self) -> Result<Option<(usize, Token)>, DiagramError> {
        while let Some(letter) = self.letters.next() {
            let token = match letter {
                '\n' => {
                    self.line += 1;
                    continue;
                }
                '#' => {
                    self.skip_line();
                    continue;
                }
                '/' if self.letters.next_if_eq(&'/').is_some() => {
                    self.skip_line();
                    continue;
                }
                letter if letter.is_whitespace() => continue,
                '{' | '}' | '[' | ']' | '=' | ',' | ';' => Token::Sign(letter),
                '-' if self.letters.next_if(|next| ['>', '-'].contains(next)).is_some() => Token::Arrow,
                '"' => Token::Word(self.quoted()?),
                letter if is_name(letter) => {
                    let mut word = String::from(letter);
                    while let Some(next) = self.letters.next_if(|next| is_name(*next)) {
                        word.push(next);
                    }
                    Token::Word(word)
                }
                other => {
                    return Err(self.error(format!(
                        "unexpected {other:?}: put names with special characters in quotes"
                    )));
                }
            };
            return Ok(Some((self.line, token)));
        }
        Ok(None)
    }

    fn quoted(&mut self) -> Result<String, DiagramError> {
        let mut text = String::new();
        while let Some(letter) = self.letters.next() {
            match letter {
                '"' => return Ok(text),
                '\\' => match self.letters.next() {
                    // An escaped line break in a label becomes a space.
                    Some('n' | 'l' | 'r') => text.push(' '),
                    Some(other) => text.push(other),
                    None => break,
                },
                '\n' => return Err(self.error("a quoted text must end on its line")),
                other => text.push(other),
            }
        }
        Err(self.error("a quoted text has no end"))
    }
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '.'
}

pub(super) fn parse(source: &str) -> Result<Graph, DiagramError> {
    let mut lexer = Lexer { letters: source.chars().peekable(), line: 1 };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.token()? {
        tokens.push(token);
    }
    let mut parser = Parser { tokens: tokens.into_iter().peekable(), line: 1, graph: Graph::default() };
    parser.graph()?;
    Ok(parser.graph)
}

struct Parser<I: Iterator<Item = (usize, Token)>> {
    tokens: Peekable<I>,
    line: usize,
    graph: Graph,
}

impl<I: Iterator<Item = (usize, Token)>> Parser<I> {
    fn next(&mut self) -> Option<Token> {
        let (line, token) = self.tokens.next()?;
        self.line = line;
        Some(token)
    }

    fn takes(&mut self, token: &Token) -> bool {
        let is_next = self.tokens.peek().is_some_and(|(_, next)| next == token);
        if is_next {
            self.next();
        }
        is_next
    }

    fn error<T>(&self, problem: impl Into<String>) -> Result<T, DiagramError> {
        Err(DiagramError::Syntax { line: self.line, problem: problem.into() })
    }

    fn graph(&mut self) -> Result<(), DiagramError> {
        while let Some(token) = self.next() {
            match token {
                Token::Sign('{' | '}' | ';') => {}
                Token::Word(word) if ["digraph", "graph", "strict"].contains(&word.as_str()) => {
                    // Skip the name of the graph and its default attributes, because they are not
                    // drawn.
                    while self.tokens.next_if(|(_, token)| matches!(token, Token::Word(_))).is_some() {}
                    self.parse_attributes()?;
                }
                Token::Word(word) if ["node", "edge"].contains(&word.as_str()) => {
                    self.parse_attributes()?;
                }
                Token::Word(word) if word == "subgraph" => {
                    return self.error("subgraphs are not drawn: leave them out");
                }
                Token::Word(word) => self.parse_statement(word)?,
                other => {
                    return self.error(format!("unexpected {other:?}: write `a -> b [label=\"…\"]`"));
                }
            }
        }
        Ok(())
    }

    /// Parses a statement that begins with the word `first`: a node, a chain of arrows, or a
    /// setting of the graph.
    fn parse_statement(&mut self, first: String) -> Result<(), DiagramError> {
        if self.takes(&Token::Sign('=')) {
            self.next();
            return Ok(());
        }
        let mut nodes = vec![self.node_index(first)];
        while self.takes(&Token::Arrow) {
            match self.next() {
                Some(Token::Word(word)) => nodes.push(self.node_index(word)),
                _ => return self.error("an arrow has one target: write one line per arrow"),
            }
        }
        let label = self.parse_attributes()?;
        match nodes.as_slice() {
            [only] => {
                if let (Some(label), Some(node)) = (label, self.graph.nodes.get_mut(*only)) {
                    node.label = label;
                }
            }
            _ => self.graph.edges.extend(nodes.windows(2).filter_map(|pair| {
                let (from, to) = (*pair.first()?, *pair.last()?);
                Some(Edge { from, to, label: label.clone().unwrap_or_default() })
            })),
        }
        Ok(())
    }

    /// Returns the index of the node named `id`. Adds the node if it is new.
    fn node_index(&mut self, id: String) -> usize {
        let known = self.graph.nodes.iter().position(|node| node.id == id);
        known.unwrap_or_else(|| {
            self.graph.nodes.push(Node { label: id.clone(), id });
            self.graph.nodes.len() - 1
        })
    }

    /// Parses the attributes in brackets at the current position, if there are any. Returns the
    /// value of `label`, or `None` if there is no `label`.
    fn parse_attributes(&mut self) -> Result<Option<String>, DiagramError> {
        let mut label = None;
        while self.takes(&Token::Sign('[')) {
            loop {
                match self.next() {
                    Some(Token::Sign(']')) => break,
                    Some(Token::Sign(',' | ';')) => {}
                    Some(Token::Word(key)) if self.takes(&Token::Sign('=')) => match self.next() {
                        Some(Token::Word(value)) if key == "label" => label = Some(value),
                        Some(Token::Word(_)) => {}
                        _ => return self.error(format!("{key} has no value")),
                    },
                    _ => return self.error("expected `[label=\"…\"]`"),
                }
            }
        }
        Ok(label)
    }
}
