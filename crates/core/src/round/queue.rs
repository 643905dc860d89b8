//! Jobs that wait for a place, grouped by what they ask for.
//!
//! Jobs that ask for the same machines form a *shape* and wait in one queue. When no offer can take a shape now, the
//! shape is blocked and its whole queue costs a round nothing; an offer that changes for the better wakes just the
//! shapes that look at its group, and they look at that offer alone. A job that is held back for its own reasons (its
//! budget, its backoff, its policy) is parked beside the queue. Which job of a shape, and which shape, goes first is the
//! order's to say (`order`, `lines`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leeway_model::job::{Job, Reason};
use leeway_model::resources::ResourceRequest;
use leeway_model::{JobId, Name};

use super::fleet::{Fleet, Group, GroupId, OfferId};
use super::lines::{Head, Lines, OwnerId, QueueKey, Seat};
use crate::order::{Order, Rank, Waiting};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShapeId(u32);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ShapeKey {
    nodes: u32,
    ordered: bool,
    resources: Vec<ResourceRequest>,
    /// A policy may refuse what another takes.
    policy: Option<Name>,
}

#[derive(Clone, Debug)]
pub struct Shape {
    key: ShapeKey,
    lines: Lines,
    /// Why nothing can take it now; `None` while that is not known.
    pub blocked: Option<Reason>,
    /// Offers that changed for the better since it was blocked.
    woken_by: Vec<OfferId>,
    groups: Arc<[GroupId]>,
}

/// Where to look for a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Everywhere(Arc<[GroupId]>),
    Only(Vec<OfferId>),
}

/// Why a job stands beside its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Park {
    /// Until this budget has more room.
    Budget(Name),
    /// Until this offer has machines for it, or its timer.
    Offer(OfferId),
    /// Until its timer.
    Timer,
    /// Until a dataset is registered.
    Data,
}

#[derive(Clone, Debug)]
pub struct Queue {
    order: Arc<dyn Order>,
    shapes: Vec<Shape>,
    shape_of: BTreeMap<ShapeKey, ShapeId>,
    by_group: BTreeMap<GroupId, Vec<ShapeId>>,
    known_groups: usize,
    /// Heads of shapes that are worth a look.
    ready: BTreeSet<(Head, ShapeId)>,
    parked: BTreeMap<JobId, (QueueKey, Park)>,
    by_budget: BTreeMap<Name, Lines>,
    /// Jobs that wait for machines of an offer, with how many.
    by_offer: BTreeMap<OfferId, BTreeMap<QueueKey, u32>>,
    /// Where the order placed the jobs in queues and parked; none where it places no jobs.
    places: BTreeMap<JobId, i64>,
    /// Empty where the order ranks no owners.
    owner_ids: BTreeMap<Name, OwnerId>,
    owners: Vec<Owner>,
    waiting: usize,
}

/// An owner of jobs that wait, or of runs.
#[derive(Clone, Debug, Default)]
struct Owner {
    rank: Rank,
    /// Where a line of its own may be; those that are gone are found out when its rank changes.
    shapes: BTreeSet<ShapeId>,
    budgets: BTreeSet<Name>,
}

impl Queue {
    pub fn new(order: Arc<dyn Order>) -> Self {
        Self {
            order,
            shapes: Vec::new(),
            shape_of: BTreeMap::new(),
            by_group: BTreeMap::new(),
            known_groups: 0,
            ready: BTreeSet::new(),
            parked: BTreeMap::new(),
            by_budget: BTreeMap::new(),
            by_offer: BTreeMap::new(),
            places: BTreeMap::new(),
            owner_ids: BTreeMap::new(),
            owners: Vec::new(),
            waiting: 0,
        }
    }

