//! Expansion of a tool with errors. If possible, the generated code defines the same public names
//! as for a valid tool, so uses of the tool cause no follow-up errors, and code completion keeps
//! working.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Error, Type};

use crate::{
    expand::{tool_implementation, tool_struct},
    ownership::{borrows, borrows_non_static, is_named, mentions},
    parameter::Parameter,
    tool::Tool,
};

/// Generates `error` as a compile error, the function itself, and a `Tool` implementation that
/// panics.
pub(crate) fn expand(tool: &Tool, error: &Error) -> TokenStream {
    let error = error.to_compile_error();
    let function = &tool.function;
    if function.signature.receiver().is_some() || tool.is_name_taken() {
        // Only the function is generated. A struct cannot be defined next to a method in an `impl`
        // block, and a second type with the same name would cause another error.
        return quote!(#error #function);
    }
    let tool_struct = tool_struct(tool);
    let conditions = function.cfg_attributes();
    let nothing = quote!(::core::unimplemented!());
    let implementation = tool_implementation(tool, &nothing, |_, _| nothing.clone());
    let types = require_trait_bounds(tool);
    quote! {
        #error
        #function
        #tool_struct
        #(#conditions)*
        const _: () = {
            #implementation
            #types
        };
    }
}

/// Generates code that requires the trait bounds of the parameter and output types, so that the
/// compiler reports unsatisfied bounds together with the errors of the macro. Returns `None` for a
/// generic function.
pub(crate) fn require_trait_bounds(tool: &Tool) -> Option<TokenStream> {
    if !tool.function.signature.generics.params.is_empty() {
        return None;
    }
    let krate = tool.krate();
    let arguments = tool.argument_parameters().filter_map(|(Parameter { ty, is_valid, .. }, _)| {
        let is_reported = !is_valid || borrows(ty) || is_unnamed(ty) || is_named(ty, "ToolContext");
        (!is_reported).then(|| match tool.options.schema {
            None => quote!(let _ = #krate::__private::argument::<#ty>("");),
            Some(_) => quote!(let _ = #krate::__private::argument_without_schema::<#ty>("");),
        })
    });
    let output = tool.output_type();
    let output = (!borrows_non_static(&output) && !is_unnamed(&output))
        .then(|| quote!(let _ = <#output as #krate::__private::IntoToolOutput>::into_tool_output;));
    Some(quote! {
        fn types() {
            #(#arguments)*
            #output
        }
    })
}

fn is_unnamed(ty: &Type) -> bool {
    ["impl", "_"].iter().any(|it| mentions(ty.to_token_stream(), it))
}
