//! How a cluster of EC2 instances is reached, and what its instances are made of.

use std::path::{Path, PathBuf};

use leeway_aws::AwsConfig;
use leeway_model::Millis;
use leeway_model::cluster::Region;
use leeway_model::name::escape;

use super::raw::{RawAws, RawCluster};
use super::read::{SECOND, length};
use super::{Problems, SettingsError};

const DRIVER: &str = "aws";
/// An instance that nobody ended by then ends itself.
const MAX_LIFETIME: Millis = Millis::from_hours(24 * 7);
const POLL: Millis = Millis::from_secs(5);

/// Of one cluster. `None` where it has another driver, or nothing can be made of what is written.
pub fn read(
    key: &str,
    raw: &RawCluster,
    region: Option<&Region>,
    base: &Path,
    problems: &mut Problems,
) -> Option<AwsConfig> {
    let at = |field: &str| format!("{key}.aws.{field}");
    if raw.driver.as_deref() != Some(DRIVER) {
        if raw.aws.is_some() {
            let message = format!("belongs to clusters with driver = \"{DRIVER}\"; set it, or leave this out");
            problems.add(SettingsError::new(format!("{key}.aws"), message));
        }
        return None;
    }
    let region = region?;
    if region.provider() != "aws" {
        let message = format!("'{region}' is no region of AWS; write it as aws/us-east-1");
        problems.add(SettingsError::new(format!("{key}.region"), message));
    }
    let fallback = RawAws::default();
    let aws = raw.aws.as_ref().unwrap_or(&fallback);
    if aws.image.is_none() {
        let message = "is missing; name the image of the instances, such as ami-0abcdef1234567890";
        problems.add(SettingsError::new(at("image"), message));
    }
    let (mut max_lifetime, mut poll, mut visibility) = (MAX_LIFETIME, POLL, AwsConfig::VISIBILITY);
    problems.take(length(&at("max_lifetime"), aws.max_lifetime.as_deref(), Millis::from_mins(1), &mut max_lifetime));
    problems.take(length(&at("poll"), aws.poll.as_deref(), SECOND, &mut poll));
    problems.take(length(&at("visibility"), aws.visibility.as_deref(), SECOND, &mut visibility));
    for (field, url) in [("endpoint", &aws.endpoint), ("metadata", &aws.metadata)] {
        let is_url = |text: &String| url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        if let Some(text) = url.as_ref().filter(|text| !is_url(text)) {
            let message = format!("'{}' is no address; write it as http://host:port", escape(text));
            problems.add(SettingsError::new(at(field), message));
        }
    }
    let agent = aws.agent.clone().unwrap_or_else(|| "/usr/local/bin/leeway".to_owned());
    Some(AwsConfig {
        region: region.name().to_owned(),
        zone: raw.zone.clone(),
        endpoint: aws.endpoint.clone(),
        profile: aws.profile.clone(),
        credentials: aws.credentials.as_ref().map(|path| base.join(path)),
        image: aws.image.clone()?,
        subnet: aws.subnet.clone(),
        security_groups: aws.security_groups.clone(),
        instance_profile: aws.instance_profile.clone(),
        agent,
        work_dir: aws.work_dir.clone().map_or_else(|| PathBuf::from("/var/lib/leeway"), PathBuf::from),
        metadata: aws.metadata.clone().unwrap_or_else(|| AwsConfig::METADATA.to_owned()),
        max_lifetime,
        visibility,
        poll,
    })
}
