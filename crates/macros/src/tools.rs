//! Expansion of `#[tools]` on an `impl` block.

use std::collections::HashSet;

use proc_macro2::{Group, Spacing, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::{
    Attribute, Error, Generics, ImplItem, Meta, Path, Result, Token, Type, braced,
    ext::IdentExt,
    parse::{Parse, ParseStream},
    parse_quote,
};

use crate::{
    check, error_expansion,
    errors::Errors,
    expand,
    function::Function,
    name::pascal_case,
    options::Options,
    settings::Settings,
    tool::{ImplType, Tool},
};

/// A parsed `impl` block.
struct ImplBlock {
    attributes: Vec<Attribute>,
    generics: Generics,
    ty: Type,
    items: Vec<Item>,
}

enum Item {
    Tool { options: TokenStream, function: Box<Function> },
    Other(Box<ImplItem>),
}

/// Expands `#[tools]` on an `impl` block: generates the block and its tools, or the compile errors
/// and a fallback.
pub(crate) fn derive(options: TokenStream, item: TokenStream) -> TokenStream {
    let block = match syn::parse2::<ImplBlock>(item.clone()) {
        Ok(block) => block,
        Err(error) => {
            let error = error.into_compile_error();
            return quote!(#item #error);
        }
    };
    let mut errors = Errors::default();
    let krate = crate_path(options, &mut errors);
    let ImplBlock { attributes, generics, ty, items } = block;
    if !generics.params.is_empty() {
        errors.add_at(
            &generics.params,
            "a model gives JSON and no types: write the types out instead of generics",
        );
    }
    let (mut tools, mut body) = (Vec::new(), Vec::new());
    for item in items {
        match item {
            Item::Other(item) => body.push(item.to_token_stream()),
            Item::Tool { options, function } => {
                let name = pascal_case(&function.signature.ident.unraw().to_string());
                let type_name = format_ident!("{name}{}", tools.len(), span = Span::mixed_site());
                let owner = ImplType { ty: ty.clone(), type_name };
                let mut tool = Tool::read(options, *function, Some(owner), &mut errors);
                tool.options.krate.get_or_insert_with(|| krate.clone());
                check::check(&tool, &mut errors);
                body.push(tool.function.to_token_stream());
                tools.push(tool);
            }
        }
    }
    check_unique_names(&tools, &mut errors);
    if tools.is_empty() {
        errors.add_at(&ty, "no function of this block is a tool: put `#[tool]` on those that are");
    }
    let where_clause = &generics.where_clause;
    let block = quote! {
        #(#attributes)*
        // The functions may take their arguments by value and only read them, because the generated
        // code deserializes new values for each call.
        #[allow(clippy::needless_pass_by_value)]
        impl #generics #ty #where_clause { #(#body)* }
    };
    match errors.finish() {
        Ok(()) => expand_block(&krate, &ty, &block, &tools),
        Err(error) => {
            let error = error.to_compile_error();
            let types = tools.iter().map(|tool| {
                let (conditions, types) =
                    (tool.function.cfg_attributes(), error_expansion::require_trait_bounds(tool));
                quote!(#(#conditions)* const _: () = { #types };)
            });
            let types = generics.params.is_empty().then(|| quote!(#(#types)*));
            // An `IntoTools` implementation that panics. It prevents follow-up errors in code that
            // uses the tools.
            quote! {
                #error
                #block
                #types
                impl #generics #krate::__private::IntoTools for #ty #where_clause {
                    fn into_tools(self) -> ::std::vec::Vec<::std::sync::Arc<dyn #krate::__private::Tool>> {
                        ::core::unimplemented!()
                    }
                }
            }
        }
    }
}

fn crate_path(options: TokenStream, errors: &mut Errors) -> Path {
    let settings = errors.ok_or_record(syn::parse2::<Settings>(options)).unwrap_or_default();
    for setting in settings.0.iter().filter(|setting| setting.key != "crate") {
        let key = &setting.key;
        errors.add_at(
            key,
            format!("`#[tools]` has no option `{key}`, only `crate`: options of a tool go on its `#[tool]`"),
        );
    }
    Options::read(settings, &mut Errors::default()).krate.unwrap_or_else(|| parse_quote!(::haft_core))
}

fn check_unique_names(tools: &[Tool], errors: &mut Errors) {
    let mut seen = HashSet::new();
    for tool in tools {
        let name = tool.name();
        if !seen.insert(name.clone()) {
            errors.add_at(
                tool.function_name(),
                format!("two tools of this block are named `{name}`: give one another name, by `#[tool(name = \"…\")]`"),
            );
        }
    }
}

fn expand_block(krate: &Path, ty: &Type, block: &TokenStream, tools: &[Tool]) -> TokenStream {
    let implementations = tools.iter().map(|tool| {
        let (conditions, name) = (tool.function.cfg_attributes(), tool.type_name());
        let implementation = expand::expand_tool_impls(tool);
        quote! {
            #(#conditions)*
            const _: () = { #implementation };
            #[derive(::core::clone::Clone)]
            struct #name(::std::sync::Arc<#ty>);
        }
    });
    let pushes = tools.iter().map(|tool| {
        let (conditions, name) = (tool.function.cfg_attributes(), tool.type_name());
        quote!(#(#conditions)* tools.push(::std::sync::Arc::new(#name(::core::clone::Clone::clone(&shared))));)
    });
    quote! {
        #block
        #[allow(deprecated, dead_code, clippy::needless_update, clippy::unused_unit, clippy::vec_init_then_push)]
        const _: () = {
            #(#implementations)*

            impl #krate::__private::ToolMethods for #ty {
                fn tools(shared: ::std::sync::Arc<Self>) -> ::std::vec::Vec<::std::sync::Arc<dyn #krate::__private::Tool>> {
                    let mut tools: ::std::vec::Vec<::std::sync::Arc<dyn #krate::__private::Tool>> = ::std::vec::Vec::new();
                    #(#pushes)*
                    tools
                }
            }

            impl #krate::__private::IntoTools for #ty {
                fn into_tools(self) -> ::std::vec::Vec<::std::sync::Arc<dyn #krate::__private::Tool>> {
                    <Self as #krate::__private::ToolMethods>::tools(::std::sync::Arc::new(self))
                }
            }
        };
    }
}

impl Parse for ImplBlock {
    fn parse(input: ParseStream) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        if !input.peek(Token![impl]) {
            return Err(
                input.error("`#[tools]` goes on an `impl` block; a function outside of one takes `#[tool]`")
            );
        }
        input.parse::<Token![impl]>()?;
        let mut generics: Generics = input.parse()?;
        let ty: Type = input.parse()?;
        if input.peek(Token![for]) {
            return Err(input.error("`#[tools]` goes on an `impl` block of the type itself, not of a trait"));
        }
        generics.where_clause = input.parse()?;
        let content;
        braced!(content in input);
        let name = ty.to_token_stream();
        let mut items = Vec::new();
        while !content.is_empty() {
            items.push(parse_item(&content, &name)?);
        }
        Ok(Self { attributes, generics, ty, items })
    }
}

