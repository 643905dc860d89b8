//! Bringing up a run as one `RunInstances` call.

use std::time::Duration;

use aws_sdk_ec2::types::{
    BlockDeviceMapping, EbsBlockDevice, HttpTokensState, IamInstanceProfileSpecification, InstanceInterruptionBehavior,
    InstanceMarketOptionsRequest, InstanceMetadataOptionsRequest, InstanceType, MarketType, Placement, ResourceType,
    ShutdownBehavior, SpotInstanceType, SpotMarketOptions, Tag, TagSpecification, VolumeType,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use leeway_drivers::errors::refused;
use leeway_drivers::{Instance, InstanceState, Launch, LaunchError};
use leeway_model::resources::CapacityType;
use leeway_model::run::LaunchErrorClass;
use leeway_model::{Bytes, RunId};

use crate::driver::Cluster;
use crate::instances::{CLUSTER, CallError, INSTALLATION, RUN};
use crate::{errors, user_data};

/// Between two looks at instances that come up.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Cluster {
    pub(crate) async fn launch(&self, launch: &Launch) -> Result<Vec<Box<str>>, LaunchError> {
        let script = self.check(launch)?;
        let give_up_at = tokio::time::Instant::now() + Duration::from_millis(launch.deadline.as_millis());
        match self.bring_up(launch, &script, give_up_at).await {
            Ok(ids) => Ok(ids),
            Err(error) => Err(self.undo(launch.run, error).await),
        }
    }

    fn check(&self, launch: &Launch) -> Result<String, LaunchError> {
        let invalid = |message: String| LaunchError::new(LaunchErrorClass::Invalid, message);
        if launch.nodes == 0 || launch.tokens.len() != launch.nodes as usize {
            let given = launch.tokens.len();
            return Err(invalid(format!("{} nodes were given {given} tokens; give one a node", launch.nodes)));
        }
        if launch.installation != self.installation {
            return Err(invalid(format!("this driver is of installation {}", self.installation.0)));
        }
        if launch.offer.capacity == CapacityType::Reserved {
            return Err(invalid("EC2 sells no reserved machines; leave their price out".to_owned()));
        }
        user_data::script(&self.config, launch).map_err(invalid)
    }

    async fn bring_up(
        &self,
        launch: &Launch,
        script: &str,
        give_up_at: tokio::time::Instant,
    ) -> Result<Vec<Box<str>>, LaunchError> {
        let run = launch.run;
        if self.closed.is_closed(run) {
            let message = format!("run {run} was stopped; place the job again");
            return Err(LaunchError::new(LaunchErrorClass::Transient, message));
        }
        let mut found = self.of_run(run).await?;
        if found.is_empty() {
            found = self.request(launch, script, give_up_at).await?;
        }
        loop {
            let ended = found.iter().find(|instance| instance.state != InstanceState::Running);
            if let Some(ended) = ended.or_else(|| found.iter().find(|_| found.len() != launch.nodes as usize)) {
                return Err(self.ended(run, ended));
            }
            if found.iter().all(|instance| instance.detail.as_deref() == Some("running")) {
                return Ok(found.into_iter().map(|instance| instance.id).collect());
            }
            if tokio::time::Instant::now() >= give_up_at {
                let up = found.iter().filter(|instance| instance.detail.as_deref() == Some("running")).count();
                let message = format!("{up} of {} instances were running by the deadline", launch.nodes);
                return Err(LaunchError::new(LaunchErrorClass::Transient, message));
            }
            if self.closed.is_closed(run) {
                let message = format!("run {run} was stopped while it was launched");
                return Err(LaunchError::new(LaunchErrorClass::Transient, message));
            }
            tokio::time::sleep(LOOK_EVERY.min(self.window() / 4)).await;
            let listed = self.of_run(run).await?;
            // What EC2 returned may be missing from its listings for a while.
            for instance in &mut found {
                if let Some(newer) = listed.iter().find(|one| one.id == instance.id) {
                    *instance = newer.clone();
                }
            }
        }
    }

    fn ended(&self, run: RunId, instance: &Instance) -> LaunchError {
        let detail = instance.detail.as_deref().unwrap_or("gone");
        // `terminated: Server.InsufficientInstanceCapacity` says more than that it has ended.
        let because_of_room = detail.to_lowercase().contains("capacity");
        let class = if because_of_room { LaunchErrorClass::Capacity } else { LaunchErrorClass::Transient };
        LaunchError::new(
            class,
            format!("instance {} of run {run} has ended ({detail}); place the job again", instance.id),
        )
    }

    /// Calls until there is an answer: under one token EC2 makes the instances once.
    async fn request(
        &self,
        launch: &Launch,
        script: &str,
        give_up_at: tokio::time::Instant,
    ) -> Result<Vec<Instance>, LaunchError> {
        let mut wait = Duration::from_millis(500);
        loop {
            let error = match self.run_instances(launch, script).await {
                Ok(instances) => return Ok(instances),
                Err(error) => error,
            };
            let again = match &error {
                CallError::Lost(_) => true,
                // Made by an earlier call that said something else, such as another address of the server.
                CallError::Refused { code, .. } if code == "IdempotentParameterMismatch" => {
                    let found = self.of_run(launch.run).await?;
                    if !found.is_empty() {
                        return Ok(found);
                    }
                    true
                }
                CallError::Refused { .. } => false,
            };
            if !again || tokio::time::Instant::now() + wait >= give_up_at {
                return Err(refused("aws", errors::CODES, &error.said()));
            }
            tracing::warn!(run = %launch.run, %error, "the launch was not answered; asking again under the same token");
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(Duration::from_secs(10));
        }
    }

    async fn run_instances(&self, launch: &Launch, script: &str) -> Result<Vec<Instance>, CallError> {
        let config = &self.config;
        let tag = |key: &str, value: String| Tag::builder().key(key).value(value).build();
        let tags = vec![
            tag("Name", format!("leeway-{}", launch.run)),
            tag(INSTALLATION, self.installation.0.to_string()),
            tag(CLUSTER, self.name.to_string()),
            tag(RUN, launch.run.to_string()),
        ];
        let tagged =
            |kind: ResourceType| TagSpecification::builder().resource_type(kind).set_tags(Some(tags.clone())).build();
        let nodes = i32::try_from(launch.nodes).unwrap_or(i32::MAX);
        let metadata = InstanceMetadataOptionsRequest::builder().http_tokens(HttpTokensState::Required);
        let mut request = self
            .client
            .run_instances()
            .client_token(self.token(launch.run))
            .image_id(&config.image)
            .instance_type(InstanceType::from(&*launch.shape.instance_type))
            // As many as are wanted, or none.
            .min_count(nodes)
            .max_count(nodes)
            .user_data(BASE64.encode(script))
            .instance_initiated_shutdown_behavior(ShutdownBehavior::Terminate)
            .metadata_options(metadata.http_put_response_hop_limit(1).build())
            .tag_specifications(tagged(ResourceType::Instance))
            .tag_specifications(tagged(ResourceType::Volume))
            .set_subnet_id(config.subnet.clone())
            .set_security_group_ids(Some(config.security_groups.clone()).filter(|groups| !groups.is_empty()));
        if let Some(zone) = config.zone.as_ref().filter(|_| config.subnet.is_none()) {
            request = request.placement(Placement::builder().availability_zone(zone).build());
        }
        if let Some(name) = &config.instance_profile {
            request = request.iam_instance_profile(IamInstanceProfileSpecification::builder().name(name).build());
        }
        if !launch.shape.disk.is_zero() {
            request = request.block_device_mappings(disk(launch.shape.disk));
        }
        if launch.offer.capacity == CapacityType::Spot {
            let options = SpotMarketOptions::builder()
                .spot_instance_type(SpotInstanceType::OneTime)
                .instance_interruption_behavior(InstanceInterruptionBehavior::Terminate)
                .build();
            let market = InstanceMarketOptionsRequest::builder().market_type(MarketType::Spot).spot_options(options);
            request = request.instance_market_options(market.build());
        }
        let made = request.send().await?;
        let mut made: Vec<Instance> =
            made.instances().iter().filter_map(|instance| self.ours().read(instance)).collect();
        made.sort_by_key(|instance| instance.rank);
        let ids: Vec<Box<str>> = made.iter().map(|instance| instance.id.clone()).collect();
        self.visibility().launched(launch.run, &ids, std::time::Instant::now());
        Ok(made)
    }

    /// EC2 takes at most 64 characters.
    fn token(&self, run: RunId) -> String {
        let token = format!("leeway-{}-{}-{run}", self.installation.0, self.name);
        if token.len() <= 64 {
            return token;
        }
        let mut hash = std::hash::DefaultHasher::new();
        std::hash::Hash::hash(&token, &mut hash);
        format!("leeway-{:016x}-{run}", std::hash::Hasher::finish(&hash))
    }

    async fn of_run(&self, run: RunId) -> Result<Vec<Instance>, LaunchError> {
        let listed = self.ours().list(&self.client, Some(run)).await;
        listed.map(|(instances, _)| instances).map_err(|error| refused("aws", errors::CODES, &error.said()))
    }

    /// Ends whatever a failed launch made, and sees to it that the run makes no more.
    async fn undo(&self, run: RunId, error: LaunchError) -> LaunchError {
        if let Err(error) = self.closed.close(run, Duration::ZERO) {
            tracing::warn!(%run, %error, "cannot close a run");
        }
        if let Err(error) = self.terminate(run).await {
            tracing::warn!(%run, %error, "cannot undo a launch; the next observation tries again");
        }
        error
    }
}

/// A root volume with room for what a job asks.
fn disk(size: Bytes) -> BlockDeviceMapping {
    let gib = i32::try_from(size.get().div_ceil(1 << 30)).unwrap_or(i32::MAX);
    let volume = EbsBlockDevice::builder().volume_size(gib).volume_type(VolumeType::Gp3).delete_on_termination(true);
    BlockDeviceMapping::builder().device_name("/dev/xvda").ebs(volume.build()).build()
}
