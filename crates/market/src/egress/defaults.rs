//! Published list prices for data that leaves a region, so that an installation starts with something real.
//!
//! They are list prices in USD without any account's discounts, and they age: an operator's own table overlays them.
//! Where they are published:
//!
//! - AWS: "Data Transfer" on <https://aws.amazon.com/ec2/pricing/on-demand/>: 100 GB a month free over all regions,
//!   then by tiers; between regions a price of the sending region. These figures agree, pair by pair, with the matrix
//!   that the Skyplane project recorded from the AWS price list.
//! - GCP: <https://cloud.google.com/vpc/network-pricing> (Premium Tier), billed per GiB. From public price guides of
//!   2026; inside America the later list price of 0.02 is used, where older tables have 0.01.
//! - Azure: <https://azure.microsoft.com/pricing/details/bandwidth/>, routed via the Microsoft network. From public
//!   price guides of 2026.
//! - OCI: <https://www.oracle.com/cloud/price-list/>: 10 TB a month free.
//! - Lambda and RunPod: both state that they charge nothing for egress.
//!
//! A region that no group below names has no price here, on purpose: unknown is not cheap.

use std::collections::BTreeMap;

use leeway_model::egress::{EgressSpec, EgressTable, ProviderSpec, RuleSpec, TierSpec, Unit};

