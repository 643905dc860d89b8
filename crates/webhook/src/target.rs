//! Where a webhook may go. An endpoint's URL comes from a user, and a server that posts to any URL can be made to post
//! into its own network; so only public addresses are allowed unless the operator lists others.
//!
//! ```text
//! text ── Target::parse ──> scheme, port, host form ── resolve ──> every address checked ──> connect to these only
//! ```
//!
//! The check runs at every attempt, because a name may point elsewhere tomorrow, and its result is what the connection
//! uses, because a name may point elsewhere a moment later.

pub mod ranges;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use futures::future::BoxFuture;
use ipnet::IpNet;
use url::{Host, Url};

use crate::redact;

const URL_BYTES_MAX: usize = 2_048;
const DEFAULT_PORTS: [u16; 2] = [443, 8443];
/// More addresses than this of one name are not tried; all of them are checked.
const ADDRESSES_MAX: usize = 16;

/// What the operator allows. The default is https to public addresses on ports 443 and 8443.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetPolicy {
    /// Allows plain http, and only to `allowed_networks`.
    pub allow_http: bool,
    /// Networks that are allowed although they are not public. Metadata addresses inside them stay blocked.
    pub allowed_networks: Vec<IpNet>,
    pub allowed_ports: Ports,
}

/// Ports that a target may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ports {
    /// 443 and 8443.
    #[default]
    Usual,
    /// These and no others.
    Only(Vec<u16>),
    Any,
}

impl TargetPolicy {
    /// For a demo or a test on one machine: plain http to loopback on any port.
    pub fn loopback() -> Self {
        let networks =
            [IpNet::new_assert([127, 0, 0, 0].into(), 8), IpNet::new_assert([0, 0, 0, 0, 0, 0, 0, 1].into(), 128)];
        Self { allow_http: true, allowed_networks: networks.to_vec(), allowed_ports: Ports::Any }
    }

    fn allows_port(&self, port: u16) -> bool {
        match &self.allowed_ports {
            Ports::Usual => DEFAULT_PORTS.contains(&port),
            Ports::Only(ports) => ports.contains(&port),
            Ports::Any => true,
        }
    }

    /// Whether a connection to a host of this name may be allowed, as far as the name itself says where it leads.
    fn check_name(&self, name: &str, plain: bool) -> Result<(), TargetError> {
        if ranges::is_metadata_name(name) {
            return Err(TargetError::Metadata { name: name.to_owned() });
        }
        let loopback = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let is_allowed = || loopback.iter().any(|address| self.check_address(*address, plain).is_ok());
        if ranges::is_loopback_name(name) && !is_allowed() {
            return Err(TargetError::Loopback { name: name.to_owned() });
        }
        Ok(())
    }

    /// Whether a connection to this address is allowed.
    ///
    /// # Errors
    /// Names the address and why it is blocked.
    pub fn check_address(&self, address: IpAddr, plain: bool) -> Result<(), TargetError> {
        if let Some(why) = ranges::never_allowed(address) {
            return Err(TargetError::Blocked { address, why });
        }
        if self.allowed_networks.iter().any(|network| network.contains(&address)) {
            return Ok(());
        }
        match ranges::not_public(address) {
            Some(why) => Err(TargetError::NotPublic { address, why }),
            None if plain => Err(TargetError::PlainHttp),
            None => Ok(()),
        }
    }
}

