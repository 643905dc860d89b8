//! What a job reads and what it leaves behind: where it lies and how much it is, so that moving it can be priced.

use leeway_model::Bytes;
use leeway_model::cluster::Region;
use leeway_model::job::{DataInput, DataOutput};

use crate::environment::{Environment, substitute};
use crate::error::{Code, Report};
use crate::fields::{Field, Fields, Level, join};
use crate::yaml::{Node, Value};

/// Most inputs of one job.
pub const MAX_INPUTS: usize = 256;
const MAX_URL_BYTES: usize = 2_048;

pub(crate) const LEVEL: Level =
    Level { name: "an entry of data, or outputs", known: &["url", "region", "size"], refused: &[] };

struct Place {
    url: Box<str>,
    region: Option<Region>,
    size: Option<Bytes>,
}

/// Leeway's `data`: a list of `{url, region, size}`.
pub(crate) fn data(field: Field<'_>, env: &Environment, report: &mut Report) -> Vec<DataInput> {
    let (path, at) = (field.path.clone(), field.key_at);
    let items = field.items("begin each input with '- url: ...'", report).unwrap_or_default();
    if too_many(items.len(), &path, at, report) {
        return Vec::new();
    }
    let places: Vec<Place> = items.into_iter().filter_map(|item| place(item, env, report)).collect();
    places.into_iter().map(|Place { url, region, size }| DataInput { url, region, size }).collect()
}

/// SkyPilot's `inputs`: `{url: GB}`.
pub(crate) fn inputs(field: Field<'_>, env: &Environment, report: &mut Report) -> Vec<DataInput> {
    let (path, at) = (field.path.clone(), field.key_at);
    let places = sized_urls(field, env, report);
    if too_many(places.len(), &path, at, report) {
        return Vec::new();
    }
    places.into_iter().map(|Place { url, region, size }| DataInput { url, region, size }).collect()
}

/// `outputs` in either form; a job has one place for what it leaves.
pub(crate) fn outputs(field: Field<'_>, env: &Environment, report: &mut Report) -> Option<DataOutput> {
    let ours = match &field.node.value {
        Value::Map(entries) => !entries.iter().any(|entry| entry.key.contains("://")),
        _ => true,
    };
    let found = if ours {
        place(field, env, report)
    } else {
        let (path, at) = (field.path.clone(), field.key_at);
        let mut places = sized_urls(field, env, report);
        if places.len() > 1 {
            let problem = format!("lists {} places", places.len());
            report.at(Code::TooMany, at, &path, problem, "name one place; all outputs go there");
        }
        places.pop()
    };
    found.map(|Place { url, region, size }| DataOutput { url, region, size })
}

fn too_many(count: usize, path: &str, at: crate::error::Position, report: &mut Report) -> bool {
    if count > MAX_INPUTS {
        let fix = format!("list at most {MAX_INPUTS}; name a common prefix instead of each object");
        report.at(Code::TooMany, at, path, format!("lists {count} inputs"), fix);
    }
    count > MAX_INPUTS
}

fn place(field: Field<'_>, env: &Environment, report: &mut Report) -> Option<Place> {
    let mut fields = Fields::open(field, &LEVEL, report)?;
    let region = fields.take_stated("region", report).and_then(|field| region(&field, report));
    let size = fields.take_stated("size", report).and_then(|field| field.size(report));
    let Some(url) = fields.take_even_empty("url").filter(|field| !field.is_null()) else {
        report.at(Code::MissingField, fields.at(), &join(fields.path(), "url"), "is missing", "write where it lies");
        return None;
    };
    let url = checked_url(&url, env, report)?;
    let region = region.or_else(|| region_of(&url));
    Some(Place { url, region, size })
}

fn sized_urls(field: Field<'_>, env: &Environment, report: &mut Report) -> Vec<Place> {
    let path = field.path.clone();
    let mut places = Vec::new();
    for entry in field.entries(report).unwrap_or_default() {
        let here = join(&path, &entry.key);
        let url = Field {
            path: here.clone(),
            key_at: entry.key_at,
            node: Node { value: Value::Text(entry.key), at: entry.key_at },
        };
        let size = Field { path: here, key_at: entry.key_at, node: entry.node };
        let url = checked_url(&url, env, report);
        let size = if size.is_null() { None } else { size.size_or_gb(report) };
        if let Some(url) = url {
            places.push(Place { region: region_of(&url), url, size });
        }
    }
    places
}

fn region(field: &Field<'_>, report: &mut Report) -> Option<Region> {
    let region = field.literal().and_then(|text| text.parse().ok());
    if region.is_none() {
        let fix = "write provider/region in lower case, such as aws/us-east-1 or onprem/berlin";
        field.fail(Code::InvalidValue, "is not a region", fix, report);
    }
    region
}

fn checked_url(field: &Field<'_>, env: &Environment, report: &mut Report) -> Option<Box<str>> {
    let text = field.clone().text(report)?;
    let text = substitute(field, text.trim(), env, report)?;
    let fix = "write for example s3://bucket/prefix";
    let Some((scheme, rest)) = text.split_once("://") else {
        field.fail(Code::InvalidValue, "is not a URL", fix, report);
        return None;
    };
    let scheme_ok = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.'));
    let rest_ok = !rest.is_empty() && !rest.chars().any(|c| c.is_control() || c.is_whitespace());
    if !scheme_ok || !rest_ok || text.len() > MAX_URL_BYTES {
        field.fail(Code::InvalidValue, format!("is not a URL of at most {MAX_URL_BYTES} bytes"), fix, report);
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        // Without the value and without a path that repeats it: it may hold a password.
        let path = if field.path.contains("://") { "inputs or outputs" } else { &field.path };
        let fix = "remove the part before '@' and give the job its credentials as secrets";
        report.at(Code::InvalidValue, field.node.at, path, "the URL holds credentials, which would be stored", fix);
        return None;
    }
    Some(text.into())
}

/// The region that a URL names itself, as Amazon's regional hosts do. Anything else stays unknown.
fn region_of(url: &str) -> Option<Region> {
    let host = url.strip_prefix("https://")?.split(['/', ':', '?', '#']).next()?;
    let labels = host.strip_suffix(".amazonaws.com")?.split('.').collect::<Vec<_>>();
    let s3 = labels.iter().rposition(|label| *label == "s3")?;
    match labels[s3 + 1..] {
        [region] => format!("aws/{region}").parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_taken_from_a_url_only_when_the_url_says_it() {
        let region = |url| region_of(url).map(|region| region.to_string());
        let west = Some("aws/us-west-2".to_owned());
        assert_eq!(region("https://bucket.s3.us-west-2.amazonaws.com/key"), west);
        assert_eq!(region("https://s3.us-west-2.amazonaws.com/bucket/key"), west);
        assert_eq!(region("https://bucket.s3.amazonaws.com/key"), None);
        assert_eq!(region("s3://bucket/key"), None);
        assert_eq!(region("https://us-west-2.example.com/key"), None);
    }
}
