/// The error for a call that the server of an HTTP endpoint rejected because of a missing, invalid
/// or insufficient access token.
///
/// `LoginRequired` is the `source` of a [`ToolError::Failed`](haft_core::ToolError::Failed). The
/// call was not executed. If the server has credentials, perform a [`login`](crate::login) with
/// [`scopes`](Self::scopes), and repeat the call: the existing source uses the new token.
/// Otherwise, the token in the headers of the server is wrong.
///
/// A host limits the number of logins: a server may require another scope each time.
///
/// # Examples
///
/// ```
/// use haft_core::ToolError;
/// use haft_mcp::LoginRequired;
///
/// fn missing_scopes(error: &ToolError) -> Option<&[String]> {
///     let ToolError::Failed { source: Some(source), .. } = error else { return None };
///     Some(&source.downcast_ref::<LoginRequired>()?.scopes)
/// }
/// # assert!(missing_scopes(&ToolError::failed("no such file")).is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct LoginRequired {
    /// The scopes that the server requires for the call (RFC 6750, section 3.1). Empty if the
    /// server rejected the token, or if it names no scope.
    pub scopes: Vec<String>,
    /// A description of the rejection.
    pub reason: String,
}
