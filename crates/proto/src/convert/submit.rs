//! Submissions: a spec, the values of its secrets, and what it waits for.

use std::collections::{BTreeMap, BTreeSet};

use leeway_model::Currency;
use leeway_model::job::JobSpec;

use crate::invalid::Within;
use crate::limits::{BATCH_MAX, DEPENDENCIES_MAX, REQUEST_ID_MAX, SECRET_VALUE_MAX, SECRETS_MAX};
use crate::{Invalid, check, pb};

/// A job to submit. The secrets' values are still plain: seal them, and put them into the spec's program.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    pub spec: JobSpec,
    pub secrets: BTreeMap<String, pb::SecretValue>,
    /// Positions in the same batch of jobs that must succeed first.
    pub after: Vec<u32>,
}

/// A request for one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Submit {
    pub client_request_id: Box<str>,
    pub submission: Submission,
}

/// A request for many jobs, each sound or refused by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    pub client_request_id: Box<str>,
    pub items: Vec<Result<Submission, Invalid>>,
}

impl pb::SubmitJobRequest {
    pub fn into_model(self, ledger: Currency) -> Result<Submit, Invalid> {
        let client_request_id = request_id(self.client_request_id)?;
        Ok(Submit { client_request_id, submission: submission(self.spec, self.secrets, Vec::new(), ledger)? })
    }
}

impl pb::SubmitJobsRequest {
    /// Fails as a whole only for what concerns the whole. A job that waits for a refused one is refused, too.
    pub fn into_model(self, ledger: Currency) -> Result<Batch, Invalid> {
        let client_request_id = request_id(self.client_request_id)?;
        check::count("submissions", self.submissions.len(), 1..=BATCH_MAX)?;
        let len = u32::try_from(self.submissions.len()).unwrap_or(u32::MAX);
        let item = |wire: pb::Submission| {
            let after = check::list("depends_on_batch", wire.depends_on_batch, 0..=DEPENDENCIES_MAX, |place| {
                check::between("", place, 0..=len.saturating_sub(1))
            })?;
            submission(wire.spec, wire.secrets, after, ledger)
        };
        let mut batch = Batch { client_request_id, items: self.submissions.into_iter().map(item).collect() };
        batch.refuse_dependents();
        Ok(batch)
    }
}

impl Batch {
    /// Refuses what waits for a refused job, directly or through others.
    fn refuse_dependents(&mut self) {
        let mut dependents: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for (place, item) in self.items.iter().enumerate() {
            for (index, &needed) in item.iter().flat_map(|submission| submission.after.iter().enumerate()) {
                dependents.entry(needed as usize).or_default().push((place, index));
            }
        }
        let refused = |item: &Result<Submission, Invalid>| item.is_err();
        let mut todo: Vec<usize> = (0..self.items.len()).filter(|&place| refused(&self.items[place])).collect();
        while let Some(bad) = todo.pop() {
            for (place, index) in dependents.remove(&bad).unwrap_or_default() {
                if !refused(&self.items[place]) {
                    let message = format!("submission {bad} of this batch was refused; mend that one first");
                    self.items[place] = Err(Invalid::new(format!("depends_on_batch[{index}]"), message));
                    todo.push(place);
                }
            }
        }
    }

    /// The sound submissions with their places in the request. What each waits for is counted among the sound ones.
    pub fn sound(self) -> (Vec<usize>, Vec<Submission>) {
        let mut new_place = BTreeMap::new();
        let mut places = Vec::new();
        let mut sound = Vec::new();
        for (place, item) in self.items.into_iter().enumerate() {
            if let Ok(submission) = item {
                new_place.insert(place as u32, places.len() as u32);
                places.push(place);
                sound.push(submission);
            }
        }
        for submission in &mut sound {
            for after in &mut submission.after {
                *after = new_place.get(after).copied().expect("what waits for a refused job was refused");
            }
        }
        (places, sound)
    }
}

fn request_id(text: String) -> Result<Box<str>, Invalid> {
    check::word("client_request_id", text, REQUEST_ID_MAX)
}