/// Parses one item of an `impl` block. In the signatures and options of tools, `Self` is replaced
/// by `ty`, the type of the block.
fn parse_item(content: ParseStream, ty: &TokenStream) -> Result<Item> {
    if !content.fork().call(Attribute::parse_outer)?.iter().any(is_tool_attribute) {
        return content.parse().map(|item| Item::Other(Box::new(item)));
    }
    let mut function: Function = content.parse()?;
    let mut options = TokenStream::new();
    for attribute in function.attributes.extract_if(.., |attribute| is_tool_attribute(attribute)) {
        options.extend(match attribute.meta {
            Meta::Path(_) => TokenStream::new(),
            Meta::List(list) => list.tokens,
            Meta::NameValue(meta) => {
                return Err(Error::new_spanned(meta, "options go in parentheses: `#[tool(…)]`"));
            }
        });
    }
    // The code that calls the function is generated outside the `impl` block, where `Self` would be
    // a different type.
    let signature = replace_self(function.signature.to_token_stream(), ty);
    function.signature = syn::parse2(signature)?;
    Ok(Item::Tool { options: replace_self(options, ty), function: Box::new(function) })
}

fn is_tool_attribute(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|segment| segment.ident == "tool")
}

/// Replaces `Self` in `tokens` with `ty`. If `::` follows, `ty` is put in angle brackets, as in
/// `<T<u8>>::NAME`.
fn replace_self(tokens: TokenStream, ty: &TokenStream) -> TokenStream {
    let mut tokens = tokens.into_iter().peekable();
    let mut replaced = TokenStream::new();
    while let Some(token) = tokens.next() {
        let is_path_start = matches!(tokens.peek(), Some(TokenTree::Punct(punct)) if punct.as_char() == ':' && punct.spacing() == Spacing::Joint);
        replaced.extend(match token {
            TokenTree::Ident(name) if name == "Self" && is_path_start => quote!(<#ty>),
            TokenTree::Ident(name) if name == "Self" => ty.clone(),
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), replace_self(group.stream(), ty));
                inner.set_span(group.span());
                TokenTree::Group(inner).into()
            }
            other => other.into(),
        });
    }
    replaced
}
