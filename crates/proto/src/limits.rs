//! How much of everything a message may carry. A value beyond is refused with the limit in the message, so that nothing
//! unbounded reaches the core. Lengths of text are in bytes.

/// Machines of one gang.
pub const NODES_MAX: u32 = 1_024;
/// Jobs of one batch.
pub const BATCH_MAX: usize = 1_000;
/// Items of one page.
pub const PAGE_MAX: u32 = 1_000;
/// Items of a page when the client does not say.
pub const PAGE_DEFAULT: u32 = 100;
pub const LABELS_MAX: usize = 64;
pub const LABEL_KEY_MAX: usize = 63;
pub const LABEL_VALUE_MAX: usize = 256;
pub const ENV_MAX: usize = 1_024;
pub const ENV_NAME_MAX: usize = 256;
/// What Linux takes as one variable.
pub const ENV_VALUE_MAX: usize = 128 << 10;
pub const SECRETS_MAX: usize = 256;
pub const SECRET_VALUE_MAX: usize = 64 << 10;
/// `setup` and `run`.
pub const SCRIPT_MAX: usize = 1 << 20;
pub const RESOURCES_MAX: usize = 64;
pub const ACCELERATORS_MAX: u32 = 1_024;
pub const DATA_MAX: usize = 256;
pub const MOUNTS_MAX: usize = 256;
pub const DEPENDENCIES_MAX: usize = 256;
pub const EXIT_CODES_MAX: usize = 64;
pub const CHECKPOINTS_KEPT_MAX: u32 = 1_000;
pub const PATH_MAX: usize = 4_096;
pub const URL_MAX: usize = 2_048;
/// Short technical words: a model name, a zone, an agent's id.
pub const WORD_MAX: usize = 64;
pub const INSTANCE_TYPE_MAX: usize = 128;
pub const REQUEST_ID_MAX: usize = 128;
/// Prefix of a display name in a filter.
pub const NAME_PREFIX_MAX: usize = 256;
pub const MACHINES_MAX: usize = 1_024;
pub const OBSERVATIONS_MAX: usize = 10_000;
pub const REPLICAS_MAX: usize = 64;
pub const EVENT_TYPES_MAX: usize = 64;
pub const PAGE_TOKEN_MAX: usize = 512;
pub const TAIL_LINES_MAX: u32 = 100_000;
/// One message of a stream of bytes.
pub const CHUNK_MAX: usize = 1 << 20;
/// Explanations by agents and drivers.
pub const DETAIL_MAX: usize = 4 << 10;
/// Candidates, rejections and the like in one decision.
pub const DECISION_LIST_MAX: usize = 100_000;
/// 9999-12-31T23:59:59.999Z in milliseconds.
pub const INSTANT_MAX_MS: i64 = 253_402_300_799_999;
/// 10 years of 366 days, in milliseconds.
pub const LENGTH_MAX_MS: u64 = 10 * 366 * 86_400_000;