fn submission(
    spec: Option<pb::JobSpec>,
    secrets: BTreeMap<String, pb::SecretValue>,
    after: Vec<u32>,
    ledger: Currency,
) -> Result<Submission, Invalid> {
    let spec = check::required("spec", spec)?;
    check::count("secrets", secrets.len(), 0..=SECRETS_MAX)?;
    for (name, secret) in &secrets {
        check::env_name("secrets", name)?;
        check::env_value("secrets", name, &secret.value, SECRET_VALUE_MAX)?;
    }
    let names = spec.program.iter().flat_map(|program| &program.secret_names);
    let without_value = names.enumerate().find(|(_, name)| !secrets.contains_key(*name));
    if let Some((index, name)) = without_value {
        check::env_name("", name).at("spec.program.secret_names", index)?;
        let message = format!("'{name}' has no value; send it in 'secrets'");
        return Err(Invalid::new(format!("spec.program.secret_names[{index}]"), message));
    }
    let spec = spec.into_model(ledger).within("spec")?;
    if let Some(name) = secrets.keys().find(|name| spec.program.env.contains_key(*name)) {
        let message = format!("'{name}' is also in spec.program.env; give it in one place");
        return Err(Invalid::new("secrets", message));
    }
    let mut seen = BTreeSet::new();
    if let Some(index) = after.iter().position(|place| !seen.insert(*place)) {
        return Err(Invalid::new(format!("depends_on_batch[{index}]"), format!("{} is there twice", after[index])));
    }
    Ok(Submission { spec, secrets, after })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::minimal_job_spec;

    fn wire(after: &[u32], nodes: u32) -> pb::Submission {
        let spec = JobSpec { nodes, ..minimal_job_spec() };
        pb::Submission {
            spec: Some(pb::JobSpec::from_model(&spec, Currency::USD)),
            depends_on_batch: after.to_vec(),
            ..Default::default()
        }
    }

    fn batch(submissions: Vec<pb::Submission>) -> Result<Batch, Invalid> {
        pb::SubmitJobsRequest { client_request_id: "r-1".into(), submissions }.into_model(Currency::USD)
    }

    #[test]
    fn what_waits_for_a_refused_job_is_refused_and_the_rest_keeps_its_order() {
        let batch = batch(vec![wire(&[], 0), wire(&[0], 1), wire(&[], 1), wire(&[1, 2], 1), wire(&[2], 1)]).unwrap();
        let fields: Vec<_> = batch.items.iter().map(|item| item.as_ref().err().map(|e| e.field.as_str())).collect();
        let waits = Some("depends_on_batch[0]");
        assert_eq!(fields, [Some("spec.nodes"), waits, None, waits, None]);
        let (places, sound) = batch.sound();
        assert_eq!(places, [2, 4]);
        assert_eq!((sound[0].after.as_slice(), sound[1].after.as_slice()), (&[][..], &[0][..]));
    }

    #[test]
    fn a_batch_has_one_to_a_thousand_jobs_and_points_into_itself() {
        assert_eq!(batch(vec![]).unwrap_err().field, "submissions");
        assert_eq!(batch(vec![pb::Submission::default(); 1_001]).unwrap_err().message, "has 1001 items; use 1 to 1000");
        let bad = batch(vec![wire(&[1], 1), wire(&[0, 0], 1)]).unwrap();
        assert_eq!(bad.items[1].as_ref().unwrap_err().field, "depends_on_batch[1]");
        let beyond = batch(vec![wire(&[1], 1)]).unwrap();
        assert_eq!(
            beyond.items[0].as_ref().unwrap_err().to_string(),
            "depends_on_batch[0]: 1 is out of range; use 0 to 0"
        );
    }

    #[test]
    fn a_secret_needs_a_value_a_sound_name_and_a_place_of_its_own() {
        let request = |name: &str, value: Option<&[u8]>, env: &str| {
            let mut request =
                pb::SubmitJobRequest { client_request_id: "r-1".into(), spec: wire(&[], 1).spec, ..Default::default() };
            let program = request.spec.as_mut().unwrap().program.as_mut().unwrap();
            program.secret_names.push(name.into());
            program.env.insert(env.into(), String::new());
            if let Some(value) = value {
                request.secrets.insert(name.into(), pb::SecretValue { value: value.to_vec().into() });
            }
            request.into_model(Currency::USD).map_err(|error| error.to_string())
        };
        assert!(request("TOKEN", Some(b"x"), "A").is_ok());
        let refused = |result: Result<Submit, String>, text: &str| {
            assert!(result.clone().unwrap_err().contains(text), "{result:?}")
        };
        refused(request("TOKEN", None, "A"), "spec.program.secret_names[0]: 'TOKEN' has no value");
        refused(request("TOKEN", Some(b"x"), "TOKEN"), "secrets: 'TOKEN' is also in spec.program.env");
        refused(request("A B", Some(b"x"), "A"), "secrets: 'A B' cannot name a variable");
        refused(request("A B", None, "A"), "spec.program.secret_names[0]: 'A B' cannot name a variable");
        refused(request("T", Some(b"hush\0hush"), "A"), "secrets[\"T\"]: holds a NUL byte at 4");
        refused(request("T", Some(&vec![b'x'; 70_000]), "A"), "secrets[\"T\"]: has 70000 bytes; use at most 65536");
    }

    #[test]
    fn secrets_are_not_printed() {
        let secret = pb::SecretValue { value: "hush".into() };
        let request = pb::SubmitJobRequest { secrets: [("T".to_owned(), secret)].into(), ..Default::default() };
        assert!(!format!("{request:?}").contains("hush"));
        let caller = pb::AgentCaller { token: "hush".into(), run_id: "j-1-r1".into(), ..Default::default() };
        assert_eq!(
            format!("{:?}", pb::GetLogOffsetRequest { caller: Some(caller) }),
            "GetLogOffsetRequest { caller: Some(j-1-r1/0#0) }"
        );
    }
}
