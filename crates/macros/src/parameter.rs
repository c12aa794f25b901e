//! What the parameters of the function are to the tool.

use syn::{Attribute, Error, Expr, FnArg, Ident, Meta, Pat, PatIdent, PatType, Result, Type};

use crate::{
    docs::{Docs, is_doc},
    errors::Errors,
    settings::{Setting, Settings, put},
};

/// A parameter.
pub(crate) struct Parameter {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    pub(crate) role: Role,
}

/// Where the value of a parameter comes from.
pub(crate) enum Role {
    /// From the model.
    Argument(Argument),
    /// The context of the call.
    Context,
    /// The state of the host program, by its type.
    State,
}

/// What is known of a parameter that the model gives the value of.
pub(crate) struct Argument {
    /// What the model reads about it.
    pub(crate) docs: Docs,
    /// What it is when the model leaves it out.
    pub(crate) default: Option<DefaultValue>,
}

/// What an absent argument is.
pub(crate) enum DefaultValue {
    /// `#[tool(default)]`: the default of its type.
    OfType,
    /// `#[tool(default = …)]`.
    Value(Expr),
}

/// What the attributes of one parameter say.
#[derive(Default)]
struct Marks {
    context: Option<Ident>,
    state: Option<Ident>,
    default: Option<(Ident, DefaultValue)>,
}

impl Parameter {
    /// Reads a parameter, and takes off the attributes that no function may have.
    pub(crate) fn take(input: &mut FnArg, errors: &mut Errors) -> Option<Self> {
        match input {
            FnArg::Typed(parameter) => {
                let (docs, marks) = take_attributes(&mut parameter.attrs, errors);
                let name = errors.ok(name(parameter))?;
                Some(Self { name, ty: (*parameter.ty).clone(), role: marks.role(docs, errors) })
            }
            FnArg::Receiver(receiver) => {
                take_attributes(&mut receiver.attrs, errors);
                errors.at(
                    receiver,
                    "a tool takes no `self`: make it a function outside of the `impl`, and take what it shares as \
                     `#[tool(state)] shared: Arc<…>`",
                );
                None
            }
        }
    }
}

impl Marks {
    fn set(&mut self, setting: Setting, errors: &mut Errors) {
        let key = &setting.key.clone();
        match key.to_string().as_str() {
            "context" => put(&mut self.context, key, setting.flag(), errors),
            "state" => put(&mut self.state, key, setting.flag(), errors),
            "default" => {
                let value = setting.optional_value().map_or(DefaultValue::OfType, DefaultValue::Value);
                put(&mut self.default, key, Ok((key.clone(), value)), errors);
            }
            _ => errors.at(
                key,
                format!("a parameter has no option `{key}`; it has `context`, `state` and `default`"),
            ),
        }
    }

    fn role(self, docs: Docs, errors: &mut Errors) -> Role {
        let Self { context, state, default } = self;
        if let (Some(_), Some(state)) = (&context, &state) {
            errors.at(
                state,
                "a parameter is the context or state, not both: remove one, and give each its own",
            );
        }
        if let (true, Some((key, _))) = (context.is_some() || state.is_some(), &default) {
            errors.at(key, "only what the model gives has a default: remove it");
        }
        match (context, state) {
            (Some(_), _) => Role::Context,
            (None, Some(_)) => Role::State,
            (None, None) => Role::Argument(Argument { docs, default: default.map(|(_, value)| value) }),
        }
    }
}

fn take_attributes(attributes: &mut Vec<Attribute>, errors: &mut Errors) -> (Docs, Marks) {
    let docs = Docs::of(attributes);
    let mut marks = Marks::default();
    for attribute in
        attributes.extract_if(.., |attribute| is_doc(attribute) || attribute.path().is_ident("tool"))
    {
        for setting in errors.ok(settings(&attribute)).into_iter().flat_map(|settings| settings.0) {
            marks.set(setting, errors);
        }
    }
    (docs, marks)
}

fn settings(attribute: &Attribute) -> Result<Settings> {
    match &attribute.meta {
        // A doc comment.
        Meta::NameValue(_) => Ok(Settings::default()),
        Meta::List(_) => attribute.parse_args(),
        Meta::Path(path) => Err(Error::new_spanned(
            path,
            "say what the parameter is, such as `#[tool(context)]`; an argument of the model needs no attribute",
        )),
    }
}

fn name(parameter: &PatType) -> Result<Ident> {
    match &*parameter.pat {
        Pat::Ident(PatIdent { ident, subpat: None, .. }) => Ok(ident.clone()),
        pattern => Err(Error::new_spanned(
            pattern,
            "give the argument a name, by which the model passes it, and take it apart in the body",
        )),
    }
}
