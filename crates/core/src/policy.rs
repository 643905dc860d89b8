//! The policy trait: how a place is chosen. A policy ranks and decides; budgets, hard constraints and capacity are
//! enforced outside it. Implementations live in `scheduler-policies`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use leeway_model::job::Job;
use leeway_model::market::OfferKey;
use leeway_model::resources::CapacityType;
use leeway_model::{Bill, Micros, Millis, Name, Rate, Timestamp};

use crate::order::Order;
use crate::spells::Spells;

/// Chooses among places. Pure: same arguments, same answer.
pub trait Policy: Send + Sync + Debug {
    /// Lower case, as jobs and configurations spell it.
    fn name(&self) -> &'static str;

    /// One sentence for people.
    fn about(&self) -> &'static str;

    /// Whether to look at this kind of capacity at all.
    fn admits(&self, _job: &JobView<'_>, _capacity: CapacityType) -> bool {
        true
    }

    /// What to minimise, in micro-units. Ties go to the smaller offer key.
    ///
    /// Must not fall when the rate, the expected time or any term of the bill rises, or when the share of launches that
    /// succeeded falls: the search ranks the least that a place could cost and stops where that is no better than what
    /// it has.
    fn rank(&self, job: &JobView<'_>, place: &Scored) -> Micros;

    /// One offer that [`decide`](Self::decide) must hear of when it can be had, however far behind the best it ranks.
    fn also<'a>(&self, _job: &JobView<'a>) -> Option<&'a OfferKey> {
        None
    }

    /// What to do with the best places that can be had now, best first; never empty. The one of [`also`](Self::also)
    /// stands among them, or else after them.
    fn decide(&self, _job: &JobView<'_>, _ranked: &[Ranked]) -> Verdict {
        Verdict::Place { position: 0, why: "lowest expected bill among the places that can be had now".into() }
    }

    /// Whether a job should rather wait for a cheaper place that cannot be had now than take the best that can. Must hold of a
    /// cheaper or sooner place where it holds of another: the search stops early on the strength of that.
    fn awaits(&self, job: &JobView<'_>, _best: &Scored, later: &Later) -> bool {
        !later.is_full && later.is_far_cheaper && job.job.spec.money.value_per_hour.is_none()
    }

    /// Whether [`awaits`](Self::awaits) is to be asked of places that our own runs fill, too. It costs a look at the cheaper
    /// ones of them for each job that is placed.
    fn queues(&self) -> bool {
        false
    }

    /// Whether it wants an [`Outlook`] for jobs with a deadline. It costs a look at some spot places beside those that can
    /// be had now.
    fn plans(&self) -> bool {
        false
    }

    /// Whether a job with a deadline that runs on capacity nobody takes back should save and go to one of the places that
    /// can be had now, and why. Asked every ten minutes; it is then placed anew by [`decide`](Self::decide). A policy that
    /// [`plans`](Self::plans) is also asked of jobs that run on spot.
    fn review(&self, _job: &JobView<'_>, _ranked: &[Ranked]) -> Option<Box<str>> {
        None
    }
}

/// What a policy may know of a job.
#[derive(Clone, Copy, Debug)]
pub struct JobView<'a> {
    pub now: Timestamp,
    pub job: &'a Job,
    /// Where its newest run was, when there was one.
    pub last: Option<LastPlace<'a>>,
    /// Work in all on a machine of relative speed 1, as its submitter stated or the installation assumes.
    pub work: Millis,
    /// Work left of it.
    pub remaining: Millis,
    /// What a launch takes until the program works, restoring included.
    pub changeover: Millis,
    /// For a job with a deadline, where its policy plans and some place is not the market's to take back.
    pub outlook: Option<&'a Outlook<'a>>,
}

/// What to plan a job with a deadline with.
#[derive(Clone, Copy, Debug)]
pub struct Outlook<'a> {
    /// How long the job may still go without progress until it is kept off spot, whatever its policy says.
    pub slack: Millis,
    /// The best place that nobody takes back.
    pub calm: Scored,
    /// Spot places that the job fits, whether they can be had now or not. Those that can be had and may be chosen stand
    /// among the ranked places too.
    pub spot: &'a [Prospect<'a>],
    /// Where the job runs; `None` while it waits for a place.
    pub held: Option<Held<'a>>,
}

