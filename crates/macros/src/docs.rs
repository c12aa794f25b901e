//! Conversion of doc comments to descriptions for the model.

mod arguments;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Expr, ExprLit, Ident, Lit, Meta, ext::IdentExt};

use crate::settings::without_group;
use arguments::ListedArgument;

/// The doc comments of a function or parameter.
#[derive(Default)]
pub(crate) struct Docs {
    pieces: Vec<Expr>,
    arguments: Vec<ListedArgument>,
    /// The lines of the doc comments without the `# Arguments` list. `None` if a `#[doc]` attribute
    /// contains a macro call such as `include_str!`, which only the compiler can expand.
    lines: Option<Vec<String>>,
}

impl Docs {
    /// Collects the doc comments from `attributes`.
    pub(crate) fn from_attributes(attributes: &[Attribute]) -> Self {
        let pieces: Vec<_> = attributes.iter().filter_map(doc_value).cloned().map(without_group).collect();
        let literals: Option<Vec<String>> = pieces.iter().map(literal_text).collect();
        let Some(texts) = literals else { return Self { pieces, ..Self::default() } };
        let lines = texts
            .iter()
            .zip(&pieces)
            .flat_map(|(text, place)| text.split('\n').map(move |line| (line, place)));
        let (lines, arguments) = arguments::split_argument_list(lines);
        Self { lines: Some(lines), arguments, pieces }
    }

    /// Returns an expression for the text of the doc comments without the `# Arguments` list.
    /// Returns `None` if the text is empty.
    ///
    /// String literals are joined and trimmed by this macro. If a `#[doc]` attribute contains a
    /// macro call such as `include_str!`, the generated code joins and trims the texts, and the
    /// `# Arguments` list is not removed.
    pub(crate) fn text(&self) -> Option<TokenStream> {
        let Some(lines) = &self.lines else {
            return (!self.pieces.is_empty()).then(|| self.joined_by_compiler());
        };
        let text = lines.join("\n");
        let text = text.trim();
        (!text.is_empty()).then(|| quote!(#text))
    }

    /// Returns the description of the argument `name` in the `# Arguments` list, or `None` if the
    /// list does not describe this argument.
    pub(crate) fn of_argument(&self, name: &Ident) -> Option<&str> {
        let listed = self.arguments.iter().find(|listed| name.unraw() == listed.name.as_str())?;
        Some(&listed.text).filter(|text| !text.is_empty()).map(String::as_str)
    }

    /// Returns each name in the `# Arguments` list, with the doc comment that contains it. Errors
    /// about the name point to the span of this doc comment.
    pub(crate) fn listed_arguments(&self) -> impl Iterator<Item = (&str, &Expr)> {
        self.arguments.iter().map(|listed| (listed.name.as_str(), &listed.place))
    }

    fn joined_by_compiler(&self) -> TokenStream {
        let pieces = self
            .pieces
            .iter()
            .map(|piece| literal_text(piece).map_or_else(|| quote!(#piece), |text| quote!(#text)));
        quote!(::core::concat!(#(#pieces, "\n"),*).trim())
    }
}

/// Returns `true` if `attribute` is a doc comment such as `///`, or a `#[doc = …]` attribute.
pub(crate) fn is_doc(attribute: &Attribute) -> bool {
    doc_value(attribute).is_some()
}

/// Returns the value of a `#[doc = …]` attribute, or `None` for `#[doc(hidden)]` and other
/// attributes.
fn doc_value(attribute: &Attribute) -> Option<&Expr> {
    match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => Some(&meta.value),
        _ => None,
    }
}

fn literal_text(piece: &Expr) -> Option<String> {
    match piece {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(unindented(&text.value())),
        _ => None,
    }
}

/// Removes the indentation of a doc comment: one leading space per line, and the leading `*` of the
/// lines in a block comment.
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
