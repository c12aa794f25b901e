//! Types that borrow, and those to use in their place.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{GenericArgument, PathArguments, Type, TypePath, parse_quote};

/// Whether a type is a path that ends in `name`, also behind a reference.
pub(crate) fn is_named(ty: &Type, name: &str) -> bool {
    match ty {
        Type::Path(path) => path.path.segments.last().is_some_and(|segment| segment.ident == name),
        Type::Reference(reference) => is_named(&reference.elem, name),
        Type::Group(group) => is_named(&group.elem, name),
        _ => false,
    }
}

/// Whether a type is a reference.
pub(crate) fn is_reference(ty: &Type) -> bool {
    matches!(ty, Type::Reference(_))
}

/// What a `macro_rules!` macro handed over as one piece.
pub(crate) fn ungrouped(ty: Type) -> Type {
    match ty {
        Type::Group(group) => ungrouped(*group.elem),
        other => other,
    }
}

/// Whether some tokens have a name that stands for itself, and not at the end of a path.
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

/// Whether a value of the type borrows from somewhere; what is `'static` in a path does not.
pub(crate) fn borrows(ty: &Type) -> bool {
    has_borrow(ty.to_token_stream(), |_lifetime| true)
}

/// Whether a value of the type may borrow from what does not live as long as the program.
pub(crate) fn is_short_lived(ty: &Type) -> bool {
    has_borrow(ty.to_token_stream(), |lifetime| !is_static_lifetime(lifetime))
}

/// Whether some tokens of a type borrow; of a reference, what follows its `&` decides.
fn has_borrow(tokens: TokenStream, is_borrow: fn(&[TokenTree]) -> bool) -> bool {
    let tokens: Vec<_> = tokens.into_iter().collect();
    tokens.iter().enumerate().any(|(at, token)| {
        let rest = tokens.get(at + 1..).unwrap_or_default();
        match token {
            TokenTree::Group(group) => has_borrow(group.stream(), is_borrow),
            TokenTree::Punct(punct) if punct.as_char() == '&' => is_borrow(rest),
            TokenTree::Punct(punct) => punct.as_char() == '\'' && !is_static_name(rest),
            // Without its lifetime.
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

/// The type that owns what `ty` borrows, as a user would write it.
pub(crate) fn owned(ty: &Type) -> String {
    written(&without_references(ty.clone()))
}

/// A type as a user would write it.
pub(crate) fn written(ty: &Type) -> String {
    let tokens = ty.to_token_stream().to_string();
    [(" < ", "<"), (" >", ">"), (" :: ", "::"), (" ,", ","), ("& ", "&"), ("[ ", "["), (" ]", "]")]
        .iter()
        .fold(tokens, |text, (from, to)| text.replace(from, to))
}

fn without_references(ty: Type) -> Type {
    match ty {
        Type::Reference(reference) => owner_of(*reference.elem),
        Type::Path(path) => owned_by_cow(&path).unwrap_or_else(|| Type::Path(with_owned_arguments(path))),
        other => other,
    }
}

/// `String` for `Cow<'_, str>`.
fn owned_by_cow(path: &TypePath) -> Option<Type> {
    let last = path.path.segments.last().filter(|segment| segment.ident == "Cow")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(borrowed) => Some(owner_of(borrowed.clone())),
        _ => None,
    })
}

fn owner_of(borrowed: Type) -> Type {
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
