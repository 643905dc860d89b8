//! Catalog files in three layouts: what is taken, what is set aside and why, and what refuses a whole file.

#![allow(clippy::unwrap_used, reason = "a failed set-up fails its test")]

use std::fmt::Write as _;

use leeway_market::catalog::{self, Catalog, Error, Layout, Options, QUARANTINED_MAX, Rule, machines_in};
use leeway_model::resources::CapacityType;
use leeway_model::{Bytes, Currency, Rate, Timestamp};
use proptest::prelude::*;

const SKYPILOT_HEADER: &str =
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\n";

fn options() -> Options {
    let eur = "EUR".parse().unwrap();
    Options { currencies: vec![Currency::USD, eur], ..Options::of_provider("aws", Timestamp::from_millis(1_000)) }
}

fn read(text: &str) -> Catalog {
    catalog::read(text.as_bytes(), &options()).unwrap()
}

fn refused(text: &str) -> Error {
    catalog::read(text.as_bytes(), &options()).unwrap_err()
}

fn rate(text: &str) -> Rate {
    Rate::parse_decimal(text).unwrap()
}

/// Line, column and rule of everything set aside.
fn faults(catalog: &Catalog) -> Vec<(u64, &'static str, &'static str)> {
    catalog.quarantined.iter().map(|fault| (fault.line, fault.column, fault.rule.code())).collect()
}

#[test]
fn c_01_to_c_12_each_bad_row_of_our_own_layout_is_set_aside_with_its_reason() {
    let catalog = read(include_str!("data/leeway.csv"));
    assert_eq!(catalog.layout, Some(Layout::Leeway));
    let offers: Vec<String> = catalog
        .rows
        .iter()
        .map(|row| format!("{} {} {} {}", row.region, row.shape.name, row.capacity, row.price.rate))
        .collect();
    assert_eq!(
        offers,
        [
            "aws/us-east-1 p3-2xlarge on-demand 3.06",
            "aws/us-east-1 p3-2xlarge spot 0.918",
            // Dearer than on-demand, but within the range: it is real, and kept.
            "aws/us-east-1 p3-2xlarge spot 3.20",
            "onprem/berlin dgx reserved 0.00",
            "onprem/berlin cpu-box on-demand 0.02",
        ]
    );
    assert_eq!(
        faults(&catalog),
        [
            (7, "price_per_hour", "ZERO_PRICE"),
            (8, "price_per_hour", "NEGATIVE_PRICE"),
            (9, "price_per_hour", "BAD_PRICE"),
            (10, "price_per_hour", "MISSING_PRICE"),
            (13, "currency", "UNKNOWN_CURRENCY"),
            (14, "unit", "UNKNOWN_UNIT"),
            (15, "unit", "UNKNOWN_UNIT"),
            (16, "accelerator_count", "NO_ACCELERATORS"),
            (17, "accelerator_count", "FRACTIONAL_ACCELERATORS"),
            (18, "accelerator_count", "UNNAMED_ACCELERATORS"),
            (19, "price_per_hour", "BAD_PRICE"),
            (20, "memory_gib", "BAD_NUMBER"),
            (21, "(whole record)", "WRONG_WIDTH"),
            (22, "region", "BAD_REGION"),
            (23, "capacity", "BAD_VALUE"),
            (24, "as_of", "BAD_TIME"),
            (25, "instance_type", "MISSING_VALUE"),
            (26, "instance_type", "BAD_NAME"),
            (27, "price_per_hour", "BAD_PRICE"),
            // Judged over the whole file, in its order: the range, then older and cheaper rows of one offer.
            (11, "price_per_hour", "PRICE_OUT_OF_RANGE"),
            (12, "price_per_hour", "PRICE_OUT_OF_RANGE"),
            (28, "price_per_hour", "SUPERSEDED"),
            (29, "price_per_hour", "SUPERSEDED"),
        ]
    );
    assert_eq!(catalog.quarantined_total(), 23);
    assert_eq!(catalog.counts[&Rule::UnknownUnit], 2);
    assert_eq!(catalog.records, catalog.rows.len() as u64 + catalog.quarantined_total());
    let shown = catalog.quarantined[10].to_string();
    assert_eq!(
        shown,
        "line 19, column price_per_hour: BAD_PRICE: '1,5': not a price; write a decimal number such as 3.06"
    );
}

