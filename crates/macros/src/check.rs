//! Validation of a parsed tool. Every violated rule is reported as a compile error.

mod constraints;

use std::collections::HashSet;

use quote::ToTokens;
use syn::{GenericParam, Safety, Type, TypeReference, ext::IdentExt};

use crate::{
    errors::Errors,
    name::is_tool_name,
    ownership::{borrows, borrows_non_static, is_named, mentions, owned_type_text, source_text},
    parameter::{Argument, Parameter, Role},
    tool::Tool,
};

/// Validates `tool` and adds an error to `errors` for each violated rule.
pub(crate) fn check(tool: &Tool, errors: &mut Errors) {
    check_signature(tool, errors);
    check_name(tool, errors);
    check_type_name(tool, errors);
    check_output(tool, errors);
    for parameter in &tool.parameters {
        match &parameter.role {
            Role::Argument(known) => check_argument(tool, parameter, known, errors),
            Role::Context => check_context(parameter, errors),
            Role::State => check_state(parameter, errors),
        }
    }
    check_argument_names(tool, errors);
    for second in tool.parameters.iter().filter(|it| matches!(it.role, Role::Context)).skip(1) {
        errors.add_at(&second.name, "a call has one context: remove the second");
    }
}

/// Rejects `self` in a function that is not in an `impl` block with `#[tools]`, and receivers other
/// than `&self` and `self: Arc<Self>`.
fn check_receiver(tool: &Tool, errors: &mut Errors) {
    let Some(receiver) = tool.function.signature.receiver() else { return };
    if tool.owner.is_none() {
        errors.add_at(
            receiver,
            "a function with `self` is a tool of its `impl` block: put `#[tools]` on the block",
        );
    } else if tool.receiver().is_none() {
        errors.add_at(
            receiver,
            "calls share the value, and may run at once: take `&self`, and keep what changes in a `Mutex`",
        );
    }
}

fn check_signature(tool: &Tool, errors: &mut Errors) {
    check_receiver(tool, errors);
    let signature = &tool.function.signature;
    let generics = &signature.generics;
    // Lifetime parameters are allowed: the type of the context parameter can contain them.
    if !generics.params.iter().all(|parameter| matches!(parameter, GenericParam::Lifetime(_))) {
        errors.add_at(
            &generics.params,
            "a model gives JSON and no types: write the types out instead of generics",
        );
    }
    if let Safety::Unsafe(token) = &signature.safety {
        errors.add_at(token, "no model keeps the conditions of an `unsafe fn`: wrap it in a safe function and make that the tool");
    }
    if let Some(variadic) = &signature.variadic {
        errors.add_at(variadic, "take several values as one argument: `values: Vec<…>`");
    }
    if let (Some(blocking), true) = (&tool.options.blocking, signature.asyncness.is_some()) {
        errors.add_at(
            blocking,
            "an `async fn` is not moved to the blocking pool: remove `async`, or `blocking`",
        );
    }
}

fn check_name(tool: &Tool, errors: &mut Errors) {
    let name = tool.name();
    if is_tool_name(&name) {
        return;
    }
    const RULE: &str = "1 to 64 of the letters A-Z and a-z, digits, `_` and `-`";
    match &tool.options.name {
        Some(given) => errors.add_at(given, format!("models cannot call a tool by this name: use {RULE}")),
        None => errors.add_at(
            tool.function_name(),
            format!(
                "models cannot call a tool by this name: give it one of {RULE}, by `#[tool(name = \"…\")]`"
            ),
        ),
    }
}

fn check_type_name(tool: &Tool, errors: &mut Errors) {
    let name = tool.type_name();
    match (&tool.options.ty, &tool.owner) {
        (Some(given), Some(_)) => {
            errors.add_at(
                given,
                "the tools of a block come by `with_tools`, and their types have no names: remove `type`",
            );
        }
        _ if tool.is_name_taken() => errors.add_at(
            &name,
            format!(
                "the tool is a type beside the function, and the name `{name}` is taken: give it another, by \
                 `#[tool(type = {name}Tool)]`"
            ),
        ),
        _ => {}
    }
}

fn check_output(tool: &Tool, errors: &mut Errors) {
    let output = tool.output_type();
    if has_impl(&output) {
        errors.add_at(output, "name the type that the tool returns");
    } else if borrows_non_static(&output) {
        errors.add_at(&output, format!("a tool returns what it owns: use {}", suggested_type(&output)));
    }
}

