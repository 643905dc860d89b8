//! Synthetic markets and workloads: the same bytes for the same seed, and parameters that are found again.

#![allow(clippy::unwrap_used, reason = "a failed set-up fails its test")]

#[path = "generate/markets.rs"]
mod markets;
#[path = "generate/recorded.rs"]
mod recorded;
mod shared;
#[path = "generate/shipped.rs"]
mod shipped;
#[path = "generate/workloads.rs"]
mod workloads;

use std::path::PathBuf;

use leeway_simulations::generate::fit::{self, Error, Fitted};

/// Fits texts as if each stood in a file of its own.
fn fit_texts(texts: &[String]) -> Result<Fitted, Error> {
    let folder = tempfile::tempdir().unwrap();
    let write = |(index, text): (usize, &String)| {
        let path = folder.path().join(format!("trace-{index}"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let paths: Vec<PathBuf> = texts.iter().enumerate().map(write).collect();
    fit::fit(&paths, false, &|_| {})
}

/// Whether a value is within this share of the one that is expected.
fn is_near(found: f64, expected: f64, share: f64) -> bool {
    (found / expected - 1.0).abs() <= share
}
