//! The code of a tool: the function, a type beside it, and how that type is a tool.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Expr, ExprLit, Ident, Lit, ext::IdentExt, spanned::Spanned};

use crate::{
    options::Policy,
    ownership::is_reference,
    parameter::{DefaultValue, Parameter, Role},
    tool::Tool,
};

/// Writes the code of a tool without mistakes.
pub(crate) fn expand(tool: &Tool) -> TokenStream {
    let function = &tool.function;
    let marker = marker(tool);
    let conditions = function.conditions();
    let arguments = arguments(tool);
    let implementation = implementation(tool);
    quote! {
        #function
        #marker
        #(#conditions)*
        #[allow(deprecated, non_snake_case, unused_variables)]
        const _: () = {
            #arguments
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

/// The type that the arguments are read into, and the functions that give its defaults.
fn arguments(tool: &Tool) -> TokenStream {
    if !tool.has_arguments() {
        return TokenStream::new();
    }
    let krate = tool.krate();
    let fields = tool.arguments().map(|argument| field(tool, argument));
    let defaults = tool.arguments().filter_map(default_function);
    let serde = path_text(&quote!(#krate::__private::serde));
    let schemars = path_text(&quote!(#krate::__private::schemars));
    let schema = tool.options.schema.is_none().then(|| {
        quote! {
            #[derive(#krate::__private::schemars::JsonSchema)]
            #[schemars(crate = #schemars)]
        }
    });
    quote! {
        #[derive(#krate::__private::serde::Deserialize)]
        #[serde(crate = #serde, deny_unknown_fields)]
        #schema
        struct __Arguments {
            #(#fields,)*
        }
        #(#defaults)*
    }
}

fn field(tool: &Tool, Parameter { name, ty, role }: &Parameter) -> TokenStream {
    let Role::Argument { docs, default } = role else { return TokenStream::new() };
    let description = docs.text().filter(|_| tool.options.schema.is_none());
    let description = description.map(|text| quote!(#[schemars(description = #text)]));
    let default = default.as_ref().map(|default| match default {
        DefaultValue::OfType => quote!(#[serde(default)]),
        DefaultValue::Value(_) => {
            let function = default_name(name).to_string();
            quote!(#[serde(default = #function)])
        }
    });
    quote!(#description #default #name: #ty)
}

fn default_function(Parameter { name, ty, role }: &Parameter) -> Option<TokenStream> {
    let Role::Argument { default: Some(DefaultValue::Value(value)), .. } = role else { return None };
    let function = default_name(name);
    let value = match value {
        // So that a text may be the default of a `String`.
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
            quote_spanned!(text.span()=> ::core::convert::Into::into(#text))
        }
        other => other.to_token_stream(),
    };
    Some(quote! {
        fn #function() -> #ty {
            #value
        }
    })
}

fn default_name(parameter: &Ident) -> Ident {
    format_ident!("__default_{}", parameter.unraw())
}

fn implementation(tool: &Tool) -> TokenStream {
    let krate = tool.krate();
    let name = tool.type_name();
    let definition = definition(tool);
    let arguments = Ident::new("arguments", Span::mixed_site());
    let cx = Ident::new("cx", Span::mixed_site());
    let read = tool
        .has_arguments()
        .then(|| quote!(let #arguments: __Arguments = #krate::from_arguments(#arguments)?;));
    let call = call(tool, &arguments, &cx);
    quote! {
        #[#krate::async_trait]
        impl #krate::Tool for #name {
            fn definition(&self) -> &#krate::ToolDefinition {
                static DEFINITION: ::std::sync::LazyLock<#krate::ToolDefinition> = ::std::sync::LazyLock::new(|| {
                    #definition
                });
                &DEFINITION
            }

            async fn call(
                &self,
                #arguments: #krate::Value,
                #cx: &#krate::ToolContext,
            ) -> ::core::result::Result<#krate::ToolOutcome, #krate::ToolError> {
                #read
                #call
            }
        }
    }
}

fn definition(tool: &Tool) -> TokenStream {
    let krate = tool.krate();
    let name = tool.name();
    let output = tool.output();
    let inferred = match &tool.options.schema {
        Some(schema) => quote!(#krate::__private::definition_with::<#output>(#name, #schema)),
        None if tool.has_arguments() => quote!(#krate::ToolDefinition::of::<__Arguments, #output>(#name)),
        None => quote!(#krate::ToolDefinition::of::<#krate::__private::NoArguments, #output>(#name)),
    };
    let title = tool.options.title.as_ref().map(|title| quote!(.with_title(#title)));
    let description =
        tool.options.description.as_ref().map(ToTokens::to_token_stream).or_else(|| tool.docs.text());
    let description = description.map(|text| quote!(.with_description(#text)));
    let policy = policy(tool).map(|policy| quote!(.with_policy(#policy)));
    let state = tool.parameters.iter().filter(|it| matches!(it.role, Role::State)).map(|it| &it.ty);
    quote! {
        #inferred #title #description #policy #(.with_state(#krate::StateType::of::<#state>()))*
    }
}

fn policy(tool: &Tool) -> Option<TokenStream> {
    let krate = tool.krate();
    let Policy { timeout, retries, requires_approval, sequential, idempotent } = &tool.options.policy;
    let values = [("timeout", timeout), ("retries", retries)];
    let flags = [requires_approval, sequential, idempotent];
    let values = values.into_iter().filter_map(|(field, value)| {
        let (field, value) = (format_ident!("{field}"), value.as_ref()?);
        Some(quote!(#field: #value))
    });
    let flags = flags.into_iter().flatten().map(|flag| quote!(#flag: true));
    let given: Vec<TokenStream> = values.chain(flags).collect();
    (!given.is_empty()).then(|| {
        quote! {
            #krate::Policy { #(#given,)* ..::core::default::Default::default() }
        }
    })
}

/// The call of the function, with what its parameters ask for, as the outcome of the tool.
fn call(tool: &Tool, arguments: &Ident, cx: &Ident) -> TokenStream {
    let krate = tool.krate();
    let function = tool.function_name();
    let states = tool.parameters.iter().enumerate().filter(|(_, it)| matches!(it.role, Role::State));
    let states = states.map(|(number, Parameter { ty, .. })| {
        let state = state_name(number);
        quote_spanned!(ty.span()=> let #state = #cx.state::<#ty>()?;)
    });
    let values = tool.parameters.iter().enumerate().map(|(number, parameter)| {
        let Parameter { name, ty, role } = parameter;
        match role {
            Role::Argument { .. } => quote!(#arguments.#name),
            Role::Context if is_reference(ty) => quote_spanned!(ty.span()=> #cx),
            Role::Context => quote_spanned!(ty.span()=> ::core::clone::Clone::clone(#cx)),
            Role::State => state_name(number).to_token_stream(),
        }
    });
    let wait = tool.function.signature.asyncness.map(|_| quote!(.await));
    let outcome = quote_spanned! {tool.output().span()=>
        #krate::IntoToolOutput::into_tool_output(#function(#(#values),*) #wait)
    };
    let outcome = match tool.options.blocking {
        Some(_) => quote! {{
            let #cx = ::core::clone::Clone::clone(#cx);
            #krate::__private::blocking(move || {
                let #cx = &#cx;
                #outcome
            })
            .await
        }},
        None => outcome,
    };
    quote!(#(#states)* #outcome)
}

fn state_name(parameter: usize) -> Ident {
    format_ident!("state_{parameter}", span = Span::mixed_site())
}

/// A path as the text that `#[serde(crate = "…")]` wants.
fn path_text(path: &TokenStream) -> String {
    path.to_string().replace(' ', "")
}
