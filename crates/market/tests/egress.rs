//! Egress tables: the built-in prices, what a person writes, and matrices in CSV.

#![allow(clippy::unwrap_used, reason = "a failed set-up fails its test")]

use leeway_market::egress::{MatrixError, defaults, read_matrix, read_tiers};
use leeway_model::cluster::Region;
use leeway_model::egress::{Destination, EgressSpec, EgressTable, PathClass, Tariff, Unit};
use leeway_model::{Bytes, Micros};

fn region(text: &str) -> Region {
    text.parse().unwrap()
}

/// Micro-units for `gb` from one place to another after `used_gb` this month.
fn cost(table: &EgressTable, from: &str, to: &str, gb: u64, used_gb: u64) -> Option<i64> {
    table.cost(&region(from), &region(to), Bytes::from_gb(gb), Bytes::from_gb(used_gb)).ok().map(Micros::get)
}

#[test]
fn the_built_in_prices_are_the_published_ones() {
    let table = defaults();
    for (from, to, gb, used_gb, micros) in [
        ("aws/us-east-1", "aws/us-east-1", 1_000, 0, 0),
        ("aws/us-east-1", "aws/us-west-2", 100, 0, 2_000_000),
        ("aws/us-east-1", "aws/us-east-2", 100, 0, 1_000_000),
        ("aws/ap-southeast-2", "aws/us-east-1", 10, 0, 980_000),
        ("aws/us-east-1", "gcp/us-central1", 100, 0, 0),
        ("aws/us-east-1", "gcp/us-central1", 100, 100, 9_000_000),
        ("azure/eastus", "azure/westeurope", 10, 0, 500_000),
        ("azure/eastus", "azure/westus2", 10, 0, 200_000),
        ("azure/westeurope", "aws/us-east-1", 200, 0, 8_750_000),
        ("lambda/us-south-1", "aws/us-east-1", 1_000, 0, 0),
        ("onprem/berlin", "onprem/berlin", 1_000, 0, 0),
    ] {
        assert_eq!(cost(&table, from, to, gb, used_gb), Some(micros), "{from} {to}");
    }
    // GCP bills by GiB: 1,073,741,824 bytes cost what a price of one unit says.
    let gib = table.cost(&region("gcp/us-central1"), &region("gcp/europe-west4"), Bytes::from_gib(1), Bytes::ZERO);
    assert_eq!(gib.unwrap(), Micros::new(80_000));
    let internet = table.cost_to_internet(&region("aws/eu-west-1"), Bytes::from_gb(1), Bytes::from_gb(10_240)).unwrap();
    assert_eq!(internet, Micros::new(85_000));
}

#[test]
fn c_15_a_path_without_a_price_is_unknown_and_never_free() {
    let table = defaults();
    for (from, to) in [
        ("onprem/berlin", "aws/us-east-1"),
        ("nobody/here", "nobody/there"),
        ("aws/us-east-1", "aws/ap-southeast-7"),
        ("gcp/me-west1", "gcp/us-central1"),
    ] {
        assert_eq!(cost(&table, from, to, 1, 0), None, "{from} {to}");
    }
    let error = table.price(&region("onprem/berlin"), Destination::Internet).unwrap_err();
    assert!(error.to_string().contains("from onprem/berlin to internet"), "{error}");
    assert!(cost(&EgressTable::default(), "aws/a", "aws/a", 1, 0).is_none());
    let bound = table.upper_bound().unwrap();
    assert_eq!(bound.cost(Bytes::from_gb(1), Bytes::ZERO), Micros::new(181_000));
    assert_eq!(EgressTable::default().upper_bound(), None);
}

#[test]
fn classes_tell_which_month_s_usage_counts() {
    let table = defaults();
    let class = |from: &str, to: &str| table.price(&region(from), Destination::Region(&region(to))).unwrap().class;
    assert_eq!(class("aws/us-east-1", "aws/us-east-1"), PathClass::SameRegion);
    assert_eq!(class("aws/us-east-1", "aws/us-west-2"), PathClass::InterRegion);
    assert_eq!(class("aws/us-east-1", "gcp/us-central1"), PathClass::Internet);
}

#[test]
fn a_table_survives_toml_and_json() {
    let mut table = defaults();
    table.set_pair(region("aws/us-east-1"), region("gcp/us-central1"), Tariff::flat(Unit::Gib, 50_000_000).unwrap());
    let spec = EgressSpec::from(table.clone());
    let text = toml::to_string(&spec).unwrap();
    assert_eq!(toml::from_str::<EgressTable>(&text).unwrap(), table);
    assert_eq!(serde_json::from_str::<EgressTable>(&serde_json::to_string(&table).unwrap()).unwrap(), table);
}

