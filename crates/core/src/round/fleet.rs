//! Every offer, indexed so that a job can look at the cheapest first.
//!
//! Offers are grouped by capacity type and by accelerator model and count; inside a group they stand in order of price.
//! All machines of a group have one relative speed, so price order is also the order of the least a job can cost there.
//! Two orders are kept: every priced offer, and those that could take a run now, so that a search never walks over
//! what is full, cooling down or not ready. The second is kept by size of machine, so that a search for large machines
//! never walks over the small ones that are left.

use std::collections::{BTreeMap, BTreeSet, btree_set};

use leeway_model::cluster::{ClusterSpec, Region};
use leeway_model::market::{InterruptionBelief, Offer, OfferKey, Price, Source};
use leeway_model::resources::{Accelerators, CapacityType, MachineShape, MilliCpus};
use leeway_model::{Bytes, Currency, Millis, Name, Rate, Timestamp};

use super::score::Belief;
use crate::setbacks::Probes;
use crate::state::table::{RowKey, RowSink, TableId};

/// Position of an offer in this process; not stable over restarts, so it never decides a tie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferId(u32);

#[cfg(test)]
impl OfferId {
    /// For tests of what is kept by offer.
    pub(crate) const fn first() -> Self {
        Self(0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId(u32);

/// An offer with what its cluster says of it.
#[derive(Clone, Debug)]
pub struct Slot {
    pub offer: Offer,
    pub shape: MachineShape,
    pub region: Region,
    pub zone: Option<Box<str>>,
    /// Whether its cluster takes new runs.
    pub ready: bool,
    /// Declared price of on-demand capacity, the reference for spot prices and holds.
    pub on_demand: Option<Rate>,
    /// Machines of this offer in runs that are not released.
    pub used: u32,
    /// Machines of this offer in runs that have them and have not ended.
    pub alive: u32,
    pub group: GroupId,
    /// Position among the bins of its group.
    bin: usize,
    /// Relative speed of its accelerators.
    pub speed: f64,
    /// How launches there went of late.
    pub probes: Probes,
    /// Kept off after a refusal or a loss, until its timer.
    cooling: bool,
    pool: usize,
    /// The price under which it stands in its group; `None` while it has none or was removed.
    priced: Option<Rate>,
    /// The price under which it stands among the open offers of its group.
    open: Option<Rate>,
    /// The price under which it stands among those of its group that cool down.
    cool: Option<Rate>,
}

/// Machines shared by all capacity types of one shape of one cluster.
#[derive(Clone, Copy, Debug, Default)]
struct Pool {
    count: Option<u32>,
    used: u32,
    /// The offers that share them, by capacity type.
    members: [Option<OfferId>; CapacityType::ALL.len()],
}

impl Slot {
    /// Whether anything tells how the market for its machines moves. A declared price that nothing ever updated is an
    /// operator's own machine: what happens to one of them says nothing of the others.
    pub fn has_market(&self) -> bool {
        let fed = self.offer.price.as_ref().is_some_and(|price| price.source != Source::Declared);
        fed || self.offer.available.is_some()
    }
}

#[derive(Clone, Debug)]
pub struct Group {
    pub accelerators: Option<Accelerators>,
    pub capacity: CapacityType,
    pub speed: f64,
    /// The best in each respect that any of its offers ever was.
    pub best: Belief,
    /// By price, then by place in the fleet.
    priced: BTreeSet<Priced>,
    /// Those that cool down.
    cool: BTreeSet<Priced>,
    bins: Vec<Bin>,
}

/// An offer under its price: what the orders of a group hold.
type Priced = (Rate, OfferId);

/// The open offers of a group whose machines are of one size, by price, then by place in the fleet.
#[derive(Clone, Debug)]
struct Bin {
    cpus: MilliCpus,
    memory: Bytes,
    open: BTreeSet<Priced>,
}

/// Open offers from the cheapest on, merged from the bins of a group.
#[derive(Clone, Debug)]
pub struct Cheapest<'a> {
    /// The next of each bin, and what follows it there.
    heads: Vec<(Priced, btree_set::Iter<'a, Priced>)>,
}

impl Iterator for Cheapest<'_> {
    type Item = Priced;

    fn next(&mut self) -> Option<Priced> {
        let least = (0..self.heads.len()).min_by_key(|&position| self.heads[position].0)?;
        let (head, rest) = &mut self.heads[least];
        let found = *head;
        match rest.next() {
            Some(next) => *head = *next,
            None => drop(self.heads.swap_remove(least)),
        }
        Some(found)
    }
}

impl Group {
    /// Position of the bin for a size of machine, made now if it is the first of that size.
    fn bin_for(&mut self, shape: &MachineShape) -> usize {
        let same = |bin: &Bin| (bin.cpus, bin.memory) == (shape.cpus, shape.memory);
        self.bins.iter().position(same).unwrap_or_else(|| {
            self.bins.push(Bin { cpus: shape.cpus, memory: shape.memory, open: BTreeSet::new() });
            self.bins.len() - 1
        })
    }
}

#[derive(Clone, Debug, Default)]
pub struct Fleet {
    slots: Vec<Slot>,
    pools: Vec<Pool>,
    pool_of: BTreeMap<(Name, Name), usize>,
    by_key: BTreeMap<OfferKey, OfferId>,
    groups: Vec<Group>,
    group_of: BTreeMap<(CapacityType, Option<Accelerators>), GroupId>,
    /// Relative speed by accelerator model.
    speeds: BTreeMap<Box<str>, f64>,
    changed: BTreeSet<OfferKey>,
}

impl Fleet {
    pub fn new(speeds: BTreeMap<Box<str>, f64>) -> Self {
        Self { speeds, ..Self::default() }
    }

    pub fn find(&self, key: &OfferKey) -> Option<OfferId> {
        self.by_key.get(key).copied()
    }

    pub fn slot(&self, id: OfferId) -> &Slot {
        &self.slots[id.0 as usize]
    }

    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Offers in order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (OfferId, &Slot)> {
        self.by_key.values().map(|&id| (id, self.slot(id)))
    }

    pub fn of_cluster<'a>(&'a self, cluster: &'a Name) -> impl Iterator<Item = OfferId> + 'a {
        self.by_key
            .range(OfferKey::first_of(cluster)..)
            .take_while(move |(key, _)| key.cluster == *cluster)
            .map(|(_, &id)| id)
    }

    pub fn groups(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        self.groups.iter().enumerate().map(|(position, group)| (GroupId(position as u32), group))
    }

    pub fn group(&self, id: GroupId) -> &Group {
        &self.groups[id.0 as usize]
    }

    /// Offers of a group that could take a run now, of the sizes that `wanted` accepts, from the cheapest on.
    pub fn open(&self, group: GroupId, wanted: impl Fn(MilliCpus, Bytes) -> bool) -> Cheapest<'_> {
        let fitting = self.groups[group.0 as usize].bins.iter().filter(|bin| wanted(bin.cpus, bin.memory));
        let heads = fitting.filter_map(|bin| {
            let mut offers = bin.open.iter();
            offers.next().map(|first| (*first, offers))
        });
        Cheapest { heads: heads.collect() }
    }

    /// Offers of a group that cool down, from the cheapest on.
    pub fn cooling(&self, group: GroupId) -> impl Iterator<Item = Priced> + '_ {
        self.group(group).cool.iter().copied()
    }