    /// Jobs in queues and parked.
    pub fn len(&self) -> usize {
        self.waiting + self.parked.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn shapes(&self) -> usize {
        self.shapes.len()
    }

    /// Adds a pending job. A job added twice stands once.
    pub fn add(&mut self, waiting: Waiting<'_>, fleet: &Fleet) {
        let job = waiting.job;
        self.unpark(job);
        if self.order.places_jobs() && !self.places.contains_key(&job.id) {
            self.places.insert(job.id, self.order.place(&waiting));
        }
        let id = self.shape(job, fleet);
        let (seat, key) = (self.seat(job), self.key(job));
        if self.order.ranks_owners() {
            self.owner(seat).shapes.insert(id);
        }
        self.with_head(id, |shape| shape.lines.insert(seat, key)).then(|| self.waiting += 1);
    }

    /// Takes a job out, wherever it stands.
    pub fn remove(&mut self, job: &Job) {
        self.unpark(job);
        if let Some(id) = self.shape_of.get(&shape_key(job)).copied() {
            self.take(job, id);
        }
    }

    /// Takes a job out of the queue of its shape, where it stands.
    pub fn take(&mut self, job: &Job, shape: ShapeId) {
        let (seat, key) = (self.seat(job), self.key(job));
        self.with_head(shape, |shape| shape.lines.remove(seat, &key)).then(|| self.waiting -= 1);
        self.places.remove(&job.id);
    }

    /// Moves a job beside its queue.
    pub fn park(&mut self, job: &Job, park: Park) {
        let (seat, key) = (self.seat(job), self.key(job));
        let place = self.places.get(&job.id).copied();
        self.remove(job);
        place.map(|place| self.places.insert(job.id, place));
        if let Park::Budget(budget) = &park {
            let by_owner = self.order.ranks_owners();
            if by_owner {
                self.owner(seat).budgets.insert(budget.clone());
            }
            let lines = self.by_budget.entry(budget.clone()).or_insert_with(|| Lines::new(by_owner));
            lines.insert(seat, key);
        }
        if let Park::Offer(offer) = &park {
            self.by_offer.entry(*offer).or_default().insert(key, job.spec.nodes);
        }
        self.parked.insert(job.id, (key, park));
    }

    fn unpark(&mut self, job: &Job) {
        let Some((key, park)) = self.parked.remove(&job.id) else { return };
        self.places.remove(&job.id);
        if let Park::Offer(offer) = park
            && let Some(waiting) = self.by_offer.get_mut(&offer)
        {
            waiting.remove(&key);
            if waiting.is_empty() {
                self.by_offer.remove(&offer);
            }
        }
        let seat = self.seat(job);
        if let Park::Budget(budget) = park
            && let Some(waiting) = self.by_budget.get_mut(&budget)
        {
            waiting.remove(seat, &key);
            if waiting.is_empty() {
                self.by_budget.remove(&budget);
            }
        }
    }

    /// A job's place within a line.
    fn key(&self, job: &Job) -> QueueKey {
        let place = self.places.get(&job.id).copied().unwrap_or(0);
        QueueKey { priority: Reverse(job.spec.priority), place, job: job.id }
    }

    /// Where a job's owner stands.
    fn seat(&mut self, job: &Job) -> Seat {
        if self.order.ranks_owners() { self.seat_of(&job.spec.owner) } else { Seat::default() }
    }

    fn seat_of(&mut self, owner: &Name) -> Seat {
        if let Some(&owner) = self.owner_ids.get(owner) {
            return Seat { owner, rank: self.owners[owner.0 as usize].rank };
        }
        let id = OwnerId(u32::try_from(self.owners.len()).expect("fewer than four billion owners"));
        self.owner_ids.insert(owner.clone(), id);
        self.owners.push(Owner::default());
        Seat { owner: id, rank: Rank::default() }
    }

    fn owner(&mut self, seat: Seat) -> &mut Owner {
        &mut self.owners[seat.owner.0 as usize]
    }

    /// An owner stands elsewhere from now on: the heads of its lines move.
    pub fn rank(&mut self, owner: &Name, rank: Rank) {
        let old = self.seat_of(owner);
        if old.rank == rank {
            return;
        }
        let mut of = std::mem::take(self.owner(old));
        of.rank = rank;
        of.shapes.retain(|&id| self.with_head(id, |shape| shape.lines.rerank(old, rank)));
        of.budgets.retain(|budget| self.by_budget.get_mut(budget).is_some_and(|lines| lines.rerank(old, rank)));
        *self.owner(old) = of;
    }

    /// The job that goes before this one, where both wait for the same machines and something else than age has it so.
    pub fn ahead(&self, job: &Job) -> Option<(JobId, &'static str)> {
        let because = self.order.because()?;
        let id = self.shape_of.get(&shape_key(job))?;
        let head = self.get(*id).lines.first().filter(|head| head.job != job.id)?;
        Some((head.job, because))
    }

    pub fn parked(&self, job: JobId) -> Option<&Park> {
        self.parked.get(&job).map(|(_, park)| park)
    }

    /// Jobs that wait for a dataset.
    pub fn without_data(&self) -> impl Iterator<Item = JobId> + '_ {
        self.parked.iter().filter(|(_, (_, park))| *park == Park::Data).map(|(job, _)| *job)
    }

