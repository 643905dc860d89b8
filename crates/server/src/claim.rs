//! One server a store on each host, whatever the path: a copy of a data directory that nobody told from the original, such as
//! a snapshot of its disk, is refused while the original is served.
//!
//! The claim is an abstract socket named by the store. The system drops it with the process, and it leaves no file.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use anyhow::Context;
use leeway_store::Identity;

/// Held as long as it lives.
#[derive(Debug)]
pub struct Claim {
    _socket: UnixListener,
}

/// Claims a store for this process, on this host.
///
/// # Errors
/// When another process has it.
pub fn claim(store: &Identity) -> anyhow::Result<Claim> {
    let name = format!("leeway/{}/{}", store.installation, store.incarnation);
    let bound = SocketAddr::from_abstract_name(name.as_bytes()).and_then(|address| UnixListener::bind_addr(&address));
    match bound {
        Ok(socket) => Ok(Claim { _socket: socket }),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => anyhow::bail!(
            "STORE_SERVED_ELSEWHERE: the store of installation '{}', incarnation {}, is in use by another process of this host, be it from this data directory or from a copy; two servers of one store would run its jobs twice: end that one, and serve only one of them from then on",
            store.installation,
            store.incarnation
        ),
        Err(error) => Err(error).context("cannot claim the store on this host"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_claimed_once_on_a_host_and_another_incarnation_is_another_store() {
        let store = |incarnation: &str| Identity {
            installation: format!("claims-{}", std::process::id()),
            incarnation: incarnation.to_owned(),
        };
        let first = claim(&store("a")).unwrap();
        let refused = claim(&store("a")).unwrap_err().to_string();
        assert!(refused.starts_with("STORE_SERVED_ELSEWHERE") && refused.contains("incarnation a"), "{refused}");
        claim(&store("b")).unwrap();
        drop(first);
        claim(&store("a")).unwrap();
    }
}
