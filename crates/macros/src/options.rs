//! What `#[tool(…)]` says about the whole tool.

use syn::{Expr, Ident, LitStr, Path};

use crate::{
    errors::Errors,
    settings::{Setting, Settings, put},
};

/// The options of a tool, as given.
#[derive(Default)]
pub(crate) struct Options {
    /// Where haft-core is found.
    pub(crate) krate: Option<Path>,
    pub(crate) name: Option<LitStr>,
    pub(crate) title: Option<Expr>,
    pub(crate) description: Option<Expr>,
    pub(crate) schema: Option<Expr>,
    pub(crate) blocking: Option<Ident>,
    pub(crate) policy: Policy,
}

/// How the host runs the tool, where it is not the default.
#[derive(Default)]
pub(crate) struct Policy {
    pub(crate) timeout: Option<Expr>,
    pub(crate) retries: Option<Expr>,
    pub(crate) requires_approval: Option<Ident>,
    pub(crate) sequential: Option<Ident>,
    pub(crate) idempotent: Option<Ident>,
}

const KNOWN: &str = "`name`, `title`, `description`, `schema`, `blocking`, `timeout`, `retries`, `requires_approval`, \
                     `sequential`, `idempotent`, `crate`";

impl Options {
    /// Gives the settings their meaning.
    pub(crate) fn read(settings: Settings, errors: &mut Errors) -> Self {
        let mut options = Self::default();
        for setting in settings.0 {
            options.set(setting, errors);
        }
        options
    }

    fn set(&mut self, setting: Setting, errors: &mut Errors) {
        let key = &setting.key.clone();
        match key.to_string().as_str() {
            "crate" => put(&mut self.krate, key, setting.path(), errors),
            "name" => put(&mut self.name, key, setting.text(), errors),
            "title" => put(&mut self.title, key, setting.value(), errors),
            "description" => put(&mut self.description, key, setting.value(), errors),
            "schema" => put(&mut self.schema, key, setting.value(), errors),
            "blocking" => put(&mut self.blocking, key, setting.flag(), errors),
            "timeout" => put(&mut self.policy.timeout, key, setting.value(), errors),
            "retries" => put(&mut self.policy.retries, key, setting.value(), errors),
            "requires_approval" => put(&mut self.policy.requires_approval, key, setting.flag(), errors),
            "sequential" => put(&mut self.policy.sequential, key, setting.flag(), errors),
            "idempotent" => put(&mut self.policy.idempotent, key, setting.flag(), errors),
            "context" | "state" | "default" => {
                errors.at(
                    key,
                    format!("`{key}` is an option of a parameter: put `#[tool({key})]` before its name"),
                );
            }
            _ => errors.at(key, format!("a tool has no option `{key}`; it has {KNOWN}")),
        }
    }
}