    /// First of the jobs that wait for room in a budget.
    pub fn first_for_budget(&self, budget: &Name) -> Option<JobId> {
        self.by_budget.get(budget)?.first().map(|head| head.job)
    }

    /// Jobs that wait for room in a budget.
    pub fn waiting_for(&self, budget: &Name) -> usize {
        self.by_budget.get(budget).map_or(0, |jobs| jobs.len())
    }

    /// Jobs that wait for machines of an offer, the first of them first.
    pub fn awaiting(&self, offer: OfferId) -> impl Iterator<Item = JobId> + '_ {
        self.by_offer.get(&offer).into_iter().flat_map(|waiting| waiting.keys().map(|key| key.job))
    }

    /// Machines of an offer that others wait for ahead of a job. One that was not submitted stands behind all others.
    pub fn awaited_before(&self, offer: OfferId, job: &Job) -> u32 {
        let Some(waiting) = self.by_offer.get(&offer) else { return 0 };
        let key = self.key(job);
        let ahead = waiting.iter().filter(|(other, _)| job.id == JobId(0) || **other < key);
        ahead.filter(|(other, _)| other.job != job.id).map(|(_, nodes)| *nodes).sum()
    }

    /// The next job worth a look, over all shapes.
    pub fn next(&self) -> Option<(JobId, ShapeId)> {
        self.ready.first().map(|(head, shape)| (head.job, *shape))
    }

    pub fn scope(&self, id: ShapeId) -> Scope {
        let shape = self.get(id);
        if shape.woken_by.is_empty() {
            Scope::Everywhere(shape.groups.clone())
        } else {
            Scope::Only(shape.woken_by.clone())
        }
    }

    fn get(&self, id: ShapeId) -> &Shape {
        &self.shapes[id.0 as usize]
    }

    /// Nothing can take this shape now; without a reason the one from before stands.
    pub fn block(&mut self, id: ShapeId, reason: Option<Reason>) {
        self.with_head(id, |shape| {
            shape.woken_by.clear();
            shape.blocked = reason.or(shape.blocked.take());
        });
    }

    /// Whether a shape is blocked for a known reason, and just looks at offers that changed since.
    pub fn looks_again(&self, id: ShapeId) -> bool {
        let shape = self.get(id);
        shape.blocked.is_some() && !shape.woken_by.is_empty()
    }

    /// Why a queued job's shape is blocked.
    pub fn blocked(&self, job: &Job) -> Option<&Reason> {
        let id = self.shape_of.get(&shape_key(job))?;
        self.get(*id).blocked.as_ref()
    }

    /// An offer changed for the better: blocked shapes that look at its group look at it again.
    pub fn wake(&mut self, offer: OfferId, group: GroupId) {
        for id in self.by_group.get(&group).cloned().unwrap_or_default() {
            let shape = &mut self.shapes[id.0 as usize];
            let Some(head) = shape.lines.first() else {
                // Nobody waits: the next job to come looks everywhere.
                shape.blocked = None;
                shape.woken_by.clear();
                continue;
            };
            if shape.blocked.is_none() {
                continue;
            }
            const FEW: usize = 64;
            if shape.woken_by.len() < FEW {
                if !shape.woken_by.contains(&offer) {
                    shape.woken_by.push(offer);
                }
            } else {
                shape.blocked = None;
                shape.woken_by.clear();
            }
            self.ready.insert((head, id));
        }
    }

    /// The fleet changed at large: every shape looks everywhere again.
    pub fn wake_all(&mut self, fleet: &Fleet) {
        self.subscribe(fleet);
        self.ready.clear();
        for (position, shape) in self.shapes.iter_mut().enumerate() {
            shape.blocked = None;
            shape.woken_by.clear();
            if let Some(head) = shape.lines.first() {
                self.ready.insert((head, ShapeId(position as u32)));
            }
        }
    }

    /// Changes a shape's queue and keeps its head listed.
    fn with_head<R>(&mut self, id: ShapeId, change: impl FnOnce(&mut Shape) -> R) -> R {
        let shape = &mut self.shapes[id.0 as usize];
        if let Some(head) = shape.lines.first() {
            self.ready.remove(&(head, id));
        }
        let result = change(shape);
        let worth_a_look = shape.blocked.is_none() || !shape.woken_by.is_empty();
        if worth_a_look && let Some(head) = shape.lines.first() {
            self.ready.insert((head, id));
        }
        result
    }

    fn shape(&mut self, job: &Job, fleet: &Fleet) -> ShapeId {
        let key = shape_key(job);
        if let Some(id) = self.shape_of.get(&key) {
            return *id;
        }
        self.forget_empty_shapes();
        let id = ShapeId(self.shapes.len() as u32);
        let groups = groups_for(&key.resources, fleet);
        for group in &*groups {
            self.by_group.entry(*group).or_default().push(id);
        }
        self.shapes.push(Shape {
            key: key.clone(),
            lines: Lines::new(self.order.ranks_owners()),
            blocked: None,
            woken_by: Vec::new(),
            groups,
        });
        self.shape_of.insert(key, id);
        self.known_groups = fleet.groups().count();
        id
    }

    /// Keeps the number of shapes in proportion to those in use.
    fn forget_empty_shapes(&mut self) {
        const MANY: usize = 4_096;
        if self.shapes.len() < MANY || self.shapes.len().count_ones() != 1 {
            return;
        }
        let old = std::mem::take(&mut self.shapes);
        self.shape_of.clear();
        self.by_group.clear();
        self.ready.clear();
        self.owners.iter_mut().for_each(|owner| owner.shapes.clear());
        for shape in old.into_iter().filter(|shape| !shape.lines.is_empty()) {
            let id = ShapeId(self.shapes.len() as u32);
            for group in &*shape.groups {
                self.by_group.entry(*group).or_default().push(id);
            }
            if (shape.blocked.is_none() || !shape.woken_by.is_empty())
                && let Some(head) = shape.lines.first()
            {
                self.ready.insert((head, id));
            }
            for owner in shape.lines.owners() {
                self.owners[owner.0 as usize].shapes.insert(id);
            }
            self.shape_of.insert(shape.key.clone(), id);
            self.shapes.push(shape);
        }
    }

    /// Groups may be new: lists every shape under the groups it can look at.
    fn subscribe(&mut self, fleet: &Fleet) {
        let groups = fleet.groups().count();
        if groups == self.known_groups {
            return;
        }
        self.known_groups = groups;
        self.by_group.clear();
        for (position, shape) in self.shapes.iter_mut().enumerate() {
            shape.groups = groups_for(&shape.key.resources, fleet);
            for group in &*shape.groups {
                self.by_group.entry(*group).or_default().push(ShapeId(position as u32));
            }
        }
    }
}