/// Why a webhook is not sent there. Never shows more of the URL than its origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("url is not a url: {0}")]
    Unreadable(url::ParseError),
    #[error("url is longer than {URL_BYTES_MAX} bytes")]
    TooLong,
    #[error("url has scheme '{0}'; use https")]
    Scheme(String),
    #[error("url is plain http; use https, or ask the operator to allow http to this network")]
    PlainHttp,
    #[error("url contains a user or password; remove it, requests are signed instead")]
    UserInfo,
    #[error("url has no host")]
    NoHost,
    #[error("host ends with a dot; write it without")]
    TrailingDot,
    #[error("port {0} is not allowed; use 443 or 8443, or ask the operator to list it")]
    Port(u16),
    #[error("address {address} is blocked: {why}")]
    Blocked { address: IpAddr, why: &'static str },
    #[error(
        "address {address} is blocked: {why}; use a public one, or ask the operator to list its network in \
         webhooks.allowed_networks"
    )]
    NotPublic { address: IpAddr, why: &'static str },
    #[error(
        "host '{name}' is blocked: it is the server's own machine; use a public one, or ask the operator to list \
         127.0.0.0/8 in webhooks.allowed_networks"
    )]
    Loopback { name: String },
    #[error("host '{name}' is blocked: it is a metadata service")]
    Metadata { name: String },
    #[error("host does not resolve: {0}")]
    Unresolved(String),
}

/// Finds the addresses of a name. Its own trait because the answer decides whether the request is safe, so tests must
/// be able to lie.
pub trait Resolver: Send + Sync + fmt::Debug {
    /// All addresses of `host`; an empty answer counts as a failure.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Asks the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// A URL whose form is allowed. Its addresses are not known yet.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
    port: u16,
}

impl Target {
    /// Checks everything that can be checked without asking for addresses: call it when an endpoint is created.
    ///
    /// # Errors
    /// Says which part of the URL is not allowed and what to write instead.
    pub fn parse(text: &str, policy: &TargetPolicy) -> Result<Self, TargetError> {
        if text.len() > URL_BYTES_MAX {
            return Err(TargetError::TooLong);
        }
        let mut url = Url::parse(text).map_err(TargetError::Unreadable)?;
        let plain = match url.scheme() {
            "https" => false,
            "http" if policy.allow_http => true,
            "http" => return Err(TargetError::PlainHttp),
            other => return Err(TargetError::Scheme(leeway_model::name::escape(other))),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(TargetError::UserInfo);
        }
        let port = url.port_or_known_default().ok_or(TargetError::NoHost)?;
        if !policy.allows_port(port) {
            return Err(TargetError::Port(port));
        }
        // The parser has already turned decimal, octal, hexadecimal and shortened spellings into an address.
        match url.host().ok_or(TargetError::NoHost)? {
            Host::Domain(name) if name.ends_with('.') => return Err(TargetError::TrailingDot),
            Host::Domain(name) => policy.check_name(name, plain)?,
            Host::Ipv4(address) => policy.check_address(address.into(), plain)?,
            Host::Ipv6(address) => policy.check_address(address.into(), plain)?,
        }
        url.set_fragment(None);
        Ok(Self { url, port })
    }

    /// The addresses to connect to. Refuses the target when any of its addresses is blocked, not only the first.
    ///
    /// # Errors
    /// When the name has no address or a blocked one.
    pub async fn resolve(
        &self,
        policy: &TargetPolicy,
        resolver: &dyn Resolver,
    ) -> Result<Vec<SocketAddr>, TargetError> {
        let addresses = match self.url.host().ok_or(TargetError::NoHost)? {
            Host::Ipv4(address) => vec![address.into()],
            Host::Ipv6(address) => vec![address.into()],
            Host::Domain(name) => {
                resolver.resolve(name).await.map_err(|error| TargetError::Unresolved(error.to_string()))?
            }
        };
        if addresses.is_empty() {
            return Err(TargetError::Unresolved("no addresses".to_owned()));
        }
        for &address in &addresses {
            policy.check_address(address, self.url.scheme() == "http")?;
        }
        Ok(addresses.into_iter().take(ADDRESSES_MAX).map(|address| SocketAddr::new(address, self.port)).collect())
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// The name to resolve, or `None` when the URL has an address.
    pub(crate) fn domain(&self) -> Option<&str> {
        self.url.domain()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&redact::parsed_url(&self.url))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
