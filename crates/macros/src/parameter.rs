//! The parameters of a tool function and the sources of their values.

use syn::{
    Attribute, Error, Expr, FnArg, Ident, LitStr, Meta, MetaList, Pat, PatIdent, PatType, Result, Type,
    ext::IdentExt,
};

use crate::{
    docs::{Docs, is_doc},
    errors::Errors,
    ownership::{mentions, without_group},
    settings::{Bounds, Setting, Settings, set_once},
};

/// A parameter of a tool function.
pub(crate) struct Parameter {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    pub(crate) role: Role,
    /// `true` if parsing the parameter caused no errors. If `false`, the trait bounds of its type
    /// are not checked, to avoid follow-up errors.
    pub(crate) is_valid: bool,
}

/// The source of a parameter's value.
pub(crate) enum Role {
    /// An argument of the call, which comes from the model.
    Argument(Box<Argument>),
    /// The `ToolContext` of the call.
    Context,
    /// State of the host program, selected by the type of the parameter.
    State,
}

/// The options of a parameter whose value comes from the model.
#[derive(Default)]
pub(crate) struct Argument {
    /// The option `description`: the description for the model. It replaces the doc comment of the
    /// parameter.
    pub(crate) description: Option<Expr>,
    pub(crate) docs: Docs,
    /// The option `rename`: the argument name for the model. It replaces the parameter name.
    pub(crate) rename: Option<LitStr>,
    /// The option `default`: the value for a missing argument.
    pub(crate) default: Option<DefaultValue>,
    /// The option `flatten`: the value, a map or a struct, is deserialized from all arguments that
    /// belong to no other parameter. A flattened parameter must be the last argument.
    pub(crate) flatten: Option<Ident>,
    pub(crate) constraints: Constraints,
}

/// Constraints on an argument in addition to its type.
#[derive(Default)]
pub(crate) struct Constraints {
    pub(crate) range: Option<(Ident, Bounds)>,
    pub(crate) length: Option<(Ident, Bounds)>,
    pub(crate) pattern: Option<(Ident, Expr)>,
    pub(crate) format: Option<(Ident, Expr)>,
    pub(crate) examples: Option<(Ident, Expr)>,
}

impl Constraints {
    /// Returns the keys of all constraints that are set, for example `range`. Error messages point
    /// to these keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Ident> {
        let Self { range, length, pattern, format, examples } = self;
        let bounds = [range, length].into_iter().flatten().map(|(key, _)| key);
        bounds.chain([pattern, format, examples].into_iter().flatten().map(|(key, _)| key))
    }
}

/// The value for an argument that the model omits.
pub(crate) enum DefaultValue {
    /// `#[tool(default)]`: the [`Default`] value of the parameter's type.
    OfType,
    /// `#[tool(default = …)]`: the given expression.
    Value(Expr),
}

/// The options of a parameter before its role is determined.
#[derive(Default)]
struct ParameterOptions {
    context: Option<Ident>,
    state: Option<Ident>,
    /// The first option that is only valid for an argument from the model, for example `range`. If
    /// the parameter is the context or state, the error message names this option.
    first_argument_key: Option<Ident>,
    argument: Argument,
}

const PARAMETER_OPTIONS: [&str; 11] = [
    "context",
    "state",
    "default",
    "rename",
    "description",
    "flatten",
    "range",
    "length",
    "pattern",
    "format",
    "examples",
];

/// Returns `true` if `key` is the name of a parameter option.
pub(crate) fn is_option_of_parameter(key: &Ident) -> bool {
    PARAMETER_OPTIONS.iter().any(|known| key == known)
}

impl Parameter {
    /// Parses a parameter and removes its doc comments and `#[tool]` attributes from `input`.
    /// Returns `None` for `self`, and for a parameter declared with a pattern such as `(a, b)`.
    pub(crate) fn take(input: &mut FnArg, errors: &mut Errors) -> Option<Self> {
        match input {
            FnArg::Typed(parameter) => {
                let before = errors.count();
                reject_cfg(&mut parameter.attrs, errors);
                let (docs, options) = take_attributes(&mut parameter.attrs, errors);
                let role = options.role(docs, errors);
                let name = errors.ok_or_record(binding_name(parameter))?;
                let is_valid = errors.count() == before;
                Some(Self { name, ty: without_group((*parameter.ty).clone()), role, is_valid })
            }
            FnArg::Receiver(receiver) => {
                take_attributes(&mut receiver.attrs, errors);
                None
            }
        }
    }
}

impl Parameter {
    /// Returns the name that the model uses for `argument`.
    pub(crate) fn argument_name(&self, argument: &Argument) -> String {
        argument.rename.as_ref().map_or_else(|| self.name.unraw().to_string(), LitStr::value)
    }
}