#[test]
fn sizes_and_halves_of_a_cpu_are_exact() {
    let catalog = read(include_str!("data/leeway.csv"));
    let [.., dgx, small] = &catalog.rows[..] else { panic!() };
    assert_eq!(
        (dgx.shape.memory, dgx.shape.disk),
        (Bytes::from_gib(1024), Bytes::new(7_000 * Bytes::GIB + Bytes::GIB / 2))
    );
    assert_eq!((small.shape.cpus.0, small.shape.accelerators.as_ref()), (500, None));
    assert_eq!(small.price.currency.as_str(), "EUR");
    assert_eq!(small.shape.instance_type.as_ref(), "cpu box");
}

#[test]
fn c_10_the_newest_entry_wins_then_the_dearer_in_whatever_order_they_stand() {
    let header = include_str!("data/leeway.csv").lines().next().unwrap();
    let row =
        |price: &str, as_of: &str| format!("aws,us-east-1,,p3.2xlarge,V100,1,8,61,,spot,{price},USD,hour,{as_of}");
    let old = row("5", "2026-01-01T00:00:00Z");
    let new = row("1", "2026-02-01T00:00:00Z");
    let new_dear = row("2", "2026-02-01T00:00:00Z");
    for order in [[&old, &new, &new_dear], [&new_dear, &new, &old], [&new, &new_dear, &old]] {
        let catalog = read(&[header, order[0], order[1], order[2]].join("\n"));
        assert_eq!(catalog.rows.len(), 1);
        assert_eq!(catalog.rows[0].price.rate, rate("2"));
        assert_eq!(catalog.counts[&Rule::Superseded], 2);
    }
}

#[test]
fn skypilot_rows_make_an_offer_for_each_price_they_have() {
    let catalog = read(&format!(
        "{SKYPILOT_HEADER}\
         p3.2xlarge,V100,1.0,8.0,61.0,\"{{'Gpus': [{{'Name': 'V100'}}]}}\",3.06,0.918,us-east-1,us-east-1a\n\
         m5.large,,,2.0,8.0,,0.096,,us-east-1,us-east-1a\n\
         p3.8xlarge,V100,4.0,32.0,244.0,,,,us-east-1,us-east-1a\n\
         ,T4,1.0,,,,0.35,0.11,us-east-1,us-east-1a\n\
         p3.16xlarge,V100,8.0,64.0,488.0,,24.480000000000004,nan,us-east-1,us-east-1a\n"
    ));
    let offers: Vec<_> =
        catalog.rows.iter().map(|row| (&*row.shape.instance_type, row.capacity, row.price.rate)).collect();
    assert_eq!(
        offers,
        [
            ("p3.2xlarge", CapacityType::OnDemand, rate("3.06")),
            ("p3.2xlarge", CapacityType::Spot, rate("0.918")),
            ("m5.large", CapacityType::OnDemand, rate("0.096")),
            ("p3.16xlarge", CapacityType::OnDemand, rate("24.48")),
        ]
    );
    assert_eq!(catalog.rows[0].shape.accelerators.as_ref().unwrap().to_string(), "V100:1");
    assert_eq!(catalog.unpriced, 2, "m5.large has no spot price; p3.8xlarge has neither, which counts once as a fault");
    assert_eq!(
        faults(&catalog),
        [(4, "Price", "MISSING_PRICE"), (5, "InstanceType", "MISSING_VALUE"), (6, "SpotPrice", "BAD_PRICE")]
    );
}

#[test]
fn gpuhunt_rows_are_one_offer_each_with_gcp_zones_and_memory_in_the_name() {
    let text = "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags\n\
                a2-ultragpu-1g,us-central1-a,5.07,12,170.0,1,A100,80.0,False,,nvidia,\n\
                a2-ultragpu-1g,us-central1-a,2.53,12,170.0,1,A100,80.0,True,,nvidia,\n\
                e2-small,us-central1-a,0.02,2,2.0,0,,,False,100.0,,\n";
    let options = Options::of_provider("gcp", Timestamp::ZERO);
    let catalog = catalog::read(text.as_bytes(), &options).unwrap();
    assert_eq!(catalog.layout, Some(Layout::Gpuhunt));
    assert_eq!(faults(&catalog), []);
    let first = &catalog.rows[0];
    assert_eq!((first.region.as_str(), first.zone.as_deref()), ("gcp/us-central1", Some("us-central1-a")));
    assert_eq!(first.shape.accelerators.as_ref().unwrap().to_string(), "A100-80GB:1");
    assert_eq!(catalog.rows[1].capacity, CapacityType::Spot);
    assert_eq!(catalog.rows[2].shape.disk, Bytes::from_gib(100));
}