#[test]
fn an_operator_s_table_overlays_the_built_in_one() {
    let text = r#"
        [providers.onprem]
        unit = "GB"
        same_region = [{ from = 0, price = "0" }]
        rules = [{ from = "*", to = "internet", tiers = [{ from = 0, price = "0.001" }] }]

        [[pairs]]
        from = "onprem/berlin"
        to = "gcp/us-central1"
        unit = "GiB"
        tiers = [{ from = 0, price = "0.05" }]
    "#;
    let mut table = defaults();
    table.overlay(toml::from_str::<EgressSpec>(text).unwrap().table().unwrap());
    assert_eq!(cost(&table, "onprem/berlin", "aws/us-east-1", 1_000, 0), Some(1_000_000));
    assert_eq!(cost(&table, "onprem/berlin", "gcp/us-central1", 1, 0), Some(46_567));
    assert_eq!(cost(&table, "aws/us-east-1", "aws/us-west-2", 1, 0), Some(20_000));
}

#[test]
fn a_wrong_table_is_refused_with_its_place() {
    let provider = |rules: &str| {
        format!("[providers.aws]\nunit = \"GB\"\nsame_region = [{{ from = 0, price = \"0\" }}]\nrules = [{rules}]\n")
    };
    for (text, message) in [
        (provider(r#"{ from = "*", to = "eu", tiers = [] }"#), "providers.aws.rules[0]: 'eu' is neither '*'"),
        (provider(r#"{ from = "internet", to = "*", tiers = [] }"#), "providers.aws.rules[0]: 'internet'"),
        (provider(r#"{ from = "*", to = "*", tiers = [] }"#), "providers.aws.rules[0]: a tariff needs"),
        (provider(r#"{ from = "*", to = "*", tiers = [{ from = 0, price = "-1" }] }"#), "providers.aws.rules[0]: '-1'"),
        (provider("").replace("aws", "AWS"), "providers.AWS: 'AWS' is not a name"),
    ] {
        let error = toml::from_str::<EgressSpec>(&text).unwrap().table().unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    assert!(toml::from_str::<EgressSpec>("[providers.aws]\nunit = \"MB\"\n").is_err());
    assert!(toml::from_str::<EgressSpec>("surprise = 1\n").is_err());
}

#[test]
fn matrices_are_read_in_three_layouts() {
    let aws = "from_region,to_region,price_usd_per_gb\r\nus-east-1,us-west-2,0.02\r\nus-west-2,us-west-2,0\r\n";
    let matrix = read_matrix(aws.as_bytes(), "aws").unwrap();
    assert_eq!((matrix.len(), matrix.within_region), (1, 1));

    let internet = "src_region,dst,usd_per_gb\nus-east-1,internet,0.09\nus-east-1,us-east-2,0.01\n";
    let matrix = read_matrix(internet.as_bytes(), "aws").unwrap();
    assert_eq!((matrix.len(), matrix.internet.len()), (1, 1));

    let clouds = "src,dest,cost\naws:us-east-2,gcp:us-west1-a,0.09\naws:us-east-2,gcp:us-west1-b,0.08\n";
    let matrix = read_matrix(clouds.as_bytes(), "").unwrap();
    assert_eq!((matrix.len(), matrix.conflicts), (1, 1));
    let mut table = EgressTable::default();
    matrix.apply_to(&mut table);
    assert_eq!(cost(&table, "aws/us-east-2", "gcp/us-west1", 1, 0), Some(90_000), "the dearer holds");
}

#[test]
fn a_bad_value_in_a_matrix_is_named_by_line_and_column() {
    let check = |text: &str, message: &str| {
        let error = read_matrix(text.as_bytes(), "aws").unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    };
    check("src,dest,cost\naws:us-east-1,aws:us-west-2,NaN\n", "line 2, column cost: 'NaN': not a plain decimal");
    check("src,dest,cost\naws:us-east-1,aws:us-west-2,-0.1\n", "line 2, column cost: '-0.1': negative");
    check("src,dest,cost\naws:us-east-1,aws:us-west-2,\n", "line 2, column cost: '': no price");
    check("src,dest,cost\nus-east-1,aws:us-west-2,1\n", "line 2, column src: 'us-east-1': must be written");
    check("src,dest,cost\naws:us-east-1,aws:us west,1\n", "line 2, column dest: 'aws:us west': 'aws/us west' is not");
    check("a,b\n1,2\n", "line 1: the columns 'a,b'");
    assert!(matches!(read_matrix(&b"src,dest,cost\na:b\n"[..], ""), Err(MatrixError::Csv(_))));
}

#[test]
fn tier_lists_must_follow_each_other() {
    let header = "provider,path,from_gb_per_month,to_gb_per_month,usd_per_gb\n";
    let lists =
        read_tiers(format!("{header}aws,internet,0,100,0\naws,internet,100,,0.09\noci,any,0,,0\n").as_bytes()).unwrap();
    assert_eq!(lists.len(), 2);
    assert_eq!(lists[0].tariff.cost(Bytes::from_gb(101), Bytes::ZERO), Micros::new(90_000));
    let gap = read_tiers(format!("{header}aws,internet,0,100,0\naws,internet,200,,0.09\n").as_bytes()).unwrap_err();
    assert!(gap.to_string().starts_with("line 3, column from_gb_per_month: '200': does not follow"), "{gap}");
}
