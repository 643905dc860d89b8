//! Keys of the installation: sealing of secrets, agents' tokens, and marks on what clients hand back.
//!
//! One key file of 64 random bytes, readable by its owner only. Everything else is derived from it, so agents' tokens
//! and page tokens survive restarts without being stored anywhere. A sealed value is bound to its purpose and cannot be
//! opened for another.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use leeway_model::job::Sealed;
use leeway_model::{InstallationId, RunId};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

const KEY_BYTES: usize = 64;
/// First byte of a sealed value.
const VERSION: u8 = 1;
/// Bytes of a mark on a page token.
pub const MARK_BYTES: usize = 32;

/// What a sealed value is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    JobSecret,
    WebhookSecret,
}

impl Purpose {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::JobSecret => b"leeway job secret",
            Self::WebhookSecret => b"leeway webhook secret",
        }
    }
}

pub struct Keys {
    seal: LessSafeKey,
    tokens: hmac::Key,
    marks: hmac::Key,
    digests: hmac::Key,
    random: SystemRandom,
    installation: InstallationId,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(<secret>)")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error(
        "{path} has mode {mode:03o} and can be read by others; run 'chmod 600 {path}', and replace what it protected"
    )]
    Mode { path: PathBuf, mode: u32 },
    #[error("{path} has {len} bytes instead of {KEY_BYTES}; restore it from a copy, since sealed secrets need it")]
    Length { path: PathBuf, len: usize },
    #[error("{path} is missing, but the store beside it holds what it sealed; restore it from a copy")]
    Missing { path: PathBuf },
    #[error("the system gives no random bytes")]
    Random,
}

/// A sealed value that cannot be opened: another key, another purpose, or damage.
#[derive(Debug, thiserror::Error)]
#[error("a sealed value cannot be opened with this installation's key")]
pub struct OpenError;

impl Keys {
    /// Reads the key file, or makes it when there is none and `fresh` says that nothing was sealed yet.
    pub fn open(path: &Path, installation: InstallationId, fresh: bool) -> Result<Self, KeyError> {
        let io = |source| KeyError::Io { path: path.to_path_buf(), source };
        let bytes = match fs::metadata(path) {
            Ok(found) => {
                let mode = found.permissions().mode() & 0o777;
                if mode & 0o077 != 0 {
                    return Err(KeyError::Mode { path: path.to_path_buf(), mode });
                }
                fs::read(path).map_err(io)?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && fresh => make(path)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(KeyError::Missing { path: path.to_path_buf() });
            }
            Err(error) => return Err(io(error)),
        };
        if bytes.len() != KEY_BYTES {
            return Err(KeyError::Length { path: path.to_path_buf(), len: bytes.len() });
        }
        Ok(Self::from_bytes(&bytes, installation))
    }

    /// Keys from the bytes of a key file.
    pub fn from_bytes(bytes: &[u8], installation: InstallationId) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let derive = |label: &str| hmac::sign(&root, label.as_bytes());
        let mac = |label: &str| hmac::Key::new(hmac::HMAC_SHA256, derive(label).as_ref());
        let seal = UnboundKey::new(&AES_256_GCM, derive("leeway seal v1").as_ref())
            .expect("a SHA-256 mac has the length of the cipher's key");
        Self {
            seal: LessSafeKey::new(seal),
            tokens: mac("leeway agent token v1"),
            marks: mac("leeway page token v1"),
            digests: mac("leeway request digest v1"),
            random: SystemRandom::new(),
            installation,
        }
    }

    /// Random bytes.
    pub fn random<const N: usize>(&self) -> Result<[u8; N], KeyError> {
        let mut bytes = [0; N];
        self.random.fill(&mut bytes).map_err(|_| KeyError::Random)?;
        Ok(bytes)
    }

    pub fn seal(&self, purpose: Purpose, plain: &[u8]) -> Result<Sealed, KeyError> {
        let nonce: [u8; NONCE_LEN] = self.random()?;
        let mut data = plain.to_vec();
        self.seal
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(purpose.label()), &mut data)
            .map_err(|_| KeyError::Random)?;
        let mut sealed = Vec::with_capacity(1 + NONCE_LEN + data.len());
        sealed.push(VERSION);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&data);
        Ok(Sealed(sealed.into()))
    }

    pub fn open_sealed(&self, purpose: Purpose, sealed: &Sealed) -> Result<Vec<u8>, OpenError> {
        let rest = sealed.0.strip_prefix(&[VERSION]).ok_or(OpenError)?;
        let (nonce, data) = rest.split_at_checked(NONCE_LEN).ok_or(OpenError)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| OpenError)?;
        let mut data = data.to_vec();
        let plain = self.seal.open_in_place(nonce, Aad::from(purpose.label()), &mut data).map_err(|_| OpenError)?;
        Ok(plain.to_vec())
    }

    /// The token of one agent: the same after every restart, and different for every run and rank.
    pub fn agent_token(&self, run: RunId, rank: u32) -> [u8; 32] {
        let tag = hmac::sign(&self.tokens, self.agent_name(run, rank).as_bytes());
        tag.as_ref().try_into().expect("a SHA-256 mac has 32 bytes")
    }

    /// Whether a token is this agent's. Takes the same time for every wrong one.
    pub fn is_agent_token(&self, run: RunId, rank: u32, token: &[u8]) -> bool {
        hmac::verify(&self.tokens, self.agent_name(run, rank).as_bytes(), token).is_ok()
    }

    fn agent_name(&self, run: RunId, rank: u32) -> String {
        format!("{}|{run}|{rank}", self.installation)
    }

    /// Digest of a request's body. Keyed, so that a short secret in the body cannot be guessed from the journal.
    pub fn digest(&self, body: &[u8]) -> [u8; 32] {
        hmac::sign(&self.digests, body).as_ref().try_into().expect("a SHA-256 mac has 32 bytes")
    }

    /// A mark that proves that we made `payload` for `scope`.
    pub fn mark(&self, scope: &[u8], payload: &[u8]) -> [u8; MARK_BYTES] {
        let tag = hmac::sign(&self.marks, &marked(scope, payload));
        tag.as_ref().try_into().expect("a SHA-256 mac has 32 bytes")
    }

    /// Whether a mark is ours. Takes the same time for every wrong one.
    pub fn is_mark(&self, scope: &[u8], payload: &[u8], mark: &[u8]) -> bool {
        hmac::verify(&self.marks, &marked(scope, payload), mark).is_ok()
    }
}

