//! Which market each cluster of the demonstration follows: the built-in story, or recordings.
//!
//! Three clusters need three markets. Where fewer recordings are given, zones of the same family beside the first file
//! are taken, and where there are none, the fullest recording again from other times. All of them then begin at one
//! moment, shortly before the cheapest place is lost, since a recording may go for days without anything to see. What
//! was chosen is told in words.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use leeway_market::trace::{self, SpotTrace};
use leeway_model::cluster::Region;
use leeway_model::resources::Accelerators;
use leeway_model::{Millis, Rate};

/// As many clusters as the demonstration has.
pub const CLUSTERS: usize = 3;
/// Cluster names with the built-in market that each follows.
const BUILTIN: [(&str, &str); CLUSTERS] = [
    ("aws-us-east-1", "aws-us-east-1.json"),
    ("aws-us-west-2", "aws-us-west-2.json"),
    ("gcp-us-central1", "gcp-us-central1.json"),
];
/// Files beside a recording that are looked at for zones of its family.
const NEIGHBOURS_MAX: usize = 256;
/// Moments that are tried as a beginning.
const STARTS_MAX: u64 = 50_000;
/// A first loss within these bounds falls into the job, and not into its first minutes.
const FIRST_LOSS: (Millis, Millis) = (Millis::from_secs(8 * 60), Millis::from_secs(35 * 60));

/// A market as a cluster of the demonstration follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Market {
    pub cluster: String,
    /// As the server's settings name it.
    pub trace: String,
    /// In words.
    pub follows: String,
    pub region: Region,
    pub instance_type: String,
    pub accelerators: Option<Accelerators>,
    pub on_demand: Rate,
    pub spot: Rate,
}

/// The built-in story.
pub fn builtin() -> anyhow::Result<Vec<Market>> {
    let market = |(cluster, name): &(&str, &str)| {
        let file = leeway_market::demo::FILES.iter().find(|(known, _)| known == name);
        let (_, json) = file.with_context(|| format!("no market '{name}' is built in"))?;
        let trace = trace::parse(name, json.as_bytes())?;
        Ok(market((*cluster).to_owned(), format!("builtin:{name}"), "the built-in story".to_owned(), &trace))
    };
    BUILTIN.iter().map(market).collect()
}

/// Markets after recordings, written into `folder` as the clusters follow them, and a sentence on where they begin.
pub fn recorded(given: &[PathBuf], folder: &Path) -> anyhow::Result<(Vec<Market>, String)> {
    let mut chosen = Vec::with_capacity(CLUSTERS);
    for path in given {
        let trace = trace::read(path)?;
        chosen.push(Chosen { follows: file_name(path), trace });
    }
    let first = chosen.first().context("no recording is given")?.trace.clone();
    if let Some(other) = chosen.iter().find(|one| one.trace.accelerators != first.accelerators) {
        let (one, another) = (machine(&first), machine(&other.trace));
        bail!("the recordings sell {one} and {another}; the job asks for one kind of machine, so give one kind");
    }
    for (path, trace) in neighbours(&given[0], &first, &chosen) {
        if chosen.len() < CLUSTERS {
            let follows = format!("{}, a zone of its family", file_name(&path));
            chosen.push(Chosen { follows, trace });
        }
    }
    // The recording in which nodes were there most often has the most to give at other times.
    let rich =
        |one: &&Chosen| one.trace.data.iter().filter(|nodes| **nodes > 0).count() * 1_000 / one.trace.data.len().max(1);
    let again = chosen.iter().rev().max_by_key(rich).map(|one| (one.trace.clone(), one.follows.clone()));
    let (again, follows) = again.context("no recording is given")?;
    for part in 1..CLUSTERS as u64 {
        if chosen.len() < CLUSTERS {
            let by = again.data.len() as u64 * part / CLUSTERS as u64;
            let name = follows.split(',').next().unwrap_or(&follows);
            let follows = format!("{name} again, {} ahead", again.gap.saturating_mul(by));
            chosen.push(Chosen { follows, trace: again.rotated(by) });
        }
    }
    let traces: Vec<SpotTrace> = chosen.iter().map(|one| one.trace.clone()).collect();
    let (start, why) = beginning(&traces);
    std::fs::create_dir_all(folder)?;
    let mut markets: Vec<Market> = Vec::with_capacity(CLUSTERS);
    for one in chosen {
        let trace = one.trace.rotated(start.as_millis() / one.trace.gap.as_millis().max(1));
        let cluster = cluster_name(&trace, &markets);
        let path = folder.join(format!("{cluster}.json"));
        std::fs::write(&path, trace::write(&trace)).with_context(|| format!("cannot write '{}'", path.display()))?;
        markets.push(market(cluster, path.display().to_string(), one.follows, &trace));
    }
    let begin = if start.is_zero() { "at".to_owned() } else { format!("{start} after") };
    Ok((markets, format!("the recordings begin {begin} their first tick, {why}")))
}

