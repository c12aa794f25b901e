use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Name, Resolve, Resolving};

/// The class of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Public,
    /// An address of a private network (RFC 1918, RFC 4193, RFC 6598).
    Private,
    Loopback,
    /// A link-local address, such as the metadata service of a cloud, or another reserved address.
    Reserved,
}

/// A name resolver that returns only addresses to which a server may direct requests: public
/// addresses, and addresses of the class of the server itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressFilter {
    permitted: Class,
}

impl AddressFilter {
    /// Creates a filter for the metadata of a server at `url`. A server with a loopback or private
    /// address may name other addresses of its class.
    pub(super) async fn for_server(url: &reqwest::Url) -> Self {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let found = tokio::net::lookup_host((host, 0)).await.into_iter().flatten();
        let mut classes = found.map(|address| class_of(address.ip()));
        // A name with addresses of several classes has no class of its own.
        let class = classes.next().filter(|first| classes.all(|class| class == *first));
        let class = class.filter(|class| *class != Class::Reserved);
        Self { permitted: class.unwrap_or(Class::Public) }
    }

    pub(super) fn permits(self, address: IpAddr) -> bool {
        let class = class_of(address);
        class == Class::Public || class == self.permitted
    }

    /// Returns `true` if the host of `url` is a name, which is checked after its resolution, or a
    /// permitted address. `reqwest` does not resolve addresses.
    pub(super) fn permits_host(self, url: &reqwest::Url) -> bool {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        host.parse().map_or(true, |address| self.permits(address))
    }
}

impl Resolve for AddressFilter {
    fn resolve(&self, name: Name) -> Resolving {
        let filter = *self;
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            let is_proxy = is_proxy(&host);
            let permitted: Vec<SocketAddr> =
                found.filter(|address| is_proxy || filter.permits(address.ip())).collect();
            if permitted.is_empty() {
                return Err(format!("{host} has no permitted address").into());
            }
            Ok(Box::new(permitted.into_iter()) as _)
        })
    }
}

/// Returns `true` if `host` is a proxy that the environment configures. It often has a private
/// address.
fn is_proxy(host: &str) -> bool {
    let variables = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    let proxies = variables.into_iter().filter_map(|name| std::env::var(name).ok());
    let urls = proxies.filter_map(|proxy| {
        let url = if proxy.contains("://") { proxy } else { format!("http://{proxy}") };
        reqwest::Url::parse(&url).ok()
    });
    urls.into_iter().any(|url| url.host_str() == Some(host))
}

fn class_of(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            if address.is_loopback() {
                Class::Loopback
            } else if address.is_private() || first == 100 && (64..128).contains(&second) {
                Class::Private
            } else if address.is_link_local()
                || address.is_unspecified()
                || address.is_broadcast()
                || address.is_documentation()
                || address.is_multicast()
                || first == 0
                || first >= 240
                || first == 198 && (18..20).contains(&second)
            {
                Class::Reserved
            } else {
                Class::Public
            }
        }
        IpAddr::V6(address) => class_of_v6(address),
    }
}

fn class_of_v6(address: Ipv6Addr) -> Class {
    if let Some(mapped) = address.to_ipv4_mapped() {
        return class_of(mapped.into());
    }
    let [first, second, ..] = address.segments();
    if address.is_loopback() {
        Class::Loopback
    } else if address.is_unique_local() {
        Class::Private
    } else if first & 0xe000 != 0x2000 || first == 0x2002 || first == 0x2001 && second < 0x0200 {
        // Only 2000::/3 is public. 6to4 and Teredo addresses contain other addresses.
        Class::Reserved
    } else if first == 0x2001 && second == 0x0db8 {
        Class::Reserved
    } else {
        Class::Public
    }
}

#[cfg(test)]
mod tests {
    use super::{AddressFilter, Class, class_of};

    #[test]
    fn addresses_have_a_class() {
        for (address, class) in [
            ("93.184.216.34", Class::Public),
            ("2606:4700::1111", Class::Public),
            ("127.0.0.1", Class::Loopback),
            ("::1", Class::Loopback),
            ("::ffff:127.0.0.1", Class::Loopback),
            ("10.0.0.9", Class::Private),
            ("100.64.0.1", Class::Private),
            ("fd00::1", Class::Private),
            ("169.254.169.254", Class::Reserved),
            ("::ffff:169.254.169.254", Class::Reserved),
            ("fe80::1", Class::Reserved),
            ("0.0.0.0", Class::Reserved),
            ("::", Class::Reserved),
            ("64:ff9b::a00:1", Class::Reserved),
            ("2002:7f00:1::", Class::Reserved),
        ] {
            assert_eq!(class_of(address.parse().unwrap()), class, "{address}");
        }
    }

    #[tokio::test]
    async fn server_may_name_addresses_of_its_class() {
        let permits = async |server: &str, address: &str| {
            let filter = AddressFilter::for_server(&reqwest::Url::parse(server).unwrap()).await;
            let url = reqwest::Url::parse(&format!("http://{address}/")).unwrap();
            filter.permits_host(&url)
        };
        assert!(permits("http://localhost:1/mcp", "127.0.0.1").await);
        assert!(permits("http://[::1]:1/mcp", "127.0.0.1").await);
        assert!(permits("http://10.0.0.1/mcp", "192.168.1.1").await);
        assert!(!permits("http://10.0.0.1/mcp", "127.0.0.1").await);
        assert!(!permits("https://93.184.216.34/mcp", "127.0.0.1").await);
        assert!(!permits("https://93.184.216.34/mcp", "10.0.0.1").await);
        assert!(!permits("http://169.254.1.1/mcp", "169.254.169.254").await);
        assert!(permits("https://93.184.216.34/mcp", "93.184.216.34").await);
    }
}
