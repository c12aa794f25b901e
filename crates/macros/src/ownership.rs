//! Detection of types that borrow, and conversion to the owned types that error messages suggest.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{GenericArgument, PathArguments, Type, TypePath, parse_quote};

/// Returns `true` if `ty` is a path that ends in `name`, or a reference to such a type.
pub(crate) fn is_named(ty: &Type, name: &str) -> bool {
    match ty {
        Type::Path(path) => path.path.segments.last().is_some_and(|segment| segment.ident == name),
        Type::Reference(reference) => is_named(&reference.elem, name),
        Type::Group(group) => is_named(&group.elem, name),
        _ => false,
    }
}

/// Returns `true` if `ty` is a reference.
pub(crate) fn is_reference(ty: &Type) -> bool {
    matches!(ty, Type::Reference(_))
}

/// Removes the invisible group that `macro_rules!` puts around a type fragment. Returns other types
/// unchanged.
pub(crate) fn without_group(ty: Type) -> Type {
    match ty {
        Type::Group(group) => without_group(*group.elem),
        other => other,
    }
}

/// Returns `true` if `tokens` contain the identifier `name`. Identifiers after `::`, as in
/// `api::name`, are ignored, because they refer to another item.
pub(crate) fn mentions(tokens: TokenStream, name: &str) -> bool {
    let mut colons = 0;
    tokens.into_iter().any(|token| {
        let is_in_path = colons > 1;
        colons =
            if matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ':') { colons + 1 } else { 0 };
        match token {
            TokenTree::Group(group) => mentions(group.stream(), name),
            TokenTree::Ident(ident) => ident == name && !is_in_path,
            TokenTree::Punct(_) | TokenTree::Literal(_) => false,
        }
    })
}

/// Returns `true` if `ty` contains a reference, a lifetime other than `'static`, or a `Cow` without
/// a lifetime. For example, returns `true` for `&'static str`, and `false` for `Cow<'static, str>`.
pub(crate) fn borrows(ty: &Type) -> bool {
    has_borrow(ty.to_token_stream(), |_lifetime| true)
}

/// Returns `true` if `ty` contains a borrow other than a `'static` reference. Unlike [`borrows`],
/// returns `false` for `&'static str`.
pub(crate) fn borrows_non_static(ty: &Type) -> bool {
    has_borrow(ty.to_token_stream(), |lifetime| !is_static_lifetime(lifetime))
}

/// Returns `true` if `tokens`, the tokens of a type, contain a borrow. A reference counts as a
/// borrow if `is_borrow` returns `true` for the tokens after `&`.
fn has_borrow(tokens: TokenStream, is_borrow: fn(&[TokenTree]) -> bool) -> bool {
    let tokens: Vec<_> = tokens.into_iter().collect();
    tokens.iter().enumerate().any(|(at, token)| {
        let rest = tokens.get(at + 1..).unwrap_or_default();
        match token {
            TokenTree::Group(group) => has_borrow(group.stream(), is_borrow),
            TokenTree::Punct(punct) if punct.as_char() == '&' => is_borrow(rest),
            TokenTree::Punct(punct) => punct.as_char() == '\'' && !is_static_name(rest),
            // A `Cow` with an elided lifetime also borrows.
            TokenTree::Ident(name) if name == "Cow" => {
                is_punct(rest.first(), '<') && !is_punct(rest.get(1), '\'')
            }
            TokenTree::Ident(_) | TokenTree::Literal(_) => false,
        }
    })
}

fn is_static_lifetime(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [apostrophe, rest @ ..] if is_punct(Some(apostrophe), '\'') && is_static_name(rest))
}

fn is_static_name(tokens: &[TokenTree]) -> bool {
    matches!(tokens.first(), Some(TokenTree::Ident(name)) if name == "static")
}

fn is_punct(token: Option<&TokenTree>, c: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == c)
}

/// Returns the owned form of `ty` as source text, for example `String` for `&str`.
pub(crate) fn owned_type_text(ty: &Type) -> String {
    source_text(&without_references(ty.clone()))
}

/// Formats `ty` as source text for error messages, without most of the spaces that `TokenStream`
/// puts between tokens.
pub(crate) fn source_text(ty: &Type) -> String {
    let tokens = ty.to_token_stream().to_string();
    [(" < ", "<"), (" >", ">"), (" :: ", "::"), (" ,", ","), ("& ", "&"), ("[ ", "["), (" ]", "]")]
        .iter()
        .fold(tokens, |text, (from, to)| text.replace(from, to))
}

fn without_references(ty: Type) -> Type {
    match ty {
        Type::Reference(reference) => owned_form(*reference.elem),
        Type::Path(path) => owned_by_cow(&path).unwrap_or_else(|| Type::Path(with_owned_arguments(path))),
        other => other,
    }
}

/// Returns the owned form of a `Cow`, for example `String` for `Cow<'_, str>`. Returns `None` if
/// `path` is another type.
fn owned_by_cow(path: &TypePath) -> Option<Type> {
    let last = path.path.segments.last().filter(|segment| segment.ident == "Cow")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(borrowed) => Some(owned_form(borrowed.clone())),
        _ => None,
    })
}

fn owned_form(borrowed: Type) -> Type {
    match borrowed {
        Type::Slice(slice) => {
            let item = without_references(*slice.elem);
            parse_quote!(Vec<#item>)
        }
        other if is_named(&other, "str") => parse_quote!(String),
        other if is_named(&other, "Path") => parse_quote!(PathBuf),
        other => without_references(other),
    }
}

fn with_owned_arguments(mut path: TypePath) -> TypePath {
    for segment in &mut path.path.segments {
        if let PathArguments::AngleBracketed(arguments) = &mut segment.arguments {
            for argument in &mut arguments.args {
                if let GenericArgument::Type(ty) = argument {
                    *ty = without_references(ty.clone());
                }
            }
        }
    }
    path
}

#[cfg(test)]
mod tests;
