//! Parser for the settings inside `#[tool(…)]`: `key` or `key = value`, separated by commas.

use syn::{
    Error, Expr, ExprLit, ExprPath, ExprRange, Ident, Lit, LitStr, Path, RangeLimits, Result, Token,
    ext::IdentExt,
    parse::{Parse, ParseStream},
    parse_quote,
    punctuated::Punctuated,
};

use crate::errors::Errors;

/// A single setting: `key` or `key = value`.
pub(crate) struct Setting {
    pub(crate) key: Ident,
    value: Option<Expr>,
}

/// The bounds of a range such as `1..=10`.
pub(crate) struct Bounds {
    pub(crate) start: Option<Expr>,
    pub(crate) end: Option<Expr>,
    /// `true` if the end is exclusive, as in `1..10`.
    pub(crate) is_end_exclusive: bool,
}

/// All settings inside the parentheses of an attribute.
#[derive(Default)]
pub(crate) struct Settings(pub(crate) Punctuated<Setting, Token![,]>);

impl Setting {
    /// Returns the value, which can be any expression. Fails if the setting has no value.
    pub(crate) fn value(self) -> Result<Expr> {
        let Self { key, value } = self;
        value.ok_or_else(|| Error::new_spanned(&key, format!("`{key}` needs a value: `{key} = …`")))
    }

    /// Returns the value, or `None` if the setting has no value.
    pub(crate) fn optional_value(self) -> Option<Expr> {
        self.value
    }

    /// Returns the value of the setting. Fails unless the value is a string literal.
    pub(crate) fn text(self) -> Result<LitStr> {
        let key = self.key.clone();
        match self.value()? {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text),
            other => {
                Err(Error::new_spanned(other, format!("`{key}` needs a text in quotes: `{key} = \"…\"`")))
            }
        }
    }

    /// Returns the value of the setting. Fails unless the value is an identifier.
    pub(crate) fn ident(self) -> Result<Ident> {
        let key = self.key.clone();
        let value = self.value()?;
        match &value {
            Expr::Path(ExprPath { qself: None, path, .. }) if path.get_ident().is_some() => {
                path.require_ident().cloned()
            }
            _ => Err(Error::new_spanned(
                value,
                format!("`{key}` needs a name without quotes: `{key} = MyTool`"),
            )),
        }
    }

    /// Returns the value of the setting. Fails unless the value is a path.
    pub(crate) fn path(self) -> Result<Path> {
        let key = self.key.clone();
        match self.value()? {
            Expr::Path(ExprPath { qself: None, path, .. }) => Ok(path),
            other => Err(Error::new_spanned(
                other,
                format!("`{key}` needs a path without quotes: `{key} = ::a::path`"),
            )),
        }
    }

    /// Returns the value of a boolean setting. A `key` without a value means `key = true`.
    pub(crate) fn value_or_true(self) -> Expr {
        self.value.unwrap_or_else(|| parse_quote!(true))
    }

    /// Returns the bounds of a range such as `1..=10`, `1..` or `..10`. Fails unless the value is a
    /// range with at least one bound.
    pub(crate) fn bounds(self) -> Result<Bounds> {
        let key = self.key.clone();
        match self.value()? {
            Expr::Range(ExprRange { start, limits, end, .. }) if start.is_some() || end.is_some() => {
                let is_end_exclusive = matches!(limits, RangeLimits::HalfOpen(_));
                Ok(Bounds { start: start.map(|it| *it), end: end.map(|it| *it), is_end_exclusive })
            }
            other => Err(Error::new_spanned(other, format!("`{key}` needs a range: `{key} = 1..=10`"))),
        }
    }

    /// Returns the key of a setting without a value, such as `blocking`. Fails if the setting has a
    /// value.
    pub(crate) fn flag(self) -> Result<Ident> {
        match self.value {
            None => Ok(self.key),
            Some(value) => {
                let key = self.key;
                Err(Error::new_spanned(
                    value,
                    format!("`{key}` has no value: write `{key}`, or leave it out"),
                ))
            }
        }
    }
}

impl Parse for Setting {
    fn parse(input: ParseStream) -> Result<Self> {
        let key = input.call(Ident::parse_any).map_err(|error| {
            Error::new(error.span(), "expected the name of an option, such as `name = \"…\"`")
        })?;
        let value = match input.parse::<Option<Token![=]>>()? {
            Some(_) => Some(without_group(input.parse()?)),
            None => None,
        };
        Ok(Self { key, value })
    }
}

/// Removes the invisible group that `macro_rules!` puts around an expression fragment. Returns
/// other expressions unchanged.
pub(crate) fn without_group(value: Expr) -> Expr {
    match value {
        Expr::Group(group) => without_group(*group.expr),
        other => other,
    }
}

impl Parse for Settings {
    fn parse(input: ParseStream) -> Result<Self> {
        input.call(Punctuated::parse_terminated).map(Self)
    }
}

/// Stores the `value` of the setting `key` in `slot`. Adds an error to `errors` if parsing the
/// value failed, or if the setting is a duplicate.
pub(crate) fn set_once<T>(slot: &mut Option<T>, key: &Ident, value: Result<T>, errors: &mut Errors) {
    if slot.is_some() {
        errors.add_at(key, format!("`{key}` is given twice: keep one"));
    }
    if let Some(value) = errors.ok_or_record(value) {
        *slot = Some(value);
    }
}
