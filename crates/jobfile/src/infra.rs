//! Where a job may run: `aws/us-east-1/us-east-1a`, `k8s/context`, `*`, or SkyPilot's older `cloud`, `region`, `zone`.

use leeway_model::Name;
use leeway_model::resources::Infra;

use crate::error::{Code, Report};
use crate::fields::{Field, Fields};

const FIX: &str =
    "write cluster, provider, provider/region or provider/region/zone, such as aws/us-east-1, with * for any";

/// Where one mapping says that a job may run.
#[derive(Clone, Debug)]
pub(crate) enum Where {
    /// `infra` says all of it.
    Whole(Infra),
    /// `cloud`, `region` and `zone` say a part each and leave the rest to the base resources.
    Parts(Infra),
}

impl Where {
    pub fn into_infra(self) -> Infra {
        match self {
            Self::Whole(infra) | Self::Parts(infra) => infra,
        }
    }

    pub fn inherit(self, base: Option<&Self>) -> Self {
        match (self, base) {
            (Self::Parts(own), Some(Self::Whole(base) | Self::Parts(base))) => Self::Parts(Infra {
                cluster_or_provider: own.cluster_or_provider.or_else(|| base.cluster_or_provider.clone()),
                region: own.region.or_else(|| base.region.clone()),
                zone: own.zone.or_else(|| base.zone.clone()),
            }),
            (own, _) => own,
        }
    }
}

/// Reads whichever of the two ways a mapping uses; `None` when it uses neither.
pub(crate) fn read(fields: &mut Fields<'_>, report: &mut Report) -> Option<Where> {
    for old in ["cloud", "region", "zone"] {
        fields.exclusive("infra", old, "write infra: cloud/region/zone alone", report);
    }
    let (cloud, region, zone) = (fields.take("cloud"), fields.take("region"), fields.take("zone"));
    if let Some(field) = fields.take("infra") {
        return written(&field, report).map(Where::Whole);
    }
    if cloud.is_none() && region.is_none() && zone.is_none() {
        return None;
    }
    Some(Where::Parts(Infra {
        cluster_or_provider: cloud.and_then(|field| text(&field, report).and_then(|t| place(t, &field, report))),
        region: region.and_then(|field| text(&field, report).and_then(|t| part(t, &field, report))),
        zone: zone.and_then(|field| text(&field, report).and_then(|t| part(t, &field, report))),
    }))
}

fn text<'f>(field: &'f Field<'_>, report: &mut Report) -> Option<&'f str> {
    let text = field.literal();
    if text.is_none() {
        field.wrong_type("a place", FIX, report);
    }
    text
}

fn written(field: &Field<'_>, report: &mut Report) -> Option<Infra> {
    let text = text(field, report)?;
    let (first, rest) = text.split_once('/').map_or((text, None), |(first, rest)| (first, Some(rest)));
    let cluster_or_provider = place(first, field, report);
    // A Kubernetes context may itself hold slashes and colons.
    if cluster_or_provider.as_deref() == Some("kubernetes") {
        let context = rest.and_then(|context| part(context, field, report));
        return Some(Infra { cluster_or_provider, region: context, zone: None });
    }
    let mut parts = rest.into_iter().flat_map(|rest| rest.split('/'));
    let (region, zone) = (parts.next(), parts.next());
    if parts.next().is_some() {
        field.fail(Code::InvalidValue, "has more than three parts", FIX, report);
        return None;
    }
    Some(Infra {
        cluster_or_provider,
        region: region.and_then(|region| part(region, field, report)),
        zone: zone.and_then(|zone| part(zone, field, report)),
    })
}

/// The name of a cluster or a provider, in lower case.
fn place(text: &str, field: &Field<'_>, report: &mut Report) -> Option<Box<str>> {
    if text == "*" {
        return None;
    }
    match text.to_ascii_lowercase().parse::<Name>() {
        Ok(name) if name.as_str() == "k8s" => Some("kubernetes".into()),
        Ok(name) => Some(name.as_str().into()),
        Err(_) => {
            field.fail(Code::InvalidValue, "does not name a cluster or a provider", FIX, report);
            None
        }
    }
}

fn part(text: &str, field: &Field<'_>, report: &mut Report) -> Option<Box<str>> {
    if text == "*" {
        return None;
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':' | b'@' | b'/');
    let dots = text.split('/').any(|part| matches!(part, "" | "." | ".."));
    if (1..=253).contains(&text.len()) && text.bytes().all(plain) && !dots {
        return Some(text.into());
    }
    field.fail(Code::InvalidValue, "does not name a region or a zone", FIX, report);
    None
}