type Tiers = [(u64, &'static str)];

/// Names a group's members by the beginnings of their regions' names.
type Group = (&'static str, &'static [&'static str]);

const FREE: &Tiers = &[(0, "0")];

/// Each provider's published list prices.
pub fn defaults() -> EgressTable {
    let providers = [
        ("aws", aws()),
        ("gcp", gcp()),
        ("azure", azure()),
        ("oci", only_internet(&[(0, "0"), (10_240, "0.0085")])),
        ("lambda", only_internet(FREE)),
        ("runpod", only_internet(FREE)),
        ("onprem", provider(Unit::Gb, &[], &[])),
    ];
    let providers = providers.into_iter().map(|(name, spec)| (name.to_owned(), spec)).collect();
    EgressSpec { providers, pairs: Vec::new() }.table().expect("the built-in table is checked by a test")
}

/// Regions with one price to all of `settled`. To and from newer regions (such as `ap-southeast-7`) prices differ by
/// pair: they are left out here and come from a matrix.
fn aws() -> ProviderSpec {
    const HOME: &Tiers = &[(0, "0"), (100, "0.09"), (10_240, "0.085"), (51_200, "0.07"), (153_600, "0.05")];
    let groups: &[Group] = &[
        (
            "settled",
            &[
                "us-east-",
                "us-west-",
                "ca-central-",
                "eu-",
                "ap-east-1",
                "ap-northeast-",
                "ap-south-",
                "ap-southeast-1",
                "ap-southeast-2",
                "ap-southeast-3",
                "af-south-1",
                "sa-east-1",
                "me-south-1",
                "me-central-1",
            ],
        ),
        ("virginia", &["us-east-1"]),
        ("ohio", &["us-east-2"]),
        ("home", &["us-east-", "us-west-", "ca-central-", "eu-"]),
        ("hong-kong-singapore", &["ap-east-1", "ap-southeast-1"]),
        ("tokyo-osaka", &["ap-northeast-1", "ap-northeast-3"]),
        ("seoul", &["ap-northeast-2"]),
        ("sydney", &["ap-southeast-2"]),
        ("mumbai-hyderabad", &["ap-south-"]),
        ("cape-town", &["af-south-1"]),
        ("sao-paulo", &["sa-east-1"]),
    ];
    let rules: &[(&str, &str, &Tiers)] = &[
        ("virginia", "ohio", &[(0, "0.01")]),
        ("ohio", "virginia", &[(0, "0.01")]),
        ("home", "settled", &[(0, "0.02")]),
        ("hong-kong-singapore", "settled", &[(0, "0.09")]),
        ("tokyo-osaka", "settled", &[(0, "0.09")]),
        ("seoul", "settled", &[(0, "0.08")]),
        ("sydney", "settled", &[(0, "0.098")]),
        ("mumbai-hyderabad", "settled", &[(0, "0.086")]),
        ("cape-town", "settled", &[(0, "0.147")]),
        ("sao-paulo", "settled", &[(0, "0.138")]),
        ("home", "internet", HOME),
        ("hong-kong-singapore", "internet", &[(0, "0"), (100, "0.12")]),
        ("tokyo-osaka", "internet", &[(0, "0"), (100, "0.114")]),
        ("seoul", "internet", &[(0, "0"), (100, "0.126")]),
        ("sydney", "internet", &[(0, "0"), (100, "0.114")]),
        ("mumbai-hyderabad", "internet", &[(0, "0"), (100, "0.1093")]),
        ("cape-town", "internet", &[(0, "0"), (100, "0.154")]),
        ("sao-paulo", "internet", &[(0, "0"), (100, "0.15")]),
    ];
    provider(Unit::Gb, groups, rules)
}

fn gcp() -> ProviderSpec {
    // The first GiB of a month to the internet is free; it is left out, since it is not worth counting.
    let groups: &[Group] = &[
        ("america", &["us-", "northamerica-"]),
        ("europe", &["europe-"]),
        ("jakarta", &["asia-southeast2"]),
        ("oceania", &["australia-"]),
        ("asia", &["asia-"]),
    ];
    let rules: &[(&str, &str, &Tiers)] = &[
        ("jakarta", "*", &[(0, "0.15")]),
        ("oceania", "*", &[(0, "0.15")]),
        ("*", "jakarta", &[(0, "0.15")]),
        ("*", "oceania", &[(0, "0.15")]),
        ("america", "america", &[(0, "0.02")]),
        ("europe", "europe", &[(0, "0.02")]),
        ("asia", "asia", &[(0, "0.05")]),
        ("america", "europe", &[(0, "0.08")]),
        ("america", "asia", &[(0, "0.08")]),
        ("europe", "america", &[(0, "0.08")]),
        ("europe", "asia", &[(0, "0.08")]),
        ("asia", "america", &[(0, "0.08")]),
        ("asia", "europe", &[(0, "0.08")]),
        ("america", "internet", &[(0, "0.12"), (1_024, "0.11"), (10_240, "0.08")]),
        ("europe", "internet", &[(0, "0.12"), (1_024, "0.11"), (10_240, "0.08")]),
    ];
    provider(Unit::Gib, groups, rules)
}

fn azure() -> ProviderSpec {
    const HOME: &Tiers = &[(0, "0"), (100, "0.0875"), (10_240, "0.083"), (51_200, "0.07"), (153_600, "0.05")];
    const FAR: &Tiers = &[(0, "0"), (100, "0.12")];
    let groups: &[Group] = &[
        ("america", &["eastus", "westus", "centralus", "northcentralus", "southcentralus", "westcentralus", "canada"]),
        (
            "europe",
            &[
                "northeurope",
                "westeurope",
                "uksouth",
                "ukwest",
                "france",
                "germany",
                "norway",
                "sweden",
                "switzerland",
                "italy",
                "poland",
                "spain",
            ],
        ),
        (
            "asia",
            &[
                "eastasia",
                "southeastasia",
                "japan",
                "korea",
                "centralindia",
                "southindia",
                "westindia",
                "australia",
                "uae",
                "qatar",
                "israel",
            ],
        ),
        ("brazil", &["brazil"]),
    ];
    let rules: &[(&str, &str, &Tiers)] = &[
        ("america", "america", &[(0, "0.02")]),
        ("europe", "europe", &[(0, "0.02")]),
        ("asia", "asia", &[(0, "0.08")]),
        ("america", "*", &[(0, "0.05")]),
        ("europe", "*", &[(0, "0.05")]),
        ("asia", "*", &[(0, "0.08")]),
        ("brazil", "*", &[(0, "0.16")]),
        ("america", "internet", HOME),
        ("europe", "internet", HOME),
        ("asia", "internet", FAR),
        ("brazil", "internet", &[(0, "0"), (100, "0.181")]),
    ];
    provider(Unit::Gb, groups, rules)
}

fn only_internet(tiers: &'static Tiers) -> ProviderSpec {
    provider(Unit::Gb, &[], &[("*", "*", tiers), ("*", "internet", tiers)])
}

fn provider(unit: Unit, groups: &[Group], rules: &[(&str, &str, &Tiers)]) -> ProviderSpec {
    let group = |(name, beginnings): &Group| {
        (String::from(*name), beginnings.iter().map(|beginning| String::from(*beginning)).collect())
    };
    let rule = |(from, to, tiers): &(&str, &str, &Tiers)| RuleSpec {
        from: String::from(*from),
        to: String::from(*to),
        tiers: tier_specs(tiers),
    };
    ProviderSpec {
        unit,
        same_region: tier_specs(FREE),
        groups: groups.iter().map(group).collect::<BTreeMap<_, _>>(),
        rules: rules.iter().map(rule).collect(),
    }
}

fn tier_specs(tiers: &Tiers) -> Vec<TierSpec> {
    tiers.iter().map(|(from, price)| TierSpec { from: *from, price: String::from(*price) }).collect()
}
