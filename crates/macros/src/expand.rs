//! Generation of the code for a valid tool: the function, a unit struct that represents the tool,
//! and the `Tool` implementation of the struct.

mod definition;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Expr, ExprLit, Ident, Lit, Path, ext::IdentExt, spanned::Spanned};

use definition::expand_definition;

use crate::{
    ownership::is_reference,
    parameter::{Argument, Constraints, DefaultValue, Parameter, Role},
    settings::Bounds,
    tool::{ImplType, Receiver, Tool},
};

/// Generates the code for a tool that has passed all checks.
pub(crate) fn expand(tool: &Tool) -> TokenStream {
    let function = &tool.function;
    let tool_struct = tool_struct(tool);
    let conditions = function.cfg_attributes();
    let implementation = expand_tool_impls(tool);
    quote! {
        // The function may take its arguments by value and only read them, because the generated
        // code deserializes new values for each call.
        #[allow(clippy::needless_pass_by_value)]
        #function
        #tool_struct
        #(#conditions)*
        #[allow(deprecated, clippy::needless_update, clippy::unused_unit)]
        const _: () = {
            #implementation
        };
    }
}

/// Generates the unit struct that represents the tool.
pub(crate) fn tool_struct(tool: &Tool) -> TokenStream {
    let conditions = tool.function.cfg_attributes();
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

pub(crate) fn expand_tool_impls(tool: &Tool) -> TokenStream {
    let krate = tool.krate();
    let function = function_implementation(tool);
    let definition = expand_definition(tool);
    let hidden = (tool.owner.is_none()).then(|| {
        let name = function_type_name(tool);
        quote!(struct #name;)
    });
    let callee = match tool.owner {
        None => function_type_name(tool).to_token_stream(),
        Some(_) => quote!(*self),
    };
    let implementation = tool_implementation(
        tool,
        &quote! {
            static DEFINITION: ::std::sync::LazyLock<#krate::__private::ToolDefinition> =
                ::std::sync::LazyLock::new(|| #definition);
            &DEFINITION
        },
        |arguments, cx| quote!(::std::boxed::Box::pin(#krate::__private::call(&#callee, #arguments, #cx))),
    );
    quote! {
        #hidden
        #function
        #implementation
    }
}

/// Generates the `Tool` implementation. `definition` is the body of the method `definition`. `call`
/// generates the body of the method `call` from the names of the method's parameters.
///
/// The generated code does not use `async_trait`, because the expansion of `async_trait` refers to
/// `Box` without a path. If the user defines another type named `Box`, that type would be used
/// instead.
pub(crate) fn tool_implementation(
    tool: &Tool,
    definition: &TokenStream,
    call: impl FnOnce(&Ident, &Ident) -> TokenStream,
) -> TokenStream {
    let krate = tool.krate();
    let name = tool.type_name();
    let arguments = Ident::new("arguments", Span::mixed_site());
    let cx = Ident::new("cx", Span::mixed_site());
    let call = call(&arguments, &cx);
    quote! {
        impl #krate::__private::Tool for #name {
            fn definition(&self) -> &#krate::__private::ToolDefinition {
                #definition
            }

            fn call<'tool, 'cx, 'call>(
                &'tool self,
                #arguments: #krate::__private::Value,
                #cx: &'cx #krate::__private::ToolContext,
            ) -> #krate::__private::CallFuture<'call>
            where
                'tool: 'call,
                'cx: 'call,
                Self: 'call,
            {
                #call
            }
        }
    }
}

/// Returns the name of the type that implements `Function`. For a free function, this is a hidden
/// type instead of the tool type. The tool type may be public, and its associated types would then
/// expose private parameter types.
fn function_type_name(tool: &Tool) -> Ident {
    let name = tool.type_name();
    match tool.owner {
        None => format_ident!("__{name}Function"),
        Some(_) => name,
    }
}

/// Generates the implementation of `Function` for the tool.
fn function_implementation(tool: &Tool) -> TokenStream {
    let krate = tool.krate();
    let type_name = function_type_name(tool);
    let name = tool.name();
    let output = tool.output_type();
    let types = nested_tuple(tool, |parameter, _| parameter.ty.to_token_stream());
    let parameters =
        nested_tuple(tool, |parameter, argument| parameter_expression(tool, parameter, argument));
    let call = call_method(tool);
    quote! {
        impl #krate::__private::Function for #type_name {
            const NAME: &'static ::core::primitive::str = #name;
            type Arguments = #types;
            type Output = #output;

            fn parameters() -> impl #krate::__private::TypedProperties<Values = Self::Arguments> {
                #parameters
            }

            #call
        }
    }
}

