//! Doc comments as text for a model.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// The doc comments of an item.
pub(crate) struct Docs(Vec<Expr>);

impl Docs {
    /// Reads the doc comments among some attributes.
    pub(crate) fn of(attributes: &[Attribute]) -> Self {
        Self(attributes.iter().filter_map(value).cloned().collect())
    }

    /// The text as an expression, or `None` where there is none.
    ///
    /// What is known now is trimmed now. A piece that is a macro, such as `include_str!`, is put in its place by the
    /// compiler.
    pub(crate) fn text(&self) -> Option<TokenStream> {
        let literals: Option<Vec<String>> = self.0.iter().map(literal).collect();
        let Some(lines) = literals else { return Some(self.joined_by_compiler()) };
        let text = lines.join("\n");
        let text = text.trim();
        (!text.is_empty()).then(|| quote!(#text))
    }

    fn joined_by_compiler(&self) -> TokenStream {
        let pieces =
            self.0.iter().map(|piece| literal(piece).map_or_else(|| quote!(#piece), |text| quote!(#text)));
        quote!(::core::concat!(#(#pieces, "\n"),*).trim())
    }
}

/// Whether an attribute is a doc comment.
pub(crate) fn is_doc(attribute: &Attribute) -> bool {
    value(attribute).is_some()
}

/// `…` of `#[doc = …]`; `#[doc(hidden)]` and the like are none.
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

/// A comment without the space, or the star, that its lines begin with.
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