#[test]
fn x_07_bom_crlf_and_quotes_change_nothing() {
    let plain = include_str!("data/leeway.csv");
    let expected = read(plain);
    assert_eq!(read(&plain.replace('\n', "\r\n")), expected);
    assert_eq!(read(&format!("\u{feff}{plain}")), expected);
    let blank_lines = read(&plain.replacen("\naws,us-east-1,us-east-1c", "\n\n\r\naws,us-east-1,us-east-1c", 1));
    assert_eq!(blank_lines.rows, expected.rows);
    assert_eq!(blank_lines.quarantined[0].line, expected.quarantined[0].line + 2);
    let quoted =
        plain.lines().next().unwrap().split(',').map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(",");
    let (_, rest) = plain.split_once('\n').unwrap();
    assert_eq!(read(&format!("\u{feff}{quoted}\r\n{rest}")), expected);
}

#[test]
fn x_07_a_missing_or_doubled_column_is_named() {
    let missing = refused(
        "provider,region,instance_type,accelerator,accelerator_count,cpus,memory_gib,capacity,price_per_hour,currency,as_of\n",
    );
    assert_eq!(missing.to_string(), "line 1: the header resembles the leeway layout but lacks: unit");
    let missing = refused("InstanceType,AcceleratorName,vCPUs,MemoryGiB,Price,Region\n");
    assert!(missing.to_string().ends_with("skypilot layout but lacks: AcceleratorCount, SpotPrice"), "{missing}");
    let doubled = refused("provider,region,region\n");
    assert_eq!(doubled.to_string(), "line 1: column 'region' stands twice, the second time at position 3");
    assert!(matches!(refused("a;b;c\n1;2;3\n"), Error::UnknownLayout { .. }));
    let nobody = Options { provider: None, ..options() };
    let error = catalog::read(SKYPILOT_HEADER.as_bytes(), &nobody).unwrap_err();
    assert!(matches!(error, Error::NoProvider { layout: Layout::SkyPilot }));
}

#[test]
fn x_07_an_unclosed_quote_or_endless_line_refuses_the_file_with_its_line() {
    let open = refused(&format!("{SKYPILOT_HEADER}\"p3.2xlarge,V100\nm5.large,,,2,8,,1,,us-east-1,\n"));
    assert_eq!(open.to_string(), "line 2: a quote is not closed on this line");
    let open_at_end = refused(&format!("{SKYPILOT_HEADER}a,b,\"c"));
    assert_eq!(open_at_end.to_string(), "line 2: a quote is not closed on this line");
    let endless = refused(&format!("{SKYPILOT_HEADER}{}", "x".repeat(70_000)));
    assert_eq!(endless.to_string(), "line 2: longer than 65536 bytes");
}

#[test]
fn c_09_an_empty_catalog_is_a_result_with_a_note() {
    for text in ["", SKYPILOT_HEADER] {
        let catalog = read(text);
        assert!(catalog.rows.is_empty() && catalog.quarantined_total() == 0);
        assert!(catalog.note().unwrap().contains("empty"));
    }
    let useless = read(&format!("{SKYPILOT_HEADER}p3.2xlarge,V100,1,8,61,,,,us-east-1,\n"));
    assert!(useless.note().unwrap().contains("no record"));
    assert_eq!(read(include_str!("data/leeway.csv")).note(), None);
}

#[test]
fn text_that_is_not_utf_8_spoils_its_row_only() {
    let mut bytes = format!("{SKYPILOT_HEADER}p3.2xlarge,V100,1,8,61,,3.06,,us-east-1,\n").into_bytes();
    bytes.extend_from_slice(b"p3\xff,V100,1,8,61,,3.06,,us-east-1,\n");
    bytes.extend_from_slice(b"p3\0x,V100,1,8,61,,3.06,,us-east-1,\n");
    let catalog = catalog::read(&bytes[..], &options()).unwrap();
    assert_eq!(catalog.rows.len(), 1);
    assert_eq!(faults(&catalog), [(3, "InstanceType", "BAD_TEXT"), (4, "InstanceType", "BAD_TEXT")]);
}