/// Expands each argument parameter of the tool with `expand`, and nests the results as pairs:
/// `(first, (second, ()))`. A flattened parameter is the tail: `(first, flattened)`.
fn nested_tuple(tool: &Tool, expand: impl Fn(&Parameter, &Argument) -> TokenStream) -> TokenStream {
    tool.argument_parameters().rfold(quote!(()), |rest, (parameter, argument)| {
        let item = expand(parameter, argument);
        if argument.flatten.is_some() { item } else { quote!((#item, #rest)) }
    })
}

/// Generates an expression that creates the `haft_schema::object::TypedProperty` for `parameter`,
/// or the `FlattenedProperty` if it is flattened.
fn parameter_expression(tool: &Tool, parameter: &Parameter, argument: &Argument) -> TokenStream {
    let krate = tool.krate();
    let ty = &parameter.ty;
    let name = parameter.argument_name(argument);
    let by_hand = argument.description.as_ref().map(ToTokens::to_token_stream);
    let of_list = || tool.docs.of_argument(&parameter.name).map(|text| quote!(#text));
    let description = by_hand.or_else(|| argument.docs.text()).or_else(of_list);
    let description = description.map(|text| quote!(.with_description(#text)));
    let constraints = expand_constraints(&krate, &argument.constraints);
    let flatten = argument.flatten.as_ref().map(|_| quote!(.flattened()));
    let default = argument.default.as_ref().map(|default| {
        let make = default_value(default);
        quote! {
            .with_default(|| #make, |value| {
                #[allow(unused_imports)]
                use #krate::__private::NotSerializable as _;
                #krate::__private::MaybeJson::<#ty>(value).value()
            })
        }
    });
    match tool.options.schema {
        None => {
            quote!(#krate::__private::argument::<#ty>(#name) #description #default #constraints #flatten)
        }
        Some(_) => quote!(#krate::__private::argument_without_schema::<#ty>(#name) #default #flatten),
    }
}

/// Generates the `.with_constraints(…)` call that adds `constraints` to the schema of a parameter.
/// Returns `None` if there are no constraints.
fn expand_constraints(krate: &Path, constraints: &Constraints) -> Option<TokenStream> {
    let Constraints { range, length, pattern, format, examples } = constraints;
    let value = |value: &Expr| quote_spanned!(value.span()=> #krate::__private::json!(#value));
    let keyword = |name: &str, it: &Expr| {
        let value = value(it);
        quote!(schema.keyword(#name, #value);)
    };
    let range = range.iter().flat_map(|(_, Bounds { start, end, is_end_exclusive })| {
        let least = start.iter().map(|start| {
            let start = value(start);
            quote!(schema.at_least(#start);)
        });
        let most = end.iter().map(|end| {
            let most = value(end);
            if *is_end_exclusive { keyword("exclusiveMaximum", end) } else { quote!(schema.at_most(#most);) }
        });
        least.chain(most).collect::<Vec<_>>()
    });
    let length = length.iter().map(|(_, Bounds { start, end, is_end_exclusive })| {
        let least = start.as_ref().map_or_else(|| quote!(0), ToTokens::to_token_stream);
        let most = match end {
            None => quote!(::core::option::Option::None),
            Some(end) if *is_end_exclusive => quote!(::core::option::Option::Some((#end) - 1)),
            Some(end) => quote!(::core::option::Option::Some(#end)),
        };
        quote!(schema.length(#least, #most);)
    });
    let keywords = [("pattern", pattern), ("format", format), ("examples", examples)];
    let keywords =
        keywords.into_iter().filter_map(|(name, given)| given.as_ref().map(|(_, it)| keyword(name, it)));
    let all: Vec<TokenStream> = range.chain(length).chain(keywords).collect();
    (!all.is_empty()).then(|| quote!(.with_constraints(|schema| { #(#all)* })))
}

fn default_value(default: &DefaultValue) -> TokenStream {
    match default {
        DefaultValue::OfType => quote!(::core::default::Default::default()),
        // `Into::into` allows a string literal as the default value of a `String`.
        DefaultValue::Value(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) => {
            quote_spanned!(text.span()=> ::core::convert::Into::into(#text))
        }
        DefaultValue::Value(value) => value.to_token_stream(),
    }
}

/// Generates the method `call` of the `Function` implementation. The generated method reads the
/// host state and calls the tool function.
fn call_method(tool: &Tool) -> TokenStream {
    let krate = tool.krate();
    // The span of the function name. If the future is not `Send`, the compiler reports the error
    // there.
    let place = tool.function_name().span();
    let cx = Ident::new("cx", Span::mixed_site());
    let arguments = nested_tuple(tool, |parameter, _| local_variable(&parameter.name).to_token_stream());
    let states = tool.state_parameters().map(|Parameter { name, ty, .. }| {
        let state = local_variable(name);
        quote_spanned!(ty.span()=> let #state = #krate::__private::state::<#ty>(#cx).await?;)
    });
    let work = call_expression(tool, &cx);
    quote_spanned! {place=>
        async fn call(
            &self,
            #arguments: <Self as #krate::__private::Function>::Arguments,
            #cx: &#krate::__private::ToolContext,
        ) -> ::core::result::Result<<Self as #krate::__private::Function>::Output, #krate::__private::ToolError> {
            #(#states)*
            #work
        }
    }
}

/// Generates an expression that calls the tool function and wraps the return value in a `Result`.
fn call_expression(tool: &Tool, cx: &Ident) -> TokenStream {
    let krate = tool.krate();
    let function = tool.function_name();
    let values = tool.parameters.iter().map(|parameter| passed_value(parameter, cx));
    let wait = tool.function.signature.asyncness.map(|_| quote!(.await));
    let shared = Ident::new("shared", Span::mixed_site());
    let value = match tool.receiver() {
        None => None,
        Some(Receiver::Ref) => Some(quote!(&**#shared)),
        Some(Receiver::Arc) => Some(quote!(::core::clone::Clone::clone(#shared))),
    };
    let arguments = value.into_iter().chain(values);
    let call = match &tool.owner {
        None => quote!(#function(#(#arguments),*) #wait),
        Some(ImplType { ty, .. }) => quote!(<#ty>::#function(#(#arguments),*) #wait),
    };
    let (get, borrow) = match tool.receiver() {
        None => (None, None),
        Some(_) => (
            Some(quote!(let #shared = ::core::clone::Clone::clone(&self.0);)),
            Some(quote!(let #shared = &#shared;)),
        ),
    };
    match tool.options.blocking {
        Some(_) => quote! {
            #get
            #krate::__private::blocking(#cx, move |#cx| {
                #borrow
                #call
            })
            .await
        },
        None => quote! {
            #get
            #borrow
            ::core::result::Result::Ok(#call)
        },
    }
}

fn passed_value(Parameter { name, ty, role, .. }: &Parameter, cx: &Ident) -> TokenStream {
    let mut context = cx.clone();
    context.set_span(cx.span().located_at(ty.span()));
    match role {
        Role::Argument(_) | Role::State => local_variable(name).to_token_stream(),
        Role::Context if is_reference(ty) => context.to_token_stream(),
        Role::Context => quote_spanned!(ty.span()=> ::core::clone::Clone::clone(#context)),
    }
}

/// Returns the name of the local variable for `parameter` in the generated code. Mixed-site hygiene
/// prevents conflicts with names in the user's code.
fn local_variable(parameter: &Ident) -> Ident {
    format_ident!("of_{}", parameter.unraw(), span = Span::mixed_site())
}