struct Chosen {
    follows: String,
    trace: SpotTrace,
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn machine(trace: &SpotTrace) -> String {
    trace.accelerators.as_ref().map_or_else(|| trace.instance_type.to_string(), ToString::to_string)
}

/// Recordings of other zones of the family in the folder of `path`, in order of their names. They share its ticks, so
/// one moment is the same in all of them. What cannot be read is none.
fn neighbours(path: &Path, first: &SpotTrace, chosen: &[Chosen]) -> Vec<(PathBuf, SpotTrace)> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "json"));
    files.sort();
    let mut zones: Vec<Box<str>> = chosen.iter().map(|one| one.trace.zone.clone()).collect();
    let mut found = Vec::new();
    for file in files.into_iter().take(NEIGHBOURS_MAX) {
        let Ok(trace) = trace::read(&file) else { continue };
        let is_family = trace.family == first.family
            && trace.accelerators == first.accelerators
            && (trace.gap, trace.start) == (first.gap, first.start);
        if is_family && !zones.contains(&trace.zone) && trace.data.iter().any(|nodes| *nodes > 0) {
            zones.push(trace.zone.clone());
            found.push((file, trace));
        }
    }
    found
}

/// A name for the cluster in a trace's zone that none of these has.
fn cluster_name(trace: &SpotTrace, taken: &[Market]) -> String {
    let zone = if trace.zone.is_empty() { trace.region.name() } else { &trace.zone };
    let name = format!("{}-{zone}", trace.region.provider()).to_lowercase();
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(56).collect();
    let name = name.trim_matches('-');
    let candidates = (1..).map(|number| if number == 1 { name.to_owned() } else { format!("{name}-{number}") });
    let free = |name: &String| taken.iter().all(|market| market.cluster != *name);
    candidates.into_iter().find(free).unwrap_or_default()
}

fn market(cluster: String, trace: String, follows: String, recorded: &SpotTrace) -> Market {
    Market {
        cluster,
        trace,
        follows,
        region: recorded.region.clone(),
        instance_type: recorded.instance_type.to_string(),
        accelerators: recorded.accelerators.clone(),
        on_demand: recorded.on_demand,
        spot: recorded.spot,
    }
}

/// The first moment shortly before the cheapest place with nodes is lost while another has some; else the first with
/// any nodes at all, else the first tick.
fn beginning(traces: &[SpotTrace]) -> (Millis, &'static str) {
    let Some(first) = traces.first() else { return (Millis::ZERO, "") };
    let starts = (0..(first.data.len() as u64).min(STARTS_MAX)).map(|tick| first.gap.saturating_mul(tick));
    if let Some(start) = starts.clone().find(|start| loses_its_place(traces, *start)) {
        return (start, "shortly before the cheapest place is lost");
    }
    let any = |start: &Millis| traces.iter().any(|trace| trace.at(*start).0 > 0);
    match starts.clone().find(any) {
        Some(start) => (start, "where there are nodes to be had; no loss falls into the job"),
        None => (Millis::ZERO, "without any spot node to be had"),
    }
}

