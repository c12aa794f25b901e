//! What stands in for a tool with mistakes: its names, so that the compiler and editors find nothing else to complain
//! about and code completion works.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Error;

use crate::{expand::marker, tool::Tool};

/// Writes the mistakes, the function, and a tool that does nothing.
pub(crate) fn expand(tool: &Tool, error: &Error) -> TokenStream {
    let error = error.to_compile_error();
    let function = &tool.function;
    if function.signature.receiver().is_some() {
        // No type can stand beside a method.
        return quote!(#error #function);
    }
    let marker = marker(tool);
    let conditions = function.conditions();
    let krate = tool.krate();
    let name = tool.type_name();
    quote! {
        #error
        #function
        #marker
        #(#conditions)*
        #[#krate::async_trait]
        impl #krate::Tool for #name {
            fn definition(&self) -> &#krate::ToolDefinition {
                ::core::unimplemented!()
            }

            async fn call(
                &self,
                _: #krate::Value,
                _: &#krate::ToolContext,
            ) -> ::core::result::Result<#krate::ToolOutcome, #krate::ToolError> {
                ::core::unimplemented!()
            }
        }
    }
}