/// Returns `true` if `ty` contains `impl Trait`.
fn has_impl(ty: &Type) -> bool {
    mentions(ty.to_token_stream(), "impl")
}

/// Rejects duplicate argument names, and names in the `# Arguments` list that match no parameter.
/// Also rejects the option `replaced_by` on a tool that is not deprecated.
fn check_argument_names(tool: &Tool, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (parameter, argument) in tool.argument_parameters() {
        let name = parameter.argument_name(argument);
        if !seen.insert(name.clone()) {
            errors.add_at(&parameter.name, format!("two arguments are named `{name}`: rename one of them"));
        }
    }
    for (name, place) in tool.docs.listed_arguments() {
        if !tool.parameters.iter().any(|parameter| parameter.name.unraw() == name) {
            errors.add_at(
                place,
                format!("the list of arguments names `{name}`, and the function has no such parameter"),
            );
        }
    }
    if let (Some(replaced_by), None) = (&tool.options.replaced_by, &tool.options.deprecated)
        && tool.function.deprecation().is_none()
    {
        errors.add_at(replaced_by, "a tool that is replaced is deprecated: add `deprecated`");
    }
}

fn check_argument(tool: &Tool, parameter: &Parameter, known: &Argument, errors: &mut Errors) {
    let ty = &parameter.ty;
    let has_default = known.default.is_some();
    let is_last = tool.argument_parameters().last().is_some_and(|(last, _)| last.name == parameter.name);
    if let Some(flatten) = &known.flatten
        && (!is_last || has_default || known.rename.is_some())
    {
        errors.add_at(flatten, "`flatten` is for the last argument, without `default` and `rename`");
    }
    if tool.options.schema.is_some() {
        for key in known.constraints.keys() {
            errors.add_at(key, format!("the schema is written by hand: put `{key}` there"));
        }
    } else {
        constraints::check(ty, &known.constraints, errors);
    }
    if is_named(ty, "ToolContext") {
        errors.add_at(ty, format!("the context comes from the host and not from the model: write `#[tool(context)] {}: &ToolContext`", parameter.name));
    } else if has_impl(ty) {
        errors.add_at(ty, "a model gives JSON and no types: name the type of the argument");
    } else if borrows(ty) {
        let (instead, name) = (suggested_type(ty), &parameter.name);
        let state = host_type_name(ty).map(|shared| {
            format!("; if the host gives it and not the model, write `#[tool(state)] {name}: Arc<{shared}>`")
        });
        errors.add_at(
            ty,
            format!(
                "an argument is read from JSON and cannot borrow: use {instead}{}",
                state.unwrap_or_default()
            ),
        );
    }
    if has_default && is_named(ty, "Option") {
        errors.add_at(ty, "an `Option` that is left out is `None`: remove the default, or the `Option`");
    }
}

/// Returns the source text of the referenced type if `ty` looks like a reference to host state, for
/// example `&Database`. Returns `None` for references to plain data, such as `&str`, and for types
/// that are not references.
fn host_type_name(ty: &Type) -> Option<String> {
    let Type::Reference(TypeReference { elem, .. }) = ty else { return None };
    let is_data = ["str", "String", "Path", "PathBuf", "Vec", "Value"].iter().any(|it| is_named(elem, it));
    (matches!(**elem, Type::Path(_)) && !is_data).then(|| source_text(elem))
}

fn suggested_type(ty: &Type) -> String {
    let owned = owned_type_text(ty);
    if owned == source_text(ty) { "a type that owns its data".to_owned() } else { format!("`{owned}`") }
}

fn check_context(parameter: &Parameter, errors: &mut Errors) {
    if let Type::Reference(TypeReference { mutability: Some(_), .. }) = &parameter.ty {
        errors.add_at(&parameter.ty, "the context is shared: use `&ToolContext`");
    }
}

fn check_state(parameter: &Parameter, errors: &mut Errors) {
    if let Type::Reference(reference) = &parameter.ty {
        let shared = source_text(&reference.elem);
        errors.add_at(reference, format!("state is given by value, as a clone: use `Arc<{shared}>`"));
    } else if borrows_non_static(&parameter.ty) {
        errors.add_at(&parameter.ty, "state lives as long as the program: use a type that owns its data");
    }
}
