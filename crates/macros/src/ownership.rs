//! Types that borrow, and those to use in their place.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{GenericArgument, PathArguments, Type, TypePath, TypeReference, parse_quote};

/// Whether a type is a path that ends in `name`, also behind a reference.
pub(crate) fn is_named(ty: &Type, name: &str) -> bool {
    match ty {
        Type::Path(path) => path.path.segments.last().is_some_and(|segment| segment.ident == name),
        Type::Reference(reference) => is_named(&reference.elem, name),
        _ => false,
    }
}

/// Whether a type is a reference.
pub(crate) fn is_reference(ty: &Type) -> bool {
    matches!(ty, Type::Reference(_))
}

/// Whether a value of the type borrows from somewhere; what is `'static` in a path does not.
pub(crate) fn borrows(ty: &Type) -> bool {
    has_borrow(ty.to_token_stream())
}

/// Whether a type is a reference to what lives as long as the program.
pub(crate) fn is_static(reference: &TypeReference) -> bool {
    reference.lifetime.as_ref().is_some_and(|lifetime| lifetime.ident == "static")
}

fn has_borrow(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        let borrows = match token {
            TokenTree::Group(group) => has_borrow(group.stream()),
            TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                !matches!(tokens.next(), Some(TokenTree::Ident(lifetime)) if lifetime == "static")
            }
            TokenTree::Punct(punct) => punct.as_char() == '&',
            TokenTree::Ident(_) | TokenTree::Literal(_) => false,
        };
        if borrows {
            return true;
        }
    }
    false
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
        Type::Path(path) => Type::Path(with_owned_arguments(path)),
        other => other,
    }
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
