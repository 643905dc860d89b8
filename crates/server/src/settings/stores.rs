//! How object stores are reached, by the beginning of their URLs.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use leeway_model::access::StoreAccess;
use leeway_model::name::escape;

use super::raw::RawStore;
use super::read::{Result, required};
use super::{Problems, SettingsError};

/// Of one entry of `[[stores]]`.
pub fn read(key: &str, raw: &RawStore, base: &Path, problems: &mut Problems) -> Option<StoreAccess> {
    let at = |field: &str| format!("{key}.{field}");
    let url = problems.take(required(&at("url"), raw.url.as_deref()).and_then(|url| store_url(&at("url"), url)));
    let mut options = BTreeMap::new();
    let mut option = |name: &str, value: &str| options.insert(name.to_owned(), value.to_owned());
    if let Some(region) = &raw.region {
        option("aws_region", region);
    }
    if let Some(endpoint) = &raw.endpoint {
        match url::Url::parse(endpoint).map(|url| url.scheme().to_owned()).as_deref() {
            Ok("https") => drop(option("aws_endpoint", endpoint)),
            Ok("http") => {
                option("aws_endpoint", endpoint);
                option("aws_allow_http", "true");
            }
            _ => {
                let message = format!("'{}' is no address; write it as https://host:port", escape(endpoint));
                problems.add(SettingsError::new(at("endpoint"), message));
            }
        }
    }
    let keys = raw.credentials.as_deref().map(|file| keys(&at("credentials"), &base.join(file)));
    let keys = keys.and_then(|keys| problems.take(keys)).unwrap_or_default();
    Some(StoreAccess { url: url?, options, keys })
}

fn store_url(key: &str, text: &str) -> Result<String> {
    let parsed =
        url::Url::parse(text).ok().filter(|url| url.scheme() == "s3" && url.has_host() && url.query().is_none());
    parsed.map(|_| text.to_owned()).ok_or_else(|| {
        SettingsError::new(key, format!("'{}' is no place in an object store; write it as s3://bucket", escape(text)))
    })
}

/// The lines of a file such as `~/.aws/credentials` that hold a key.
fn keys(key: &str, file: &Path) -> Result<BTreeMap<String, String>> {
    let refused = |why: String| SettingsError::new(key, format!("'{}' {why}", file.display()));
    let cannot = |error: std::io::Error| refused(format!("cannot be read: {error}; name an existing file"));
    let mode = std::fs::metadata(file).map_err(cannot)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(refused(format!("can be read by others (mode {mode:o}); make it 600")));
    }
    let text = std::fs::read_to_string(file).map_err(cannot)?;
    let known = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];
    let pairs = text.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name.trim(), value.trim()));
    let found: BTreeMap<String, String> = pairs
        .filter(|(name, _)| known.contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    if known[..2].iter().any(|name| !found.contains_key(*name)) {
        return Err(refused(format!(
            "holds no keys; write lines such as '{} = ...' and '{} = ...'",
            known[0], known[1]
        )));
    }
    Ok(found)
}
