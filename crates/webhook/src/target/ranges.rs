//! Which addresses are not public, and which must not be reached even from an allowed network.
//!
//! The lists follow the IANA special-purpose registries. They are written out here because the standard library's
//! `is_global` is not stable.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(first: u16, second: u16, third: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(first, second, third, 0, 0, 0, 0, 0), prefix)
}

const NOT_PUBLIC_V4: [(Ipv4Net, &str); 16] = [
    (v4(0, 0, 0, 0, 8), "unspecified"),
    (v4(10, 0, 0, 0, 8), "private"),
    (v4(100, 64, 0, 0, 10), "shared"),
    (v4(127, 0, 0, 0, 8), "loopback"),
    (v4(169, 254, 0, 0, 16), "link-local"),
    (v4(172, 16, 0, 0, 12), "private"),
    (v4(192, 0, 0, 0, 24), "reserved"),
    (v4(192, 0, 2, 0, 24), "documentation"),
    (v4(192, 88, 99, 0, 24), "reserved"),
    (v4(192, 168, 0, 0, 16), "private"),
    (v4(198, 18, 0, 0, 15), "reserved"),
    (v4(198, 51, 100, 0, 24), "documentation"),
    (v4(203, 0, 113, 0, 24), "documentation"),
    (v4(224, 0, 0, 0, 4), "multicast"),
    (v4(255, 255, 255, 255, 32), "broadcast"),
    (v4(240, 0, 0, 0, 4), "reserved"),
];

/// Names for people; everything outside `2000::/3` is blocked whether named here or not.
const NOT_PUBLIC_V6: [(Ipv6Net, &str); 11] = [
    (Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 128), "unspecified"),
    (Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128), "loopback"),
    (v6(0xfc00, 0, 0, 7), "private"),
    (v6(0xfe80, 0, 0, 10), "link-local"),
    (v6(0xfec0, 0, 0, 10), "private"),
    (v6(0xff00, 0, 0, 8), "multicast"),
    (v6(0x2001, 0xdb8, 0, 32), "documentation"),
    (v6(0x3fff, 0, 0, 20), "documentation"),
    // Teredo, benchmarking, ORCHID and the rest of the protocol assignments.
    (v6(0x2001, 0, 0, 23), "reserved"),
    (v6(0x2002, 0, 0, 16), "an IPv4 address hidden in IPv6"),
    (v6(0x0064, 0xff9b, 0, 96), "an IPv4 address hidden in IPv6"),
];

const GLOBAL_UNICAST_V6: Ipv6Net = v6(0x2000, 0, 0, 3);

/// Services that hand credentials to whoever asks from inside: AWS, Google, Azure, Alibaba and Oracle.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192)];
const METADATA_V6: [Ipv6Net; 2] = [v6(0xfd00, 0x0ec2, 0, 32), v6(0xfd20, 0x00ce, 0, 32)];

/// Names under which clouds offer those services to the machines inside.
const METADATA_NAMES: [&str; 5] =
    ["metadata.google.internal", "metadata.goog", "metadata", "instance-data", "instance-data.ec2.internal"];

/// Whether a name leads to a metadata service. Names are in lower case, as URLs have them.
pub fn is_metadata_name(name: &str) -> bool {
    METADATA_NAMES.contains(&name)
}

/// Whether a name stands for the machine itself, whatever it resolves to (RFC 6761).
pub fn is_loopback_name(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    last == "localhost" || matches!(name, "localhost.localdomain" | "ip6-localhost" | "ip6-loopback")
}

/// Why the address stays blocked even when the operator allows its network.
pub fn never_allowed(address: IpAddr) -> Option<&'static str> {
    const METADATA: &str = "metadata service";
    let v4 = |address: Ipv4Addr| {
        if METADATA_V4.contains(&address) {
            Some(METADATA)
        } else if address.is_link_local() {
            // No receiver lives here, but most metadata services do, and not only at one address.
            Some("link-local, where metadata services are")
        } else if address.is_unspecified() || address.is_multicast() || address.is_broadcast() {
            Some("not an address of one machine")
        } else {
            None
        }
    };
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) if METADATA_V6.iter().any(|network| network.contains(&address)) => Some(METADATA),
        IpAddr::V6(address) if address.is_unspecified() || address.is_multicast() => {
            Some("not an address of one machine")
        }
        IpAddr::V6(address) => hidden_v4(address).and_then(v4),
    }
}

/// Why the address is not a public one, or `None` when it is.
pub fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => {
            NOT_PUBLIC_V4.iter().find(|(network, _)| network.contains(&address)).map(|&(_, why)| why)
        }
        IpAddr::V6(address) => {
            let named = NOT_PUBLIC_V6.iter().find(|(network, _)| network.contains(&address)).map(|&(_, why)| why);
            let hidden = || hidden_v4(address).map(|_| "an IPv4 address hidden in IPv6");
            let reserved = || (!GLOBAL_UNICAST_V6.contains(&address)).then_some("reserved");
            named.or_else(hidden).or_else(reserved)
        }
    }
}

/// The IPv4 address that a connection to this IPv6 address would end at: mapped, compatible, NAT64 (well-known and
/// local-use prefix) or 6to4.
fn hidden_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] => Some(from(high, low)),
        // Stateless translation (RFC 2765).
        [0, 0, 0, 0, 0xffff, 0, high, low] => Some(from(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(from(high, low)),
        [0x64, 0xff9b, 1, _, _, _, high, low] => Some(from(high, low)),
        [0x2002, high, low, ..] => Some(from(high, low)),
        _ => None,
    }
}
