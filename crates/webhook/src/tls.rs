//! TLS of outgoing webhooks: rustls on ring, trusting what the platform trusts plus the operator's own roots.
//!
//! The platform verifier rather than a bundled list of roots: reqwest brings it anyway, so it costs no dependency, and
//! an operator who installs a company CA on the machine expects it to count.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

/// Makes ring the process's cryptography unless something else already is. Call it as often as you like.
pub fn install_crypto_provider() {
    if CryptoProvider::get_default().is_none() {
        // An error means that another thread was faster, which is as good.
        let _ = ring::default_provider().install_default();
    }
}

/// The configuration for all attempts of one deliverer; reads the platform's roots once. Without any root every https
/// attempt fails at its certificate, which is safe and visible, so a machine without roots can still deliver to
/// listed plain http targets.
///
/// # Errors
/// When one of `extra_roots` is not a certificate.
pub(crate) fn client_config(extra_roots: &[CertificateDer<'static>]) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let mut checked = RootCertStore::empty();
    for root in extra_roots {
        checked.add(root.clone())?;
    }
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    match Verifier::new_with_extra_roots(extra_roots.iter().cloned(), provider) {
        Ok(verifier) => {
            Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
        }
        Err(error) => {
            tracing::warn!(%error, "no trusted certificate roots; webhooks to https targets will fail");
            Ok(builder.with_root_certificates(checked).with_no_client_auth())
        }
    }
}
