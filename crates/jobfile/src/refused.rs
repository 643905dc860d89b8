//! The fields that SkyPilot knows or that Leeway will know, refused by name: what a file asks for is never ignored.

use crate::fields::Refused;

const fn refused(name: &'static str, problem: &'static str, fix: &'static str) -> Refused {
    Refused { name, problem, fix }
}

pub(crate) const JOB: &[Refused] = &[
    refused(
        "smoke_test",
        "is not available in this version",
        "run the test as a job of its own and name it in depends_on",
    ),
    refused(
        "early_stop",
        "is not available in this version",
        "let the program end itself, or cap it with max_duration or max_cost",
    ),
    refused("config", "SkyPilot's own configuration means nothing to Leeway", "set it in the server's configuration"),
    refused("service", "Leeway runs jobs, not services", "remove it, or serve with another system"),
    refused("pool", "Leeway has no worker pools", "remove it; each job gets its own machines"),
    refused(
        "event_callback",
        "Leeway runs no command on the submitting machine when a job changes",
        "register a webhook with 'leeway webhook add'",
    ),
    refused("experimental", "Leeway has no experimental overrides", "remove it"),
    refused(
        "managed_secrets",
        "Leeway keeps no named secrets",
        "list them under secrets without a value and give the values with --secret",
    ),
    refused("volumes", "Leeway attaches no volumes", "name data under 'data', or upload small files with file_mounts"),
    refused("volume_mounts", "Leeway attaches no volumes", "name data under 'data'"),
    refused("file_mounts_mapping", "it is written by SkyPilot for its own server", "submit the original task file"),
    refused("api_server_access", "a job of Leeway gets no access to the server", "remove it"),
    refused("_metadata", "it is written by SkyPilot for its own server", "submit the original task file"),
    refused(
        "execution",
        "it belongs in the header of a pipeline",
        "write a first document with only 'name' and 'execution: serial', or remove it",
    ),
    refused("hooks", "Leeway runs no hooks", "handle the notice in the program: it appears in LEEWAY_NOTICE_FILE"),
];

pub(crate) const RESOURCES: &[Refused] = &[
    refused(
        "image_id",
        "Leeway runs no container or machine images yet",
        "install what the job needs in setup, or name a cluster whose machines have it",
    ),
    refused(
        "disk_tier",
        "Leeway does not choose disk types",
        "remove it, or name an instance_type with the disk needed",
    ),
    refused("local_disk", "Leeway does not choose disk types", "remove it, or name an instance_type with local disks"),
    refused("ephemeral_storage", "it is an old name", "write disk_size"),
    refused("ports", "Leeway opens no ports to the outside", "remove it; let the job connect outwards"),
    refused("network_tier", "Leeway does not choose networks", "remove it, or name an instance_type with that network"),
    refused("accelerator_args", "Leeway passes no arguments to accelerators", "choose the runtime in setup"),
    refused("volumes", "Leeway attaches no volumes", "name data under 'data'"),
    refused("priority_class", "Leeway has no named priorities", "write priority, a number from -1000 to 1000"),
    refused("hooks", "Leeway runs no hooks", "handle the notice in the program: it appears in LEEWAY_NOTICE_FILE"),
    refused("_docker_login_config", "Leeway runs no container images yet", "remove it"),
    refused("_is_image_managed", "it is written by SkyPilot for its own server", "submit the original task file"),
    refused("_requires_fuse", "it is written by SkyPilot for its own server", "submit the original task file"),
    refused("_cluster_config_overrides", "SkyPilot's own configuration means nothing to Leeway", "remove it"),
    refused("_no_missing_accel_warnings", "it is written by SkyPilot for its own server", "submit the original file"),
];

/// Job groups run together and end together; a pipeline does not.
pub(crate) const HEADER: &[Refused] = &[
    refused(
        "primary_tasks",
        "Leeway has no job groups",
        "submit the jobs one by one, or make one job of several nodes",
    ),
    refused("termination_delay", "Leeway has no job groups", "remove it"),
];

/// What an entry of `any_of` or `ordered` cannot say because it is said once for the whole job.
pub(crate) const ALTERNATIVE: &[Refused] = &[
    refused("labels", "labels are of the whole job", "write them in resources.labels"),
    refused("priority", "the priority is of the whole job", "write it in resources.priority"),
    refused("job_recovery", "recovery is of the whole job", "write it in resources.job_recovery"),
    refused("spot_recovery", "recovery is of the whole job", "write it in resources.job_recovery"),
    refused("autostop", "it is of the whole job", "write it in resources.autostop or remove it"),
    refused("any_of", "alternatives do not nest", "write all of them in one list"),
    refused("ordered", "alternatives do not nest", "write all of them in one list"),
    RESOURCES[0],
    RESOURCES[1],
    RESOURCES[2],
    RESOURCES[3],
    RESOURCES[4],
    RESOURCES[5],
    RESOURCES[6],
    RESOURCES[7],
    RESOURCES[8],
    RESOURCES[9],
];
