//! What goes wrong in a run, and how often. A seed draws an intensity for every kind of fault, so that some runs meet
//! one fault alone and others meet all at once.

use leeway_model::Millis;

use crate::random::Stream;

/// Rates are per million of the thing they hit, unless they say otherwise. Zero is off.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    /// The scheduler dies, per step: half of these before the step is durable.
    pub crash: u32,
    pub down: (Millis, Millis),
    /// A flush fails, perhaps after some of the entries became durable; the scheduler restarts.
    pub flush_fails: u32,
    /// The wall clock read at a restart is off by up to this much, either way.
    pub clock_jump: Millis,
    /// Messages between the scheduler and agents or clients, each way.
    pub lost: u32,
    pub duplicated: u32,
    /// A message takes up to `delay_max` instead of a fraction of a second: late, and out of order.
    pub delayed: u32,
    pub delay_max: Millis,
    /// Per heartbeat of an agent: one direction of its link breaks for up to `partition_max`.
    pub partition: u32,
    pub partition_max: Millis,
    /// Per heartbeat: the machine is frozen for up to `freeze_max`; of these every fourth freezes the agent only.
    pub freeze: u32,
    pub freeze_max: Millis,
    /// Per call of a provider.
    pub error_before: u32,
    pub error_after: u32,
    pub throttled: u32,
    pub partial: u32,
    /// A new machine is not listed for up to this long.
    pub invisible_max: Millis,
    /// Per terminate call: it fails, or says yes and does nothing.
    pub stop_fails: u32,
    pub stop_ignored: u32,
    /// Per poll of a cluster: its API is out for up to `outage_max`.
    pub outage: u32,
    pub outage_max: Millis,
    /// Mean life of a spot machine before the provider takes it; zero means for ever.
    pub spot_life: Millis,
    /// Of interruptions: without notice, with a short one, and with a notice that is not carried out.
    pub no_notice: u32,
    pub short_notice: u32,
    pub empty_notice: u32,
    /// Per tick of the price feed and offer.
    pub price_jump: u32,
    pub bad_price: u32,
    pub capacity_gone: u32,
    /// Per start of a program: it fails on its own.
    pub program_fails: u32,
    /// Per upload of a checkpoint: its bytes are later found damaged.
    pub damage: u32,
    /// Per delivery to a receiver.
    pub receiver_fails: u32,
}

impl FaultPlan {
    /// No fault at all.
    pub fn none() -> Self {
        Self::default()
    }

    /// Random intensities: each fault is off in about a third of all runs.
    pub fn draw(stream: &mut Stream) -> Self {
        let mut rate = |most: u32| -> u32 {
            match stream.below(6) {
                0 | 1 => 0,
                2 => most,
                _ => stream.below(u64::from(most / 2).max(1)) as u32,
            }
        };
        let mut plan = Self {
            crash: rate(15_000),
            flush_fails: rate(5_000),
            lost: rate(200_000),
            duplicated: rate(200_000),
            delayed: rate(150_000),
            partition: rate(30_000),
            freeze: rate(15_000),
            error_before: rate(300_000),
            error_after: rate(300_000),
            throttled: rate(300_000),
            partial: rate(200_000),
            stop_fails: rate(400_000),
            stop_ignored: rate(300_000),
            outage: rate(20_000),
            no_notice: rate(600_000),
            short_notice: rate(400_000),
            empty_notice: rate(300_000),
            price_jump: rate(100_000),
            bad_price: rate(100_000),
            capacity_gone: rate(150_000),
            program_fails: rate(300_000),
            damage: rate(150_000),
            receiver_fails: rate(500_000),
            ..Self::default()
        };
        plan.down = (Millis::from_secs(1), Millis::from_secs(stream.between(2, 180)));
        plan.delay_max = Millis::from_secs(stream.between(1, 120));
        plan.partition_max = Millis::from_secs(stream.between(20, 400));
        plan.freeze_max = Millis::from_secs(stream.between(20, 600));
        plan.invisible_max = Millis::from_secs(stream.between(0, 60));
        plan.outage_max = Millis::from_secs(stream.between(30, 900));
        if stream.below(4) == 0 {
            plan.clock_jump = Millis::from_mins(stream.between(1, 30));
        }
        if stream.below(4) > 0 {
            plan.spot_life = Millis::from_mins(stream.between(4, 60));
        }
        plan
    }

    /// The weather clears: what is under way still ends, nothing new goes wrong.
    pub fn clear(&mut self) {
        *self = Self::none();
    }
}
