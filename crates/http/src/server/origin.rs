//! The headers `Host` and `Origin`.

use http::{
    HeaderMap, HeaderName, HeaderValue, Request,
    header::{AUTHORIZATION, HOST, ORIGIN},
    uri::{Authority, Scheme, Uri},
};

use super::Rejection;

/// The headers that a request must not repeat.
const SINGULAR_HEADERS: [HeaderName; 3] = [HOST, ORIGIN, AUTHORIZATION];

/// The permitted values of `Host` and `Origin`.
pub(super) struct Origins {
    hosts: Vec<AllowedHost>,
    /// `true` if the configured list is empty. A list of invalid hosts permits none.
    permits_all_hosts: bool,
    origins: Vec<AllowedOrigin>,
}

/// A host in lower case, with the only permitted port. `None` permits all ports.
struct AllowedHost {
    host: String,
    port: Option<u16>,
}

/// A permitted value of `Origin`.
enum AllowedOrigin {
    /// The value `null`, of a sandboxed page or a local file.
    Null,
    Tuple {
        scheme: String,
        host: AllowedHost,
    },
}

impl Origins {
    pub(super) fn new(hosts: &[String], origins: &[String]) -> Self {
        Self {
            hosts: hosts.iter().filter_map(|text| AllowedHost::parse(text)).collect(),
            permits_all_hosts: hosts.is_empty(),
            origins: origins.iter().filter_map(|text| AllowedOrigin::parse(text)).collect(),
        }
    }

    /// Checks `Host`, or without it the authority of the target, and `Origin`.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<(), Rejection> {
        let (host, port) = host_of(request.uri(), request.headers()).ok_or(Rejection::InvalidHost)?;
        if !self.permits_all_hosts && !self.hosts.iter().any(|allowed| allowed.matches(&host, port)) {
            tracing::warn!(host, "rejected a request with another Host");
            return Err(Rejection::ForbiddenHost);
        }
        let Some(origin) = request.headers().get(ORIGIN) else { return Ok(()) };
        if !self.origins.iter().any(|allowed| allowed.matches(origin)) {
            tracing::warn!(?origin, "rejected a request with another Origin");
            return Err(Rejection::ForbiddenOrigin);
        }
        Ok(())
    }
}

impl AllowedHost {
    /// Parses `host`, `host:port`, or an IPv6 address without brackets. `None` for an invalid host.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.parse::<Authority>() {
            Ok(authority) => Some(Self { host: normalize(authority.host()), port: authority.port_u16() }),
            Err(_) if text.is_empty() => None,
            Err(_) => Some(Self { host: normalize(text), port: None }),
        }
    }

    fn matches(&self, host: &str, port: Option<u16>) -> bool {
        self.host == host && (self.port.is_none() || self.port == port)
    }
}

impl AllowedOrigin {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("null") {
            return Some(Self::Null);
        }
        let any_port = text.strip_suffix(":*");
        let (scheme, host, port) = parse_origin(any_port.unwrap_or(text))?;
        let port = match any_port {
            Some(_) if port.is_some() => return None,
            Some(_) => None,
            None => Some(port.or_else(|| default_port(&scheme))?),
        };
        Some(Self::Tuple { scheme, host: AllowedHost { host, port } })
    }

    fn matches(&self, origin: &HeaderValue) -> bool {
        let Ok(origin) = origin.to_str().map(str::trim) else { return false };
        match self {
            Self::Null => origin.eq_ignore_ascii_case("null"),
            Self::Tuple { scheme, host } => {
                parse_origin(origin).is_some_and(|(its_scheme, its_host, port)| {
                    // An origin is sent without its default port (RFC 6454, section 6.2).
                    let port = port.or_else(|| default_port(&its_scheme));
                    *scheme == its_scheme && host.matches(&its_host, port)
                })
            }
        }
    }
}

/// Parses `scheme://host` or `scheme://host:port`.
fn parse_origin(text: &str) -> Option<(String, String, Option<u16>)> {
    let uri: Uri = text.parse().ok()?;
    let authority = uri.authority()?;
    Some((uri.scheme_str()?.to_ascii_lowercase(), normalize(authority.host()), authority.port_u16()))
}

/// Returns the port that an origin with `scheme` may omit (RFC 6454, section 4).
fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

fn host_of(target: &Uri, headers: &HeaderMap) -> Option<(String, Option<u16>)> {
    let authority = match headers.get(HOST) {
        Some(host) => host.to_str().ok()?.parse().ok()?,
        // HTTP/2 has the host in `:authority`.
        None => target.authority()?.clone(),
    };
    Some((normalize(authority.host()), authority.port_u16()))
}

/// Returns `host` in lower case, without the brackets of an IPv6 address.
fn normalize(host: &str) -> String {
    host.trim_matches(['[', ']']).to_ascii_lowercase()
}

/// Rejects a request whose headers contradict one another: a proxy in front of the server may have
/// checked another line than the server does (RFC 9112, section 3.2).
pub(super) fn check_singular_headers<B>(request: &Request<B>) -> Result<(), Rejection> {
    let headers = request.headers();
    let is_repeated = SINGULAR_HEADERS.iter().any(|name| headers.get_all(name).iter().nth(1).is_some());
    let host = headers.get(HOST).map(HeaderValue::as_bytes);
    let is_other = host.zip(request.uri().authority()).is_some_and(|(host, authority)| {
        let scheme = request.uri().scheme();
        let authority = without_default_port(authority.as_str().as_bytes(), scheme);
        !without_default_port(host, scheme).eq_ignore_ascii_case(authority)
    });
    match is_repeated || is_other {
        true => Err(Rejection::AmbiguousHeaders),
        false => Ok(()),
    }
}

/// Returns `authority` without an empty port, and without the default port of `scheme`, which may
/// be omitted (RFC 9110, section 4.2.3).
fn without_default_port<'a>(authority: &'a [u8], scheme: Option<&Scheme>) -> &'a [u8] {
    let port: &[u8] = match scheme.map(Scheme::as_str) {
        Some("http") => b":80",
        Some("https") => b":443",
        _ => b":",
    };
    authority.strip_suffix(port).or_else(|| authority.strip_suffix(b":")).unwrap_or(authority)
}

#[cfg(test)]
mod tests;