fn loses_its_place(traces: &[SpotTrace], start: Millis) -> bool {
    let priced = traces.iter().map(|trace| (trace, trace.at(start))).filter(|(_, (nodes, _))| *nodes > 0);
    let Some((cheapest, _)) = priced.min_by_key(|(_, (_, price))| *price) else { return false };
    let (earliest, latest) = FIRST_LOSS;
    let ends = (1..=latest.as_millis() / cheapest.gap.as_millis().max(1)).map(|tick| cheapest.gap.saturating_mul(tick));
    let mut after = ends.map(|length| (length, Millis::new(start.as_millis() + length.as_millis())));
    let lost = after.find(|(_, time)| cheapest.at(*time).0 == 0);
    lost.is_some_and(|(length, time)| length >= earliest && traces.iter().any(|trace| trace.at(time).0 > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording with a node at some minutes, in tens.
    fn recording(zone: &str, data: &[u32], price: u64) -> SpotTrace {
        let mut trace = leeway_market::demo::demo_markets()[0].clone();
        trace.zone = zone.into();
        trace.gap = Millis::from_secs(600);
        trace.accelerators = Some(Accelerators { model: "H100".into(), count: 1 });
        trace.spot = Rate::from_nanos(price * 1_000_000_000);
        trace.on_demand = Rate::from_nanos(99_000_000_000);
        (trace.price_changes, trace.notices) = (Vec::new(), Vec::new());
        trace.data = data.to_vec();
        trace
    }

    fn write(folder: &Path, name: &str, trace: &SpotTrace) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, trace::write(trace)).unwrap();
        path
    }

    fn chosen(folder: &Path, given: &[PathBuf]) -> (Vec<Market>, String) {
        recorded(given, &folder.join("markets")).unwrap()
    }

    #[test]
    fn one_recording_alone_is_followed_at_three_times() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path(), "a.json", &recording("us-west1-b", &[0, 1, 1, 0, 1, 1, 1, 1, 0], 19));
        let (markets, told) = chosen(dir.path(), &[path]);
        let clusters: Vec<&str> = markets.iter().map(|market| market.cluster.as_str()).collect();
        assert_eq!(clusters, ["aws-us-west1-b", "aws-us-west1-b-2", "aws-us-west1-b-3"]);
        let follows: Vec<&str> = markets.iter().map(|market| market.follows.as_str()).collect();
        assert_eq!(follows, ["a.json", "a.json again, 30m ahead", "a.json again, 1h ahead"]);
        assert!(told.contains("shortly before the cheapest place is lost"), "{told}");
        let read = |market: &Market| trace::parse("x", &std::fs::read(&market.trace).unwrap()).unwrap();
        assert_ne!(read(&markets[0]).data, read(&markets[1]).data, "the clusters do not lose their nodes together");
        assert!(markets.iter().all(|market| market.accelerators.as_ref().unwrap().model.as_ref() == "H100"));
    }

    #[test]
    fn zones_of_the_family_beside_it_go_before_other_times() {
        let dir = tempfile::tempdir().unwrap();
        let data = [1, 1, 1, 0, 0];
        let path = write(dir.path(), "m.json", &recording("zone-m", &data, 3));
        write(dir.path(), "a.json", &recording("zone-a", &data, 4));
        write(dir.path(), "b-never.json", &recording("zone-b", &[0; 5], 4));
        write(dir.path(), "c-same-zone.json", &recording("zone-m", &data, 4));
        write(dir.path(), "d-other.json", &SpotTrace { family: "other".into(), ..recording("zone-d", &data, 4) });
        std::fs::write(dir.path().join("e.json"), "{").unwrap();
        let (markets, _) = chosen(dir.path(), std::slice::from_ref(&path));
        let clusters: Vec<&str> = markets.iter().map(|market| market.cluster.as_str()).collect();
        assert_eq!(clusters, ["aws-zone-m", "aws-zone-a", "aws-zone-m-2"]);
        assert!(markets[1].follows == "a.json, a zone of its family", "{:?}", markets[1]);
        let twice = chosen(dir.path(), &[path.clone(), path]).0;
        assert_eq!(twice.len(), CLUSTERS, "what is given goes first: {twice:?}");
    }

    #[test]
    fn machines_without_accelerators_have_clusters_too_and_kinds_are_not_mixed() {
        let dir = tempfile::tempdir().unwrap();
        let plain = write(dir.path(), "c.json", &SpotTrace { accelerators: None, ..recording("zone-c", &[1], 3) });
        let (markets, told) = chosen(dir.path(), std::slice::from_ref(&plain));
        assert_eq!(markets.iter().filter(|market| market.accelerators.is_none()).count(), CLUSTERS);
        assert!(told.contains("no loss falls into the job"), "{told}");
        let other = write(dir.path(), "h.json", &recording("zone-h", &[1], 3));
        let error = recorded(&[plain, other], dir.path()).unwrap_err().to_string();
        assert!(error.contains("p3.2xlarge") && error.contains("H100"), "{error}");
    }

    #[test]
    fn a_recording_without_a_single_node_is_followed_on_demand() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path(), "a.json", &recording("zone-a", &[0, 0, 0], 3));
        let (markets, told) = chosen(dir.path(), &[path]);
        assert!(markets.len() == CLUSTERS && told.contains("without any spot node"), "{told}");
    }

    #[test]
    fn the_built_in_story_has_its_three_clusters() {
        let markets = builtin().unwrap();
        assert_eq!(
            markets.iter().map(|market| market.cluster.as_str()).collect::<Vec<_>>(),
            BUILTIN.map(|(name, _)| name)
        );
    }
}