impl ParameterOptions {
    fn set(&mut self, setting: Setting, errors: &mut Errors) {
        let key = &setting.key.clone();
        match key.to_string().as_str() {
            "context" => set_once(&mut self.context, key, setting.flag(), errors),
            "state" => set_once(&mut self.state, key, setting.flag(), errors),
            _ if is_option_of_parameter(key) => {
                self.first_argument_key.get_or_insert_with(|| key.clone());
                self.argument.set(setting, errors);
            }
            _ => errors.add_at(
                key,
                format!(
                    "a parameter has no option `{key}`; it has {}",
                    PARAMETER_OPTIONS.map(|it| format!("`{it}`")).join(", ")
                ),
            ),
        }
    }

    fn role(self, docs: Docs, errors: &mut Errors) -> Role {
        let Self { context, state, first_argument_key: argument_option, argument } = self;
        if let (Some(_), Some(state)) = (&context, &state) {
            errors.add_at(
                state,
                "a parameter is the context or state, not both: remove one, and give each its own",
            );
        }
        if let (true, Some(key)) = (context.is_some() || state.is_some(), &argument_option) {
            errors.add_at(key, format!("`{key}` is for what the model gives: remove it"));
        }
        match (context, state) {
            (Some(_), _) => Role::Context,
            (None, Some(_)) => Role::State,
            (None, None) => Role::Argument(Box::new(Argument { docs, ..argument })),
        }
    }
}

impl Argument {
    fn set(&mut self, setting: Setting, errors: &mut Errors) {
        let key = &setting.key.clone();
        let with_key = |value| (key.clone(), value);
        let Constraints { range, length, pattern, format, examples } = &mut self.constraints;
        match key.to_string().as_str() {
            "default" => {
                let value = setting.optional_value().map_or(DefaultValue::OfType, DefaultValue::Value);
                set_once(&mut self.default, key, Ok(value), errors);
            }
            "rename" => set_once(&mut self.rename, key, setting.text(), errors),
            "description" => set_once(&mut self.description, key, setting.value(), errors),
            "flatten" => set_once(&mut self.flatten, key, setting.flag(), errors),
            "range" => set_once(range, key, setting.bounds().map(|bounds| (key.clone(), bounds)), errors),
            "length" => set_once(length, key, setting.bounds().map(|bounds| (key.clone(), bounds)), errors),
            "pattern" => set_once(pattern, key, setting.value().map(with_key), errors),
            "format" => set_once(format, key, setting.value().map(with_key), errors),
            _examples => set_once(examples, key, setting.value().map(with_key), errors),
        }
    }
}

/// Removes each `#[cfg]` attribute of a parameter, and each `#[cfg_attr]` that contains `tool`.
/// Adds an error for each of them, because an attribute macro runs before the compiler evaluates
/// these attributes.
fn reject_cfg(attributes: &mut Vec<Attribute>, errors: &mut Errors) {
    for attribute in attributes.extract_if(.., |attribute| {
        let is_tool = |meta: &MetaList| mentions(meta.tokens.clone(), "tool");
        attribute.path().is_ident("cfg")
            || attribute.path().is_ident("cfg_attr") && attribute.meta.require_list().is_ok_and(is_tool)
    }) {
        errors.add_at(
            attribute,
            "the arguments of a tool are the same in every build: put `#[cfg(…)]` on two functions",
        );
    }
}

fn take_attributes(attributes: &mut Vec<Attribute>, errors: &mut Errors) -> (Docs, ParameterOptions) {
    let docs = Docs::from_attributes(attributes);
    let mut options = ParameterOptions::default();
    for attribute in
        attributes.extract_if(.., |attribute| is_doc(attribute) || attribute.path().is_ident("tool"))
    {
        for setting in
            errors.ok_or_record(parse_settings(&attribute)).into_iter().flat_map(|settings| settings.0)
        {
            options.set(setting, errors);
        }
    }
    (docs, options)
}

fn parse_settings(attribute: &Attribute) -> Result<Settings> {
    match &attribute.meta {
        // A doc comment has the form `doc = "…"`, so it has no settings.
        Meta::NameValue(_) => Ok(Settings::default()),
        Meta::List(_) => attribute.parse_args(),
        Meta::Path(path) => Err(Error::new_spanned(
            path,
            "say what the parameter is, such as `#[tool(context)]`; an argument of the model needs no attribute",
        )),
    }
}

fn binding_name(parameter: &PatType) -> Result<Ident> {
    match &*parameter.pat {
        Pat::Ident(PatIdent { ident, subpat: None, .. }) => Ok(ident.clone()),
        pattern => Err(Error::new_spanned(
            pattern,
            "give the argument a name, by which the model passes it, and take it apart in the body",
        )),
    }
}