fn shape_key(job: &Job) -> ShapeKey {
    let spec = &job.spec;
    ShapeKey {
        nodes: spec.nodes,
        ordered: spec.ordered,
        resources: spec.resources.clone(),
        policy: spec.policy.clone(),
    }
}

/// Groups whose accelerators answer one of the alternatives; one without accelerators may use any machine.
pub fn groups_for(resources: &[ResourceRequest], fleet: &Fleet) -> Arc<[GroupId]> {
    answering(resources, fleet).map(|(id, _)| id).collect()
}

/// The same, one at a time.
pub(super) fn answering<'a>(
    resources: &'a [ResourceRequest],
    fleet: &'a Fleet,
) -> impl Iterator<Item = (GroupId, &'a Group)> {
    let answers = |group: &Group| {
        resources.iter().any(|request| request.accelerators.is_none() || request.accelerators == group.accelerators)
    };
    fleet.groups().filter(move |(_, group)| answers(group))
}

#[cfg(test)]
mod tests {
    use leeway_model::{InstallationId, Timestamp};

    use super::*;
    use crate::config::Config;

    /// Places jobs by something that changes.
    #[derive(Debug)]
    struct ByTries;

    impl Order for ByTries {
        fn name(&self) -> &'static str {
            "by-tries"
        }

