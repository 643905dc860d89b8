//! Accelerator names: one canonical spelling (SkyPilot's), exact aliases, and suggestions for messages.
//!
//! A name is never matched by likeness: `A100` and `A100-80GB` differ by one suffix and by a factor of two in price.
//! Unknown names stay as they are, so that a new accelerator works before this table knows it.

use std::borrow::Cow;

/// Canonical names with the other exact spellings that mean the same thing. Compared without regard to ASCII case.
const TABLE: &[(&str, &[&str])] = &[
    ("A10", &["nvidia-a10", "NVIDIA A10"]),
    ("A10G", &["nvidia-a10g", "NVIDIA A10G"]),
    ("A100", &["A100-40GB", "A100-SXM4-40GB", "nvidia-tesla-a100", "NVIDIA A100", "NVIDIA-A100-SXM4-40GB"]),
    ("A100-80GB", &["A100-SXM4-80GB", "nvidia-a100-80gb", "NVIDIA A100 80GB", "NVIDIA-A100-SXM4-80GB", "A100_80GB"]),
    ("A40", &["nvidia-a40"]),
    ("A6000", &["RTXA6000", "RTX-A6000", "RTX A6000", "NVIDIA RTX A6000"]),
    ("B200", &["nvidia-b200", "NVIDIA B200"]),
    ("B300", &["nvidia-b300", "NVIDIA B300"]),
    ("GB200", &["nvidia-gb200", "NVIDIA GB200"]),
    ("GH200", &["nvidia-gh200", "NVIDIA GH200"]),
    ("H100", &["H100-80GB", "H100-SXM", "H100-SXM5", "nvidia-h100-80gb", "NVIDIA H100", "NVIDIA-H100-80GB-HBM3"]),
    ("H100-MEGA", &["H100-MEGA-80GB", "nvidia-h100-mega-80gb"]),
    ("H100-NVL", &["H100NVL", "NVIDIA H100 NVL"]),
    ("H200", &["nvidia-h200-141gb", "NVIDIA H200", "H200-SXM"]),
    ("K80", &["nvidia-tesla-k80", "Tesla K80"]),
    ("L4", &["nvidia-l4", "NVIDIA L4"]),
    ("L40", &["nvidia-l40", "NVIDIA L40"]),
    ("L40S", &["nvidia-l40s", "NVIDIA L40S"]),
    ("M60", &["Tesla M60"]),
    ("MI300X", &["AMD MI300X", "amd-mi300x"]),
    ("P4", &["nvidia-tesla-p4", "Tesla P4"]),
    ("P100", &["nvidia-tesla-p100", "Tesla P100"]),
    ("RTX3090", &["RTX-3090", "RTX 3090"]),
    ("RTX4090", &["RTX-4090", "RTX 4090"]),
    ("RTXPRO6000", &["RTX-PRO-6000", "RTX PRO 6000", "nvidia-rtx-pro-6000"]),
    ("T4", &["nvidia-tesla-t4", "Tesla T4"]),
    ("T4G", &["nvidia-t4g"]),
    ("V100", &["V100-16GB", "V100-SXM2-16GB", "nvidia-tesla-v100", "Tesla V100", "Tesla-V100-SXM2-16GB"]),
    ("V100-32GB", &["V100-SXM2-32GB", "Tesla-V100-SXM2-32GB"]),
];

/// Names that differ only by the memory of one accelerator, for catalogs that give it in a column of its own.
const BY_MEMORY: &[(&str, u64, &str)] = &[("A100", 80, "A100-80GB"), ("V100", 32, "V100-32GB")];

/// The canonical spelling of a name, or the name itself when it is unknown.
pub fn canonical(name: &str) -> Cow<'_, str> {
    let name = name.trim();
    let known = TABLE.iter().find(|(canonical, aliases)| {
        canonical.eq_ignore_ascii_case(name) || aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
    });
    match known {
        Some((canonical, _)) => Cow::Borrowed(canonical),
        None => Cow::Borrowed(name),
    }
}

/// The canonical spelling where the catalog gives the memory of one accelerator in whole GiB beside its name.
pub fn canonical_with_memory(name: &str, gib: Option<u64>) -> Cow<'_, str> {
    let plain = canonical(name);
    let by_memory = BY_MEMORY.iter().find(|(short, size, _)| *short == plain && Some(*size) == gib);
    by_memory.map_or(plain, |(_, _, long)| Cow::Borrowed(*long))
}

/// Whether the table knows the name, under any of its spellings.
pub fn is_known(name: &str) -> bool {
    let canonical = canonical(name);
    TABLE.iter().any(|(known, _)| *known == canonical)
}

/// Up to three known names that resemble an unknown one, nearest first, for messages only.
pub fn suggest(name: &str) -> Vec<&'static str> {
    const ENOUGH: f64 = 0.7;
    let wanted = name.trim().to_ascii_uppercase();
    let mut near: Vec<(f64, &'static str)> = TABLE
        .iter()
        .map(|(canonical, aliases)| {
            let likeness = |known: &str| strsim::jaro_winkler(&wanted, &known.to_ascii_uppercase());
            let best = aliases.iter().map(|alias| likeness(alias)).fold(likeness(canonical), f64::max);
            (best, *canonical)
        })
        .filter(|(likeness, _)| *likeness >= ENOUGH)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    near.into_iter().take(3).map(|(_, canonical)| canonical).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn aliases_are_exact_and_other_names_stay_as_they_are() {
        for (given, canon) in [
            ("a100", "A100"),
            ("nvidia-tesla-v100", "V100"),
            ("A100-SXM4-80GB", "A100-80GB"),
            ("nvidia-h100-80gb", "H100"),
            (" L4 ", "L4"),
            ("A100-8GB", "A100-8GB"),
            ("tpu-v5e-8", "tpu-v5e-8"),
        ] {
            assert_eq!(canonical(given), canon, "{given}");
        }
        assert_eq!(canonical_with_memory("A100", Some(80)), "A100-80GB");
        assert_eq!(canonical_with_memory("A100", Some(40)), "A100");
        assert_eq!(canonical_with_memory("H100", Some(80)), "H100");
    }

    #[test]
    fn c_13_an_unknown_name_gets_suggestions_but_no_match() {
        assert!(!is_known("A1000"));
        assert_eq!(canonical("A1000"), "A1000");
        assert!(suggest("A1000").contains(&"A100"), "{:?}", suggest("A1000"));
        assert!(suggest("h10O").contains(&"H100"), "{:?}", suggest("h10O"));
        assert!(suggest("").is_empty());
        assert!(suggest("zzzzzz").is_empty());
    }

    #[test]
    fn no_spelling_means_two_things() {
        let mut seen = BTreeSet::new();
        for (canonical, aliases) in TABLE {
            for spelling in std::iter::once(canonical).chain(aliases.iter()) {
                assert!(seen.insert(spelling.to_ascii_lowercase()), "{spelling}");
            }
        }
    }
}
