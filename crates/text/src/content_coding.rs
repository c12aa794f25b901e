/// The content codings of RFC 9110, section 8.4.1, and the later ones that servers use.
const CODINGS: [&str; 9] =
    ["gzip", "x-gzip", "deflate", "compress", "x-compress", "br", "zstd", "dcb", "dcz"];

/// Returns `content_encoding`, the value of the HTTP header `Content-Encoding`, if it names a
/// compression, or else `None`. Some servers send values such as `identity`, `none` and `utf-8`.
///
/// # Examples
///
/// ```
/// use haft_text::compression;
///
/// assert_eq!(compression(" gzip"), Some("gzip"));
/// assert_eq!(compression("identity, br"), Some("identity, br"));
/// assert_eq!(compression("utf-8"), None);
/// ```
pub fn compression(content_encoding: &str) -> Option<&str> {
    let coding = content_encoding.trim();
    let is_compression = |part: &str| CODINGS.iter().any(|known| part.trim().eq_ignore_ascii_case(known));
    coding.split(',').any(is_compression).then_some(coding)
}