        fn about(&self) -> &'static str {
            "the job with the fewest tries"
        }

        fn places_jobs(&self) -> bool {
            true
        }

        fn place(&self, job: &Waiting<'_>) -> i64 {
            i64::from(job.job.retries.interruptions)
        }
    }

    #[test]
    fn a_job_leaves_the_line_where_it_stands_though_its_place_would_be_another_by_now() {
        let name: Name = "test".parse().unwrap();
        let config = Config::new(InstallationId(name.clone()), name.clone());
        let fleet = Fleet::new(BTreeMap::new());
        let mut queue = Queue::new(Arc::new(ByTries));
        let mut jobs: Vec<Job> = (1..=3).map(|id| Job::new(JobId(id), spec(&name), Timestamp::ZERO)).collect();
        jobs[0].retries.interruptions = 5;
        jobs.iter().for_each(|job| queue.add(Waiting::new(&config, job), &fleet));
        assert_eq!(queue.next().map(|(job, _)| job), Some(JobId(2)));
        jobs[1].retries.interruptions = 9;
        queue.add(Waiting::new(&config, &jobs[1]), &fleet);
        assert_eq!((queue.next().map(|(job, _)| job), queue.len()), (Some(JobId(2)), 3), "added twice it stands once");
        queue.park(&jobs[1], Park::Budget(name.clone()));
        assert_eq!((queue.next().map(|(job, _)| job), queue.first_for_budget(&name)), (Some(JobId(3)), Some(JobId(2))));
        queue.add(Waiting::new(&config, &jobs[1]), &fleet);
        assert_eq!(queue.first_for_budget(&name), None);
        for expected in [3, 1, 2] {
            let (first, _) = queue.next().unwrap();
            assert_eq!(first, JobId(expected), "back from beside the line it has the place that it has earned by now");
            queue.remove(&jobs[first.0 as usize - 1]);
        }
        assert!(queue.is_empty() && queue.places.is_empty());
    }

    fn spec(name: &Name) -> leeway_model::job::JobSpec {
        leeway_model::job::JobSpec {
            name: "job".parse().unwrap(),
            owner: name.clone(),
            nodes: 1,
            resources: vec![ResourceRequest::default()],
            ordered: false,
            priority: 0,
            program: Default::default(),
            money: Default::default(),
            time: Default::default(),
            data: vec![],
            outputs: None,
            checkpoint: None,
            retry: Default::default(),
            depends_on: vec![],
            policy: None,
            labels: Default::default(),
        }
    }
}