/// A spot place as it is now, and as it was.
#[derive(Clone, Copy, Debug)]
pub struct Prospect<'a> {
    pub offer: &'a OfferKey,
    pub scored: Scored,
    /// Whether nothing is known that would keep the job from it now.
    pub is_open: bool,
    /// When it will have cooled down, where it does.
    pub opens: Option<Timestamp>,
    /// Whether a feed tells of its capacity. Elsewhere a launch will tell.
    pub is_told: bool,
    /// Work that a loss there undoes on average.
    pub at_stake: Millis,
    /// `None` where nobody has looked yet.
    pub seen: Option<&'a Spells>,
}

/// A place that a job holds.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    pub offer: &'a OfferKey,
    /// The bill of the rest of the work there, as for a run that begins there: what it moves is paid already.
    pub scored: Scored,
}

/// Where a job's newest run was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastPlace<'a> {
    pub offer: &'a OfferKey,
    /// When that run ended.
    pub ended: Timestamp,
    /// The instant before which the offer takes no run of anybody; in the past when its cool-down is over, or when it
    /// has none.
    pub closed_until: Timestamp,
}

/// A place with its bill, before it is ranked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    pub capacity: CapacityType,
    /// Of one machine.
    pub rate: Rate,
    pub nodes: u32,
    pub bill: Bill,
    pub expected_time: Millis,
    /// Share of the launches there that came to machines, recent ones counting most: from 0, where none is known to have
    /// succeeded for long, to 1, as where none was tried.
    pub launched: f64,
}

/// A place that cannot be had now: it cools down, or our own runs fill it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Later {
    /// As for a run that begins now.
    pub scored: Scored,
    /// When it is expected to take the job.
    pub opens: Timestamp,
    pub is_full: bool,
    /// Whether its money is less than that of the best place by the factor that the installation sets for jobs whose value
    /// of time nobody stated.
    pub is_far_cheaper: bool,
    /// How long the job has waited for a place by now.
    pub waited: Millis,
}

/// A place that can be had now.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    pub offer: OfferKey,
    pub scored: Scored,
    pub rank: Micros,
}

/// What a policy wants. The reason is shown by `explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Place {
        position: usize,
        why: Box<str>,
    },
    /// Nothing now; ask again at the latest then.
    WaitUntil {
        at: Timestamp,
        why: Box<str>,
    },
}

/// The policies of an installation by name, and the orders of its queue.
#[derive(Clone, Debug, Default)]
pub struct PolicySet {
    policies: BTreeMap<Name, Arc<dyn Policy>>,
    orders: BTreeMap<Name, Arc<dyn Order>>,
}

impl PolicySet {
    /// Panics when a name is not a [`Name`] or is taken: both are mistakes in our own code.
    pub fn new(
        policies: impl IntoIterator<Item = Arc<dyn Policy>>,
        orders: impl IntoIterator<Item = Arc<dyn Order>>,
    ) -> Self {
        let policies = policies.into_iter().map(|policy| (policy.name(), policy));
        let orders = orders.into_iter().map(|order| (order.name(), order));
        Self { policies: by_name(policies), orders: by_name(orders) }
    }

    pub fn get(&self, name: &Name) -> Option<&Arc<dyn Policy>> {
        self.policies.get(name)
    }

    /// A policy with its name as it is kept here.
    pub fn get_named(&self, name: &Name) -> Option<(&Name, &Arc<dyn Policy>)> {
        self.policies.get_key_value(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.policies.keys()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Policy>> {
        self.policies.values()
    }

    pub fn order(&self, name: &Name) -> Option<&Arc<dyn Order>> {
        self.orders.get(name)
    }

    pub fn orders(&self) -> impl Iterator<Item = (&Name, &Arc<dyn Order>)> {
        self.orders.iter()
    }
}

fn by_name<T>(all: impl Iterator<Item = (&'static str, T)>) -> BTreeMap<Name, T> {
    let mut set = BTreeMap::new();
    for (name, one) in all {
        let name: Name = name.parse().expect("the name of a policy or an order is a valid name");
        assert!(set.insert(name, one).is_none(), "two policies or two orders have one name");
    }
    set
}