/// Both in one, so that the border between them cannot be moved.
fn marked(scope: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = (scope.len() as u64).to_be_bytes().to_vec();
    bytes.extend_from_slice(scope);
    bytes.extend_from_slice(payload);
    bytes
}

/// Writes a new key file that only its owner can read; never over an old one.
fn make(path: &Path) -> Result<Vec<u8>, KeyError> {
    let io = |source| KeyError::Io { path: path.to_path_buf(), source };
    let mut bytes = vec![0; KEY_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::Random)?;
    if crate::files::create_once(path, &bytes).map_err(io)? {
        return Ok(bytes);
    }
    Err(io(std::io::ErrorKind::AlreadyExists.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(byte: u8) -> Keys {
        Keys::from_bytes(&[byte; KEY_BYTES], InstallationId("here".parse().unwrap()))
    }

    fn run(epoch: u64) -> RunId {
        RunId { job: leeway_model::JobId(7), epoch }
    }

    #[test]
    fn z_04_a_sealed_value_opens_only_with_its_key_and_for_its_purpose() {
        let sealed = keys(1).seal(Purpose::JobSecret, b"hush").unwrap();
        assert!(!sealed.0.windows(4).any(|window| window == b"hush"));
        assert_eq!(keys(1).open_sealed(Purpose::JobSecret, &sealed).unwrap(), b"hush");
        assert!(keys(2).open_sealed(Purpose::JobSecret, &sealed).is_err());
        assert!(keys(1).open_sealed(Purpose::WebhookSecret, &sealed).is_err());
        for place in 0..sealed.0.len() {
            let mut bytes = sealed.0.to_vec();
            bytes[place] ^= 1;
            assert!(keys(1).open_sealed(Purpose::JobSecret, &Sealed(bytes.into())).is_err(), "{place}");
        }
        for len in 0..sealed.0.len() {
            assert!(keys(1).open_sealed(Purpose::JobSecret, &Sealed(sealed.0[..len].into())).is_err());
        }
    }

    #[test]
    fn z_03_an_agent_token_is_good_for_one_run_and_rank_only() {
        let token = keys(1).agent_token(run(2), 0);
        assert!(keys(1).is_agent_token(run(2), 0, &token));
        assert!(!keys(1).is_agent_token(run(3), 0, &token));
        assert!(!keys(1).is_agent_token(run(2), 1, &token));
        assert!(!keys(2).is_agent_token(run(2), 0, &token));
        assert!(!keys(1).is_agent_token(run(2), 0, &token[..16]));
    }

    #[test]
    fn z_08_a_key_file_that_others_can_read_is_refused_with_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.key");
        let installation = InstallationId("here".parse().unwrap());
        assert!(matches!(Keys::open(&path, installation.clone(), false), Err(KeyError::Missing { .. })));
        let first = Keys::open(&path, installation.clone(), true).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = Keys::open(&path, installation.clone(), false).unwrap();
        assert_eq!(first.agent_token(run(1), 0), again.agent_token(run(1), 0));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = Keys::open(&path, installation.clone(), false).unwrap_err().to_string();
        assert!(error.contains("644") && error.contains("chmod 600"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, b"short").unwrap();
        assert!(matches!(Keys::open(&path, installation, false), Err(KeyError::Length { len: 5, .. })));
    }
}
