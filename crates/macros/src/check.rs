//! What a tool must be, beyond its grammar.

use syn::{Safety, Type, TypeReference};

use crate::{
    errors::Errors,
    name::is_tool_name,
    ownership::{borrows, is_named, is_static, owned, written},
    parameter::{Parameter, Role},
    tool::Tool,
};

/// Adds every mistake.
pub(crate) fn check(tool: &Tool, errors: &mut Errors) {
    signature(tool, errors);
    name(tool, errors);
    output(tool, errors);
    for parameter in &tool.parameters {
        match &parameter.role {
            Role::Argument(known) => argument(parameter, known.default.is_some(), errors),
            Role::Context => context(parameter, errors),
            Role::State => state(parameter, errors),
        }
    }
    for second in tool.parameters.iter().filter(|it| matches!(it.role, Role::Context)).skip(1) {
        errors.at(&second.name, "a call has one context: remove the second");
    }
}

fn signature(tool: &Tool, errors: &mut Errors) {
    let signature = &tool.function.signature;
    let generics = &signature.generics;
    if !generics.params.is_empty() {
        errors
            .at(&generics.params, "a model gives JSON and no types: write the types out instead of generics");
    }
    if let Safety::Unsafe(token) = &signature.safety {
        errors.at(token, "no model keeps the conditions of an `unsafe fn`: wrap it in a safe function and make that the tool");
    }
    if let Some(variadic) = &signature.variadic {
        errors.at(variadic, "take several values as one argument: `values: Vec<…>`");
    }
    if let (Some(blocking), true) = (&tool.options.blocking, signature.asyncness.is_some()) {
        errors.at(blocking, "an `async fn` is not moved to the blocking pool: remove `async`, or `blocking`");
    }
}

fn name(tool: &Tool, errors: &mut Errors) {
    let name = tool.name();
    if is_tool_name(&name) {
        return;
    }
    const RULE: &str = "1 to 64 of the letters A-Z and a-z, digits, `_` and `-`";
    match &tool.options.name {
        Some(given) => errors.at(given, format!("models cannot call a tool by this name: use {RULE}")),
        None => errors.at(
            tool.function_name(),
            format!(
                "models cannot call a tool by this name: give it one of {RULE}, by `#[tool(name = \"…\")]`"
            ),
        ),
    }
}

fn output(tool: &Tool, errors: &mut Errors) {
    match tool.output() {
        Type::ImplTrait(output) => errors.at(output, "name the type that the tool returns"),
        Type::Reference(output) if !is_static(&output) => {
            errors.at(
                &output,
                format!("a tool returns what it owns: use `{}`", owned(&Type::Reference(output.clone()))),
            );
        }
        _ => {}
    }
}

fn argument(parameter: &Parameter, has_default: bool, errors: &mut Errors) {
    let ty = &parameter.ty;
    if is_named(ty, "ToolContext") {
        errors.at(ty, format!("the context comes from the host and not from the model: write `#[tool(context)] {}: &ToolContext`", parameter.name));
    } else if let Type::ImplTrait(_) = ty {
        errors.at(ty, "a model gives JSON and no types: name the type of the argument");
    } else if borrows(ty) {
        errors.at(ty, format!("an argument is read from JSON and cannot borrow: use {}", instead_of(ty)));
    }
    if has_default && is_named(ty, "Option") {
        errors.at(ty, "an `Option` that is left out is `None`: remove the default, or the `Option`");
    }
}

fn instead_of(ty: &Type) -> String {
    let owned = owned(ty);
    if owned == written(ty) { "a type that owns its data".to_owned() } else { format!("`{owned}`") }
}

fn context(parameter: &Parameter, errors: &mut Errors) {
    if let Type::Reference(TypeReference { mutability: Some(_), .. }) = &parameter.ty {
        errors.at(&parameter.ty, "the context is shared: use `&ToolContext`");
    }
}

fn state(parameter: &Parameter, errors: &mut Errors) {
    if let Type::Reference(reference) = &parameter.ty {
        let shared = written(&reference.elem);
        errors.at(reference, format!("state is given by value, as a clone: use `Arc<{shared}>`"));
    }
}
