//! The code of a tool: the function, a type beside it, and how that type is a tool.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Expr, ExprLit, Ident, Lit, Path, ext::IdentExt, spanned::Spanned};

use crate::{
    options::{Annotations, Policy},
    ownership::is_reference,
    parameter::{Argument, Constraints, DefaultValue, Parameter, Role},
    settings::Bounds,
    tool::{Owner, Shared, Tool},
};

/// Writes the code of a tool without mistakes.
pub(crate) fn expand(tool: &Tool) -> TokenStream {
    let function = &tool.function;
    let marker = marker(tool);
    let conditions = function.conditions();
    let implementation = implementation(tool);
    quote! {
        // What a model gives is owned, also where the function only reads it.
        #[allow(clippy::needless_pass_by_value)]
        #function
        #marker
        #(#conditions)*
        #[allow(deprecated, clippy::needless_update, clippy::unused_unit)]
        const _: () = {
            #implementation
        };
    }
}

/// The type that is the tool.
pub(crate) fn marker(tool: &Tool) -> TokenStream {
    let conditions = tool.function.conditions();
    let visibility = &tool.function.visibility;
    let name = tool.type_name();
    let docs = format!(" The tool that calls [`{0}`](fn@{0}).", tool.function_name());
    quote! {
        #[doc = #docs]
        #(#conditions)*
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug, ::core::default::Default)]
        #visibility struct #name;
    }
}

pub(crate) fn implementation(tool: &Tool) -> TokenStream {
    let krate = tool.krate();
    let name = tool.type_name();
    let function = function(tool);
    let definition = definition(tool);
    let arguments = Ident::new("arguments", Span::mixed_site());
    let cx = Ident::new("cx", Span::mixed_site());
    quote! {
        #function

        #[#krate::async_trait]
        impl #krate::Tool for #name {
            fn definition(&self) -> &#krate::ToolDefinition {
                static DEFINITION: ::std::sync::LazyLock<#krate::ToolDefinition> =
                    ::std::sync::LazyLock::new(|| #definition);
                &DEFINITION
            }

            async fn call(
                &self,
                #arguments: #krate::Value,
                #cx: &#krate::ToolContext,
            ) -> ::core::result::Result<#krate::ToolOutcome, #krate::ToolError> {
                #krate::__private::call(self, #arguments, #cx).await
            }
        }
    }
}

/// What was found out about the function.
fn function(tool: &Tool) -> TokenStream {
    let krate = tool.krate();
    let type_name = tool.type_name();
    let name = tool.name();
    let output = tool.output();
    let types = list(tool.arguments().map(|(parameter, _)| parameter.ty.to_token_stream()));
    let parameters = list(tool.arguments().map(|(parameter, argument)| described(tool, parameter, argument)));
    let call = call(tool);
    quote! {
        impl #krate::__private::Function for #type_name {
            const NAME: &'static str = #name;
            type Arguments = #types;
            type Output = #output;

            fn parameters() -> impl #krate::__private::Parameters<Values = Self::Arguments> {
                #parameters
            }

            #call
        }
    }
}

