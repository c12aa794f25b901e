//! The parsed form of a tool: the function with its attributes.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{FnArg, Ident, Path, ReceiverKind, ReturnType, Type, ext::IdentExt, parse_quote};

use crate::{
    check,
    docs::Docs,
    error_expansion,
    errors::Errors,
    expand,
    function::Function,
    name::pascal_case,
    options::Options,
    ownership::{is_named, is_reference, mentions, without_group},
    parameter::{Argument, Parameter, Role},
};

/// A parsed tool function.
pub(crate) struct Tool {
    pub(crate) options: Options,
    /// The function, without the doc comments and `#[tool]` attributes of its parameters.
    pub(crate) function: Function,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) docs: Docs,
    /// The `Self` type and the struct of a method. `None` for a free function.
    pub(crate) owner: Option<ImplType>,
}

/// The `Self` type of a tool method, and the name of the struct generated for the method.
pub(crate) struct ImplType {
    pub(crate) ty: Type,
    /// The name of the generated struct.
    pub(crate) type_name: Ident,
}

/// The receiver of a tool method. All tools of an `impl` block share one value of the block's type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiver {
    /// `&self`
    Ref,
    /// `self: Arc<Self>`
    Arc,
}

/// Expands `#[tool]` on a function: generates the function and its tool, or the compile errors and
/// a fallback.
pub(crate) fn derive(options: TokenStream, item: TokenStream) -> TokenStream {
    let function = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let error = error.into_compile_error();
            return quote!(#item #error);
        }
    };
    let mut errors = Errors::default();
    let tool = Tool::read(options, function, None, &mut errors);
    check::check(&tool, &mut errors);
    match errors.finish() {
        Ok(()) => expand::expand(&tool),
        Err(error) => error_expansion::expand(&tool, &error),
    }
}

impl Tool {
    pub(crate) fn read(
        options: TokenStream,
        mut function: Function,
        owner: Option<ImplType>,
        errors: &mut Errors,
    ) -> Self {
        let settings = errors.ok_or_record(syn::parse2(options)).unwrap_or_default();
        let options = Options::read(settings, errors);
        let inputs = function.signature.inputs.iter_mut();
        let parameters = inputs.filter_map(|input: &mut FnArg| Parameter::take(input, errors)).collect();
        let docs = Docs::from_attributes(&function.attributes);
        Self { options, function, parameters, docs, owner }
    }

    /// Returns the receiver of the function. `None` if the function has no receiver, or an
    /// unsupported receiver.
    pub(crate) fn receiver(&self) -> Option<Receiver> {
        match &self.function.signature.receiver()?.kind {
            ReceiverKind::Reference(_, _, None) => Some(Receiver::Ref),
            ReceiverKind::Typed(_, ty) if is_named(ty, "Arc") && !is_reference(ty) => Some(Receiver::Arc),
            _ => None,
        }
    }

    /// Returns the parameters that the model sets.
    pub(crate) fn argument_parameters(&self) -> impl DoubleEndedIterator<Item = (&Parameter, &Argument)> {
        self.parameters.iter().filter_map(|parameter| match &parameter.role {
            Role::Argument(argument) => Some((parameter, &**argument)),
            Role::Context | Role::State => None,
        })
    }

    /// Returns the parameters that receive host state.
    pub(crate) fn state_parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|parameter| matches!(parameter.role, Role::State))
    }

    /// Returns `true` if a call needs the grace period after a cancellation: the function can read
    /// its cancellation token from the context, or it is blocking and cannot be aborted.
    pub(crate) fn handles_cancellation(&self) -> bool {
        self.has_context() || self.options.blocking.is_some()
    }

    /// Returns `true` if the function has a parameter for the context of the call.
    pub(crate) fn has_context(&self) -> bool {
        self.parameters.iter().any(|parameter| matches!(parameter.role, Role::Context))
    }

    /// Returns the path of the crate haft-core for the generated code.
    pub(crate) fn krate(&self) -> Path {
        self.options.krate.clone().unwrap_or_else(|| parse_quote!(::haft_core))
    }

    /// Returns the name of the function.
    pub(crate) fn function_name(&self) -> &Ident {
        &self.function.signature.ident
    }

    /// Returns the name of the generated struct.
    pub(crate) fn type_name(&self) -> Ident {
        if let Some(owner) = &self.owner {
            return owner.type_name.clone();
        }
        if let Some(given) = &self.options.ty {
            return given.clone();
        }
        let function = self.function_name().unraw();
        format_ident!("{}", pascal_case(&function.to_string()), span = function.span())
    }

    /// Returns `true` if the name of the generated struct conflicts with the name of the function
    /// or with a type in its signature. Always `false` for a method.
    pub(crate) fn is_name_taken(&self) -> bool {
        let (name, Function { signature, .. }) = (self.type_name(), &self.function);
        let (inputs, output) = (&signature.inputs, &signature.output);
        let types = quote!(#inputs #output);
        self.owner.is_none() && (signature.ident == name || mentions(types, &name.to_string()))
    }

    /// Returns the name of the tool, as presented to the model.
    pub(crate) fn name(&self) -> String {
        match &self.options.name {
            Some(name) => name.value(),
            None => self.function_name().unraw().to_string(),
        }
    }

    /// Returns the return type of the function, or `()` if it declares none.
    pub(crate) fn output_type(&self) -> Type {
        match &self.function.signature.output {
            ReturnType::Default => parse_quote!(()),
            ReturnType::Type(_, output) => without_group((**output).clone()),
        }
    }
}
