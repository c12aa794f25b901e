use std::fmt;

/// The name of a session: a tenant and an id that is unique for this tenant. Sessions of different
/// tenants never see each other. A program with one tenant uses the empty name.
///
/// # Examples
///
/// ```
/// use haft_session::SessionKey;
///
/// let key = SessionKey::new("travel-2026")?;
/// assert_eq!((key.tenant(), key.id()), ("", "travel-2026"));
/// assert!(SessionKey::new("../etc/passwd").is_err());
/// # Ok::<(), haft_session::InvalidId>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    tenant: String,
    id: String,
}

/// The error for an id that is not 1 to 128 ASCII letters, digits, `.`, `_`, `:` or `-`, or does not
/// begin with a letter, a digit or `_`. `..` is a part of a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no id: write 1 to 128 letters, digits, `_`, `.`, `:` or `-`, first a letter, a digit or `_`"
)]
pub struct InvalidId(pub(crate) String);

impl SessionKey {
    /// The maximum length of an id, in bytes.
    pub const MAX_ID_BYTES: usize = 128;

    /// Creates the key of a session without a tenant.
    ///
    /// # Errors
    ///
    /// Fails if `id` is not 1 to 128 ASCII letters, digits, `.`, `_`, `:` or `-`, or does not begin with
    /// a letter, a digit or `_`.
    pub fn new(id: impl Into<String>) -> Result<Self, InvalidId> {
        Self::of_tenant("", id)
    }

    /// Creates the key of a session of `tenant`, any text.
    ///
    /// # Errors
    ///
    /// Fails in the same cases as [`new`](Self::new).
    pub fn of_tenant(tenant: impl Into<String>, id: impl Into<String>) -> Result<Self, InvalidId> {
        let id = id.into();
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        let has_valid_start = id.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_');
        if !has_valid_start || id.len() > Self::MAX_ID_BYTES || !id.bytes().all(is_valid) {
            return Err(InvalidId(id.chars().take(Self::MAX_ID_BYTES).collect()));
        }
        Ok(Self { tenant: tenant.into(), id })
    }

    /// Returns the tenant.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// Returns the id of the session.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)
    }
}
