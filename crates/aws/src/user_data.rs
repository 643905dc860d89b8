//! The script that an instance runs when it first starts: what its agent is told, then the agent, then its own end.

use std::fmt::Write as _;

use leeway_drivers::Launch;
use leeway_drivers::run_dir::{Assignment, NoticeSource};
use leeway_model::access::StoreAccess;

use crate::config::AwsConfig;

/// EC2 takes no more, before it is encoded.
pub const LONGEST: usize = 16 * 1024;

/// The same script for all instances of a run: each finds its rank in its metadata.
///
/// # Errors
/// A gang that is too large for it, with what to do.
pub fn script(config: &AwsConfig, launch: &Launch) -> Result<String, String> {
    let assignment = Assignment {
        server: launch.server.clone(),
        run: launch.run,
        rank: 0,
        installation: launch.installation.clone(),
        notices: vec![NoticeSource::Ec2 { metadata: config.metadata.clone() }],
    };
    let mut told = serde_json::to_value(&assignment).map_err(|error| error.to_string())?;
    // The shell puts the rank where this stands.
    told["rank"] = "RANK".into();
    let told = told.to_string().replace("\"RANK\"", "'\"$rank\"'").replace('\n', "");
    let mut tokens = String::new();
    for (rank, token) in launch.tokens.iter().enumerate() {
        let octal = token.as_bytes().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "\\{byte:03o}");
            text
        });
        let _ = writeln!(tokens, "{rank}) printf '{octal}';;");
    }
    // The instance's own profile opens its stores: whoever may describe the instance can read this script.
    let stores: Vec<StoreAccess> =
        launch.stores.iter().map(|store| StoreAccess { keys: Default::default(), ..store.clone() }).collect();
    let stores = serde_json::to_string(&stores).map_err(|error| error.to_string())?.replace('\'', "\\u0027");
    let minutes = config.max_lifetime.as_millis().div_ceil(60_000).max(1);
    let dir = config.work_dir.join(launch.run.to_string());
    let script = format!(
        "#!/bin/sh\n\
         umask 077\n\
         # Whatever becomes of the scheduler, this instance does not outlive its longest time, nor its agent.\n\
         shutdown -h +{minutes} || true\n\
         trap 'shutdown -h now' EXIT\n\
         metadata={metadata}\n\
         session=$(curl -sf --retry 10 --retry-connrefused -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' \"$metadata/latest/api/token\")\n\
         rank=$(curl -sf --retry 10 -H \"X-aws-ec2-metadata-token: $session\" \"$metadata/latest/meta-data/ami-launch-index\") || exit 1\n\
         dir={dir}/$rank\n\
         mkdir -p \"$dir\"\n\
         printf '%s' '{told}' > \"$dir/assignment.json\"\n\
         printf '%s' '{stores}' > \"$dir/stores.json\"\n\
         case $rank in\n\
         {tokens}\
         esac > \"$dir/token\"\n\
         {agent} agent --run-dir \"$dir\" > \"$dir/agent.out\" 2> \"$dir/agent.err\"\n",
        metadata = quoted(&config.metadata),
        dir = quoted(&dir.to_string_lossy()),
        agent = quoted(&config.agent),
    );
    if script.len() > LONGEST {
        return Err(format!(
            "the gang of {} is too large for one launch: its start script has {} bytes, and EC2 takes {LONGEST}",
            launch.nodes,
            script.len()
        ));
    }
    Ok(script)
}

