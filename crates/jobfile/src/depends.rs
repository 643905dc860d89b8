//! Which job waits for which: ids of submitted jobs, names of other documents in the same file, and no circles.

use std::collections::BTreeMap;

use leeway_model::{JobId, Text};

use crate::Dependency;
use crate::error::{Code, Position, Report};
use crate::fields::{Field, nearest};
use crate::job::Draft;
use crate::yaml::Value;

/// Most jobs that one job may wait for.
pub const MAX_DEPENDENCIES: usize = 256;

/// Whether the documents follow each other because no document says otherwise.
pub(crate) fn is_chain(drafts: &[Draft<'_>]) -> bool {
    drafts.len() > 1 && drafts.iter().all(|draft| draft.depends_on.is_none())
}

/// The dependencies of each document, in the order of the documents.
pub(crate) fn resolve(drafts: &mut [Draft<'_>], report: &mut Report) -> Vec<Vec<Dependency>> {
    let mut named: BTreeMap<Text, Vec<usize>> = BTreeMap::new();
    for (index, draft) in drafts.iter().enumerate() {
        if let Some(name) = &draft.name {
            named.entry(name.clone()).or_default().push(index);
        }
    }
    let mut places = Vec::new();
    let mut all = Vec::new();
    for draft in drafts.iter_mut() {
        let field = draft.depends_on.take().filter(|field| !field.is_null());
        places.push(field.as_ref().map(|field| (field.key_at, field.path.clone())));
        all.push(field.map(|field| read(field, &named, report)).unwrap_or_default());
    }
    if let Some(cycle) = cycle(&all) {
        let name = |index: &usize| drafts[*index].name.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string);
        let circle = cycle.iter().map(name).collect::<Vec<_>>().join(" -> ");
        let unknown = (Position { line: 1, column: 1 }, "depends_on".to_owned());
        let (at, path) = places[cycle[0]].clone().unwrap_or(unknown);
        let problem = format!("the jobs wait for each other in a circle: {circle}");
        report.at(Code::DependencyCycle, at, &path, problem, "remove one of these dependencies");
    }
    all
}

fn read(field: Field<'_>, named: &BTreeMap<Text, Vec<usize>>, report: &mut Report) -> Vec<Dependency> {
    let (path, at) = (field.path.clone(), field.key_at);
    let items = match field.node.value {
        Value::Text(_) => vec![field],
        _ => field.items("write a list such as [j-12, prepare]", report).unwrap_or_default(),
    };
    if items.len() > MAX_DEPENDENCIES {
        let fix = format!("wait for at most {MAX_DEPENDENCIES}");
        report.at(Code::TooMany, at, &path, format!("lists {} jobs", items.len()), fix);
        return Vec::new();
    }
    let mut dependencies = Vec::new();
    for item in items {
        if let Some(dependency) = one(&item, named, report)
            && !dependencies.contains(&dependency)
        {
            dependencies.push(dependency);
        }
    }
    dependencies
}

fn one(field: &Field<'_>, named: &BTreeMap<Text, Vec<usize>>, report: &mut Report) -> Option<Dependency> {
    let text = field.clone().text(report)?;
    let documents = text.parse::<Text>().ok().and_then(|name| named.get(&name));
    match (text.parse::<JobId>(), documents.map(Vec::as_slice)) {
        (Ok(id), None) => Some(Dependency::Job(id)),
        (Ok(_), Some(_)) => {
            let fix = "give that document another name";
            field.fail(Code::Conflict, "is both the id of a job and the name of a document", fix, report);
            None
        }
        (Err(_), Some(&[document])) => Some(Dependency::Document(document)),
        (Err(_), Some(documents)) => {
            let problem = format!("is the name of {} documents in this file", documents.len());
            field.fail(Code::Conflict, problem, "give each of them a name of its own", report);
            None
        }
        (Err(_), None) => {
            let fix = match nearest(&text, named.keys().map(Text::as_str)) {
                Some(near) => format!("did you mean '{near}'?"),
                None => "write the id of a job such as j-12, or the name of another document in this file".to_owned(),
            };
            field.fail(Code::UnknownDependency, "is neither a job's id nor a document of this file", fix, report);
            None
        }
    }
}

/// A circle of documents, its first one repeated at the end. Documents are few, so the walk may recurse.
fn cycle(dependencies: &[Vec<Dependency>]) -> Option<Vec<usize>> {
    fn walk(at: usize, all: &[Vec<Dependency>], path: &mut Vec<usize>, done: &mut [bool]) -> Option<Vec<usize>> {
        if let Some(start) = path.iter().position(|earlier| *earlier == at) {
            let mut circle = path[start..].to_vec();
            circle.push(at);
            return Some(circle);
        }
        if done[at] {
            return None;
        }
        path.push(at);
        for dependency in &all[at] {
            if let Dependency::Document(next) = dependency
                && let Some(circle) = walk(*next, all, path, done)
            {
                return Some(circle);
            }
        }
        path.pop();
        done[at] = true;
        None
    }
    let mut done = vec![false; dependencies.len()];
    (0..dependencies.len()).find_map(|start| walk(start, dependencies, &mut Vec::new(), &mut done))
}
