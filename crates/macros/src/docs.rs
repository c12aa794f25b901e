//! Doc comments as text for a model.

mod arguments;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Expr, ExprLit, Ident, Lit, Meta, ext::IdentExt};

use crate::settings::without_group;
use arguments::ListedArgument;

/// The doc comments of an item.
#[derive(Default)]
pub(crate) struct Docs {
    pieces: Vec<Expr>,
    arguments: Vec<ListedArgument>,
    /// The lines without the list of arguments. `None` if a line is a macro call, which only the
    /// compiler can expand.
    lines: Option<Vec<String>>,
}

impl Docs {
    /// Reads the doc comments among some attributes.
    pub(crate) fn of(attributes: &[Attribute]) -> Self {
        let pieces: Vec<_> = attributes.iter().filter_map(value).cloned().map(without_group).collect();
        let literals: Option<Vec<String>> = pieces.iter().map(literal).collect();
        let Some(texts) = literals else { return Self { pieces, ..Self::default() } };
        let lines = texts
            .iter()
            .zip(&pieces)
            .flat_map(|(text, place)| text.split('\n').map(move |line| (line, place)));
        let (lines, arguments) = arguments::split(lines);
        Self { lines: Some(lines), arguments, pieces }
    }

    /// The text as an expression, without the list of arguments. `None` if the text is empty.
    ///
    /// Literals are joined and trimmed during expansion. With a macro call such as `include_str!`,
    /// the generated code joins the pieces.
    pub(crate) fn text(&self) -> Option<TokenStream> {
        let Some(lines) = &self.lines else {
            return (!self.pieces.is_empty()).then(|| self.joined_by_compiler());
        };
        let text = lines.join("\n");
        let text = text.trim();
        (!text.is_empty()).then(|| quote!(#text))
    }

    /// The text of an argument in the list of arguments.
    pub(crate) fn of_argument(&self, name: &Ident) -> Option<&str> {
        let listed = self.arguments.iter().find(|listed| name.unraw() == listed.name.as_str())?;
        Some(&listed.text).filter(|text| !text.is_empty()).map(String::as_str)
    }

    /// The names in the list of arguments, with their spans.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = (&str, &Expr)> {
        self.arguments.iter().map(|listed| (listed.name.as_str(), &listed.place))
    }

    fn joined_by_compiler(&self) -> TokenStream {
        let pieces = self
            .pieces
            .iter()
            .map(|piece| literal(piece).map_or_else(|| quote!(#piece), |text| quote!(#text)));
        quote!(::core::concat!(#(#pieces, "\n"),*).trim())
    }
}

/// Returns `true` for a doc comment.
pub(crate) fn is_doc(attribute: &Attribute) -> bool {
    value(attribute).is_some()
}

/// The value of `#[doc = …]`. `None` for `#[doc(hidden)]` and other attributes.
fn value(attribute: &Attribute) -> Option<&Expr> {
    match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => Some(&meta.value),
        _ => None,
    }
}

fn literal(piece: &Expr) -> Option<String> {
    match piece {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(unindented(&text.value())),
        _ => None,
    }
}

/// Removes the leading space of each line, and the leading `*` in block comments.
fn unindented(comment: &str) -> String {
    let mut rest = comment.lines().skip(1).filter(|line| !line.trim().is_empty()).peekable();
    let is_starred = rest.peek().is_some() && rest.all(|line| line.trim_start().starts_with('*'));
    let lines = comment.lines().enumerate().map(|(number, line)| {
        let line = if is_starred && number > 0 { line.trim_start().trim_start_matches('*') } else { line };
        line.strip_prefix(' ').unwrap_or(line).trim_end()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