/// One word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use leeway_drivers::Token;
    use leeway_drivers::run_dir::RankDir;
    use leeway_model::cluster::ClusterSpec;
    use leeway_model::market::OfferKey;
    use leeway_model::resources::{CapacityType, MachineShape, MilliCpus};
    use leeway_model::{Bytes, InstallationId, Millis};

    use super::*;

    fn config(folder: &str) -> AwsConfig {
        AwsConfig {
            region: "us-east-1".into(),
            zone: None,
            endpoint: None,
            profile: None,
            credentials: None,
            image: "ami-1".into(),
            subnet: None,
            security_groups: Vec::new(),
            instance_profile: None,
            agent: format!("{folder}/agent"),
            work_dir: folder.into(),
            metadata: AwsConfig::METADATA.into(),
            max_lifetime: Millis::from_hours(72),
            visibility: AwsConfig::VISIBILITY,
            poll: Millis::from_secs(5),
        }
    }

    fn launch(nodes: u32) -> Launch {
        let shape = MachineShape {
            name: "small".parse().unwrap(),
            instance_type: "t3.small".into(),
            cpus: MilliCpus(2_000),
            memory: Bytes::from_gib(2),
            accelerators: None,
            disk: Bytes::ZERO,
        };
        Launch {
            run: "j-42-r3".parse().unwrap(),
            offer: OfferKey {
                cluster: "east".parse().unwrap(),
                shape: "small".parse().unwrap(),
                capacity: CapacityType::Spot,
            },
            cluster: ClusterSpec {
                name: "east".parse().unwrap(),
                driver: "aws".parse().unwrap(),
                region: "aws/us-east-1".parse().unwrap(),
                zone: None,
                machines: Vec::new(),
                checkpoints: "file:///nowhere".into(),
                labels: Default::default(),
            },
            shape,
            nodes,
            server: "http://127.0.0.1:9".into(),
            tokens: (0..nodes).map(|rank| Token::new([rank as u8, b'\'', 0, 200, b'%'])).collect(),
            installation: InstallationId("lab".parse().unwrap()),
            stores: Vec::new(),
            deadline: Millis::from_secs(60),
        }
    }

    /// Runs the script with stand-ins for what only an instance has.
    #[test]
    fn the_script_tells_each_rank_its_own_and_ends_the_instance_after_the_agent() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().to_str().unwrap();
        let mut told = launch(2);
        let pair = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
        told.stores = vec![StoreAccess {
            url: "s3://it's".into(),
            options: pair("aws_region", "eu-north-1"),
            keys: pair("aws_secret_access_key", "hush"),
        }];
        let text = script(&config(here), &told).unwrap();
        assert!(!text.contains("hush"), "{text}");
        for (name, body) in [
            ("curl", "case \"$*\" in *ami-launch-index*) printf 1;; *) printf session;; esac"),
            ("shutdown", &format!("echo \"$@\" >> {here}/shutdown.log")),
            ("agent", &format!("echo \"$@\" > {here}/agent.log")),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        let path = format!("{here}:{}", std::env::var("PATH").unwrap());
        assert!(Command::new("sh").arg("-c").arg(&text).env("PATH", path).status().unwrap().success());
        let dir = RankDir::new(folder.path().join("j-42-r3/1"));
        let assigned = dir.assignment().unwrap().unwrap();
        assert_eq!((assigned.rank, assigned.run.to_string()), (1, "j-42-r3".to_owned()));
        assert_eq!(assigned.notices, [NoticeSource::Ec2 { metadata: AwsConfig::METADATA.into() }]);
        assert_eq!(dir.take_token().unwrap().as_bytes(), [1, b'\'', 0, 200, b'%']);
        let stores = dir.take_stores().unwrap();
        assert_eq!((stores[0].url.as_str(), stores[0].options.len(), stores[0].keys.len()), ("s3://it's", 1, 0));
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("agent.log"), format!("agent --run-dir {here}/j-42-r3/1\n"));
        assert_eq!(read("shutdown.log"), "-h +4320\n-h now\n");
    }

    #[test]
    fn a_gang_that_is_too_large_is_refused() {
        let mut large = launch(1);
        large.tokens = (0..1_000).map(|_| Token::new([7; 32])).collect();
        let refused = script(&config("/var/lib/leeway"), &large).unwrap_err();
        assert!(refused.contains("too large for one launch"), "{refused}");
    }
}
