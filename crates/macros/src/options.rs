//! The options of `#[tool(…)]` on a function.

use syn::{Error, Expr, ExprLit, Ident, Lit, LitStr, Path, Result};

use crate::{
    errors::Errors,
    parameter::is_option_of_parameter,
    settings::{Setting, Settings, set_once},
};

/// The parsed options of a tool.
#[derive(Default)]
pub(crate) struct Options {
    /// The option `crate`: the path of haft-core, for programs that rename or re-export haft-core.
    pub(crate) krate: Option<Path>,
    pub(crate) name: Option<LitStr>,
    /// The option `type`: the name of the generated struct.
    pub(crate) ty: Option<Ident>,
    pub(crate) title: Option<Expr>,
    pub(crate) description: Option<Expr>,
    pub(crate) schema: Option<Expr>,
    pub(crate) blocking: Option<Ident>,
    pub(crate) policy: ToolPolicy,
    pub(crate) annotations: Annotations,
    /// The note of the option `deprecated`. `None` if the option is not set, and `Some(None)` if
    /// the option has no note.
    pub(crate) deprecated: Option<Option<Expr>>,
    pub(crate) replaced_by: Option<Expr>,
}

/// The options for the policy of the tool. Unset options have the defaults of haft-core.
#[derive(Default)]
pub(crate) struct ToolPolicy {
    pub(crate) timeout: Option<Expr>,
    pub(crate) retries: Option<Expr>,
    pub(crate) max_calls: Option<Expr>,
    pub(crate) requires_approval: Option<Ident>,
    pub(crate) sequential: Option<Ident>,
    pub(crate) repeatable: Option<Ident>,
    pub(crate) cacheable: Option<Expr>,
    pub(crate) on_cancel: Option<Expr>,
    pub(crate) touches: Option<Expr>,
    pub(crate) output_limit: Option<Expr>,
    pub(crate) requires_scope: Vec<Expr>,
}

/// Hints about the effects of the tool (MCP tool annotations).
#[derive(Default)]
pub(crate) struct Annotations {
    pub(crate) read_only: Option<Expr>,
    pub(crate) destructive: Option<Expr>,
    pub(crate) idempotent: Option<Expr>,
    pub(crate) open_world: Option<Expr>,
}

const TOOL_OPTIONS: &str = "`name`, `type`, `title`, `description`, `schema`, `blocking`, `timeout`, `retries`, `max_calls`, `output_limit`, \
                     `requires_approval`, `requires_scope`, `sequential`, `repeatable`, `cacheable`, `on_cancel`, `touches`, \
                     `read_only`, `destructive`, `idempotent`, `open_world`, `deprecated`, `replaced_by`, `crate`";

impl Options {
    /// Converts `settings`, the content of `#[tool(…)]`, to options. Adds an error to `errors` for
    /// each invalid setting.
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
            "crate" => set_once(&mut self.krate, key, setting.path(), errors),
            "name" => set_once(&mut self.name, key, setting.text(), errors),
            "type" => set_once(&mut self.ty, key, setting.ident(), errors),
            "title" => set_once(&mut self.title, key, setting.value(), errors),
            "description" => set_once(&mut self.description, key, setting.value(), errors),
            "schema" => set_once(&mut self.schema, key, setting.value(), errors),
            "blocking" => set_once(&mut self.blocking, key, setting.flag(), errors),
            "timeout" => set_once(&mut self.policy.timeout, key, positive(setting), errors),
            "retries" => set_once(&mut self.policy.retries, key, setting.value(), errors),
            "requires_approval" => set_once(&mut self.policy.requires_approval, key, setting.flag(), errors),
            "sequential" => set_once(&mut self.policy.sequential, key, setting.flag(), errors),
            "repeatable" => set_once(&mut self.policy.repeatable, key, setting.flag(), errors),
            "cacheable" => {
                set_once(&mut self.policy.cacheable, key, Ok(setting.value_or_true()), errors);
            }
            "on_cancel" => set_once(&mut self.policy.on_cancel, key, setting.value(), errors),
            "touches" => set_once(&mut self.policy.touches, key, setting.value(), errors),
            "max_calls" => set_once(&mut self.policy.max_calls, key, positive(setting), errors),
            "output_limit" => set_once(&mut self.policy.output_limit, key, positive(setting), errors),
            "requires_scope" => self.policy.requires_scope.extend(errors.ok_or_record(setting.value())),
            "read_only" => {
                set_once(&mut self.annotations.read_only, key, Ok(setting.value_or_true()), errors);
            }
            "destructive" => {
                set_once(&mut self.annotations.destructive, key, Ok(setting.value_or_true()), errors);
            }
            "idempotent" => {
                set_once(&mut self.annotations.idempotent, key, Ok(setting.value_or_true()), errors);
            }
            "open_world" => {
                set_once(&mut self.annotations.open_world, key, Ok(setting.value_or_true()), errors);
            }
            "deprecated" => set_once(&mut self.deprecated, key, Ok(setting.optional_value()), errors),
            "replaced_by" => set_once(&mut self.replaced_by, key, setting.value(), errors),
            _ if is_option_of_parameter(key) => {
                errors.add_at(
                    key,
                    format!("`{key}` is an option of a parameter: put `#[tool({key})]` before its name"),
                );
            }
            _ => errors.add_at(key, format!("a tool has no option `{key}`; it has {TOOL_OPTIONS}")),
        }
    }
}

/// Returns the value of `setting`. Fails if the value is a literal zero or a `Duration` of zero.
/// With zero, no call of the tool could succeed.
fn positive(setting: Setting) -> Result<Expr> {
    let key = setting.key.clone();
    let value = setting.value()?;
    if is_zero(&value) {
        let text = format!("`{key}` of zero makes each call fail: set a positive value, or leave it out");
        return Err(Error::new_spanned(value, text));
    }
    Ok(value)
}

/// Returns `true` for `0`, `0.0`, `Duration::ZERO`, and calls such as `Duration::from_secs(0)`. The
/// values of other expressions are unknown here; haft-core checks them.
fn is_zero(value: &Expr) -> bool {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => {
            number.base10_parse::<u128>().is_ok_and(|it| it == 0)
        }
        Expr::Lit(ExprLit { lit: Lit::Float(number), .. }) => {
            number.base10_parse::<f64>().is_ok_and(|it| it == 0.0)
        }
        Expr::Path(path) => item_of_duration(&path.path).is_some_and(|name| name == "ZERO"),
        Expr::Call(call) => match &*call.func {
            Expr::Path(function) => {
                item_of_duration(&function.path)
                    .is_some_and(|name| name == "new" || name.starts_with("from_"))
                    && !call.args.is_empty()
                    && call.args.iter().all(is_zero)
            }
            _ => false,
        },
        Expr::Paren(inner) => is_zero(&inner.expr),
        Expr::Group(inner) => is_zero(&inner.expr),
        _ => false,
    }
}

/// Returns the name of a function or constant of the type `Duration`. `None` for other paths,
/// because the macro does not know their values.
fn item_of_duration(path: &Path) -> Option<String> {
    let mut segments = path.segments.iter().rev();
    let (item, owner) = (segments.next()?, segments.next()?);
    (owner.ident == "Duration").then(|| item.ident.to_string())
}
