//! The parsed form of a function with the `#[tool]` attribute.

use proc_macro2::{Group, TokenStream};
use quote::ToTokens;
use syn::{
    Attribute, Error, Expr, Meta, MetaNameValue, Result, Signature, Token, Visibility,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
};

/// A parsed function. The body is not parsed, because it may be incomplete while the user is
/// typing.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    body: Group,
}

impl Function {
    /// Returns the `#[cfg]` attributes of the function.
    pub(crate) fn cfg_attributes(&self) -> impl Iterator<Item = &Attribute> {
        self.attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"))
    }
}

impl Function {
    /// Returns the note of Rust's `#[deprecated]` attribute. Returns `None` if the function has no
    /// `#[deprecated]` attribute, and `Some(None)` if the attribute has no note.
    pub(crate) fn deprecation(&self) -> Option<Option<Expr>> {
        let attribute = self.attributes.iter().find(|attribute| attribute.path().is_ident("deprecated"))?;
        Some(match &attribute.meta {
            Meta::Path(_) => None,
            Meta::NameValue(meta) => Some(meta.value.clone()),
            Meta::List(list) => {
                let pairs = list.parse_args_with(Punctuated::<MetaNameValue, Token![,]>::parse_terminated);
                let note = |pair: MetaNameValue| pair.path.is_ident("note").then_some(pair.value);
                pairs.ok().and_then(|pairs| pairs.into_iter().find_map(note))
            }
        })
    }
}

impl Parse for Function {
    fn parse(input: ParseStream) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        let rest = input.fork();
        let signature = input.parse().map_err(|error| {
            if is_function(&rest) { error } else { rest.error("`#[tool]` goes on a function") }
        })?;
        let body = input.parse().map_err(|error| {
            Error::new(error.span(), "a tool does the work itself: give the function a body")
        })?;
        Ok(Self { attributes, visibility, signature, body })
    }
}

fn is_function(item: ParseStream) -> bool {
    item.peek(Token![fn])
        || item.peek(Token![async])
        || item.peek(Token![unsafe]) && item.peek2(Token![fn])
        || item.peek(Token![const]) && item.peek2(Token![fn])
        || item.peek(Token![extern])
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(self.attributes.iter().map(ToTokens::to_token_stream));
        self.visibility.to_tokens(tokens);
        self.signature.to_tokens(tokens);
        self.body.to_tokens(tokens);
    }
}
