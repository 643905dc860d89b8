//! How one cluster of EC2 instances is reached, and what its instances are made of.

use std::path::PathBuf;

use leeway_model::Millis;

/// One cluster: one region, and one zone of it where `zone` says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsConfig {
    /// Such as `us-east-1`.
    pub region: String,
    /// Such as `us-east-1a`; EC2 chooses where it is not given.
    pub zone: Option<String>,
    /// Instead of the region's own.
    pub endpoint: Option<String>,
    /// Profile of the shared configuration; the usual chain of credentials when not given.
    pub profile: Option<String>,
    /// File of credentials, instead of the one in the home directory.
    pub credentials: Option<PathBuf>,
    /// Image of all instances, such as `ami-0abc`.
    pub image: String,
    /// One of the zone.
    pub subnet: Option<String>,
    pub security_groups: Vec<String>,
    /// Name of the instance profile, with which agents reach stores.
    pub instance_profile: Option<String>,
    /// The program `leeway` in the image.
    pub agent: String,
    /// Folder on the instance for what agents are told.
    pub work_dir: PathBuf,
    /// Where an instance reads what EC2 says of it.
    pub metadata: String,
    /// An instance ends itself at this age, whatever became of the scheduler.
    pub max_lifetime: Millis,
    /// Longest time for which a new instance may be missing from listings.
    pub visibility: Millis,
    /// Between two looks at the cluster.
    pub poll: Millis,
}

impl AwsConfig {
    /// The address at which every instance finds its metadata.
    pub const METADATA: &str = "http://169.254.169.254";
    /// For which EC2 has been seen not to list what it made.
    pub const VISIBILITY: Millis = Millis::from_secs(120);
}