#[test]
fn details_of_faults_are_bounded_but_their_count_is_not() {
    let mut text = String::from(SKYPILOT_HEADER);
    for _ in 0..QUARANTINED_MAX + 500 {
        text.push_str("p3.2xlarge,V100,1,8,61,,0,,us-east-1,\n");
    }
    let catalog = read(&text);
    assert_eq!(catalog.quarantined.len(), QUARANTINED_MAX);
    assert_eq!(catalog.counts[&Rule::ZeroPrice], QUARANTINED_MAX as u64 + 500);
}

#[test]
fn a_region_s_rows_become_the_machines_of_a_cluster() {
    let catalog = read(include_str!("data/leeway.csv"));
    let region = "aws/us-east-1".parse().unwrap();
    let anywhere = machines_in(&catalog.rows, &region, None, Currency::USD);
    assert_eq!(anywhere.len(), 1);
    assert_eq!((anywhere[0].on_demand, anywhere[0].spot), (Some(rate("3.06")), Some(rate("3.2"))));
    let zone = machines_in(&catalog.rows, &region, Some("us-east-1a"), Currency::USD);
    assert_eq!((zone[0].on_demand, zone[0].spot), (Some(rate("3.06")), Some(rate("0.918"))));
    assert!(machines_in(&catalog.rows, &region, None, "EUR".parse().unwrap()).is_empty());
}

#[test]
fn two_types_with_one_name_get_two_shapes() {
    let row = |kind: &str| format!("{kind},V100,1,8,61,,3.06,,us-east-1,\n");
    let catalog = read(&format!("{SKYPILOT_HEADER}{}{}{}", row("a.b"), row("a_b"), row(&"x".repeat(200))));
    let machines = machines_in(&catalog.rows, &"aws/us-east-1".parse().unwrap(), None, Currency::USD);
    let names: Vec<&str> = machines.iter().map(|machines| machines.shape.name.as_str()).collect();
    assert_eq!(names, ["a-b", "a-b-2", &"x".repeat(63)]);
}

fn big_catalog(rows: usize) -> String {
    let mut text = String::from(SKYPILOT_HEADER);
    for row in 0..rows {
        let (kind, zone) = (row % 500, row / 500);
        writeln!(
            text,
            "kind{kind}.large,V100,{},8.0,61.0,,3.06,0.{:04},us-east-1,zone-{zone}",
            kind % 8 + 1,
            row % 9_000 + 900
        )
        .unwrap();
    }
    text
}

#[test]
fn every_row_of_a_large_catalog_is_accounted_for() {
    let catalog = read(&big_catalog(20_000));
    assert_eq!(catalog.records, 20_000);
    assert_eq!(catalog.rows.len(), 40_000);
}

/// Run with `cargo test --release -p leeway-market -- --ignored --nocapture` on an idle machine for a figure.
#[test]
#[ignore = "a measurement; needs a release build"]
fn a_million_rows_take_under_three_seconds() {
    let text = big_catalog(1_000_000);
    let start = std::time::Instant::now();
    let catalog = read(&text);
    let took = start.elapsed();
    println!("1,000,000 rows ({} MB), {} offers in {took:?}", text.len() / 1_000_000, catalog.rows.len());
    assert_eq!(catalog.records, 1_000_000);
    assert!(took.as_secs_f64() < 3.0, "{took:?}");
}

proptest! {
    #[test]
    fn any_bytes_after_a_header_give_a_catalog_or_an_error(tail in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut bytes = SKYPILOT_HEADER.as_bytes().to_vec();
        bytes.extend_from_slice(&tail);
        if let Ok(catalog) = catalog::read(&bytes[..], &options()) {
            prop_assert!(catalog.rows.iter().all(|row| !row.price.rate.is_zero()));
        }
    }

    #[test]
    fn x_07_a_price_is_read_as_it_stands_or_set_aside(price in "[0-9., e+-]{1,12}") {
        let catalog = read(&format!("{SKYPILOT_HEADER}kind,V100,1,8,61,,\"{price}\",,us-east-1,\n"));
        match catalog.rows.first() {
            Some(row) => {
                let value: f64 = price.trim().parse().unwrap();
                prop_assert!((row.price.rate.as_units_f64() - value).abs() <= 1e-9 * value.max(1.0));
            }
            None => prop_assert_eq!(catalog.quarantined_total(), 1),
        }
    }
}