/// `(first, (second, ()))`.
fn list(items: impl DoubleEndedIterator<Item = TokenStream>) -> TokenStream {
    items.rfold(quote!(()), |rest, first| quote!((#first, #rest)))
}

/// A parameter as the core wants it described.
fn described(tool: &Tool, parameter: &Parameter, argument: &Argument) -> TokenStream {
    let krate = tool.krate();
    let ty = &parameter.ty;
    let name = parameter.given_name(argument);
    let by_hand = argument.description.as_ref().map(ToTokens::to_token_stream);
    let of_list = || tool.docs.of_argument(&parameter.name).map(|text| quote!(#text));
    let description = by_hand.or_else(|| argument.docs.text()).or_else(of_list);
    let description = description.map(|text| quote!(.describe(#text)));
    let constraints = constraints(&krate, &argument.constraints);
    let flatten = argument.flatten.as_ref().map(|_| quote!(.flatten()));
    let default = argument.default.as_ref().map(|default| {
        let make = default_value(default);
        quote! {
            .default(|| #make, |value| {
                #[allow(unused_imports)]
                use #krate::__private::Hidden as _;
                #krate::__private::Shown::<#ty>(value).value()
            })
        }
    });
    match tool.options.schema {
        None => {
            quote!(#krate::__private::argument::<#ty>(#name) #description #default #constraints #flatten)
        }
        Some(_) => quote!(#krate::__private::undescribed::<#ty>(#name) #default #flatten),
    }
}

/// What narrows the schema of a parameter.
fn constraints(krate: &Path, constraints: &Constraints) -> Option<TokenStream> {
    let Constraints { range, length, pattern, format, examples } = constraints;
    let value = |value: &Expr| quote_spanned!(value.span()=> #krate::json!(#value));
    let keyword = |name: &str, it: &Expr| {
        let value = value(it);
        quote!(schema.keyword(#name, #value);)
    };
    let range = range.iter().flat_map(|(_, Bounds { start, end, is_open })| {
        let most = if *is_open { "exclusiveMaximum" } else { "maximum" };
        let least = start.iter().map(|start| keyword("minimum", start));
        least.chain(end.iter().map(|end| keyword(most, end))).collect::<Vec<_>>()
    });
    let length = length.iter().map(|(_, Bounds { start, end, is_open })| {
        let least = start.as_ref().map_or_else(|| quote!(0), ToTokens::to_token_stream);
        let most = match end {
            None => quote!(::core::option::Option::None),
            Some(end) if *is_open => quote!(::core::option::Option::Some((#end) - 1)),
            Some(end) => quote!(::core::option::Option::Some(#end)),
        };
        quote!(schema.length(#least, #most);)
    });
    let keywords = [("pattern", pattern), ("format", format), ("examples", examples)];
    let keywords =
        keywords.into_iter().filter_map(|(name, given)| given.as_ref().map(|(_, it)| keyword(name, it)));
    let all: Vec<TokenStream> = range.chain(length).chain(keywords).collect();
    (!all.is_empty()).then(|| quote!(.constrain(|schema| { #(#all)* })))
}

fn default_value(default: &DefaultValue) -> TokenStream {
    match default {
        DefaultValue::OfType => quote!(::core::default::Default::default()),
        // So that a text may be the default of a `String`.
        DefaultValue::Value(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) => {
            quote_spanned!(text.span()=> ::core::convert::Into::into(#text))
        }
        DefaultValue::Value(value) => value.to_token_stream(),
    }
}

fn definition(tool: &Tool) -> TokenStream {
    let krate = tool.krate();
    let type_name = tool.type_name();
    let definition = match &tool.options.schema {
        None => quote!(#krate::__private::definition::<#type_name>()),
        Some(schema) => quote!(#krate::__private::definition_by_hand::<#type_name>(#schema)),
    };
    let title = tool.options.title.as_ref().map(|title| quote!(.with_title(#title)));
    let text = tool.options.description.as_ref().map(ToTokens::to_token_stream).or_else(|| tool.docs.text());
    let text = text.map(|text| quote!(.with_description(#text)));
    let policy = policy(tool).map(|policy| quote!(.with_policy(#policy)));
    let annotations = annotations(tool).map(|annotations| quote!(.with_annotations(#annotations)));
    let deprecation = deprecation(tool).map(|deprecation| quote!(.with_deprecation(#deprecation)));
    let state = tool.states().map(|state| &state.ty);
    quote! {
        #definition #title #text #policy #annotations #deprecation
            #(.with_state(#krate::StateType::of::<#state>()))*
    }
}

fn policy(tool: &Tool) -> Option<TokenStream> {
    let krate = tool.krate();
    let Policy { timeout, retries, output_limit, requires_approval, sequential, requires_scope } =
        &tool.options.policy;
    let idempotent = &tool.options.annotations.idempotent;
    let values = [
        ("timeout", timeout),
        ("retries", retries),
        ("output_limit", output_limit),
        ("idempotent", idempotent),
    ];
    let flags = [requires_approval, sequential].into_iter().flatten().map(|flag| quote!(#flag: true));
    let scopes = (!requires_scope.is_empty())
        .then(|| quote!(required_scopes: ::std::vec![#(::core::convert::Into::into(#requires_scope)),*]));
    let given: Vec<TokenStream> =
        fields(values, ToTokens::to_token_stream).chain(flags).chain(scopes).collect();
    (!given.is_empty()).then(|| {
        quote! {
            #krate::Policy { #(#given,)* ..::core::default::Default::default() }
        }
    })
}

fn annotations(tool: &Tool) -> Option<TokenStream> {
    let krate = tool.krate();
    let Annotations { read_only, destructive, idempotent, open_world } = &tool.options.annotations;
    let values = [
        ("read_only", read_only),
        ("destructive", destructive),
        ("idempotent", idempotent),
        ("open_world", open_world),
    ];
    let given: Vec<TokenStream> =
        fields(values, |value| quote!(::core::option::Option::Some(#value))).collect();
    (!given.is_empty()).then(|| {
        quote! {
            #krate::Annotations { #(#given,)* ..::core::default::Default::default() }
        }
    })
}

/// The fields of a struct that are given.
fn fields<'a, const N: usize>(
    values: [(&'static str, &'a Option<Expr>); N],
    written: impl Fn(&Expr) -> TokenStream + 'a,
) -> impl Iterator<Item = TokenStream> + 'a {
    values.into_iter().filter_map(move |(field, value)| {
        let (field, value) = (format_ident!("{field}"), written(value.as_ref()?));
        Some(quote!(#field: #value))
    })
}

/// That the tool should no longer be used, by its own option or by Rust's attribute.
fn deprecation(tool: &Tool) -> Option<TokenStream> {
    let krate = tool.krate();
    let note = match &tool.options.deprecated {
        Some(note) => note.clone(),
        None => tool.function.deprecation()?,
    };
    let some = |value: &Expr| quote!(::core::option::Option::Some(::core::convert::Into::into(#value)));
    let none = || quote!(::core::option::Option::None);
    let note = note.as_ref().map_or_else(none, some);
    let replacement = tool.options.replaced_by.as_ref().map_or_else(none, some);
    Some(quote!(#krate::Deprecation { replacement: #replacement, note: #note }))
}

/// The method that calls the function with what its parameters ask for.
fn call(tool: &Tool) -> TokenStream {
    let krate = tool.krate();
    // Where the compiler says that the future cannot be sent.
    let place = tool.function_name().span();
    let cx = Ident::new("cx", Span::mixed_site());
    let arguments = list(tool.arguments().map(|(parameter, _)| local(&parameter.name).to_token_stream()));
    let states = tool.states().map(|Parameter { name, ty, .. }| {
        let state = local(name);
        quote_spanned!(ty.span()=> let #state = #cx.ready_state::<#ty>().await?;)
    });
    let work = work(tool, &cx);
    quote_spanned! {place=>
        async fn call(
            &self,
            #arguments: <Self as #krate::__private::Function>::Arguments,
            #cx: &#krate::ToolContext,
        ) -> ::core::result::Result<<Self as #krate::__private::Function>::Output, #krate::ToolError> {
            #(#states)*
            #work
        }
    }
}

/// The call itself, as a `Result` of what it returns.
fn work(tool: &Tool, cx: &Ident) -> TokenStream {
    let krate = tool.krate();
    let function = tool.function_name();
    let values = tool.parameters.iter().map(|parameter| value(parameter, cx));
    let wait = tool.function.signature.asyncness.map(|_| quote!(.await));
    let shared = Ident::new("shared", Span::mixed_site());
    let value = match tool.shared() {
        None => None,
        Some(Shared::Borrowed) => Some(quote!(&**#shared)),
        Some(Shared::Counted) => Some(quote!(::std::sync::Arc::clone(#shared))),
    };
    let arguments = value.into_iter().chain(values);
    let call = match &tool.owner {
        None => quote!(#function(#(#arguments),*) #wait),
        Some(Owner { ty, .. }) => quote!(<#ty>::#function(#(#arguments),*) #wait),
    };
    let (get, lend) = match tool.shared() {
        None => (None, None),
        Some(_) => (
            Some(quote!(let #shared = ::std::sync::Arc::clone(&self.0);)),
            Some(quote!(let #shared = &#shared;)),
        ),
    };
    match tool.options.blocking {
        Some(_) => quote! {
            let #cx = ::core::clone::Clone::clone(#cx);
            #get
            #krate::__private::blocking(move || {
                let #cx = &#cx;
                #lend
                #call
            })
            .await
        },
        None => quote! {
            #get
            #lend
            ::core::result::Result::Ok(#call)
        },
    }
}

fn value(Parameter { name, ty, role }: &Parameter, cx: &Ident) -> TokenStream {
    let mut context = cx.clone();
    context.set_span(cx.span().located_at(ty.span()));
    match role {
        Role::Argument(_) | Role::State => local(name).to_token_stream(),
        Role::Context if is_reference(ty) => context.to_token_stream(),
        Role::Context => quote_spanned!(ty.span()=> ::core::clone::Clone::clone(#context)),
    }
}

/// The variable that holds the value of a parameter. Nothing of the user's can see it, or be hidden by it.
fn local(parameter: &Ident) -> Ident {
    format_ident!("of_{}", parameter.unraw(), span = Span::mixed_site())
}
