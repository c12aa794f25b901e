//! Generation of the `ToolDefinition` of a tool.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::Expr;

use super::function_type_name;
use crate::{
    options::{Annotations, ToolPolicy},
    tool::Tool,
};

/// Generates an expression for the `ToolDefinition` of `tool`.
pub(super) fn expand_definition(tool: &Tool) -> TokenStream {
    let krate = tool.krate();
    let type_name = function_type_name(tool);
    let definition = match &tool.options.schema {
        None => quote!(#krate::__private::definition::<#type_name>()),
        Some(schema) => quote!(#krate::__private::definition_with_schema::<#type_name>(#schema)),
    };
    let title = tool.options.title.as_ref().map(|title| quote!(.with_title(#title)));
    let text = tool.options.description.as_ref().map(ToTokens::to_token_stream).or_else(|| tool.docs.text());
    let text = text.map(|text| quote!(.with_description(#text)));
    let policy = expand_policy(tool).map(|policy| quote!(.with_policy(#policy)));
    let annotations = expand_annotations(tool).map(|annotations| quote!(.with_annotations(#annotations)));
    let deprecation = expand_deprecation(tool).map(|deprecation| quote!(.with_deprecation(#deprecation)));
    let state = tool.state_parameters().map(|state| &state.ty);
    quote! {
        #definition #title #text #policy #annotations #deprecation
            #(.with_state_type(#krate::__private::StateType::of::<#state>()))*
    }
}

fn expand_policy(tool: &Tool) -> Option<TokenStream> {
    let krate = tool.krate();
    let ToolPolicy {
        timeout,
        retries,
        max_calls,
        output_limit,
        requires_approval,
        sequential,
        repeatable,
        cacheable,
        on_cancel,
        touches,
        requires_scope,
    } = &tool.options.policy;
    let idempotent = &tool.options.annotations.idempotent;
    let values = [("retries", retries), ("output_limit", output_limit), ("idempotent", idempotent)];
    // A struct expression has the clearest error for a value of another type.
    let timeout = timeout.as_ref().map(|value| {
        quote!(timeout: ::core::option::Option::Some(#krate::__private::Timeout { timeout: #value }.timeout))
    });
    let max_calls = max_calls.as_ref().map(|value| {
        quote!(max_calls: ::core::option::Option::Some(#krate::__private::MaxCalls { max_calls: #value }.max_calls))
    });
    let flags =
        [requires_approval, sequential, repeatable].into_iter().flatten().map(|flag| quote!(#flag: true));
    // A function with a context can read any host state.
    let cacheable = cacheable.as_ref().map(ToTokens::to_token_stream);
    let cacheable = cacheable.or_else(|| tool.has_context().then(|| quote!(false)));
    let cacheable = cacheable.map(|value| quote!(cacheable: ::core::option::Option::Some(#value)));
    let grace = || tool.handles_cancellation().then(|| quote!(#krate::__private::OnCancel::Grace));
    let on_cancel = on_cancel.as_ref().map(ToTokens::to_token_stream).or_else(grace);
    let on_cancel = on_cancel.map(|value| quote!(on_cancel: ::core::option::Option::Some(#value)));
    let scopes = (!requires_scope.is_empty())
        .then(|| quote!(required_scopes: ::std::vec![#(::core::convert::Into::into(#requires_scope)),*]));
    let touches = touches.as_ref().map(
        |touches| quote!(touches: ::core::option::Option::Some(#krate::__private::TouchFn::new(#touches))),
    );
    let fields: Vec<TokenStream> = expand_fields(values, ToTokens::to_token_stream)
        .chain(timeout)
        .chain(max_calls)
        .chain(flags)
        .chain(cacheable)
        .chain(on_cancel)
        .chain(touches)
        .chain(scopes)
        .collect();
    (!fields.is_empty()).then(|| {
        quote! {
            #krate::__private::ToolPolicy { #(#fields,)* ..::core::default::Default::default() }
        }
    })
}

fn expand_annotations(tool: &Tool) -> Option<TokenStream> {
    let krate = tool.krate();
    let Annotations { read_only, destructive, idempotent, open_world } = &tool.options.annotations;
    let values = [
        ("read_only", read_only),
        ("destructive", destructive),
        ("idempotent", idempotent),
        ("open_world", open_world),
    ];
    let fields: Vec<TokenStream> =
        expand_fields(values, |value| quote!(::core::option::Option::Some(#value))).collect();
    (!fields.is_empty()).then(|| {
        quote! {
            #krate::__private::Annotations { #(#fields,)* ..::core::default::Default::default() }
        }
    })
}

/// Generates the `field: value` pairs of a struct expression from `values`. Fields without a value
/// are omitted, so the caller adds `..Default::default()`.
fn expand_fields<'a, const N: usize>(
    values: [(&'static str, &'a Option<Expr>); N],
    expand: impl Fn(&Expr) -> TokenStream + 'a,
) -> impl Iterator<Item = TokenStream> + 'a {
    values.into_iter().filter_map(move |(field, value)| {
        let (field, value) = (format_ident!("{field}"), expand(value.as_ref()?));
        Some(quote!(#field: #value))
    })
}

/// Generates the deprecation of `tool` from the option `deprecated`, or else from Rust's
/// `#[deprecated]` attribute. Returns `None` if the tool is not deprecated.
fn expand_deprecation(tool: &Tool) -> Option<TokenStream> {
    let krate = tool.krate();
    let note = match &tool.options.deprecated {
        Some(note) => note.clone(),
        None => tool.function.deprecation()?,
    };
    let some = |value: &Expr| quote!(::core::option::Option::Some(::core::convert::Into::into(#value)));
    let none = || quote!(::core::option::Option::None);
    let note = note.as_ref().map_or_else(none, some);
    let replacement = tool.options.replaced_by.as_ref().map_or_else(none, some);
    Some(quote!(#krate::__private::Deprecation { replacement: #replacement, note: #note }))
}