    /// Whether any offer cools down.
    pub fn has_cooling(&self) -> bool {
        self.groups.iter().any(|group| !group.cool.is_empty())
    }

    /// Every priced offer of a group from the cheapest on.
    pub fn priced(&self, group: GroupId) -> impl Iterator<Item = Priced> + '_ {
        self.groups[group.0 as usize].priced.iter().copied()
    }

    /// Machines that its cluster says it has of an offer's shape; `None` when it does not say.
    pub fn declared(&self, id: OfferId) -> Option<u32> {
        self.pools[self.slot(id).pool].count
    }

    /// Machines that a new run could take: the lesser of what the cluster has left and what the market allows.
    /// `None` when neither is known.
    pub fn free(&self, id: OfferId) -> Option<u32> {
        let slot = self.slot(id);
        let pool = self.pools[slot.pool];
        let by_count = pool.count.map(|count| count.saturating_sub(pool.used));
        let by_market = slot.offer.available.map(|available| available.saturating_sub(slot.used));
        match (by_count, by_market) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        }
    }

    /// Machines that our runs must give back before an offer has `nodes` free, as far as its count and market are known.
    pub fn lacking(&self, id: OfferId, nodes: u32) -> Option<u32> {
        let slot = self.slot(id);
        let pool = self.pools[slot.pool];
        let by_count = pool.count.map(|count| (pool.used.saturating_add(nodes)).saturating_sub(count));
        let by_market =
            slot.offer.available.map(|available| (slot.used.saturating_add(nodes)).saturating_sub(available));
        by_count.max(by_market)
    }

    /// Adds or updates the offers of a cluster's declaration.
    pub fn declare(&mut self, spec: &ClusterSpec, ready: bool, currency: Currency) {
        for machines in &spec.machines {
            let pool = self.pool(&spec.name, &machines.shape.name);
            self.pools[pool].count = machines.count;
            let declared = [
                (CapacityType::Spot, machines.spot),
                (CapacityType::OnDemand, machines.on_demand),
                (CapacityType::Reserved, machines.reserved),
            ];
            for (capacity, rate) in declared {
                let key = OfferKey { cluster: spec.name.clone(), shape: machines.shape.name.clone(), capacity };
                // Spot capacity without a declared price exists all the same where the shape has a reference price:
                // a market feed will tell. Other kinds exist only when they are declared.
                let known = self.find(&key);
                if rate.is_none() && known.is_none() {
                    continue;
                }
                let id = known.unwrap_or_else(|| self.add(key.clone(), spec, machines.shape.clone(), pool));
                self.reshape(id, &machines.shape);
                let slot = &mut self.slots[id.0 as usize];
                slot.region = spec.region.clone();
                slot.zone = spec.zone.clone();
                slot.on_demand = machines.on_demand;
                slot.ready = ready;
                let from_market = slot.offer.price.as_ref().is_some_and(|p| p.source != Source::Declared);
                if !from_market {
                    let declared = |rate| Price { rate, currency, observed: Timestamp::ZERO, source: Source::Declared };
                    // A price that is no longer declared is no price.
                    slot.offer.price = rate.map(declared);
                    self.changed.insert(key);
                }
                self.relist(id);
            }
        }
    }

    /// The offer under a key, made now if its machine shape is declared; `None` when nothing of it is known.
    pub fn find_or_add(&mut self, key: &OfferKey, spec: &ClusterSpec, ready: bool) -> Option<OfferId> {
        if let Some(id) = self.find(key) {
            return Some(id);
        }
        let machines = spec.machines.iter().find(|machines| machines.shape.name == key.shape)?;
        let pool = self.pool(&key.cluster, &key.shape);
        let id = self.add(key.clone(), spec, machines.shape.clone(), pool);
        let slot = &mut self.slots[id.0 as usize];
        slot.on_demand = machines.on_demand;
        slot.ready = ready;
        Some(id)
    }

    fn pool(&mut self, cluster: &Name, shape: &Name) -> usize {
        let pools = &mut self.pools;
        *self.pool_of.entry((cluster.clone(), shape.clone())).or_insert_with(|| {
            pools.push(Pool::default());
            pools.len() - 1
        })
    }

    fn add(&mut self, key: OfferKey, spec: &ClusterSpec, shape: MachineShape, pool: usize) -> OfferId {
        let id = OfferId(u32::try_from(self.slots.len()).expect("fewer than four billion offers"));
        let (group, speed) = self.group_for(key.capacity, shape.accelerators.clone());
        let bin = self.groups[group.0 as usize].bin_for(&shape);
        self.slots.push(Slot {
            offer: Offer {
                key: key.clone(),
                price: None,
                price_fault: None,
                available: None,
                cooling_until: None,
                cooldown: Millis::ZERO,
                belief: InterruptionBelief::default(),
            },
            shape,
            region: spec.region.clone(),
            zone: spec.zone.clone(),
            ready: false,
            on_demand: None,
            used: 0,
            alive: 0,
            group,
            bin,
            speed,
            probes: Probes::default(),
            cooling: false,
            pool,
            priced: None,
            open: None,
            cool: None,
        });
        self.pools[pool].members[key.capacity as usize] = Some(id);
        self.by_key.insert(key.clone(), id);
        self.changed.insert(key);
        id
    }

    fn group_for(&mut self, capacity: CapacityType, accelerators: Option<Accelerators>) -> (GroupId, f64) {
        let key = (capacity, accelerators);
        if let Some(&group) = self.group_of.get(&key) {
            return (group, self.group(group).speed);
        }
        let group = GroupId(self.groups.len() as u32);
        let known = key.1.as_ref().and_then(|accelerators| self.speeds.get(&accelerators.model));
        let speed = known.copied().filter(|speed| speed.is_finite() && *speed > 0.0).unwrap_or(1.0);
        self.groups.push(Group {
            accelerators: key.1.clone(),
            capacity,
            speed,
            best: Belief::from(&InterruptionBelief::default()),
            priced: BTreeSet::new(),
            cool: BTreeSet::new(),
            bins: Vec::new(),
        });
        self.group_of.insert(key, group);
        (group, speed)
    }

    /// Gives an offer its machines' shape, and moves it to the group and the bin of that.
    fn reshape(&mut self, id: OfferId, shape: &MachineShape) {
        let (group, speed) = self.group_for(self.slot(id).offer.key.capacity, shape.accelerators.clone());
        let bin = self.groups[group.0 as usize].bin_for(shape);
        let slot = &mut self.slots[id.0 as usize];
        slot.shape = shape.clone();
        if (slot.group, slot.bin) != (group, bin) {
            let old = &mut self.groups[slot.group.0 as usize];
            move_to(&mut old.priced, &mut slot.priced, None, id);
            move_to(&mut old.bins[slot.bin].open, &mut slot.open, None, id);
            move_to(&mut old.cool, &mut slot.cool, None, id);
            (slot.group, slot.bin, slot.speed) = (group, bin, speed);
        }
    }

    /// Changes the durable part of an offer and its place by price.
    pub fn change(&mut self, id: OfferId, change: impl FnOnce(&mut Offer)) {
        let slot = &mut self.slots[id.0 as usize];
        change(&mut slot.offer);
        if !self.changed.contains(&slot.offer.key) {
            self.changed.insert(slot.offer.key.clone());
        }
        self.relist(id);
    }

    pub fn set_ready(&mut self, id: OfferId, ready: bool) {
        self.slots[id.0 as usize].ready = ready;
        self.relist(id);
    }

    /// Keeps an offer off, or lets it be looked at again.
    pub fn set_cooling(&mut self, id: OfferId, cooling: bool) {
        self.slots[id.0 as usize].cooling = cooling;
        self.relist(id);
    }

    /// A launch came to machines, or to none.
    pub fn probed(&mut self, id: OfferId, at: Timestamp, came: bool) {
        self.slots[id.0 as usize].probes.note(at, came);
    }

    /// Changes the number of machines in runs that have them, and returns it.
    pub fn count_alive(&mut self, id: OfferId, change: impl FnOnce(u32) -> u32) -> u32 {
        let slot = &mut self.slots[id.0 as usize];
        slot.alive = change(slot.alive);
        slot.alive
    }

    pub fn is_open(&self, id: OfferId) -> bool {
        self.slot(id).open.is_some()
    }

    /// Brings an offer's places in its group up to date, and the best of the group.
    fn relist(&mut self, id: OfferId) {
        let slot = &self.slots[id.0 as usize];
        let group = &mut self.groups[slot.group.0 as usize];
        group.best = group.best.best(Belief::from(&slot.offer.belief));
        self.list(id);
    }

    fn list(&mut self, id: OfferId) {
        let full = self.free(id) == Some(0);
        let slot = &mut self.slots[id.0 as usize];
        let group = &mut self.groups[slot.group.0 as usize];
        let rate = slot.offer.price.as_ref().map(|price| price.rate);
        move_to(&mut group.priced, &mut slot.priced, rate, id);
        let open = rate.filter(|_| slot.ready && !slot.cooling && !full);
        move_to(&mut group.bins[slot.bin].open, &mut slot.open, open, id);
        move_to(&mut group.cool, &mut slot.cool, rate.filter(|_| slot.ready && slot.cooling), id);
    }

    /// Counts machines as taken by a run.
    pub fn take(&mut self, id: OfferId, machines: u32) {
        let slot = &mut self.slots[id.0 as usize];
        slot.used += machines;
        self.pools[slot.pool].used += machines;
        self.list_siblings(id);
    }

    /// Counts machines as free again.
    pub fn give_back(&mut self, id: OfferId, machines: u32) {
        let slot = &mut self.slots[id.0 as usize];
        let pool = &mut self.pools[slot.pool];
        slot.used = slot.used.checked_sub(machines).expect("a run gives back what it took");
        pool.used = pool.used.checked_sub(machines).expect("a run gives back what it took");
        self.list_siblings(id);
    }

    fn list_siblings(&mut self, id: OfferId) {
        self.siblings(id).for_each(|sibling| self.list(sibling));
    }

    /// All offers that share machines with this one, itself included unless it was removed.
    pub fn siblings(&self, id: OfferId) -> impl Iterator<Item = OfferId> + use<> {
        self.pools[self.slot(id).pool].members.into_iter().flatten()
    }

    /// Takes a cluster's offers out of the market. Their slots stay, without price and under no key.
    pub fn remove_cluster(&mut self, cluster: &Name) {
        let ids: Vec<OfferId> = self.of_cluster(cluster).collect();
        ids.into_iter().for_each(|id| self.remove(id));
    }

    /// Takes offers out whose shapes their cluster no longer declares.
    pub fn retain_shapes(&mut self, spec: &ClusterSpec) {
        let declared = |shape: &Name| spec.machines.iter().any(|machines| machines.shape.name == *shape);
        let gone = |id: &OfferId| !declared(&self.slot(*id).offer.key.shape);
        let ids: Vec<OfferId> = self.of_cluster(&spec.name).filter(gone).collect();
        ids.into_iter().for_each(|id| self.remove(id));
    }

    fn remove(&mut self, id: OfferId) {
        let slot = &mut self.slots[id.0 as usize];
        slot.offer.price = None;
        slot.ready = false;
        let key = slot.offer.key.clone();
        self.pools[slot.pool].members[key.capacity as usize] = None;
        self.relist(id);
        self.by_key.remove(&key);
        self.changed.insert(key);
    }

    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    pub fn drain(&mut self, sink: &mut impl RowSink) {
        let mut bytes = Vec::with_capacity(64);
        for key in std::mem::take(&mut self.changed) {
            bytes.clear();
            key.write(&mut bytes);
            match self.find(&key) {
                Some(id) => sink.put(TableId::Offer, &bytes, &self.slot(id).offer),
                None => sink.delete(TableId::Offer, &bytes),
            }
        }
    }

    /// Puts back a durable offer under its cluster's declaration.
    pub fn load(&mut self, offer: Offer, spec: &ClusterSpec, ready: bool) {
        if let Some(id) = self.find_or_add(&offer.key, spec, ready) {
            let slot = &mut self.slots[id.0 as usize];
            slot.cooling = offer.cooling_until.is_some();
            slot.offer = offer;
            self.relist(id);
        }
    }

    /// Forgets what changed: everything in memory is durable.
    pub fn settle(&mut self) {
        self.changed.clear();
    }
}

/// Moves an offer within an order from where it stands to where it belongs.
fn move_to(order: &mut BTreeSet<Priced>, stands: &mut Option<Rate>, belongs: Option<Rate>, id: OfferId) {
    if *stands == belongs {
        return;
    }
    if let Some(old) = *stands {
        order.remove(&(old, id));
    }
    if let Some(new) = belongs {
        order.insert((new, id));
    }
    *stands = belongs;
}
